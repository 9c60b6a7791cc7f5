"""Every estimator on one stored tempered run, and whether they agree."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.arguments import listed
from pymc_logz.errors import warn
from pymc_logz.estimators import METHODS, LogZCurve, LogZEstimate, check_agreement
from pymc_logz.estimators.agreement import joint_covariance
from pymc_logz.tempered.results import level_mixing, walker_doubts
from pymc_logz.trees.comparison import evidence_of
from pymc_logz.trees.doubts import STATUSES, Doubt, doubted, noted, stored_doubts, with_doubts
from pymc_logz.trees.layout import (
    ESTIMATOR,
    draws_of_group,
    evidence_dataset,
    stored_draws,
    tempering_of,
    with_evidence,
)

STATUSES_OF_DRAWS = tuple(status for status in STATUSES if status != "disagrees")
"""Statuses that a run has from its draws, whatever the method."""
OFF = ("rule_error", "coarse_ladder", "disagrees", "degenerate")
"""Statuses of methods that are off by more than their error, by other methods on the same draws."""


def check_methods(methods: str | Sequence[str], recommended: str) -> list[str]:
    """Names of the estimators asked for, the recommended one of the run first if among them."""
    names = list(METHODS) if methods == "all" else listed(methods)
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        raise ValueError(f"methods={methods!r} must be 'all' or among {sorted(METHODS)}")
    return sorted(set(names), key=lambda name: (name != recommended, list(METHODS).index(name)))


def of_levels(tree: xr.DataTree, methods: str | Sequence[str] | None) -> xr.DataTree:
    """The tree with log Z from its levels: what the run made of them, or these methods do."""
    levels = tempering_of(tree)
    draws = draws_of_group(levels)
    # swaps do not draw the levels that RTS rests on
    settings = json.loads(tree.attrs.get("settings", "{}"))
    curve = METHODS["mbar" if settings.get("exchange") == "swap" else "rts"](draws)
    estimate: LogZEstimate | None = curve.estimate
    attrs: dict[str, Any] = {}
    if "evidence" in tree.children and "log_z" in levels:
        stored, top = evidence_of(tree), levels.sortby("beta").isel(stage=-1)
        attrs = {str(name): value for name, value in tree["evidence"].attrs.items()}
        # what the error has beside that of the draws: of the constant of the reference
        beside = np.sqrt(max(float(stored["mcse"]) ** 2 - float(top["mcse"]) ** 2, 0.0))
        whole = np.isclose(curve.log_z[-1], float(top["log_z"]), rtol=1e-6, equal_nan=True)
        mcse = float(np.hypot(curve.mcse[-1], beside))
        estimate = None if whole else replace(curve.estimate, mcse=mcse)
    if estimate is not None:  # of a step method's statistics, or of a part of a run
        doubts = walker_doubts(level_mixing(draws)[1])
        if "evidence" in tree.children and "status" in tree["evidence"]:
            doubts += stored_doubts(tree["evidence"].to_dataset(), STATUSES_OF_DRAWS)
        estimates, notes = with_doubts([estimate], doubts)
        tree = with_evidence(tree, evidence_dataset(estimates, {**attrs, **notes}))
        tree["tempering"] = xr.DataTree(levels)
    return tree if methods is None else with_evidence(tree, tempered_evidence(tree, methods))


def tempered_evidence(tree: xr.DataTree, methods: str | Sequence[str]) -> xr.Dataset:
    """Group ``evidence`` of a tempered run by several methods; warns of those that depart."""
    draws = stored_draws(tree)
    stored = tree["evidence"].to_dataset()
    recommended = str(np.asarray(stored[ESTIMATOR])[0])
    curves = [METHODS[name](draws) for name in check_methods(methods, recommended)]
    departing, seen = departing_methods(curves)
    doubts = stored_doubts(stored, STATUSES_OF_DRAWS)
    estimates = _with_disagreement([curve.estimate for curve in curves], departing)
    dataset = evidence_dataset(doubted(estimates, doubts), {})
    dataset.attrs = {**stored.attrs, **noted([*doubts, *seen])}
    names = [curve.method for curve in curves]
    dataset = dataset.assign_coords(
        other_estimator=names, stage=np.arange(draws.n_levels), beta=("stage", draws.betas)
    )
    dataset["log_z_curve"] = (ESTIMATOR, "stage"), np.stack([curve.log_z for curve in curves])
    dataset["mcse_curve"] = (ESTIMATOR, "stage"), np.stack([curve.mcse for curve in curves])
    usable = np.array([curve.usable for curve in curves])
    covariance = np.full((usable.size, usable.size), np.nan)  # of those that have a number
    if usable.any():
        covariance[np.ix_(usable, usable)] = joint_covariance([c for c in curves if c.usable])
    dataset["covariance"] = (ESTIMATOR, "other_estimator"), covariance
    dataset["departs"] = ESTIMATOR, np.isin(names, departing)
    return dataset


def _with_disagreement(
    estimates: Sequence[LogZEstimate], departing: Sequence[str]
) -> list[LogZEstimate]:
    """The estimates, with the status of those that depart by more than their own error."""
    base = next((one for one in estimates if one.usable and one.method not in departing), None)
    if base is None:
        return list(estimates)
    return [
        replace(one, status="disagrees")
        if one.status == "ok" and one.method in departing and abs(one.log_z - base.log_z) > one.mcse
        else one
        for one in estimates
    ]


def departing_methods(curves: Sequence[LogZCurve]) -> tuple[tuple[str, ...], list[Doubt]]:
    """Names of the methods at odds with the others, after a warning, and by how much."""
    usable = [curve for curve in curves if curve.usable]
    off = [curve for curve in curves if curve.status in OFF and "apart" in curve.details]
    departing = tuple(curve.method for curve in off if curve.usable)
    reasons = [
        f"{one.method} by {one.details['apart']:+.3g} nats from methods that suit any spacing of "
        f"the temperatures{'' if one.usable else ', so it has no number'}"
        for one in off
    ]
    doubts = ["; ".join(reasons)] if reasons else []
    if len(usable) > 1:
        # methods share their draws, so differences can be significant that nobody minds, such as a
        # quarter of the first one's error
        agreement = check_agreement(usable, tolerance=0.25 * float(usable[0].mcse[-1]))
        if not agreement.agree:
            doubts.append(str(agreement))
            departing = (*departing, *agreement.departing)
    if doubts:
        warn(
            f"the estimates of this run do not agree: {'; '.join(doubts)}. Thermodynamic "
            "integration departs where temperatures are far apart: there more of them "
            "(betas=<int>) help; if others depart, use more draws or a larger tune"
        )
    return departing, [Doubt("disagrees", reason) for reason in doubts]
