"""Tempered runs as groups of an ArviZ tree; `pymc_logz.trees.layout` has the table of them."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.estimators.curve import LogZCurve
from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.runners.temper import Walk
from pymc_logz.tempered.diagnostics import (
    level_mixing,
    level_overlap,
    rejection_rates,
    round_trips,
)
from pymc_logz.tempered.sums import SummedChains, rhat_of_sums
from pymc_logz.tempered.warm_up import Ladder, Round, level_share, moves_by_level
from pymc_logz.trees.layout import dataset_of, with_units

OF_CHAINS = ("chain", "stage")
MAX_MATRIX = 128
"""Levels up to which what is about pairs of them is stored."""


def draws_of(ladder: Ladder, walks: Sequence[Walk]) -> TemperedDraws:
    """What the walkers of all chains did, one after the other, as estimators take it."""
    parts = [ladder.draws(walk) for walk in walks]
    return TemperedDraws(
        level=np.concatenate([part.level for part in parts]),
        log_ratio=np.concatenate([part.log_ratio for part in parts]),
        betas=ladder.betas,
        log_prior=ladder.log_prior,
        log_z_hat=ladder.log_z_hat,
    )


def tempering_dataset(
    walks: Sequence[Walk],
    ladder: Ladder,
    draws: TemperedDraws,
    curve: LogZCurve,
    history: Sequence[Round] = (),
) -> xr.Dataset:
    """Group ``tempering``: levels and log ratios of all draws, and what happened at each level.

    ``walks`` are one for each chain, ``draws`` those of all of them, ``curve`` log Z of the levels,
    and ``history`` the rounds of the warm-up.
    """
    n_draws, n_walkers = walks[0].level.shape
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
        "occupancy": (OF_CHAINS, np.stack([level_share(ladder.draws(one)) for one in walks])),
        "n_nan_log_ratio": ("chain", np.array([walk.n_nan.sum() for walk in walks])),
    }
    if draws.n_levels <= MAX_MATRIX:
        variables["overlap"] = (("stage", "other_stage"), level_overlap(draws))
    trips = round_trips(draws.level, ladder.n_levels).reshape(shape[:2])
    moves = np.stack(visits), np.stack(accepted)
    dataset = _of_levels(variables, ladder, curve, history, moves, trips, n_draws)
    dataset = dataset.assign_coords(draw=np.arange(n_draws))
    return dataset.assign_attrs(barrier=float(np.nansum(rejected)))


def sums_dataset(
    summed: SummedChains, ladder: Ladder, curve: LogZCurve, history: Sequence[Round] = ()
) -> xr.Dataset:
    """Group ``tempering`` of a run of which sums are kept; arguments as of `tempering_dataset`."""
    chains, n_draws = summed.parts, summed.parts[0].levels.n_draws
    visits = np.stack([np.asarray(one.levels.visits) for one in chains])
    share_sum = np.stack([one.levels.share.sum(axis=1) for one in chains])
    variables: dict[str, Any] = {
        "share_sum": (("chain", "walker", "stage"), share_sum),
        "rhat": ("stage", rhat_of_sums(summed.levels)),
        "visits": (OF_CHAINS, visits),
        "occupancy": (OF_CHAINS, np.stack([one.levels.mean_share for one in chains])),
        "n_nan_log_ratio": ("chain", np.array([one.n_nan for one in chains])),
    }
    trips = np.stack([one.round_trips for one in chains])
    moves = visits, np.stack([one.accepted for one in chains])
    dataset = _of_levels(variables, ladder, curve, history, moves, trips, n_draws)
    return dataset.assign_attrs(n_draws=n_draws)


def _of_levels(
    variables: Mapping[str, Any],
    ladder: Ladder,
    curve: LogZCurve,
    history: Sequence[Round],
    moves: tuple[np.ndarray, np.ndarray],
    trips: np.ndarray,
    n_draws: int,
) -> xr.Dataset:
    """Variables, and what there is of each level whatever is kept of the draws.

    ``moves`` are the visits of each level and the sums of their acceptance probabilities, shape
    (chains, K), and ``trips`` the round trips of each walker, shape (chains, W).
    """
    visits, accepted = moves
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
    if history:
        for name in ("log_z_hat", "share", "visits"):
            values = np.stack([getattr(one, name) for one in history])
            more[f"round_{name}"] = (("round", "stage"), values)
        more["round_length"] = ("round", np.array([one.length for one in history]))
    coords = {name: np.arange(n) for name, n in zip(("chain", "walker"), trips.shape, strict=True)}
    coords |= {"stage": np.arange(ladder.n_levels)}
    dataset = xr.Dataset({**variables, **more}, {**coords, "beta": ("stage", ladder.betas)})
    return with_units(dataset)


def tempered_draws_dataset(
    arrays: Mapping[str, np.ndarray],
    log_weight: np.ndarray,
    draw: np.ndarray,
    *,
    coords: Mapping[str, Any],
    dims: Any,
) -> xr.Dataset:
    """Group ``tempered_posterior``: draws of all levels with their weights for the target.

    ``arrays`` are named values, shape (chains, walkers, draws, ...), ``log_weight`` those of the
    draws kept, and ``draw`` their index; ``coords`` and ``dims`` are labels of the model.
    """
    with warnings.catch_warnings():
        # more chains than draws are as they should be here
        warnings.filterwarnings("ignore", "Found chain dimension to be longer", UserWarning)
        dataset = dataset_of(
            {**arrays, "log_weight": log_weight},
            coords={**coords, "draw": draw},
            dims=dims,
            sample_dims=["chain", "walker", "draw"],
        )
    return with_units(dataset)
