"""Data simulated from a model itself, with the draw of the prior that they come from."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor
from pymc.pytensorf import collect_default_updates, find_rng_nodes

from pymc_logz.errors import ModelError
from pymc_logz.graphs.kept import one_at_a_time
from pymc_logz.models.flat import FlatModel
from pymc_logz.models.keeping import kept_for
from pymc_logz.models.prior import prior_values

MAX_TRIES = 1000


def simulate(flat: FlatModel, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """One draw of the prior, as an unconstrained row (1, d), and data simulated from it."""
    model = flat.model
    if model.potentials:
        names = [potential.name for potential in model.potentials]
        raise ModelError(f"data cannot be simulated from a model with potentials ({names})")
    observed = [rv.name for rv in model.observed_RVs]
    draw = kept_for(model).get("simulation", lambda: _joint_draws(model))
    for _ in range(MAX_TRIES):
        values = draw(rng)
        n_free = len(model.free_RVs)
        row = np.concatenate([np.ravel(value) for value in values[:n_free]], dtype=float)[None]
        if np.all(np.isfinite(row)):
            return row, dict(zip(observed, values[n_free:], strict=True))
    raise ModelError(f"none of {MAX_TRIES} prior draws fits the transforms of this model")


def _joint_draws(model: pm.Model) -> Callable[[np.random.Generator], list[np.ndarray]]:
    """Function from a generator to one draw of all free and all observed variables, in order.

    The free ones are unconstrained.
    """
    outputs = prior_values(model, *model.observed_RVs)
    updates = collect_default_updates(inputs=[], outputs=outputs)
    rngs = find_rng_nodes(outputs)
    function = pytensor.function([], outputs, updates=updates, mode="FAST_COMPILE")

    def draw(rng: np.random.Generator) -> list[np.ndarray]:
        for shared in rngs:
            shared.set_value(np.random.default_rng(rng.integers(2**63)), borrow=True)
        return [np.asarray(value) for value in function()]

    return one_at_a_time(draw)
