"""Whether chains are draws of one distribution, that of the model; the sentence of a result."""

import os
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, cast

import numpy as np
import xarray as xr

from pymc_logz.errors import logger, warn
from pymc_logz.models.flat import FlatModel
from pymc_logz.trees.doubts import Doubt
from pymc_logz.trees.kinds import HAIS, HAIS_BOTH, TEMPERED, kind_of
from pymc_logz.trees.layout import ESTIMATOR, SAMPLES, in_time

MIN_DRAWS_PER_CHAIN = 16
"""By judgement: fewer say nothing of the autocorrelation of a chain."""


def check_chains(
    rows: np.ndarray, on_boundary: np.ndarray, flat: FlatModel, resolution: np.ndarray | float = 0.0
) -> list[Doubt]:
    """What chains (chains, draws, d) say against each other; warns of draws that repeat.

    Raises
    ------
    ValueError
        If a chain is a copy of another one.
    """
    if n_copies := len(rows) - len({chain.tobytes() for chain in rows}):
        raise ValueError(
            f"{n_copies} of {len(rows)} chains have the same draws as another one, and would count "
            "as chains of their own: pass each chain once, and sample with another random_seed "
            "each time"
        )
    values = np.where(on_boundary[..., None], np.nan, rows)
    rhat = split_rhat(values)
    rhat[np.nanstd(values, axis=(0, 1)) <= resolution] = np.nan
    worst = int(np.nanargmax(np.where(np.isnan(rhat), 0.0, rhat)))
    doubts = []
    # well above what chains of one posterior show by chance, of which short ones show more
    if rhat[worst] > max(1.05, 1.0 + 10.0 / rows.shape[1]):
        reason = (
            f"the chains do not agree (R-hat {rhat[worst]:.2f} for "
            f"{flat.owners[worst]!r} on the unconstrained scale)"
        )
        doubts.append(Doubt("chains_disagree", reason))
    every = rows.reshape(-1, rows.shape[-1])
    # a chain that rejects repeats its neighbours only, which do not count
    apart = every[np.append(True, np.any(every[1:] != every[:-1], axis=1))]
    repeated = 1.0 - len(np.unique(apart, axis=0)) / len(apart)
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


def check_possible(log_target: np.ndarray) -> None:
    """A ValueError if draws have log densities that are not finite, as those of another model."""
    impossible = np.count_nonzero(~np.isfinite(log_target))
    if impossible:
        raise ValueError(
            f"the model's log density is not finite at {impossible} of {log_target.size} posterior "
            "draws: they belong to another model or other data, or the density overflows in single "
            "precision"
        )


def check_stored_density(
    tree: xr.DataTree,
    log_target: np.ndarray,
    log_turns: np.ndarray,
    again: Callable[[], np.ndarray] | None = None,
) -> None:
    """A ValueError if the log density that a sampler stored is not this one, but for a constant.

    That of PyMC's own samplers lacks ``log_turns``, of `FlatModel`. With ``again``, which computes
    it anew, the constant counts too, and noise is allowed for.
    """
    stats = in_time(tree["sample_stats"].to_dataset()) if "sample_stats" in tree.children else {}
    found = (stats[name] for name in ("lp", "logp") if name in stats)
    density = next((one for one in found if set(one.dims) == set(SAMPLES)), None)
    if density is None:
        return
    stored = density.transpose(*SAMPLES).to_numpy().astype(float)
    if stored.shape != log_target.shape:
        return
    known = np.isfinite(stored) & ~np.isnan(log_target)
    stored, own, turns = stored[known], log_target[known], log_turns[known]
    check_possible(own)
    if stored.size and (stored - own + turns).std() < (stored - own).std():
        own = own - turns
    if again is None and (
        stored.size < MIN_DRAWS_PER_CHAIN or np.corrcoef(stored, own)[0, 1] < -0.99
    ):
        return  # some samplers store the potential energy
    if not stored.size:
        return
    apart, most = (stored - own).std(), 0.01 + 1e-3 * own.std()
    if again is not None:
        apart, most = np.sqrt(np.mean((stored - own) ** 2)), most + 1e-6 * np.abs(own).mean()
        if apart > most:  # draws of a noisy density are where it was high
            noise = np.sqrt(np.mean((again()[known] - own) ** 2))
            most += 4.0 * noise + noise**2
    if not apart <= most:
        raise ValueError(
            "the log density that was stored with the draws ('lp') is not the model's: there they "
            f"differ by {apart:.3g} nats. The posterior is of another model, the "
            "priors or data have changed since, or a variable was transformed afterwards (Bambi "
            "moves the intercept unless center_predictors=False)"
        )


def check_start_of_chains(log_target: np.ndarray) -> None:
    """Warn if log densities (chains, draws) begin far below where they end, as during warm-up."""
    n_first = max(1, log_target.shape[1] // 20)
    settled = log_target[:, log_target.shape[1] // 2 :]
    low, high = np.quantile(settled, [0.01, 0.99])
    depth = low - 2.0 * (high - low)
    lowest = log_target[:, :n_first].min()
    if lowest < min(depth, settled.min()):
        warn(
            f"the first draws have a log density of {lowest:.4g}, far below the second half of the "
            f"chains ({low:.4g} to {high:.4g}): warm-up may have been left in. These draws "
            "affect only the proposal, so the error is larger"
        )


STARTS = {
    "prior": "the prior",
    "learned": "a learned reference",
    "laplace": "a Laplace fit",
    "nested_laplace": "nested Laplace approximations",
}
_is_inside: ContextVar[bool] = ContextVar("is_inside", default=False)


def says_result[**P](function: Callable[P, xr.DataTree]) -> Callable[P, xr.DataTree]:
    """Decorator of what users call: at its end the result is logged, but for calls inside calls."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> xr.DataTree:
        if _is_inside.get():
            return function(*args, **kwargs)
        start, token = time.perf_counter(), _is_inside.set(True)
        try:
            tree = function(*args, **kwargs)
        except KeyboardInterrupt as interrupt:
            if interrupt.args:  # what was going on is said already
                raise
            path = cast("Any", kwargs.get("checkpoint"))
            kept = f". {progress_in(path)}" if path is not None and os.path.exists(path) else ""
            raise KeyboardInterrupt(f"interrupted before there was a result{kept}") from None
        finally:
            _is_inside.reset(token)
        logger.info("%s", result_sentence(tree, time.perf_counter() - start))
        return tree

    return wrapped


def progress_in(path: str | os.PathLike) -> str:
    """What a checkpoint has saved, in a sentence."""
    return f"The progress is in {os.fspath(path)!r}: the same call resumes from it."


def result_sentence(tree: xr.DataTree, seconds: float) -> str:
    """What a call came to, the seconds that it took, and of how much it was made."""
    group = tree["evidence"].to_dataset()
    entry = group.isel({ESTIMATOR: 0}) if ESTIMATOR in group.dims else group
    took = f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
    if entry["log_z"].ndim:
        return f"log Z of each {entry['log_z'].dims[0]}, {took}"
    status = str(entry["status"].item())
    made_of = _made_of(tree, str(entry[ESTIMATOR].item()))
    return f"{_number(float(entry['log_z']), float(entry['mcse']))} ({status}), {took}; {made_of}"


def _number(log_z: float, mcse: float) -> str:
    """Log Z to the digit that its error is known to."""
    if not np.isfinite(log_z):
        return "no log Z"
    if not mcse > 0:
        return f"log Z {log_z:.4f}"
    decimals = int(np.clip(np.ceil(-np.log10(mcse)), 0, 6))
    return f"log Z {log_z:.{decimals}f} ± {mcse:.{decimals}f}"


def _made_of(tree: xr.DataTree, estimator: str) -> str:
    """Rows, temperatures and reference of a run along a path; draws and method of all others."""
    attrs, kind = tree["evidence"].attrs, kind_of(tree)
    if kind in (HAIS, HAIS_BOTH) and "weighted_posterior" in tree.children:
        size = _size(tree["weighted_posterior"].to_dataset())
        n = int(attrs["n_temperatures"])
        reference = str(attrs.get("reference", "prior"))
        of = STARTS.get(reference, f"reference {reference!r}")
        if n == 1:
            return f"{size} particles; importance sampling from {of}"
        return f"{size} particles, {n} temperatures from {of}"
    size = _size(tree["posterior"].to_dataset()) if "posterior" in tree.children else ""
    if kind == TEMPERED:
        n = tree["tempering"].sizes["stage"] if "tempering" in tree.children else 0
        return f"{size} draws, tempered over {n} temperatures"
    return f"{estimator} of {size} draws" if size else estimator


def _size(draws: xr.Dataset) -> str:
    """Chains and draws of each."""
    return f"{draws.sizes['chain']} x {draws.sizes['draw']}"
