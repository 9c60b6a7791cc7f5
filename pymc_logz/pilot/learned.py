"""A reference fitted to the rows that a pilot carried from the prior; taken if it covers them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pymc_logz.models.flat import model_data
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.clusters import MAX_COMPONENTS, Clusters, best_tails, fitted_clusters
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.funnels import Funnel
from pymc_logz.paths.mixture import Mixture
from pymc_logz.pilot.checks import lost_part
from pymc_logz.pilot.modes import MAX_DIMS, Mode, modes_of
from pymc_logz.pilot.population import ISLANDS, Stages, TargetRows
from pymc_logz.pilot.reference import (
    MAX_SHARE_ERROR,
    Reference,
    components_in_words,
    widened,
    with_prior,
)
from pymc_logz.runners.anneal import Annealed
from pymc_logz.runners.block import Block
from pymc_logz.runners.climb import climbed
from pymc_logz.weights import log_mean, relative, weight_ess

ROWS_PER_DIMENSION = 8
"""Rows of the pilot to fit to, for each dimension."""
TARGET_ROWS = (512, 4096)
"""Fewest and most of these rows."""
LOOK_WORTH = 0.5
"""Share of a further look at a population, one block of moves later, that is new."""
WELL_COVERED = 0.2
"""Effective share of the rows up to which further components are tried."""
NEGLIGIBLE = 0.01
"""Share of the rows that a fit may miss: as much of the posterior is worth 0.01 nats."""
GIVE_UP = 2
"""Further components in a row that cover no more of the rows, after which no more are tried."""
COVERED = 0.01
"""Effective share of the rows, weighted between fit and target, below which a fit is refused: a
removed mode leaves 0.002 and less, the worst of the fits that have all modes 0.03."""
HEAVY = 3.0
"""Weight of a row, where the mean is one, from which on a mixture has too little density there."""
LOST = 0.1
"""Share of the posterior about which pilot and trial rows may disagree: the pilot's rows are few,
and relatives."""
LOG_Z_DISTANCE = 4.0
"""Standard errors between the pilot's log Z and that of trial rows beyond which the fit is
refused."""
LOG_Z_SLACK = (0.3, 0.1)
"""Nats to be added to that, and for each stage, on which a pilot does not wait for rows to forget
all of the one before: on a regression with 50 coefficients and 31 stages it is off by 2."""


LEAST_SHARE, SMALL_SHARE, MOST_SHARE = 0.002, 0.02, 0.5
"""Share of Z from which on a mode counts, and bounds of that of its component."""
N_CLIMB, NUMBERS = (512, 4096), 2**17
"""Fewest and most rows of the prior that climb, and data times rows where there are more data: of a
basin with a hundredth of the prior 512 miss one time in 170, 4,096 a thousandth one in sixty."""
LACKS, LACKS_PER_DIMENSION = 1.5, 0.2
"""Nats by which a density may be too low at the end of a climb: fits are wider than targets."""
SHARE_ROWS, ENOUGH, LEAST_PART = 512, 50.0, 4.0
"""Rows by which shares are measured, the effective number of them that it takes, and factor by
which a share may fall."""
MODE_ROWS, LARGE = 256, 20.0
"""Rows by which the mass of a mode is measured, and bound of the log of a share."""


def n_climbing(prepared: Prepared) -> int:
    """Rows of the prior that climb to the modes of a model: fewer, the more data it has."""
    n_data = sum(np.size(data) for data in model_data(prepared.flat)[0].values())
    return int(np.clip(NUMBERS // (n_data + prepared.n_dims), *N_CLIMB))


def n_target_rows(n_dims: int) -> int:
    """Rows that a fit in d dimensions is made of."""
    return int(np.clip(ROWS_PER_DIMENSION * n_dims, *TARGET_ROWS))


def learned_reference(
    prepared: Prepared,
    stages: Stages,
    rng: np.random.Generator,
    *,
    funnel: Funnel | None = None,
    mode: Elliptical | None = None,
    walked: Block | None = None,
) -> Reference:
    """Mixture fitted to a pilot's rows at beta = 1, with a share of the prior; or the prior.

    Parameters
    ----------
    prepared
        The model.
    stages
        A pilot that started from the prior, with rows.
    rng
        Generator of the fit.
    funnel
        What these rows are evened out by.
    mode
        What to take in place of a fit to the rows, if it covers them.
    walked
        Moves in the coordinates of the pilot, by which rows of the prior climb to modes that the
        fit lacks; None looks for none.
    """
    rows = stages.rows
    assert rows is not None
    _, judges = apart(stages)
    log_mass, error = prepared.prior.log_share(rng)
    if error > MAX_SHARE_ERROR:
        reason = (
            f"a transform restricts the prior, whose constant is known to {error:.2g} nats only "
            "from anywhere else"
        )
        return Reference("prior", reason, funnel=funnel)
    best, covered, worse = None, -np.inf, 0
    at_mode = [] if mode is None else [Clusters((mode,), np.ones(1), np.nan)]
    for i, fit in enumerate(at_mode or candidates(stages, rng)):
        mixture = fit and with_prior(prepared, fit, log_mass, funnel)
        share = 0.0
        if mixture is not None and left_to_prior(mixture, rows) <= NEGLIGIBLE:
            share = covered_share(mixture, judges)
        if share > covered:
            best, covered, worse = mixture, share, 0
        elif i:
            worse += 1
        if covered > WELL_COVERED or worse == GIVE_UP:
            break
    assert best is not None
    n_modes = 0
    if walked is not None:
        scale = rows.position.std(axis=0)
        start = walked.path.sample_reference(rng, n_climbing(prepared))
        best, n_modes = with_modes(best, walked, start, islands_log_z(stages)[0], scale, rng)
        best = with_shares(best, walked, rng)
    shape = " evened out by a funnel" if funnel else ""
    origin = "with the curvature at the mode" if mode else f"fitted to {len(rows.position)} rows"
    origin += f" and {n_modes} modes that rows climbed to" * bool(n_modes)
    what = f"{components_in_words(len(best.components))} {origin}{shape}"
    if covered < COVERED:
        reason = f"{what} cover the pilot's rows with an effective share of {covered:.1g} only"
        return Reference("prior", reason, funnel=funnel, poor_fit=mode is None)
    reason = f"{what} cover the pilot's rows with an effective share of {covered:.2f}"
    taken = "learned" if mode is None else "laplace"
    return Reference(taken, reason, best, error, funnel, covered=covered)


def with_modes(
    mixture: Mixture,
    block: Block,
    start: np.ndarray,
    log_z: float,
    scale: np.ndarray,
    rng: np.random.Generator,
) -> tuple[Mixture, int]:
    """A mixture with the modes that it lacks, in shares of their mass, and how many there are.

    Rows of the prior climb, and those whose ends it has too little density for are followed. The
    mass around a component k of share s_k and density q_k is the mean of s_k f / q over its draws,
    where q is the whole mixture.

    Parameters
    ----------
    mixture
        A fit to rows.
    block
        Moves in its coordinates, from the prior.
    start
        Rows of the prior that climb, shape (n, d).
    log_z
        Log Z by these rows.
    scale
        Standard deviations of these rows, shape (d,).
    rng
        Generator of rows that measure a mass.
    """
    if not block.kernel.needs_gradient or block.path.n_dims > MAX_DIMS:
        return mixture, 0
    ends, height = climbed(block, start, scale)
    log_prior = block.densities(ends)[0]
    too_low = height - log_z - mixture.log_density_of(ends, log_prior)
    lacking = np.isfinite(height) & (too_low > LACKS + LACKS_PER_DIMENSION * ends.shape[1])
    if not lacking.any():
        return mixture, 0
    modes = modes_of(block, ends[lacking], height[lacking], scale)
    modes = [one for one in modes if one.log_mass > log_z + np.log(LEAST_SHARE)]
    if not modes:
        return mixture, 0
    own = np.array([min(np.exp(one.log_mass - log_z), MOST_SHARE) for one in modes])
    trial = _joined(mixture, modes, own)
    rows = np.concatenate([one.component(rng, MODE_ROWS) for one in modes])
    log_prior, log_ratio = block.densities(rows)
    with np.errstate(invalid="ignore"):
        log_weight = log_prior + log_ratio - log_z - trial.log_density_of(rows, log_prior)
    log_weight = np.where(np.isnan(log_weight), -np.inf, log_weight).reshape(len(modes), -1)
    log_share = np.array([log_mean(part) for part in log_weight])
    share = trial.shares[-len(modes) :] * np.exp(np.minimum(log_share, LARGE))
    kept = share > LEAST_SHARE
    if not kept.any():
        return mixture, 0
    chosen = [one for one, keep in zip(modes, kept, strict=True) if keep]
    return _joined(mixture, chosen, np.clip(share[kept], SMALL_SHARE, MOST_SHARE)), len(chosen)


def with_shares(mixture: Mixture, block: Block, rng: np.random.Generator) -> Mixture:
    """A mixture whose components have the shares that weighted draws of it give them.

    Rows of a pilot are relatives, and have too few or too many of a mode. No share falls to less
    than a part of what it was, as weights may not tell it well.

    References
    ----------
    Cappe, Douc, Guillin, Marin & Robert (2008), Adaptive importance sampling in general mixture
    classes, doi 10.1007/s11222-008-9059-x.
    """
    if len(mixture.components) == 1:
        return mixture
    rows = mixture(rng, SHARE_ROWS)
    log_prior, log_ratio = block.densities(rows)
    log_q = mixture.log_density_of(rows, log_prior)
    with np.errstate(invalid="ignore"):
        log_weight = log_prior + log_ratio - log_q
    log_weight = np.where(np.isnan(log_weight), -np.inf, log_weight)
    if float(weight_ess(log_weight)) < ENOUGH:
        return mixture
    pairs = zip(mixture.components, mixture.shares, strict=True)
    belongs = [np.exp(one.log_density_of(rows) + np.log(share) - log_q) for one, share in pairs]
    mass = np.array(belongs) @ relative(log_weight)
    of_components = 1 - mixture.prior_share
    shares = np.maximum(mass / mass.sum() * of_components, mixture.shares / LEAST_PART)
    return replace(mixture, shares=shares / shares.sum() * of_components)


def _joined(mixture: Mixture, modes: Sequence[Mode], own: np.ndarray) -> Mixture:
    """A mixture with components at modes in these shares, beside 1 for those that it has."""
    of_components = 1 - mixture.prior_share
    shares = np.append(mixture.shares / of_components, own)
    components = (*mixture.components, *(one.component for one in modes))
    return replace(mixture, components=components, shares=shares / shares.sum() * of_components)


def mode_or_rows(
    prepared: Prepared, stages: Stages, mode: Elliptical, rng: np.random.Generator
) -> Reference:
    """The curvature at the mode if it covers a pilot's rows, else what is fitted to them."""
    of_mode = learned_reference(prepared, stages, rng, mode=mode)
    if of_mode.mixture is not None:
        return of_mode
    of_rows = learned_reference(prepared, stages, rng)
    return replace(of_rows, reason=f"{of_mode.reason}; {of_rows.reason}")


def candidates(stages: Stages, rng: np.random.Generator) -> Iterator[Clusters | None]:
    """Fits to a pilot's rows: the best by its criterion, and those with more components."""
    assert stages.end is not None
    fitted, _ = apart(stages)
    rows = fitted.position
    n_looks = len(rows) * ISLANDS / (ISLANDS - 1) / len(stages.end)
    n_effective = len(rows) / n_looks * (1 + LOOK_WORTH * (n_looks - 1))
    best = fitted_clusters(rows, n_effective, rng)
    yield widened(best)
    for k in range(len(best.components) + 1, MAX_COMPONENTS + 1):
        yield widened(best_tails(rows, k, n_effective, rng))


def apart(stages: Stages) -> tuple[TargetRows, TargetRows]:
    """Rows of a pilot that a reference is fitted to, and those of an island that judge it.

    Islands are resampled apart, so the judges are no relatives of the rows that were fitted. Rows
    that were would call any fit good that has a component for each cluster of copies.
    """
    rows = stages.rows
    assert rows is not None
    assert stages.end is not None
    n = len(stages.end)
    island = np.arange(len(rows.position)) % n // max(1, n // ISLANDS)
    judge = island == ISLANDS - 1
    fitted, judges = (TargetRows(*(part[keep] for part in rows)) for keep in (~judge, judge))
    return fitted, judges


def covered_share(mixture: Mixture, rows: TargetRows) -> float:
    """Effective share of rows of the target that are weighted between it and a mixture.

    It is 1 where the two densities are proportional, and 0 where the mixture has no component for
    some of the rows. The few that it misses most count no more than the next ones.
    """
    log_target = rows.log_reference + rows.log_ratio
    excess = log_target - mixture.log_density_of(rows.position, rows.log_reference)
    excess = excess[np.isfinite(excess)]
    if not excess.size:
        return 0.0
    excess = np.minimum(excess, np.quantile(excess, 1 - NEGLIGIBLE))
    return float(np.exp(-log_mean(excess) - log_mean(-excess)))


def left_to_prior(mixture: Mixture, rows: TargetRows) -> float:
    """Share of rows of the target to which a mixture brings but its share of the prior.

    There the prior has most of the mixture's density, and the target several times as much, so that
    hardly a row of a run starts there. A mode with a tenth of the posterior that is missing may
    leave as high an effective share as a fit in many dimensions that has all of them.
    """
    log_density = mixture.log_density_of(rows.position, rows.log_reference)
    log_prior = rows.log_reference - mixture.log_prior_mass + np.log(mixture.prior_share)
    log_weight = rows.log_reference + rows.log_ratio - log_density
    alive = np.isfinite(log_weight)
    if not alive.any():
        return 1.0
    # the mean weight of rows from the mixture would be one
    log_weight += log_mean(-log_weight[alive])
    left = (log_prior - log_density > np.log(0.5)) & (log_weight > np.log(HEAVY))
    return float(np.mean(left[alive]))


def objection(stages: Stages, trial: Annealed) -> str | None:
    """What speaks against a reference: that trial rows from it end elsewhere than the pilot's.

    Parameters
    ----------
    stages
        The pilot, from the prior.
    trial
        Fresh rows, annealed from the reference.
    """
    lost = lost_part(stages, trial)
    if lost > LOST:
        return f"trial rows from it disagree with the pilot about {lost:.0%} of the posterior"
    n = trial.log_weight.size
    effective = max(float(weight_ess(trial.log_weight)), 1.0)
    trial_error = np.sqrt(max(n / effective - 1, 0.0) / n)
    return too_far(stages, log_mean(trial.log_weight), float(trial_error))


def too_far(stages: Stages, log_z: float, error: float) -> str | None:
    """What speaks against a log Z: that the pilot has another one.

    Parameters
    ----------
    stages
        The pilot, from the prior.
    log_z, error
        From a reference, in nats.
    """
    apart = nats_above(stages, log_z, error)
    if apart is not None:
        return f"log Z of trial rows from it is {abs(apart):.2f} nats away from the pilot's"
    return None


def falls_short(stages: Stages, log_z: float, error: float) -> str | None:
    """What speaks against a reference: that the pilot found more than one which starts there.

    Parameters
    ----------
    stages
        The pilot, from the prior.
    log_z, error
        Of rows from the reference, in nats.
    """
    apart = nats_above(stages, log_z, error)
    if apart is not None and apart > 0:
        return f"log Z of rows from it is {apart:.2f} nats below the pilot's"
    return None


def finds_more(stages: Stages, log_z: float, error: float) -> bool:
    """Whether rows from a reference found more than the pilot from the prior, beyond chance."""
    apart = nats_above(stages, log_z, error)
    return apart is not None and apart < 0


def nats_above(stages: Stages, log_z: float, error: float) -> float | None:
    """How far the log Z of a pilot is above another one; None if that may be chance."""
    pilot, pilot_error = islands_log_z(stages)
    apart = pilot - log_z
    slack = LOG_Z_SLACK[0] + LOG_Z_SLACK[1] * (stages.betas.size - 1)
    return apart if abs(apart) > LOG_Z_DISTANCE * np.hypot(pilot_error, error) + slack else None


def islands_log_z(stages: Stages) -> tuple[float, float]:
    """Log Z of a pilot's islands together, and its error, in nats."""
    assert stages.log_z is not None
    island = relative(stages.log_z)
    error = island.std(ddof=1) / island.mean() / np.sqrt(island.size) if island.size > 1 else np.inf
    return log_mean(stages.log_z), float(error)
