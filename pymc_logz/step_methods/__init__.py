"""The package's kernels as PyMC step methods, for use inside ``pm.sample``."""

from pymc_logz.wings import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
