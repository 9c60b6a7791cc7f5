"""A cheap check, on prior draws, that every prior integrates to one in the unconstrained space.

For each free variable, with its parents held at one prior draw, the mass m of its density over the
unconstrained space follows from draws x of the variable and any density g that sums to one where
those draws are: the mean of g(x) / density(x) is 1 / m. A transform that restricts the variable
makes m the share of draws that it can take, which is then the right constant. Any other m means
that PyMC's log density and its draws disagree, and log Z would be off by log m.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import (
    collect_default_updates,
    replace_rng_nodes,
    replace_vars_in_graphs,
)
from pytensor.compile.executor import Function
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.random.type import RandomType
from scipy.special import chdtri, logsumexp

from pymc_logz.errors import ImproperPriorError
from pymc_logz.graphs.modes import compile_kwargs_for
from pymc_logz.models.keeping import contents_of, is_data, kept_for
from pymc_logz.models.known_priors import is_known

N_DRAWS = 1000
N_DRAWS_TO_REFUSE = 4000
MAX_TRIES = 1000
MAX_ELEMENTS = 20
N_BINS = 20
CENTRAL_SHARE = 0.75
TOLERANCE = 0.1
MAX_ERROR = 0.15

Sample = Callable[[int], tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]


@dataclass(frozen=True)
class PriorMass:
    """Log mass of one variable's prior in the unconstrained space, and what it should be."""

    name: str
    log_mass: tuple[float, ...]
    """One estimate for each choice of g."""
    mcse: tuple[float, ...]
    """Their standard errors; an estimate says nothing when its error is above 0.15."""
    log_share: float
    """Log share of the draws that the transform could take, which the mass has to equal."""

    @property
    def conclusive(self) -> bool:
        """Whether every estimate is sharp enough to say anything."""
        return all(np.isfinite(self.log_mass)) and all(error < MAX_ERROR for error in self.mcse)

    @property
    def agrees(self) -> bool:
        """Whether density and draws are of the same distribution, as far as can be told.

        A choice of g that misses part of the draws, such as the gap between two modes, is seen by
        its disagreeing with the other choice.
        """
        if not self.conclusive:
            return True
        distances = np.array(self.log_mass) - self.log_share
        if np.ptp(distances) > TOLERANCE + 5.0 * max(self.mcse):
            return True
        return bool(np.any(np.abs(distances) < TOLERANCE + 5.0 * np.array(self.mcse)))


def check_priors(model: pm.Model, rng: np.random.Generator) -> None:
    """Refuse priors that are not normalised, out of those that are not known to be.

    The verdict is kept, as long as the model and the data that its priors depend on are the same.

    Raises
    ------
    ImproperPriorError
        Naming the variable and the size of the disagreement.
    """
    doubtful = tuple(rv for rv in model.free_RVs if not is_known(model, rv))
    if not doubtful:
        return
    kept = kept_for(model)
    functions = kept.get(("prior check", doubtful), lambda: _compiled(model, doubtful))
    now = tuple(contents_of(container) for container in functions.data)
    kept.get(("prior mass", doubtful, now), lambda: _checked_masses(functions, rng))


def check_prior_mass(model: pm.Model, rng: np.random.Generator) -> list[PriorMass]:
    """Log prior mass of each free variable, known or not; refuses as `check_priors` does."""
    return _checked_masses(_compiled(model, tuple(model.free_RVs)), rng)


def _checked_masses(functions: "_Functions", rng: np.random.Generator) -> list[PriorMass]:
    functions.seed(rng)
    sample = _conditional_sampler(functions)
    masses = _prior_masses(sample(N_DRAWS), rng)
    if all(mass.agrees for mass in masses):
        return masses
    # a refusal cannot be overruled, so it takes more draws to make one
    suspects = {mass.name for mass in masses if not mass.agrees}
    for mass in _prior_masses(sample(N_DRAWS_TO_REFUSE), rng):
        if mass.name in suspects and not mass.agrees:
            raise ImproperPriorError(
                f"the prior of {mass.name!r} integrates to exp({mass.log_mass[0]:.2f}) in the "
                f"unconstrained space instead of exp({mass.log_share:.2f}): PyMC's log density "
                "and its draws are not of the same normalised distribution (CAR priors and some "
                "extra transforms are known for this), which would shift log Z. Write the prior "
                "in an equivalent normalised form, such as pm.MvNormal for a CAR"
            )
    return masses


def _prior_masses(
    sampled: tuple[dict[str, np.ndarray], dict[str, np.ndarray]], rng: np.random.Generator
) -> list[PriorMass]:
    draws, log_densities = sampled
    return [
        _prior_mass(name, values, log_densities[name], rng)
        for name, values in draws.items()
        if values.size
    ]


def _prior_mass(
    name: str, values: np.ndarray, log_density: np.ndarray, rng: np.random.Generator
) -> PriorMass:
    """Mass from draws (n, *batch, *event) and their log densities (n, *batch)."""
    n = len(values)
    log_density = log_density.reshape(n, -1)
    values = values.reshape(n, log_density.shape[1], -1)
    finite = np.all(np.isfinite(values), axis=2)
    share = float(finite.mean())
    elements = rng.permutation(values.shape[1])[:MAX_ELEMENTS]
    choices = (_histogram,) if values.shape[2] == 1 else (_kernels, _central_normal)
    estimates = []
    for choice in choices:
        ratios = [
            _density_ratios(values[finite[:, j], j], log_density[finite[:, j], j], choice)
            for j in elements
        ]
        estimates.append(_log_mass(np.concatenate(ratios), share, finite.size))
    log_mass, mcse = zip(*estimates, strict=True)
    return PriorMass(name, log_mass, mcse, float(np.log(share)) if share else -np.inf)


def _log_mass(ratio: np.ndarray, share: float, n: int) -> tuple[float, float]:
    if ratio.size < 50 or not np.all(np.isfinite(ratio)) or ratio.mean() <= 0:
        return np.nan, np.inf
    error = np.hypot(
        ratio.std() / (ratio.mean() * np.sqrt(ratio.size)), np.sqrt((1 - share) / (share * n))
    )
    return float(-np.log(ratio.mean())), float(error)


def _density_ratios(
    values: np.ndarray,
    log_density: np.ndarray,
    choice: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """g(x) / density(x) over half of the draws (n, e), with g made of the other half."""
    half = len(values) // 2
    fitted, held_out = values[:half], values[half:]
    centre = np.median(fitted, axis=0) if half else 0.0
    width = np.subtract(*np.percentile(fitted, [75, 25], axis=0)) if half else 0.0
    if half < 50 or np.any(width <= 0):
        return np.empty(0)
    try:
        log_g = choice((fitted - centre) / width, (held_out - centre) / width)
    except np.linalg.LinAlgError:
        return np.empty(0)
    return np.exp(log_g - np.log(width).sum() - log_density[half:])


def _histogram(fitted: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log density of bins of equal mass between outer quantiles: it follows separate modes."""
    edges = np.quantile(fitted[:, 0], np.linspace(0.02, 0.98, N_BINS + 1))
    bins = np.searchsorted(edges, x[:, 0], side="right") - 1
    inside = (bins >= 0) & (bins < N_BINS)
    widths = np.diff(edges)
    if np.any(widths <= 0):
        raise np.linalg.LinAlgError("repeated draws leave a bin without width")
    return np.where(inside, -np.log(N_BINS * widths[np.clip(bins, 0, N_BINS - 1)]), -np.inf)


def _kernels(fitted: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log density of kernels at the central draws: a heavy tail would widen them all."""
    distance = (fitted**2).sum(axis=1)
    central = fitted[distance <= np.quantile(distance, CENTRAL_SHARE)]
    n, e = central.shape
    # Scott's rule: as wide as the draws, less the more there are
    factor = np.linalg.cholesky(np.cov(central.T)) * n ** (-1.0 / (e + 4))
    whitened, at = (np.linalg.solve(factor, points.T) for points in (central, x))
    square = ((whitened[:, None] - at[:, :, None]) ** 2).sum(axis=0)
    log_constant = np.log(n) + 0.5 * e * np.log(2 * np.pi) + np.log(np.diag(factor)).sum()
    return logsumexp(-0.5 * square, axis=1) - log_constant


def _central_normal(fitted: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log density of a normal of the draws' mean and covariance, cut off at half of its mass."""
    factor = np.linalg.cholesky(np.cov(fitted.T))
    whitened = np.linalg.solve(factor, (x - fitted.mean(axis=0)).T)
    square = (whitened**2).sum(axis=0)
    e = x.shape[1]
    log_density = -0.5 * square - 0.5 * e * np.log(2 * np.pi) - np.log(np.diag(factor)).sum()
    return np.where(square < chdtri(e, 0.5), log_density + np.log(2.0), -np.inf)


@dataclass(frozen=True)
class _Functions:
    """What the check calls, compiled; whoever calls it has it alone, as `Kept` makes sure."""

    names: tuple[str, ...]
    """Of the variables that are checked."""
    joint: Function
    """To a draw of every free variable."""
    to_values: Function
    """From these to their unconstrained values."""
    draw: Function
    """From these, as parents, to an unconstrained draw of each variable that is checked."""
    log_density: Function
    """From unconstrained values of all, and n values of each that is checked, to n log densities
    of each: its n values meet the one value of its parents."""
    data: tuple[Any, ...]
    """Containers that any of these depend on."""

    def seed(self, rng: np.random.Generator) -> None:
        """Make what is drawn a function of this generator."""
        for function in (self.joint, self.draw):
            for shared in function.get_shared():
                if isinstance(shared.type, RandomType):
                    shared.set_value(np.random.default_rng(rng.integers(2**63)), borrow=True)


def _compiled(model: pm.Model, checked: Sequence[Any]) -> _Functions:
    given = {rv: rv.type(name=f"{rv.name}_given") for rv in model.free_RVs}
    forward, conditional = [], []
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        value = rv if transform is None else transform.forward(rv, *rv.owner.inputs)
        forward += replace_vars_in_graphs([value], given)
        if rv in checked:
            parents = {other: draw for other, draw in given.items() if other is not rv}
            conditional += replace_vars_in_graphs([value], parents)
    inputs = list(given.values())
    functions = (
        _sampler([], list(model.free_RVs)),
        _sampler(inputs, forward),
        _sampler(inputs, conditional),
        _log_density_function(model, checked),
    )
    shared = (var for function in functions for var in function.get_shared())
    data = tuple(dict.fromkeys(var for var in shared if is_data(var)))
    return _Functions(tuple(rv.name for rv in checked), *functions, data)


def _conditional_sampler(functions: _Functions) -> Sample:
    """Function to n draws of each variable's value given its parents, and their log densities.

    The parents are held at one draw of the prior that the transforms can take.
    """
    for _ in range(MAX_TRIES):
        parents_at = functions.joint()
        values_at = functions.to_values(*parents_at)
        if all(np.all(np.isfinite(value)) for value in values_at):
            break

    def sample(n: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        columns = zip(*(functions.draw(*parents_at) for _ in range(n)), strict=True)
        names = functions.names
        draws = {name: np.stack(column) for name, column in zip(names, columns, strict=True)}
        densities = functions.log_density(*values_at, *draws.values())
        return draws, dict(zip(names, densities, strict=True))

    return sample


def _sampler(inputs: list[Any], outputs: list[Any]) -> Function:
    outputs = replace_rng_nodes(
        [pt.as_tensor(out, allow_xtensor_conversion=True) for out in outputs]
    )
    updates = collect_default_updates(inputs=inputs, outputs=outputs)
    kwargs = compile_kwargs_for("FAST_COMPILE", {"on_unused_input": "ignore"})
    return pytensor.function(inputs, outputs, updates=updates, **kwargs)


def _log_density_function(model: pm.Model, checked: Sequence[Any]) -> Function:
    batches, outputs = [], []
    log_densities = model.logp(vars=list(checked), sum=False)
    for rv, log_density in zip(checked, log_densities, strict=True):
        value = model.rvs_to_values[rv]
        # nameless: a name such as "1|group" looks like a dtype to PyTensor
        batch = pt.tensor(dtype=value.type.dtype, shape=(None, *value.type.shape))
        batches.append(batch)
        outputs += vectorize_graph([log_density], {value: batch})
    kwargs = compile_kwargs_for("FAST_COMPILE", {"on_unused_input": "ignore"})
    return pytensor.function([*model.value_vars, *batches], outputs, **kwargs)
