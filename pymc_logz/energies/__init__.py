"""Models with an exact log Z, for tests, doctests and the gallery.

Each returns an `Energy`: the PyMC model, its log Z in nats, and a function that draws from the
exact posterior. Those of bits return a `BinaryEnergy` instead, which is no PyMC model, and which
`pymc_logz.sample_hais` and `pymc_logz.sample_tempered` take as ``model``; `base_log_odds` fits what
annealing starts from to data, and `moment_averaged` makes machines for it to lead through.
`radiata_pine_data` and `random_filters` give the inputs of three of the others, and
`gaussian_rbm_log_z` and `two_gaussians_log_z` give log Z of another two alone.
"""

from pymc_logz.wings import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
