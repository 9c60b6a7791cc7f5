"""Every estimator on one stored tempered run, and whether they agree."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from pymc_logz.errors import warn
from pymc_logz.estimators import METHODS, LogZCurve, TemperedDraws, check_agreement
from pymc_logz.estimators.agreement import joint_covariance
from pymc_logz.trees.layout import evidence_dataset

MATERIAL = 0.25
"""Difference between methods that matters, in units of the first one's error."""


def stored_draws(tree: xr.DataTree) -> TemperedDraws:
    """Levels and log ratios of a tempered run as estimators take them, walkers of all chains."""
    return draws_of_group(tree["tempering"].to_dataset())


def draws_of_group(group: xr.Dataset) -> TemperedDraws:
    """Levels and log ratios in a group ``tempering``, as estimators take them."""
    n_draws = group.sizes["draw"]
    return TemperedDraws(
        level=np.asarray(group["level"]).reshape(-1, n_draws),
        log_ratio=np.asarray(group["log_ratio"]).reshape(-1, n_draws),
        betas=np.asarray(group["beta"]),
        log_prior=np.asarray(group["log_prior"]),
        log_z_hat=np.asarray(group["log_z_hat"]),
    )


def walker_group(tree: xr.DataTree) -> xr.Dataset | None:
    """Group ``tempering`` from the statistics of `SimulatedTempering`; None if there are none.

    As in a DataTree of `pymc_logz.sample_tempered`: ``level`` and ``log_ratio`` by chain, walker
    and draw; ``log_prior`` and ``log_z_hat`` by stage, with coordinate ``beta``.
    """
    if "sample_stats" not in tree.children or "walker_level" not in tree["sample_stats"]:
        return None
    stats = tree["sample_stats"].to_dataset()
    dims = ("chain", "walker", "draw")
    first = stats.isel(chain=0, draw=0)
    return xr.Dataset(
        {
            "level": (dims, stats["walker_level"].to_numpy().swapaxes(1, 2)),
            "log_ratio": (dims, stats["walker_log_ratio"].to_numpy().swapaxes(1, 2)),
            "log_prior": ("stage", first["log_prior"].to_numpy()),
            "log_z_hat": ("stage", first["log_z_hat"].to_numpy()),
        },
        coords={"beta": ("stage", first["beta"].to_numpy())},
    )


def check_methods(methods: str | Sequence[str], recommended: str) -> list[str]:
    """Names of the estimators asked for, the recommended one of the run first if it is among them.

    Raises
    ------
    ValueError
        If a name is unknown, or there is none.
    """
    names = (
        list(METHODS) if methods == "all" else [methods] if isinstance(methods, str) else methods
    )
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        raise ValueError(f"methods={methods!r} must be 'all' or among {sorted(METHODS)}")
    return sorted(set(names), key=lambda name: (name != recommended, list(METHODS).index(name)))


def tempered_evidence(tree: xr.DataTree, methods: str | Sequence[str]) -> xr.Dataset:
    """Group ``evidence`` of a tempered run by several methods.

    Along ``method``: log Z at beta = 1 with its error and status; ``log_z_curve`` and
    ``mcse_curve`` at every beta; ``covariance`` of the errors of all methods, which share their
    draws; ``departs``, whether a method is at odds with the others.

    Parameters
    ----------
    tree
        DataTree of `pymc_logz.sample_tempered`.
    methods
        ``"all"``, or names of estimators.

    Warns
    -----
    EvidenceWarning
        If methods do not agree; it names those that depart.
    """
    draws = stored_draws(tree)
    stored = tree["evidence"].to_dataset()
    recommended = str(np.asarray(stored["method"])[0])
    curves = [METHODS[name](draws) for name in check_methods(methods, recommended)]
    dataset = evidence_dataset([curve.estimate for curve in curves], {})
    dataset.attrs = stored.attrs
    names = [curve.method for curve in curves]
    dataset = dataset.assign_coords(
        other_method=names, stage=np.arange(draws.n_levels), beta=("stage", draws.betas)
    )
    dataset["log_z_curve"] = ("method", "stage"), np.stack([curve.log_z for curve in curves])
    dataset["mcse_curve"] = ("method", "stage"), np.stack([curve.mcse for curve in curves])
    dataset["covariance"] = ("method", "other_method"), _covariance(curves)
    dataset["departs"] = "method", np.isin(names, departing_methods(curves))
    return dataset


def _covariance(curves: Sequence[LogZCurve]) -> np.ndarray:
    """Covariance of the errors at beta = 1, NaN for methods without a number, shape (M, M)."""
    usable = np.array([curve.usable for curve in curves])
    covariance = np.full((usable.size, usable.size), np.nan)
    if usable.any():
        chosen = [curve for curve in curves if curve.usable]
        covariance[np.ix_(usable, usable)] = joint_covariance(chosen)
    return covariance


def departing_methods(curves: Sequence[LogZCurve]) -> tuple[str, ...]:
    """Names of the methods at odds with the others, after a warning that names them."""
    usable = [curve for curve in curves if curve.usable]
    if len(usable) < 2:
        return ()
    # methods share their draws, so differences that nobody minds can be significant
    agreement = check_agreement(usable, tolerance=MATERIAL * float(usable[0].mcse[-1]))
    if not agreement.agree:
        warn(
            f"the estimates of this run do not agree: {agreement}. Thermodynamic integration "
            "departs on a coarse ladder, where more levels (betas=<int>) help; if others depart, "
            "use more draws or a larger tune"
        )
    return agreement.departing
