"""Data simulated from a model itself, with the draw of the prior that they come from."""

from collections.abc import Callable

import numpy as np
import pymc as pm

from pymc_logz.errors import ModelError
from pymc_logz.graphs.kept import one_at_a_time
from pymc_logz.models.flat import FlatModel
from pymc_logz.models.keeping import kept_for
from pymc_logz.models.prior import Sampler, prior_values


def simulate(flat: FlatModel, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """One draw of the prior, as an unconstrained row (1, d), and data simulated from it."""
    model = flat.model
    if model.potentials:
        names = [potential.name for potential in model.potentials]
        raise ModelError(f"data cannot be simulated from a model with potentials ({names})")
    observed = [rv.name for rv in model.observed_RVs]
    draw = kept_for(model).get("simulation", lambda: _joint_draws(model))
    n_tries = 1000
    for _ in range(n_tries):
        values = draw(rng)
        n_free = len(model.free_RVs)
        row = np.concatenate([np.ravel(value) for value in values[:n_free]], dtype=float)[None]
        if np.all(np.isfinite(row)):
            return row, dict(zip(observed, values[n_free:], strict=True))
    raise ModelError(f"none of {n_tries} prior draws fits the transforms of this model")


def _joint_draws(model: pm.Model) -> Callable[[np.random.Generator], list[np.ndarray]]:
    """Function from a generator to one draw of all free and all observed variables, in order.

    The free ones are unconstrained.
    """
    sampler = Sampler([], prior_values(model, *model.observed_RVs))

    def draw(rng: np.random.Generator) -> list[np.ndarray]:
        sampler.seed(rng)
        return sampler()

    return one_at_a_time(draw)
