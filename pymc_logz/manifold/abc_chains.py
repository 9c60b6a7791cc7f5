"""ABC chains: random walk with fresh noise, and elliptical slices, both with a uniform ball."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.graph.traversal import ancestors

from pymc_logz.arguments import check_integer, check_positive
from pymc_logz.errors import ModelError, warn
from pymc_logz.manifold.simulator import Simulator
from pymc_logz.models.context import model_from, written_as
from pymc_logz.seeds import generators_from
from pymc_logz.trees.kinds import ABC
from pymc_logz.trees.layout import data_datasets, dataset_of, make_tree

type Moves = Iterator[tuple[np.ndarray, ...]]
"""Moves without end: rows (n, d) within epsilon, their distance (n,), and whether the move was
accepted, or the share of its simulations that were."""


def taken(moves: Moves, n: int) -> list[np.ndarray]:
    """What the next n moves give, along a first axis."""
    return [np.stack(column) for column in zip(*islice(moves, n), strict=True)]


class Chains:
    """Chains of a simulator, some of whose columns are parameters and the others noise."""

    def __init__(self, simulator: Simulator, var_names: Sequence[str], random_seed: Any) -> None:
        given = [var_names] if isinstance(var_names, str) else list(var_names or ())
        free = [str(rv.name) for rv in simulator.model.free_RVs]
        if not given or not set(given) <= set(free):
            raise ValueError(f"var_names={given} must name some of the free variables {free}")
        self.simulator, self.rngs = simulator, generators_from(random_seed)
        self.columns = np.isin(np.array(simulator.flat.owners), given)
        """Which columns of a row are parameters, shape (d,)."""

    def check_independent(self) -> None:
        """Raise if noise depends on parameters, or the other way round."""
        model, owners = self.simulator.model, np.array(self.simulator.flat.owners)
        parameters = set(owners[self.columns])
        for rv in model.free_RVs:
            above = {one.name for one in ancestors([rv]) if one in set(model.free_RVs)} - {rv.name}
            mixed = {name for name in above if (name in parameters) != (rv.name in parameters)}
            if mixed:
                raise ModelError(
                    f"the prior of {rv.name!r} depends on {sorted(mixed)}, one of which is noise "
                    "and the other a parameter: write noise as independent of parameters, such as "
                    "mu + sigma * n with n ~ Normal(0, 1), or name both in var_names"
                )

    def walk(self, steps: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> Moves:
        """Metropolis moves: a step of the parameters, prior draws of the other columns."""
        simulator, walked = self.simulator, self.columns
        distance = simulator.simulate(rows)[0]
        while True:
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
            yield rows, distance, accept

    def slices(
        self, moments: Sequence[np.ndarray], rows: np.ndarray, rng: np.random.Generator
    ) -> Moves:
        """Elliptical slice moves of parameters and of noise in turn, by moments of the prior."""
        simulator, (mean, spread) = self.simulator, moments
        groups = [group for group in (self.columns, ~self.columns) if group.any()]

        def level(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """Log density over that of the ellipses, and the distance."""
            distance, log_prior = simulator.simulate(rows)
            ratio = log_prior + 0.5 * (((rows - mean) / spread) ** 2).sum(axis=1)
            return np.where(distance < simulator.epsilon, ratio, -np.inf), distance

        now: Sequence[np.ndarray] = level(rows)
        while True:
            before = simulator.n_simulations
            for group in groups:
                rows, *now = sliced(rows, now, group, (mean[group], spread[group]), level, rng)
            share = len(groups) * len(rows) / (simulator.n_simulations - before)
            yield rows, now[1], np.full(len(rows), share)

    def sampled(
        self,
        moves: Callable[[np.ndarray, np.random.Generator], Moves],
        begin: np.ndarray,
        draws: int,
        tune: int,
        attrs: dict[str, Any],
    ) -> xr.DataTree:
        """Move from a start, draw, collect."""
        simulator = self.simulator
        tuned = taken(moves(begin, self.rngs.pilot), tune)[0][-1]
        rows, distance, accepted = taken(moves(tuned, self.rngs.run), draws)
        stuck = float((rows[-1] == begin).all(axis=1).mean())
        if stuck >= 0.5:
            warn(
                f"{stuck:.0%} of the chains never left where they started, with "
                f"epsilon={simulator.epsilon}: use a larger one, more draws, or "
                "pm.sample(step=ConstrainedHMC()), which needs none"
            )
        stats = {"distance": distance.T, "accepted": accepted.T.astype(float)}
        attrs |= {"epsilon": simulator.epsilon, "n_simulations": simulator.n_simulations}
        groups = {
            "posterior": simulator.dataset(rows.swapaxes(0, 1)),
            "sample_stats": dataset_of(stats, attrs=attrs, check_conventions=False),
            **data_datasets(simulator.flat.model, simulator.flat.observed),
        }
        return make_tree(groups, attrs, ABC)


def sliced(
    rows: np.ndarray,
    now: Sequence[np.ndarray],
    group: np.ndarray,
    ellipse: tuple[np.ndarray, np.ndarray],
    level: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (n, d) after one slice of the columns ``group``, and ``now``: their level and distance.

    ``ellipse`` is the mean and the standard deviations of the columns that move.
    """
    mean, spread = ellipse
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
        left = left[~inside & (high[left] - low[left] > 1e-12)]
        below = angle[left] < 0
        low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
        angle[left] = rng.uniform(low[left], high[left])
    return rows, height, distance


@written_as("abc_mcmc(model, epsilon, var_names)")
def abc_mcmc(
    model: pm.Model | None,
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
    Chains stay at one point for a long time if few outputs are within that distance.

    Parameters
    ----------
    model, epsilon, random_seed, compile_kwargs
        As of `abc_rejection`.
    var_names
        Free variables that are parameters. All others are noise, whose prior may not depend on
        parameters, nor theirs on noise.
    draws, tune, chains
        Number of draws of each chain, of moves before them, and of chains, which are simulated
        together.
    step_size
        Step size of the walk, in standard deviations of the prior on the unconstrained scale. None
        takes the one that moves furthest in a fifth of the tuning.
    start
        DataTree or Dataset of draws within epsilon, on the natural scale, to start from, such as
        those of `ConstrainedHMC`. None looks among a million prior draws.

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

    Warns
    -----
    EvidenceWarning
        If half of the chains or more never moved.

    See Also
    --------
    abc_slice, abc_rejection
    ConstrainedHMC : without a tolerance.

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
    check_positive(one=True, step_size=step_size)
    check_integer(1, draws=draws, tune=tune, chains=chains)
    model = model_from(model, "abc_mcmc(model, epsilon, var_names)")
    simulator = Simulator(model, epsilon, compile_kwargs)
    moving = Chains(simulator, var_names, random_seed)
    moving.check_independent()
    rng, columns = moving.rngs.pilot, moving.columns
    _, spread = simulator.moments(rng, columns)
    begin = simulator.starts(start, chains, rng)
    if step_size is None:
        tried, jumps = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0), []
        for step_size in tried:
            trial = moving.walk(step_size * spread, begin, rng)
            moved = taken(trial, max(2, tune // (5 * len(tried))))[0]
            jump = np.diff(moved[..., columns] / spread, axis=0)
            jumps.append(float((jump**2).mean()))
        step_size = tried[int(np.argmax(jumps))]
    attrs = {"method": "abc_mcmc", "step_size": step_size}
    return moving.sampled(partial(moving.walk, step_size * spread), begin, draws, tune, attrs)


@written_as("abc_slice(model, epsilon, var_names)")
def abc_slice(
    model: pm.Model | None,
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
        As of `abc_mcmc`; ``accepted`` is the fraction of simulations that were accepted for a draw.

    Raises
    ------
    ModelError, PilotError, ValueError
        As of `abc_mcmc`, but noise may depend on parameters.

    Warns
    -----
    EvidenceWarning
        If half of the chains or more never moved.

    See Also
    --------
    abc_mcmc, abc_rejection
    ConstrainedHMC : without a tolerance.

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
    check_integer(1, draws=draws, tune=tune, chains=chains)
    model = model_from(model, "abc_slice(model, epsilon, var_names)")
    simulator = Simulator(model, epsilon, compile_kwargs)
    moving = Chains(simulator, var_names, random_seed)
    moves = partial(moving.slices, simulator.moments(moving.rngs.pilot))
    begin = simulator.starts(start, chains, moving.rngs.pilot)
    return moving.sampled(moves, begin, draws, tune, {"method": "abc_slice"})
