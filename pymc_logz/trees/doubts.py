"""What speaks against a log Z beside its own error, and how it reaches the stored status."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from pymc_logz.errors import STATUS_SENTENCES, warn
from pymc_logz.estimators.result import LogZCurve, LogZEstimate
from pymc_logz.weights import LOW_ESS, MAX_KHAT

DOUBTS = "doubts"
"""Attribute of the group ``evidence`` that says what the doubts are."""
STATUSES = (
    "maybe_infinite",
    "missed_mode",
    "uncovered",
    "approximate_draws",
    "wrong_draws",
    "chains_disagree",
    "disagrees",
    "divergences",
    "unchecked_prior",
)
"""Statuses of doubts, the gravest first."""
APPROXIMATIONS = ("fit", "pathfinder", "pathfinder_paths", "optimizer_result", "laplace_results")
"""Groups that a fit leaves in a tree, and a Markov chain does not."""
MAX_DIVERGENT_SHARE = 0.005
"""Posteriors whose log Z was right had up to 6 draws of 4,000 that diverged; the centred eight
schools, off by up to 6 errors, 28 and more."""
MAX_DISAGREEMENT = (4.0, 10.0)
"""Joint errors by which another estimate may be lower: up to a k-hat of 0.5, to which the error of
weights is one (docs/theory/decisions.md), and up to the usual one. Four by which it may be higher:
a few large weights that raise a mean raise its error with it, at any k-hat."""


class Doubt(NamedTuple):
    """One reason not to believe a log Z."""

    status: str
    """One of `STATUSES`."""
    reason: str
    """What was seen, with numbers."""


def doubted(estimates: Sequence[LogZEstimate], doubts: Collection[Doubt]) -> list[LogZEstimate]:
    """The estimates, those with a number under the status of the gravest doubt."""
    if not doubts:
        return list(estimates)
    worst = min((doubt.status for doubt in doubts), key=STATUSES.index)
    return [replace(one, status=worst) if one.usable else one for one in estimates]


def prior_doubts(reason: str | None) -> list[Doubt]:
    """The doubt about priors that a model was prepared with, if any."""
    return [Doubt("unchecked_prior", reason)] if reason else []


def noted(
    doubts: Collection[Doubt], attrs: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, str]:
    """Attributes of a group ``evidence``, after what its own attributes note already."""
    reasons = [str(attrs[DOUBTS])] if DOUBTS in attrs else []
    reasons += [doubt.reason for doubt in doubts]
    return {DOUBTS: "; ".join(reasons)} if reasons else {}


def stored_doubts(stored: xr.Dataset, statuses: Collection[str] = STATUSES) -> list[Doubt]:
    """What a group ``evidence`` has against its first estimate, if that is one of the statuses."""
    status = str(np.asarray(stored["status"])[0])
    return [Doubt(status, str(stored.attrs.get(DOUBTS, "")))] if status in statuses else []


def warn_of_doubts(doubts: Collection[Doubt]) -> None:
    """One warning for each."""
    for doubt in doubts:
        warn(f"{doubt.reason}. Status {doubt.status!r}: {STATUS_SENTENCES[doubt.status]}")


def with_doubts(
    estimates: Sequence[LogZEstimate],
    doubts: Sequence[Doubt],
    known: Collection[Doubt] = (),
    attrs: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[list[LogZEstimate], dict[str, str]]:
    """Estimates as of `doubted`, and notes as of `noted`, after warnings of what is not known."""
    warn_of_doubts([doubt for doubt in doubts if doubt not in known])
    return doubted(estimates, doubts), noted(doubts, attrs)


def warn_of_status(estimate: LogZEstimate | LogZCurve) -> None:
    """Warn of an estimate that is not to be trusted."""
    if (status := estimate.status) != "ok":
        warn(f"{estimate.method} has status {status!r}: {STATUS_SENTENCES[status]}")


def warn_of_nan(n_nan: int, during: str) -> None:
    """Warn of log ratios that were NaN on the way."""
    if n_nan:
        warn(
            f"the log likelihood plus potentials was NaN {n_nan} times during {during}, and "
            "counted as a likelihood of zero; guard the expression, or restrict the prior"
        )


def doubts_of_tree(tree: xr.DataTree) -> list[Doubt]:
    """What a tree says of the draws itself: that they are of a fit, or that many diverged."""
    found = []
    if origin := _approximation(tree):
        reason = f"the draws come from an approximate fit, not from MCMC: {origin}"
        found.append(Doubt("approximate_draws", reason))
    if "sample_stats" in tree.children and "diverging" in tree["sample_stats"]:
        diverging = np.asarray(tree["sample_stats"]["diverging"], dtype=bool)
        if diverging.size and diverging.mean() > MAX_DIVERGENT_SHARE:
            reason = f"{diverging.sum()} of {diverging.size} draws diverged"
            found.append(Doubt("divergences", reason))
    return found


def _approximation(tree: xr.DataTree) -> str | None:
    """What tells that draws are of a fit, or None."""
    if groups := [name for name in APPROXIMATIONS if name in tree.children]:
        return f"the tree has the group {groups[0]!r}"
    posterior = tree["posterior"]
    by_pymc = posterior.attrs.get("inference_library") == "pymc"
    stats = tree.children.get("sample_stats")
    of_chain = {"sampling_time", "tuning_steps"} & set(posterior.attrs)
    if by_pymc and not of_chain and (stats is None or not stats.data_vars):
        return "PyMC made them without statistics of a sampler, as pm.fit(...).sample() does"
    return None


def disagreements(
    first: LogZEstimate, others: Sequence[LogZEstimate], only_higher: bool = False
) -> list[Doubt]:
    """What independent estimates, by importance sampling, say against one with a number.

    One with too few or too heavy weights, or of a proposal that lacks something, accuses only if it
    is higher: a mean weight is rarely larger than its expectation, and often smaller. Without an
    error of its own it has to be 7 nats higher, which the true one is with a probability below 1 in
    1,000, since its expectation is one (Markov's inequality).
    """
    found = []
    for other in others:
        log_z = other.details.get("log_mean_weight", other.log_z)
        apart = first.log_z - log_z
        error = float(np.hypot(first.mcse, np.nan_to_num(other.mcse)))
        higher = max(0.0 if np.isfinite(other.mcse) else 7.0, MAX_DISAGREEMENT[0] * error)
        lower = np.inf if only_higher else _errors_below(other) * error
        if -apart > higher or apart > lower:
            reason = (
                f"{first.method} ({log_z + apart:.3f} ± {first.mcse:.3f}) and {other.method} "
                f"({log_z:.3f} ± {other.mcse:.3f}, {other.status}) disagree by {apart:+.3g} nats, "
                f"{abs(apart) / error:.3g} joint errors"
            )
            found.append(Doubt("disagrees", reason))
    return found


def agrees(first: LogZEstimate, other: LogZEstimate) -> bool:
    """Whether an independent estimate that is ok is within two joint errors of another."""
    apart, error = abs(first.log_z - other.log_z), float(np.hypot(first.mcse, other.mcse))
    return other.status == "ok" and bool(apart <= 2.0 * error)


def second_opinions(
    first: LogZEstimate, others: Sequence[LogZEstimate], doubts: Collection[Doubt]
) -> list[LogZEstimate]:
    """The other estimates, with what speaks against them: some of the doubts, or the first one."""
    # what is fitted to doubtful draws may miss what they miss; of two that disagree one is right
    others = doubted(others, [doubt for doubt in doubts if doubt.status != "disagrees"])
    if not first.usable:
        return others
    judged = []
    for one in others:
        # nats by which it is doubted, though they are too few to doubt the first one
        joint = float(np.hypot(one.mcse, first.mcse))
        limit = max(MAX_DISAGREEMENT[0] * one.mcse, 3.0 * joint)
        apart = one.status == "ok" and abs(one.log_z - first.log_z) > limit
        judged.append(replace(one, status="disagrees") if apart else one)
    return judged


def _errors_below(other: LogZEstimate) -> float:
    """Joint errors below another beyond which an estimate accuses it; infinite if it cannot."""
    lacks = other.status == "uncovered"  # and is too low by that, whatever its weights say
    if lacks or not other.usable or other.khat > MAX_KHAT or other.weight_ess < LOW_ESS:
        return np.inf
    return MAX_DISAGREEMENT[int(other.khat > 0.5)]
