"""Proposals that a user has: a PyMC model, SciPy distributions, or draws with their log density."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

from pymc_logz.graphs.functions import wider
from pymc_logz.models.cache import kept_for
from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import FlatModel, function_of_rows, stacked, unconstrained
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.rows import natural_shapes

FORMS = (
    "a pm.Model with the same free variables, a dict of frozen scipy.stats distributions by "
    "variable, or a pair of draws (a dict of arrays, a Dataset or a DataTree) and their log density"
)


type LogDensity = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""Of draws (n, ...) by name on the natural scale."""


class Proposed(NamedTuple):
    """Draws of a proposal on the natural scale of the variables."""

    draws: dict[str, np.ndarray]
    """Free variables by name, shape (n, ...)."""
    log_density: np.ndarray
    """Of the draws, normalised, in nats, shape (n,)."""
    log_density_of: LogDensity | None
    """Of any other draws; None where only these are known."""


def proposed(proposal: Any, flat: FlatModel, n: int, rng: np.random.Generator) -> Proposed:
    """Draws of whatever a user passed as a proposal, one of `FORMS`: n, unless they are given."""
    shapes = natural_shapes(flat.model)
    values, log_density, log_density_of = _source(proposal, shapes, n, rng)
    if len(log_density) < 2:
        raise ValueError(f"the proposal has {len(log_density)} draws, but must have at least 2")
    for name, shape in shapes.items():
        if name not in values:
            raise ValueError(
                f"the proposal has no variable {name!r} (it has {sorted(map(str, values))}); it "
                f"must have all free variables of the model: {list(shapes)}"
            )
        found = np.shape(values[name])
        if found != (len(log_density), *shape):
            raise ValueError(
                f"draws of {name!r} in the proposal have shape {found}, but must have "
                f"{(len(log_density), *shape)}: one entry for each log density, then the shape of "
                "the variable"
            )
        if np.isnan(values[name]).any():
            raise ValueError(f"draws of {name!r} in the proposal have NaN: leave such draws out")
    if not np.all(np.isfinite(log_density)):
        n_bad = int(np.count_nonzero(~np.isfinite(log_density)))
        raise ValueError(
            f"the log density of the proposal is not finite at {n_bad} of its own "
            f"{len(log_density)} draws; pass the normalised log density, in nats, of what the "
            "draws were drawn from"
        )
    return Proposed({name: values[name] for name in shapes}, log_density, log_density_of)


def _source(
    proposal: Any, shapes: Mapping[str, tuple[int, ...]], n: int, rng: np.random.Generator
) -> Proposed:
    if isinstance(proposal, xr.DataTree | xr.Dataset):
        raise TypeError(
            f"proposal is a {type(proposal).__name__}: draws need their log density beside them, "
            "as a pair (draws, log_density); for draws of the posterior write "
            "pymc_logz.evidence(idata, model)"
        )
    if isinstance(proposal, pm.Model):
        return _of_model(proposal, list(shapes), n, rng)
    if isinstance(proposal, tuple) and len(proposal) == 2:
        return _given(*proposal)
    if isinstance(proposal, Mapping) and proposal:
        return _of_distributions(proposal, shapes, n, rng)
    if len(shapes) == 1 and _is_distribution(proposal):
        return _of_distributions(dict.fromkeys(shapes, proposal), shapes, n, rng)
    raise TypeError(f"proposal={proposal!r} must be {FORMS}")


def natural_density(density: RowDensity, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log densities (n,) of rows (n, d), there and on the natural scale; -inf of infinite rows."""
    model, inside = density.flat.model, np.isfinite(rows).all(axis=1)
    there = np.where(inside, density.log_target(np.where(inside[:, None], rows, 0.0)), -np.inf)
    alive, natural = np.isfinite(there), there.copy()

    def made() -> Callable[[np.ndarray], list[np.ndarray]]:
        densities = wider([model.logp(model.free_RVs, jacobian=given) for given in (True, False)])
        return function_of_rows(model, densities)

    if alive.any():
        volumes = kept_for(model).get("with and without Jacobian", made)
        with_it, without = volumes(rows[alive])
        natural[alive] -= with_it - without
    return there, natural


def _of_model(model: pm.Model, names: list[str], n: int, rng: np.random.Generator) -> Proposed:
    """Prior draws of a model, and their log density on the natural scale."""
    free = {rv.name: rv for rv in model.free_RVs}
    if set(names) != set(free):
        raise ValueError(
            f"the proposal has the free variables {sorted(free)}, and the model {sorted(names)}; "
            "they must be the same"
        )
    prior = PriorDraws(model)
    rows = prior(rng, n)
    log_mass, _ = prior.log_mass(rng)
    natural = {var.name: var for var in model.unobserved_value_vars if var.name in free}
    outputs = [*wider([model.logp(model.free_RVs, jacobian=False)]), *natural.values()]
    evaluate = function_of_rows(model, outputs)
    log_density, *values = evaluate(rows)

    def log_density_of(draws: Mapping[str, np.ndarray]) -> np.ndarray:
        others = unconstrained(model, draws)
        inside = np.isfinite(others).all(axis=1)
        found = evaluate(np.where(inside[:, None], others, rows[:1]))[0] - log_mass
        return np.where(inside & ~np.isnan(found), found, -np.inf)

    draws = dict(zip(natural, values, strict=True))
    return Proposed(draws, log_density - log_mass, log_density_of)


def _of_distributions(
    given: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    n: int,
    rng: np.random.Generator,
) -> Proposed:
    """Draws of frozen distributions, all independent: one of each entry, or of a whole variable."""
    values, whole = {}, {}
    for name, distribution in given.items():
        if name not in shapes:
            raise ValueError(
                f"the proposal has a variable {name!r}, which the model has not; its free "
                f"variables are {list(shapes)}"
            )
        if not _is_distribution(distribution):
            raise TypeError(
                f"proposal[{name!r}]={distribution!r} must be a frozen scipy.stats distribution of "
                "real numbers, such as scipy.stats.norm(0, 1) or "
                "scipy.stats.multivariate_normal(mean, cov)"
            )
        values[name], whole[name] = _drawn(distribution, name, n, shapes[name], rng)

    def log_density(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        found = np.zeros(len(next(iter(arrays.values()))))
        for name, distribution in given.items():
            found += _log_density(distribution, arrays[name], whole[name])
        return found

    return Proposed(values, log_density(values), log_density)


def _drawn(
    distribution: Any, name: str, n: int, shape: tuple[int, ...], rng: np.random.Generator
) -> tuple[np.ndarray, bool]:
    """Draws (n, ...) of a variable, and whether the distribution is of all its entries."""
    try:
        draws = np.asarray(distribution.rvs(size=(n, *shape), random_state=rng))
        if draws.shape == (n, *shape):
            return draws, False
    except TypeError:
        pass  # of matrices only a number can be drawn
    draws = np.asarray(distribution.rvs(size=n, random_state=rng))
    if draws.size != n * np.prod(shape):
        raise ValueError(
            f"draws of proposal[{name!r}] have shape {draws.shape[1:]}, but must have that of the "
            f"variable, {shape}"
        )
    return draws.reshape(n, *shape), True


def _log_density(distribution: Any, values: np.ndarray, whole: bool) -> np.ndarray:
    """Log density of a variable's values (n, ...), by entries or as a whole, shape (n,)."""
    n = len(values)
    if not whole:
        return np.asarray(distribution.logpdf(values)).reshape(n, -1).sum(axis=1)
    if type(distribution).__name__.startswith("multivariate_"):
        return np.asarray(distribution.logpdf(values.reshape(n, -1))).reshape(n)
    # a Dirichlet, a Wishart and others have draws along another axis than their density
    return np.array([float(distribution.logpdf(one)) for one in values])


def _is_distribution(given: Any) -> bool:
    """Whether real numbers can be drawn from it, and it has their log density."""
    return hasattr(given, "rvs") and hasattr(given, "logpdf")


def _given(draws: Any, log_density: Any) -> Proposed:
    """Draws that a user has, in the order of their log densities."""
    if isinstance(draws, xr.DataTree):
        draws = draws["posterior"].to_dataset()
    if isinstance(draws, xr.Dataset) and {"chain", "draw"} <= set(draws.dims):
        if isinstance(log_density, xr.DataArray):  # whatever the order of its draws
            _, log_density = xr.align(draws, log_density, join="left")
            log_density = log_density.transpose("chain", "draw")
        draws = stacked(draws, draws.data_vars)
    if not isinstance(draws, Mapping):
        raise TypeError(f"draws of type {type(draws).__name__} must be {FORMS}")
    arrays = {str(name): np.asarray(values) for name, values in draws.items()}
    return Proposed(arrays, np.asarray(log_density, dtype=float).ravel(), None)
