"""The container that every energy returns."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm

from pymc_logz.errors import known_potentials

Draws = dict[str, np.ndarray]


def float64(*values: float) -> list[np.float64]:
    """Parameters of a distribution in double precision."""
    # PyTensor takes a Python number in the smallest type: the constant of pm.Normal.dist(0, 10) is
    # then wrong by 3e-8
    return [np.float64(value) for value in values]


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

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> energy = energies.beta_bernoulli(n=20, successes=12)
    >>> energy.name, round(energy.log_z, 4), [variable.name for variable in energy.model.free_RVs]
    ('beta_bernoulli', -14.7883, ['p'])
    >>> energy.sample_posterior(np.random.default_rng(1), 1000)["p"].shape
    (1000,)
    """

    name: str
    model: pm.Model
    log_z: float
    sample_posterior: Callable[[np.random.Generator, int], Draws] | None = None
    source: str = ""

    def __post_init__(self) -> None:
        """Nobody is warned of its potentials, which are part of the exact log Z."""
        known_potentials.add(self.model)
