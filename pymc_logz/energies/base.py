"""The container that every energy returns."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm

Draws = dict[str, np.ndarray]


@dataclass(frozen=True)
class Energy:
    """A PyMC model together with its exact log normalising constant.

    Parameters
    ----------
    name : str
        Short name for tables and test ids.
    model : pymc.Model
        The model, data included.
    log_z : float
        Natural log of the normalising constant (nats): prior times likelihood times potentials,
        integrated over all free variables.
    sample_posterior : callable, optional
        ``sample_posterior(rng, n)`` gives n independent posterior draws on the natural
        (constrained) scale: a dict from each free variable's name to an array whose leading axis
        has length n.
    source : str
        Where the model, or the formula for log Z, comes from.
    """

    name: str
    model: pm.Model
    log_z: float
    sample_posterior: Callable[[np.random.Generator, int], Draws] | None = None
    source: str = ""
