"""Whether the chains of a posterior are draws of one distribution, and of that of the model."""

import numpy as np
import xarray as xr

from pymc_logz.errors import warn
from pymc_logz.models.flat import FlatModel
from pymc_logz.models.labels import variable_of
from pymc_logz.trees.alignment import SAMPLES, in_time
from pymc_logz.trees.doubts import Doubt

MIN_DRAWS_PER_CHAIN = 16
"""By judgement: fewer say nothing of the autocorrelation of a chain."""


def check_chains(
    rows: np.ndarray, on_boundary: np.ndarray, flat: FlatModel, resolution: np.ndarray | float = 0.0
) -> list[Doubt]:
    """What chains say against each other; a warning if draws repeat as resampling does.

    Parameters
    ----------
    rows
        Unconstrained draws, shape (chains, draws, d).
    on_boundary
        Those that are infinite, shape (chains, draws).
    flat
        The model.
    resolution
        Standard deviation of a dimension, shape (d,), up to which all its draws count as equal.
    """
    values = np.where(on_boundary[..., None], np.nan, rows)
    rhat = split_rhat(values)
    rhat[np.nanstd(values, axis=(0, 1)) <= resolution] = np.nan
    worst = int(np.nanargmax(np.where(np.isnan(rhat), 0.0, rhat)))
    doubts = []
    # well above what chains of one posterior show by chance, of which short ones show more
    if rhat[worst] > max(1.05, 1.0 + 10.0 / rows.shape[1]):
        reason = (
            f"the chains do not agree (R-hat {rhat[worst]:.2f} for "
            f"{variable_of(flat, worst)!r} on the unconstrained scale)"
        )
        doubts.append(Doubt("chains_disagree", reason))
    repeated = _repeated_share(rows.reshape(-1, rows.shape[-1]))
    # a chain that rejects repeats its neighbours only, which do not count
    if repeated > 0.05:
        warn(
            f"{repeated:.0%} of the draws repeat an earlier one that is not their neighbour, as "
            "resampling does: the error of log Z takes them for draws of their own, and is too "
            "small. Pass the draws as the sampler made them"
        )
    return doubts


def split_rhat(rows: np.ndarray) -> np.ndarray:
    """Split R-hat of each dimension of (chains, draws, d), without ranks; shape (d,)."""
    half = rows.shape[1] // 2
    parts = np.concatenate([rows[:, :half], rows[:, -half:]])
    within = np.nanvar(parts, axis=1, ddof=1).mean(axis=0)
    between = np.nanmean(parts, axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((half - 1) / half + between / within)


def _repeated_share(rows: np.ndarray) -> float:
    """Share of rows equal to another one that is not next to it."""
    moved = np.append(True, np.any(rows[1:] != rows[:-1], axis=1))
    stretches = rows[moved]
    return 1.0 - len(np.unique(stretches, axis=0)) / len(stretches)


def check_stored_density(tree: xr.DataTree, log_target: np.ndarray) -> None:
    """Compare the log density that a sampler stored with the model's own at the same draws.

    Parameters
    ----------
    tree
        The tree.
    log_target
        The model's own, shape (chains, draws).

    Raises
    ------
    ValueError
        If they differ by more than a constant.
    """
    stored = _stored_density(tree, log_target.shape)
    if stored is None:
        return
    finite = np.isfinite(stored) & np.isfinite(log_target)
    stored, own = stored[finite], log_target[finite]
    if stored.size < MIN_DRAWS_PER_CHAIN or np.corrcoef(stored, own)[0, 1] < -0.99:
        return  # some samplers store the potential energy
    spread = (stored - own).std()
    if spread > 0.01 + 1e-3 * own.std():
        raise ValueError(
            "the log density in sample_stats['lp'] is not the model's: at the same draws they "
            f"differ by {spread:.3g} (standard deviation). The posterior is of another model, the "
            "priors or data have changed since, or a variable was transformed afterwards (Bambi "
            "moves the intercept unless center_predictors=False)"
        )


def _stored_density(tree: xr.DataTree, shape: tuple[int, ...]) -> np.ndarray | None:
    if "sample_stats" not in tree.children:
        return None
    stats = in_time(tree["sample_stats"].to_dataset())
    for name in ("lp", "logp"):
        if name in stats and set(stats[name].dims) == set(SAMPLES):
            stored = stats[name].transpose(*SAMPLES).to_numpy().astype(float)
            return stored if stored.shape == shape else None
    return None


def check_start_of_chains(log_target: np.ndarray) -> None:
    """Warn if chains begin far below where they end, as they do during warm-up.

    Parameters
    ----------
    log_target
        Log density of the draws, shape (chains, draws).
    """
    n_first = max(1, log_target.shape[1] // 20)
    settled = log_target[:, log_target.shape[1] // 2 :]
    low, high = np.quantile(settled, [0.01, 0.99])
    depth = low - 2.0 * (high - low)
    lowest = log_target[:, :n_first].min()
    if lowest < min(depth, settled.min()):
        warn(
            f"the first draws have a log density of {lowest:.4g}, far below the second half of the "
            f"chains ({low:.4g} to {high:.4g}): warm-up may have been left in. They go into the "
            "proposal only, which costs precision"
        )
