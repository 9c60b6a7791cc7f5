"""What the chains of a tempered run say: log Z of its levels, draws of the target, and doubts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import xarray as xr

from pymc_logz.errors import warn
from pymc_logz.estimators.curve import LogZCurve
from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.estimators.multistate import mbar
from pymc_logz.estimators.tempering import rao_blackwell_log_weight, rts
from pymc_logz.loop.stored_plans import Subject
from pymc_logz.runners.temper import Walk
from pymc_logz.seeds import spawn_generators
from pymc_logz.tempered.chains import Frozen
from pymc_logz.tempered.results import (
    draws_of,
    sums_dataset,
    tempered_draws_dataset,
    tempering_dataset,
)
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.tempered.sums import SummedChains
from pymc_logz.tempered.warm_up import Ladder
from pymc_logz.trees.doubts import warn_of_status
from pymc_logz.trees.layout import dataset_of, with_units
from pymc_logz.weights import resampled

Chains = Sequence[Walk] | SummedChains
"""What walkers of each chain did, or sums of it."""


class Measured(NamedTuple):
    """What the chains of a run say of its levels."""

    curve: LogZCurve
    tempering: xr.Dataset
    """Group of that name."""
    walks: Sequence[Walk]
    """None of a run of sums, as the draws."""
    draws: TemperedDraws | None


def measured(frozen: Frozen, chains: Chains, settings: TemperedSettings) -> Measured:
    """Log Z at every level, after a warning of what speaks against it."""
    rounds, ladder = frozen.rounds, frozen.ladder
    if isinstance(chains, SummedChains):
        curve = chains.curve(ladder)
        tempering = sums_dataset(chains, rounds, curve)
        warn_of_run(tempering, curve, sum(one.n_lost for one in chains.parts))
        return Measured(curve, tempering, (), None)
    draws = draws_of(ladder, chains)
    # swaps hold one walker at each level, whatever the constants
    curve = rts(draws) if settings.exchange == "gibbs" else mbar(draws)
    if settings.exchange == "swap" and curve.usable:
        rounds = rounds._replace(ladder=replace(ladder, log_z_hat=curve.log_z))
        draws = replace(draws, log_z_hat=curve.log_z)
    tempering = tempering_dataset(chains, rounds, draws, curve)
    lost = sum(int((np.isneginf(one.log_ratio) & (one.level > 0)).sum()) for one in chains)
    warn_of_run(tempering, curve, lost)
    return Measured(curve, tempering, chains, draws)


def curve_of(ladder: Ladder, chains: Chains) -> LogZCurve:
    """Log Z of the levels by `rts`."""
    if isinstance(chains, SummedChains):
        return chains.curve(ladder)
    return rts(draws_of(ladder, chains))


def at_the_end(chains: Chains) -> np.ndarray:
    """Positions that were kept at beta = 1, shape (n, d)."""
    if isinstance(chains, SummedChains):
        return np.concatenate([one.top for one in chains.parts])
    found, top = [], max(int(one.level.max()) for one in chains)
    for one in chains:
        every = one.level.shape[0] // one.position.shape[0]
        level = one.level[every - 1 :: every][: len(one.position)]
        found.append(one.position[level == top])
    return np.concatenate(found)


def posterior_datasets(
    subject: Subject, found: Measured, settings: TemperedSettings, rng: np.random.Generator
) -> dict[str, xr.Dataset]:
    """Groups ``posterior``, ``sample_stats`` and ``tempered_posterior``; none of a run of sums."""
    # the posterior's draws are of all levels, resampled by the probability of beta = 1 given the
    # position, in the order of walkers and of time, so that ArviZ sees their autocorrelation
    if found.draws is None:
        return {}
    walks, draws = found.walks, found.draws
    n_chains, n_kept = len(walks), walks[0].position.shape[0]
    n_draws = walks[0].level.shape[0]
    every = n_draws // n_kept
    kept = np.arange(1, n_kept + 1) * every - 1
    log_weight = rao_blackwell_log_weight(draws).reshape(n_chains, -1, n_draws)[..., kept]
    generators = spawn_generators(rng, settings.chains)
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
    thin = min(max(1, round(settings.thin / every)), n_kept)
    thinned = np.stack([position[:, thin - 1 :: thin] for position in positions])
    stats = {name: of_chosen(arrays) for name, arrays in at_kept.items()}
    return {
        "posterior": dataset_of(subject.named(of_chosen(positions)), **subject.labels),
        "sample_stats": with_units(dataset_of(stats)),
        "tempered_posterior": tempered_draws_dataset(
            subject.named(thinned),
            log_weight[..., thin - 1 :: thin],
            kept[thin - 1 :: thin],
            **subject.labels,
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
    n_nan = int(tempering["n_nan_log_ratio"].sum())
    if n_nan:
        warn(
            f"the log likelihood plus potentials was NaN {n_nan} times during tempering, and "
            "counted as a likelihood of zero"
        )
    if n_lost:
        warn(
            f"{n_lost} draws were made by walkers that had not found the support of the likelihood "
            "yet, and count as draws of the prior; use a larger tune"
        )
