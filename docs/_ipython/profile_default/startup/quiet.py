"""Notebooks of the documentation run without progress bars and without notes of other packages."""

import logging
import warnings

import pymc as pm
import pymc.progress_bar
from pymc.progress_bar.progress import NullSimpleProgress


def no_progress(*_: object, **__: object) -> NullSimpleProgress:
    """In place of PyMC's simple progress bar."""
    return NullSimpleProgress()


pymc.progress_bar.create_simple_progress = no_progress
for function in (pm.sample, pm.sample_smc, pm.sample_posterior_predictive):
    function.__kwdefaults__["progressbar"] = False
logging.getLogger("pymc").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
