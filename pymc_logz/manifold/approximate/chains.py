"""ABC chains: random walk with fresh noise, and elliptical slices, both with a uniform ball."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from pytensor.graph.traversal import ancestors

from pymc_logz.arguments import check_positive, check_whole
from pymc_logz.errors import ModelError
from pymc_logz.manifold.approximate.simulator import Simulator
from pymc_logz.seeds import generators_from
from pymc_logz.trees.kinds import ABC
from pymc_logz.trees.layout import data_datasets, dataset_of, make_tree

if TYPE_CHECKING:
    import pymc as pm

STEP_SIZES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Steps, in standard deviations of the prior, of which a pilot takes the best."""
SPREAD_DRAWS = 2000
"""Prior draws that standard deviations are taken from."""
NARROWEST = 1e-12
"""Width of a bracket, in radians, that has shrunk to where it started."""


def abc_mcmc(
    model: "pm.Model",
    epsilon: float,
    var_names: Sequence[str],
    draws: int = 1000,
    *,
    tune: int = 500,
    chains: int = 512,
    step_size: float | None = None,
    start: Any = None,
    random_seed: Any = None,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Chains of a simulator's parameters by a random walk, with noise drawn afresh each time.

    A proposal is accepted by the ratio of the prior of the parameters, if its output is within
    epsilon: Metropolis on parameters and noise together, whose proposal of the noise is its prior.
    Chains stay where they are for long where few outputs are that near.

    Parameters
    ----------
    model
        Model with `ExactObservation`, and neither likelihoods nor potentials besides.
    epsilon
        Euclidean distance of outputs that counts as none.
    var_names
        Free variables that are parameters. All others are noise, whose prior may not depend on
        parameters, nor theirs on noise.
    draws, tune, chains
        Draws of each chain, moves before them, and chains, which are simulated together.
    step_size
        Of the walk, in standard deviations of the prior on the unconstrained scale. None takes the
        one that moves furthest in a fifth of the tuning.
    start
        DataTree or Dataset of draws within epsilon, on the natural scale, to start from, such as
        those of `ConstrainedHMC`. None looks among a million prior draws.
    random_seed
        Anything that ``pm.sample`` takes.
    compile_kwargs
        Keyword arguments of ``pytensor.function``.

    Returns
    -------
    xarray.DataTree
        ``posterior`` with all free variables, ``sample_stats`` with the ``distance`` and whether a
        move was ``accepted``, the data; attributes of ``sample_stats`` hold ``n_simulations`` and
        ``step_size``. There is no log Z.

    Raises
    ------
    ModelError
        If the model is not of this kind, or noise depends on parameters.
    PilotError
        If no prior draw is within epsilon.
    ValueError
        If a setting is outside its range.

    References
    ----------
    Marjoram, Molitor, Plagnol & Tavare (2003), Markov chain Monte Carlo without likelihoods, doi
    10.1073/pnas.0306899100; Graham & Storkey (2017), section 2.2, arXiv 1605.07826.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as simulator:
            rate, noise = pm.LogNormal("rate"), pm.Normal("noise")
            lz.ExactObservation("y", rate + 0.3 * noise, observed=2.0)

        tree = lz.abc_mcmc(simulator, 0.5, ["rate"], random_seed=1)
    """
    check_whole(1, draws=draws, tune=tune, chains=chains)
    check_positive(one=True, step_size=step_size)
    rngs = generators_from(random_seed)
    simulator = Simulator(model, epsilon, compile_kwargs)
    walked = _columns(simulator, var_names)
    spread = simulator.prior(rngs.pilot, SPREAD_DRAWS).std(axis=0)[walked]
    rows = simulator.starts(start, chains, rngs.pilot)

    def run(rows: np.ndarray, n: int, step: float, rng: np.random.Generator) -> "_Chains":
        return _walk(simulator, rows, walked, step * spread, n, rng)

    if step_size is None:
        share = max(2, tune // (5 * len(STEP_SIZES)))
        jumps = [run(rows, share, step, rngs.pilot).jump(walked, spread) for step in STEP_SIZES]
        step_size = STEP_SIZES[int(np.argmax(jumps))]
    rows = run(rows, tune, step_size, rngs.pilot).end
    found = run(rows, draws, step_size, rngs.run)
    return found.tree(simulator, {"method": "abc_mcmc", "step_size": step_size})


def abc_slice(
    model: "pm.Model",
    epsilon: float,
    var_names: Sequence[str],
    draws: int = 1000,
    *,
    tune: int = 200,
    chains: int = 512,
    start: Any = None,
    random_seed: Any = None,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Chains of a simulator's inputs by elliptical slices, of parameters and of noise in turn.

    Each move goes round an ellipse through the present inputs and a draw of the prior, to the first
    point tried whose output is within epsilon, with a bracket that shrinks to the present one. Its
    ellipses are those of a normal distribution with the prior's moments, on the unconstrained
    scale; where the prior is not normal there, the slice follows the ratio of the two.

    Parameters
    ----------
    model, epsilon, draws, tune, chains, start, random_seed, compile_kwargs
        As of `abc_mcmc`.
    var_names
        Free variables that are parameters; all others are noise, and move by themselves.

    Returns
    -------
    xarray.DataTree
        As of `abc_mcmc`; ``accepted`` is the share of the simulations of a draw.

    Raises
    ------
    ModelError
        If the model is not of this kind.
    PilotError
        If no prior draw is within epsilon.
    ValueError
        If a setting is outside its range.

    References
    ----------
    Murray, Adams & MacKay (2010), Elliptical slice sampling, arXiv 1001.0175; Murray & Graham
    (2016), Pseudo-marginal slice sampling, arXiv 1510.02958; Graham & Storkey (2017), section 5.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as simulator:
            rate, noise = pm.LogNormal("rate"), pm.Normal("noise")
            lz.ExactObservation("y", rate + 0.3 * noise, observed=2.0)

        tree = lz.abc_slice(simulator, 0.5, ["rate"], random_seed=1)
    """
    check_whole(1, draws=draws, tune=tune, chains=chains)
    rngs = generators_from(random_seed)
    simulator = Simulator(model, epsilon, compile_kwargs)
    walked = _columns(simulator, var_names, independent=False)
    groups = [group for group in (walked, ~walked) if group.any()]
    of_prior = simulator.prior(rngs.pilot, SPREAD_DRAWS)
    ellipses = of_prior.mean(axis=0), of_prior.std(axis=0)
    rows = simulator.starts(start, chains, rngs.pilot)
    rows = _slices(simulator, rows, groups, ellipses, tune, rngs.pilot).end
    found = _slices(simulator, rows, groups, ellipses, draws, rngs.run)
    return found.tree(simulator, {"method": "abc_slice"})


class _Chains:
    """What chains did, along an axis of draws."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []
        self.distance: list[np.ndarray] = []
        self.accepted: list[np.ndarray] = []

    def keep(self, rows: np.ndarray, distance: np.ndarray, accepted: np.ndarray) -> None:
        self.rows.append(rows)
        self.distance.append(distance)
        self.accepted.append(accepted)

    @property
    def end(self) -> np.ndarray:
        return self.rows[-1]

    def jump(self, columns: np.ndarray, spread: np.ndarray) -> float:
        """Mean squared move of these columns."""
        return float((np.diff(np.stack(self.rows)[..., columns] / spread, axis=0) ** 2).mean())

    def tree(self, simulator: Simulator, settings: Mapping[str, Any]) -> xr.DataTree:
        """The DataTree of the chains."""
        stats = {
            "distance": np.stack(self.distance, axis=1),
            "accepted": np.stack(self.accepted, axis=1).astype(float),
        }
        attrs = {**settings, "epsilon": simulator.epsilon}
        attrs["n_simulations"] = simulator.n_simulations
        groups = {
            "posterior": simulator.dataset(np.stack(self.rows, axis=1)),
            "sample_stats": dataset_of(stats, attrs=attrs, check_conventions=False),
            **data_datasets(simulator.flat),
        }
        return make_tree(groups, attrs, ABC)


def _walk(
    simulator: Simulator,
    rows: np.ndarray,
    walked: np.ndarray,
    steps: np.ndarray,
    n: int,
    rng: np.random.Generator,
) -> _Chains:
    """Metropolis moves: a step of some columns, prior draws of the others."""
    found, distance = _Chains(), simulator.simulate(rows)[0]
    for _ in range(n):
        new = simulator.prior(rng, len(rows))
        new[:, walked] = rows[:, walked] + steps * rng.normal(size=(len(rows), len(steps)))
        new_distance, log_new = simulator.simulate(new)
        # the noise's own density is in both, and its proposal's takes it out
        old = new.copy()
        old[:, walked] = rows[:, walked]
        with np.errstate(invalid="ignore"):
            log_ratio = log_new - simulator.log_prior(old)
        accept = np.log(rng.uniform(size=len(rows))) < log_ratio
        accept &= new_distance < simulator.epsilon
        rows = np.where(accept[:, None], new, rows)
        distance = np.where(accept, new_distance, distance)
        found.keep(rows, distance, accept)
    return found


def _slices(
    simulator: Simulator,
    rows: np.ndarray,
    groups: Sequence[np.ndarray],
    ellipses: tuple[np.ndarray, np.ndarray],
    n: int,
    rng: np.random.Generator,
) -> _Chains:
    """Elliptical slice moves of each group of columns in turn."""
    mean, spread = ellipses

    def level(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density over that of the ellipses, and the distance."""
        distance, log_prior = simulator.simulate(rows)
        ratio = log_prior + 0.5 * (((rows - mean) / spread) ** 2).sum(axis=1)
        return np.where(distance < simulator.epsilon, ratio, -np.inf), distance

    found, (height, distance) = _Chains(), level(rows)
    for _ in range(n):
        before = simulator.n_simulations
        for group in groups:
            rows, height, distance = _slice(rows, (height, distance), group, ellipses, level, rng)
        share = len(groups) * len(rows) / (simulator.n_simulations - before)
        found.keep(rows, distance, np.full(len(rows), share))
    return found


def _slice(
    rows: np.ndarray,
    now: tuple[np.ndarray, np.ndarray],
    group: np.ndarray,
    ellipses: tuple[np.ndarray, np.ndarray],
    level: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows after one slice of some columns, their level and their distance."""
    mean, spread = (part[group] for part in ellipses)
    x = rows[:, group] - mean
    other = spread * rng.normal(size=x.shape)
    rows, height, distance = rows.copy(), now[0].copy(), now[1].copy()
    threshold = height + np.log(rng.uniform(size=len(rows)))
    angle = rng.uniform(0, 2 * np.pi, size=len(rows))
    low, high = angle - 2 * np.pi, angle.copy()
    left = np.arange(len(rows))
    while left.size:
        turn = angle[left, None]
        new = rows[left]
        new[:, group] = mean + x[left] * np.cos(turn) + other[left] * np.sin(turn)
        new_height, new_distance = level(new)
        inside = new_height > threshold[left]
        done = left[inside]
        rows[done], height[done], distance[done] = (
            part[inside] for part in (new, new_height, new_distance)
        )
        # a bracket of rounding size leaves the row where it is
        left = left[~inside & (high[left] - low[left] > NARROWEST)]
        below = angle[left] < 0
        low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
        angle[left] = rng.uniform(low[left], high[left])
    return rows, height, distance


def _columns(
    simulator: Simulator, var_names: Sequence[str], *, independent: bool = True
) -> np.ndarray:
    """Which columns of a row are parameters, shape (d,)."""
    model, owners = simulator.model, np.array(simulator.flat.owners)
    given = [var_names] if isinstance(var_names, str) else list(var_names)
    free = [str(rv.name) for rv in model.free_RVs]
    unknown = sorted(set(given) - set(free))
    if unknown or not given:
        raise ValueError(f"var_names={given} must name some of the free variables {free}")
    if independent:
        _check_independent(model, given)
    return np.isin(owners, given)


def _check_independent(model: "pm.Model", parameters: Sequence[str]) -> None:
    """Raise if noise depends on parameters, or the other way round."""
    for rv in model.free_RVs:
        above = {one.name for one in ancestors([rv]) if one in set(model.free_RVs)} - {rv.name}
        mixed = {name for name in above if (name in parameters) != (rv.name in parameters)}
        if mixed:
            raise ModelError(
                f"the prior of {rv.name!r} depends on {sorted(mixed)}, one of which is noise and "
                "the other a parameter: write noise as independent of parameters, such as "
                "mu + sigma * n with n ~ Normal(0, 1), or name both in var_names"
            )
