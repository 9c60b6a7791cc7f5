"""A cheap check, on prior draws, that every prior integrates to one in the unconstrained space.

For each free variable, with its parents held at one prior draw, the mass m of its density over the
unconstrained space follows from draws x of the variable and any density g that sums to one where
those draws are: the mean of g(x) / density(x) is 1 / m. A transform that restricts the variable
makes m the share of draws that it can take, which is then the right constant. Any other m means
that PyMC's log density and its draws disagree, and log Z would be off by log m.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import (
    collect_default_updates,
    find_rng_nodes,
    replace_rng_nodes,
    replace_vars_in_graphs,
)
from pytensor.graph.replace import vectorize_graph
from scipy.stats import gaussian_kde

from pymc_logz.compiling import compile_kwargs_for
from pymc_logz.errors import ImproperPriorError

N_DRAWS = 1000
MAX_TRIES = 1000
CENTRAL_SHARE = 0.75
TOLERANCE = 0.1
MAX_ERROR = 0.3


@dataclass(frozen=True)
class PriorMass:
    """Log mass of one variable's prior in the unconstrained space, and what it should be."""

    name: str
    log_mass: float
    mcse: float
    """Standard error of ``log_mass``; the check says nothing when it is above 0.3."""
    log_share: float
    """Log share of the draws that the transform could take, which the mass has to equal."""

    @property
    def conclusive(self) -> bool:
        """Whether the estimate is sharp enough to say anything."""
        return bool(np.isfinite(self.log_mass)) and self.mcse < MAX_ERROR

    @property
    def agrees(self) -> bool:
        """Whether density and draws are of the same distribution, as far as can be told."""
        distance = abs(self.log_mass - self.log_share)
        return not self.conclusive or distance < TOLERANCE + 5.0 * self.mcse


def check_prior_mass(model: pm.Model, rng: np.random.Generator) -> list[PriorMass]:
    """Log prior mass of each free variable; refuses priors that are not normalised.

    Raises
    ------
    ImproperPriorError
        Naming the variable and the size of the disagreement.
    """
    draws, log_densities = _conditional_draws(model, rng)
    masses = []
    for name, values in draws.items():
        mass = _prior_mass(name, values, log_densities[name], rng)
        if not mass.agrees:
            raise ImproperPriorError(
                f"the prior of {name!r} integrates to exp({mass.log_mass:.2f}) in the "
                f"unconstrained space instead of exp({mass.log_share:.2f}): PyMC's log density "
                "and its draws are not of the same normalised distribution (CAR priors and some "
                "extra transforms are known for this), which would shift log Z. Write the prior "
                "in an equivalent normalised form, such as pm.MvNormal for a CAR"
            )
        masses.append(mass)
    return masses


def _prior_mass(
    name: str, values: np.ndarray, log_density: np.ndarray, rng: np.random.Generator
) -> PriorMass:
    """Mass from draws (n, *batch, *event) and their log densities (n, *batch)."""
    n = len(values)
    log_density = log_density.reshape(n, -1)
    values = values.reshape(n, log_density.shape[1], -1)
    finite = np.all(np.isfinite(values), axis=2)
    share = finite.mean()
    elements = rng.permutation(values.shape[1])[:20]
    ratios = [
        _density_ratios(values[finite[:, j], j], log_density[finite[:, j], j]) for j in elements
    ]
    ratio = np.concatenate(ratios)
    if ratio.size < 50 or not np.all(np.isfinite(ratio)) or ratio.mean() <= 0:
        return PriorMass(name, np.nan, np.inf, float(np.log(share)) if share else -np.inf)
    error = np.hypot(
        ratio.std() / (ratio.mean() * np.sqrt(ratio.size)),
        np.sqrt((1.0 - share) / (share * finite.size)),
    )
    return PriorMass(name, float(-np.log(ratio.mean())), float(error), float(np.log(share)))


def _density_ratios(values: np.ndarray, log_density: np.ndarray) -> np.ndarray:
    """g(x) / density(x) over half of the draws (n, e), with g a kernel density of the other half.

    g is made of the central draws only: where a heavy tail would widen its kernels it is not
    needed, since any normalised g will do.
    """
    half = len(values) // 2
    fitted, held_out = values[:half], values[half:]
    centre = np.median(fitted, axis=0)
    width = np.subtract(*np.percentile(fitted, [75, 25], axis=0))
    if half < 50 or np.any(width <= 0):
        return np.empty(0)
    distance = (((fitted - centre) / width) ** 2).sum(axis=1)
    central = fitted[distance <= np.quantile(distance, CENTRAL_SHARE)]
    try:
        log_g = gaussian_kde(((central - centre) / width).T).logpdf(((held_out - centre) / width).T)
    except np.linalg.LinAlgError:
        return np.empty(0)
    return np.exp(log_g - np.log(width).sum() - log_density[half:])


def _conditional_draws(
    model: pm.Model, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Draws of each variable's value given its parents, and their log densities, by name.

    The parents are held at one draw of the prior that the transforms can take.
    """
    given = {rv: rv.type(name=f"{rv.name}_given") for rv in model.free_RVs}
    forward, conditional = [], []
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        value = rv if transform is None else transform.forward(rv, *rv.owner.inputs)
        parents = {other: draw for other, draw in given.items() if other is not rv}
        conditional += replace_vars_in_graphs([value], parents)
        forward += replace_vars_in_graphs([value], given)
    inputs = list(given.values())
    joint, to_values = _sampler([], list(model.free_RVs), rng), _sampler(inputs, forward, rng)
    for _ in range(MAX_TRIES):
        parents_at = joint()
        values_at = to_values(*parents_at)
        if all(np.all(np.isfinite(value)) for value in values_at):
            break
    draw = _sampler(inputs, conditional, rng)
    rows = [draw(*parents_at) for _ in range(N_DRAWS)]
    names = [rv.name for rv in model.free_RVs]
    draws = {
        name: np.stack(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    densities = _log_density_function(model)(*values_at, *draws.values())
    return draws, dict(zip(names, densities, strict=True))


def _sampler(
    inputs: list[Any], outputs: list[Any], rng: np.random.Generator
) -> Callable[..., list[np.ndarray]]:
    outputs = replace_rng_nodes(
        [pt.as_tensor(out, allow_xtensor_conversion=True) for out in outputs]
    )
    updates = collect_default_updates(inputs=inputs, outputs=outputs)
    kwargs = compile_kwargs_for("FAST_COMPILE", {"on_unused_input": "ignore"})
    function = pytensor.function(inputs, outputs, updates=updates, **kwargs)
    for shared in find_rng_nodes(outputs):
        shared.set_value(np.random.default_rng(rng.integers(2**63)), borrow=True)
    return function


def _log_density_function(model: pm.Model) -> Callable[..., list[np.ndarray]]:
    """From one value of each variable and n values of each to n log densities of each.

    The n values of a variable meet the one value of its parents.
    """
    batches, outputs = [], []
    log_densities = model.logp(vars=model.free_RVs, sum=False)
    for value, log_density in zip(model.value_vars, log_densities, strict=True):
        batch = pt.tensor(
            f"{value.name}_draws", dtype=value.type.dtype, shape=(None, *value.type.shape)
        )
        batches.append(batch)
        outputs += vectorize_graph([log_density], {value: batch})
    kwargs = compile_kwargs_for("FAST_COMPILE", {"on_unused_input": "ignore"})
    return pytensor.function([*model.value_vars, *batches], outputs, **kwargs)
