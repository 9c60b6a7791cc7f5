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
from pymc_logz.tempered.warm_up import Ladder, Round, level_share
from pymc_logz.trees.layout import dataset_of, with_units

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

    Parameters
    ----------
    walks
        One for each chain.
    ladder
        Frozen settings.
    draws
        The draws of all chains.
    curve
        Log Z of the levels.
    history
        Rounds of the warm-up.
    """
    n_chains, n_levels = len(walks), ladder.n_levels
    (n_draws, n_walkers) = walks[0].level.shape
    shape = (n_chains, n_walkers, n_draws)
    ess, rhat = level_mixing(draws)
    trips = round_trips(draws.level, n_levels).reshape(shape[:2])
    per_level = {
        **_by_level(ladder, curve),
        "ess": ess,
        "rhat": rhat,
        # of swaps with the next level, which the last one has not got
        "rejection_rate": np.append(rejection_rates(draws), np.nan),
    }
    per_chain = [_per_level(ladder, walk) for walk in walks]
    dataset = xr.Dataset(
        {
            "level": (("chain", "walker", "draw"), draws.level.reshape(shape)),
            "log_ratio": (("chain", "walker", "draw"), draws.log_ratio.reshape(shape)),
            **{name: ("stage", values) for name, values in per_level.items()},
            **_between_levels(draws, curve),
            **_by_round(history),
            **{
                name: (("chain", "stage"), np.stack([values[name] for values in per_chain]))
                for name in per_chain[0]
            },
            "round_trips": (("chain", "walker"), trips),
            "round_trip_rate": ("chain", trips.mean(axis=1) / n_draws),
            "n_nan_log_ratio": ("chain", np.array([walk.n_nan.sum() for walk in walks])),
        },
        coords={
            **{
                name: np.arange(n)
                for name, n in zip(("chain", "walker", "draw"), shape, strict=True)
            },
            "stage": np.arange(n_levels),
            "beta": ("stage", ladder.betas),
        },
    )
    dataset.attrs["barrier"] = float(np.nansum(per_level["rejection_rate"]))
    return with_units(dataset)


def _by_level(ladder: Ladder, curve: LogZCurve) -> dict[str, Any]:
    """What there is of each level, whatever is kept of the draws."""
    return {
        "log_prior": ladder.log_prior,
        "log_z_hat": ladder.log_z_hat,
        "log_z": curve.log_z,
        "mcse": curve.mcse,
        # of second order, by the delta method: told, not taken off
        "log_z_bias": curve.details.get("bias", np.full(ladder.n_levels, np.nan)),
        "step_size": ladder.step_size,
    }


def sums_dataset(
    summed: SummedChains, ladder: Ladder, curve: LogZCurve, history: Sequence[Round] = ()
) -> xr.Dataset:
    """Group ``tempering`` of a run of which sums are kept; arguments as of `tempering_dataset`."""
    chains = summed.parts
    n_levels, (n_walkers, _, _) = ladder.n_levels, chains[0].levels.share.shape
    n_draws = chains[0].levels.n_draws
    trips = np.stack([one.round_trips for one in chains])
    visits = np.stack([np.asarray(one.levels.visits) for one in chains])
    with np.errstate(invalid="ignore"):
        acceptance = np.stack([one.accepted for one in chains]) / visits
    per_level = {
        **_by_level(ladder, curve),
        "rhat": rhat_of_sums(summed.levels),
    }
    per_chain = {
        "visits": visits,
        "visit_share": visits / (n_walkers * n_draws),
        "occupancy": np.stack([one.levels.mean_share for one in chains]),
        "acceptance_rate": acceptance,
    }
    covariance: dict[str, Any] = {}
    if n_levels <= MAX_MATRIX:
        covariance = {"log_z_covariance": (("stage", "other_stage"), curve.covariance)}
    share_sum = np.stack([one.levels.share.sum(axis=1) for one in chains])
    dataset = xr.Dataset(
        {
            "share_sum": (("chain", "walker", "stage"), share_sum),
            **{name: ("stage", values) for name, values in per_level.items()},
            **{name: (("chain", "stage"), values) for name, values in per_chain.items()},
            **covariance,
            **_by_round(history),
            "round_trips": (("chain", "walker"), trips),
            "round_trip_rate": ("chain", trips.mean(axis=1) / n_draws),
            "n_nan_log_ratio": ("chain", np.array([one.n_nan for one in chains])),
        },
        coords={
            "chain": np.arange(len(chains)),
            "walker": np.arange(n_walkers),
            "stage": np.arange(n_levels),
            "beta": ("stage", ladder.betas),
        },
    )
    dataset.attrs["n_draws"] = n_draws
    return with_units(dataset)


def _between_levels(draws: TemperedDraws, curve: LogZCurve) -> dict[str, Any]:
    """Overlap of the levels, and the covariance of their errors, of ladders that are not long."""
    if draws.n_levels > MAX_MATRIX:
        return {}
    dims = ("stage", "other_stage")
    return {
        "overlap": (dims, level_overlap(draws)),
        "log_z_covariance": (dims, curve.covariance),
    }


def _by_round(history: Sequence[Round]) -> dict[str, Any]:
    """What the rounds of the warm-up came to."""
    if not history:
        return {}
    dims = ("round", "stage")
    return {
        "round_log_z_hat": (dims, np.stack([one.log_z_hat for one in history])),
        "round_share": (dims, np.stack([one.share for one in history])),
        "round_visits": (dims, np.stack([one.visits for one in history])),
        "round_length": ("round", np.array([one.length for one in history])),
    }


def _per_level(ladder: Ladder, walk: Walk) -> dict[str, np.ndarray]:
    """Shares and acceptance of the levels in one chain."""
    level = walk.level.ravel()
    visits = np.bincount(level, minlength=ladder.n_levels)
    accepted = np.bincount(level, walk.acceptance_rate.ravel(), ladder.n_levels)
    with np.errstate(invalid="ignore"):
        rate = accepted / visits
    return {
        "occupancy": level_share(ladder.draws(walk)),
        "visit_share": visits / level.size,
        "acceptance_rate": rate,
    }


def tempered_draws_dataset(
    arrays: Mapping[str, np.ndarray],
    log_weight: np.ndarray,
    draw: np.ndarray,
    *,
    coords: Mapping[str, Any],
    dims: Any,
) -> xr.Dataset:
    """Group ``tempered_posterior``: draws of all levels with their weights for the target.

    Parameters
    ----------
    arrays
        Named values, shape (chains, walkers, draws, ...).
    log_weight
        Shape (chains, walkers, draws).
    draw
        Index of the draws kept.
    coords, dims
        Labels of the model.
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
