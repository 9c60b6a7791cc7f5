"""Which kernel moves the rows of a model, where a user leaves that open."""

import logging
from typing import TYPE_CHECKING

from pymc_logz.graphs.host_calls import calls_host
from pymc_logz.kernels.base import Kernel
from pymc_logz.kernels.choice import as_kernel
from pymc_logz.kernels.walks import RandomWalk
from pymc_logz.models.density import lacks_gradient
from pymc_logz.models.flat import flatten_model

if TYPE_CHECKING:
    import pymc as pm

logger = logging.getLogger("pymc.pymc_logz")


def kernel_for(kernel: Kernel | str | None, *models: "pm.Model") -> Kernel:
    """The kernel that is given, or the default for models with or without gradients.

    One is given as in `pymc_logz.kernels.as_kernel`. A TypeError is raised if it is neither a name
    nor a kernel, and a ModelError if log Z of a model is undefined or out of reach.
    """
    if kernel is None:
        flat = (flatten_model(model, integers=True) for model in models)
        lacking = next((reason for of_model in flat if (reason := lacks_gradient(of_model))), None)
        if lacking is not None:
            logger.info("The model has no gradient (%s): particles move by a random walk.", lacking)
            return RandomWalk()
    return as_kernel(kernel)


def walkers_for(walkers: int | None, model: "pm.Model") -> int:
    """Walkers of a tempered chain: as asked for, or fewer where each is a call of Python.

    64 cost little more than 8 where they are computed together. An eighth of them makes nearly as
    many effective draws, and 2.5 times the error of log Z (docs/theory/decisions.md).
    """
    if walkers is not None:
        return walkers
    flat = flatten_model(model, integers=True)
    return 8 if calls_host([flat.log_prior, flat.log_ratio]) else 64
