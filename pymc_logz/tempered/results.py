"""Tempered runs: log Z of their levels, groups of a tree, and how well the walkers have mixed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from pymc_logz.errors import warn
from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.estimators.multistate import mbar
from pymc_logz.estimators.result import LogZCurve
from pymc_logz.estimators.running import LevelSums
from pymc_logz.estimators.tempering import rao_blackwell_log_weight, rts
from pymc_logz.loop.calls import Call, Subject
from pymc_logz.runners.temper import Walk
from pymc_logz.seeds import spawn_generators
from pymc_logz.tempered.chains import Chains, SummedChains, WalkedChains, ends_seen
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.tempered.warm_up import Rounds, level_probabilities, moves_by_level
from pymc_logz.trees.chains import split_rhat
from pymc_logz.trees.doubts import Doubt, warn_of_nan, warn_of_status
from pymc_logz.trees.layout import dataset_of, with_units
from pymc_logz.weights import resampled


def round_trips(level: np.ndarray, n_levels: int) -> np.ndarray:
    """How often each walker (W, N) went from one end of the ladder to the other and back, (W,)."""
    return ends_seen(level.T, n_levels - 1)[1] // 2


def rejection_rates(draws: TemperedDraws) -> np.ndarray:
    """Probability that a swap between each level and the next is rejected, (K - 1,)."""
    # the sum over levels is close to the global barrier, which hardly depends on the ladder and
    # tells how far apart its two ends are: Syed et al. (2022), arXiv 1905.02939
    ratios = [draws.log_ratio[draws.level == k] for k in range(draws.n_levels)]
    # at most 512 of each, at even distances
    ratios = [one[:: max(1, -(-one.size // 512))] for one in ratios]
    rates = np.full(draws.n_levels - 1, np.nan)
    for k, (here, above) in enumerate(pairwise(ratios)):
        if here.size and above.size:
            step = draws.betas[k + 1] - draws.betas[k]
            log_accept = step * (here[:, None] - above)
            rates[k] = -np.expm1(np.minimum(log_accept, 0.0)).mean()
    return rates


def level_overlap(draws: TemperedDraws) -> np.ndarray:
    """Mean probability of each level given the position, over draws at each level, shape (K, K)."""
    # MBAR's overlap matrix (Klimovich, Shirts & Mobley 2015, doi 10.1007/s10822-015-9840-9) with
    # the run's own prior and rough log Z, from draws at even distances
    every = -(-draws.n_draws // 2**15)
    level, log_ratio, segment = (
        part.ravel()[::every] for part in (draws.level, draws.log_ratio, draws.segment)
    )
    q, here = draws.level_given(log_ratio, segment), np.eye(draws.n_levels)[level]
    with np.errstate(invalid="ignore"):
        return np.asarray((here.T @ q) / here.sum(axis=0)[:, None])


def level_mixing(draws: TemperedDraws) -> tuple[np.ndarray, np.ndarray]:
    """Effective number of draws and R-hat over walkers of q(level | x), shape (K,) both."""
    # at the last level q is a draw's weight for the target; a share lies between 0 and 1, and its
    # mean is what log Z is made of, so R-hat needs no ranks, whose sorting took most of the time
    # ArviZ takes seconds to import, and few who import this module have chains
    from arviz_stats.base import array_stats

    n_walkers, n = draws.level.shape
    log_norm = np.empty((n_walkers, n))
    for rows, columns in draws.chunks(draws.n_levels):
        weight = draws.log_level_weight(*draws.flat(rows, columns))
        log_norm[rows, columns] = logsumexp(weight, axis=1).reshape(log_norm[rows, columns].shape)
    log_pseudo_prior = draws.log_prior - draws.log_z_hat[0]
    ess, rhat = np.full((2, draws.n_levels), np.nan)
    if n >= 4:
        for k, beta in enumerate(draws.betas):
            tilt = beta * draws.log_ratio if beta > 0 else 0.0
            share = np.exp(tilt + log_pseudo_prior[k] - log_norm)
            ess[k] = array_stats.ess(share, method="mean")
            if n_walkers > 1:
                rhat[k] = split_rhat(share[..., None])[0]
    return ess, rhat


def rhat_of_sums(levels: LevelSums) -> np.ndarray:
    """Split R-hat over walkers of the share of each level, (K,): halves are whole blocks."""
    n_blocks = levels.share.shape[1]
    if n_blocks == 1:
        halves = [slice(None)]
    else:
        halves = [slice(0, n_blocks // 2), slice(n_blocks - n_blocks // 2, None)]
    # q sums to one, so that sums over levels are numbers of draws
    n, total, square = (
        np.concatenate([part[:, half].sum(axis=1) for half in halves])
        for part in (levels.share.sum(axis=2, keepdims=True), levels.share, levels.square)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        within = ((square - total**2 / n) / (n - 1)).mean(axis=0)
        between = (total / n).var(axis=0, ddof=1)
        return np.sqrt(1 - 1 / n.mean() + between / within)


def walker_doubts(rhat: np.ndarray) -> list[Doubt]:
    """Whether walkers stay where they are for as long as the run, by R-hat of each level (K,)."""
    # then hardly any came upon what is hard to find, such as a narrow spike, and the error cannot
    # tell; runs off by up to 30 errors had an R-hat of 1.18 and more, the slowest right ones 1.10
    # (docs/theory/decisions.md)
    worst = float(np.nanmax(rhat, initial=-np.inf))
    if not worst > 1.15:
        return []
    reason = (
        f"walkers stay in one part of the target during the whole run: R-hat of the probability of "
        f"level {int(np.nanargmax(rhat))} is {worst:.2f}"
    )
    return [Doubt("chains_disagree", reason)]


OF_CHAINS = ("chain", "stage")
MAX_MATRIX = 128
"""Levels up to which what is about pairs of them is stored."""


def tempering_dataset(
    walks: Sequence[Walk], rounds: Rounds, draws: TemperedDraws, curve: LogZCurve
) -> xr.Dataset:
    """Group ``tempering``: levels and log ratios of all draws, and what happened at each level."""
    ladder, (n_draws, n_walkers) = rounds.ladder, walks[0].level.shape
    dims, shape = ("chain", "walker", "draw"), (len(walks), n_walkers, n_draws)
    ess, rhat = level_mixing(draws)
    # of swaps with the next level, which the last one has not got
    rejected = np.append(rejection_rates(draws), np.nan)
    visits, accepted = zip(*(moves_by_level(one, ladder.n_levels) for one in walks), strict=True)
    variables: dict[str, Any] = {
        "level": (dims, draws.level.reshape(shape)),
        "log_ratio": (dims, draws.log_ratio.reshape(shape)),
        "ess": ("stage", ess),
        "rhat": ("stage", rhat),
        "rejection_rate": ("stage", rejected),
        "occupancy": (
            OF_CHAINS,
            np.stack([level_probabilities(ladder.draws(one)) for one in walks]),
        ),
        "n_nan_log_ratio": ("chain", np.array([walk.n_nan.sum() for walk in walks])),
    }
    if draws.n_levels <= MAX_MATRIX:
        variables["overlap"] = (("stage", "other_stage"), level_overlap(draws))
    trips = round_trips(draws.level, ladder.n_levels).reshape(shape[:2])
    moves = np.stack(visits), np.stack(accepted)
    dataset = _of_levels(variables, rounds, curve, moves, trips, n_draws)
    dataset = dataset.assign_coords(draw=np.arange(n_draws))
    return dataset.assign_attrs(barrier=float(np.nansum(rejected)))


def sums_dataset(summed: SummedChains, rounds: Rounds, curve: LogZCurve) -> xr.Dataset:
    """Group ``tempering`` of a run of which sums are kept; arguments as of `tempering_dataset`."""
    chains, n_draws = summed.parts, summed.parts[0].levels.n_draws
    visits = np.stack([np.asarray(one.levels.visits) for one in chains])
    share_sum = np.stack([one.levels.share.sum(axis=1) for one in chains])
    variables: dict[str, Any] = {
        "share_sum": (("chain", "walker", "stage"), share_sum),
        "rhat": ("stage", rhat_of_sums(summed.levels)),
        "visits": (OF_CHAINS, visits),
        "occupancy": (OF_CHAINS, np.stack([one.levels.mean_probability for one in chains])),
        "n_nan_log_ratio": ("chain", np.array([one.n_nan for one in chains])),
    }
    trips = np.stack([one.crossings // 2 for one in chains])
    moves = visits, np.stack([one.accepted for one in chains])
    dataset = _of_levels(variables, rounds, curve, moves, trips, n_draws)
    return dataset.assign_attrs(n_draws=n_draws)


def _of_levels(
    variables: Mapping[str, Any],
    rounds: Rounds,
    curve: LogZCurve,
    moves: tuple[np.ndarray, np.ndarray],
    trips: np.ndarray,
    n_draws: int,
) -> xr.Dataset:
    """Variables, and those of each level by visits, acceptance (chains, K), trips (chains, W)."""
    ladder, (visits, accepted) = rounds.ladder, moves
    with np.errstate(invalid="ignore"):
        rate = accepted / visits
    more: dict[str, Any] = {
        "log_prior": ("stage", ladder.log_prior),
        "log_z_hat": ("stage", ladder.log_z_hat),
        "log_z": ("stage", curve.log_z),
        "mcse": ("stage", curve.mcse),
        # of second order, by the delta method: shown, not taken off
        "log_z_bias": ("stage", curve.details.get("bias", np.full(ladder.n_levels, np.nan))),
        "step_size": ("stage", ladder.step_size),
        "visit_share": (OF_CHAINS, visits / (trips.shape[1] * n_draws)),
        "acceptance_rate": (OF_CHAINS, rate),
        "round_trips": (("chain", "walker"), trips),
        "round_trip_rate": ("chain", trips.mean(axis=1) / n_draws),
    }
    if ladder.n_levels <= MAX_MATRIX:
        more["log_z_covariance"] = (("stage", "other_stage"), curve.covariance)
    for name in ("log_z_hat", "share", "visits"):
        values = np.stack([getattr(one, name) for one in rounds.history])
        more[f"round_{name}"] = (("round", "stage"), values)
    more["round_length"] = ("round", np.array([one.length for one in rounds.history]))
    coords = {name: np.arange(n) for name, n in zip(("chain", "walker"), trips.shape, strict=True)}
    coords |= {"stage": np.arange(ladder.n_levels)}
    dataset = xr.Dataset({**variables, **more}, {**coords, "beta": ("stage", ladder.betas)})
    return with_units(dataset)


def tempered_draws_dataset(
    arrays: Mapping[str, np.ndarray],
    log_weight: np.ndarray,
    draw: np.ndarray,
    labels: Mapping[str, Any],
) -> xr.Dataset:
    """Group ``tempered_posterior``: draws of all levels with their weights for the target."""
    dataset = dataset_of(
        {**arrays, "log_weight": log_weight},
        coords={**labels["coords"], "draw": draw},
        dims=labels["dims"],
        sample_dims=["chain", "walker", "draw"],
        check_conventions=False,  # more chains than draws are as they should be here
    )
    return with_units(dataset)


def some_draws(subject: Subject, rows: np.ndarray) -> xr.Dataset:
    """Group ``some_draws``: at most 64 of the rows (n, d), and their log density."""
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), 64), dtype=int)][None]
    # no variable, whose name a model might have
    attrs = {"lp": np.add(*subject.block.densities(rows[0]))}
    return dataset_of(subject.named(rows), **subject.labels, attrs=attrs)


Measured = tuple[LogZCurve, xr.Dataset, TemperedDraws | None]


def measured(rounds: Rounds, chains: Chains, settings: TemperedSettings) -> Measured:
    """Log Z at every level, group ``tempering`` and draws if any, after warnings of a bad run."""
    ladder, draws = rounds.ladder, None
    if isinstance(chains, SummedChains):
        curve = chains.curve(ladder)
        tempering = sums_dataset(chains, rounds, curve)
    else:
        draws = ladder.draws(*chains.walks)
        # swaps hold one walker at each level, whatever the constants
        curve = rts(draws) if settings.exchange == "gibbs" else mbar(draws)
        if settings.exchange == "swap" and curve.usable:
            rounds = rounds._replace(ladder=replace(ladder, log_z_hat=curve.log_z))
            draws = replace(draws, log_z_hat=curve.log_z)
        tempering = tempering_dataset(chains.walks, rounds, draws, curve)
    warn_of_run(tempering, curve, chains.n_lost)
    return curve, tempering, draws


def posterior_datasets(
    call: Call[TemperedSettings], subject: Subject, chains: WalkedChains, draws: TemperedDraws
) -> dict[str, xr.Dataset]:
    """Groups ``posterior``, ``sample_stats`` and ``tempered_posterior``."""
    # the posterior's draws are of all levels, resampled by the probability of beta = 1 given the
    # position, in the order of walkers and of time, so that ArviZ sees their autocorrelation
    walks, kept, n_draws = chains.walks, chains.kept, len(chains.walks[0].level)
    log_weight = rao_blackwell_log_weight(draws).reshape(len(walks), -1, n_draws)[..., kept]
    generators = spawn_generators(call.rngs.run, call.settings.chains)
    chosen = [
        resampled(weight, rng, n_draws) for weight, rng in zip(log_weight, generators, strict=False)
    ]

    def of_chosen(arrays: list[np.ndarray]) -> np.ndarray:
        """Rows of arrays (walkers, kept, ...), one for each chain."""
        pairs = zip(arrays, chosen, strict=True)
        return np.stack([array.reshape(-1, *array.shape[2:])[rows] for array, rows in pairs])

    at_kept = {
        "log_ratio": [walk.log_ratio[kept].T for walk in walks],
        "lp": [(walk.log_ratio + walk.log_reference)[kept].T for walk in walks],
        "level": [walk.level[kept].T for walk in walks],
        "walker": [np.indices(weight.shape)[0] for weight in log_weight],
    }
    positions = [walk.position.swapaxes(0, 1) for walk in walks]
    thin = min(max(1, round(call.settings.thin / (kept[0] + 1))), kept.size)
    thinned = np.stack([position[:, thin - 1 :: thin] for position in positions])
    stats = {name: of_chosen(arrays) for name, arrays in at_kept.items()}
    return {
        "posterior": dataset_of(subject.named(of_chosen(positions)), **subject.labels),
        "sample_stats": with_units(dataset_of(stats)),
        "tempered_posterior": tempered_draws_dataset(
            subject.named(thinned),
            log_weight[..., thin - 1 :: thin],
            kept[thin - 1 :: thin],
            subject.labels,
        ),
    }


def warn_of_run(tempering: xr.Dataset, curve: LogZCurve, n_lost: int) -> None:
    """Warn of what a run's walkers show; ``n_lost`` draws were made outside the support."""
    warn_of_status(curve)
    trips = int(tempering["round_trips"].sum())
    if trips < 10:
        rejected = ""
        if "rejection_rate" in tempering:
            rejected = f" (here up to {float(tempering['rejection_rate'].max()):.0%})"
        warn(
            f"all walkers together made {trips} round trips between the first temperature and the "
            "last, so modes that only the prior connects may be weighted wrongly; use more draws, "
            f"or more temperatures (betas=<int>) if swaps are mostly rejected{rejected}"
        )
    warn_of_nan(int(tempering["n_nan_log_ratio"].sum()), "tempering")
    if n_lost:
        warn(
            f"{n_lost} draws were made by walkers that had not found the support of the likelihood "
            "yet, and count as draws of the prior; use a larger tune"
        )
