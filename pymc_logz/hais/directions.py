"""Weighted rows of a run in one direction or both, and what they say of log Z."""

from dataclasses import dataclass, replace

import numpy as np

from pymc_logz.estimators import LogZEstimate, bar_log_z, importance_log_z, reverse_log_z
from pymc_logz.estimators.bridge import above_upper_end
from pymc_logz.references.reference import Reference
from pymc_logz.runners.anneal import Annealed
from pymc_logz.trees.doubts import MAX_DISAGREEMENT, Doubt
from pymc_logz.trees.kinds import HAIS, HAIS_BOTH


@dataclass
class Directions:
    """Weighted rows of a run: forward always, reverse if asked for."""

    forward: list[Annealed]
    reference: Reference
    """What forward rows start from."""
    reverse: list[Annealed] | None = None
    exact_starts: bool = False
    """Whether the reverse rows started at draws of the target that the run did not make."""

    @property
    def kind(self) -> str:
        """What a tree of them is."""
        return HAIS if self.reverse is None else HAIS_BOTH


def forward_estimate(directions: Directions) -> LogZEstimate:
    """Log Z from all forward rows."""
    log_weight = np.concatenate([run.log_weight for run in directions.forward])
    estimate, reference = importance_log_z(log_weight, method="hais"), directions.reference
    return with_error(estimate, reference.error_factor, reference.mcse)


def with_error(
    estimate: LogZEstimate, factor: float = 1.0, reference_mcse: float = 0.0
) -> LogZEstimate:
    """The estimate with a factor in its error, and that of the reference's own constant.

    Of n rows that are not all alike none may have come to where a share of 1 / n of the reference
    has hardly any weight, or none, so the error is that at least.
    """
    n_rows = estimate.details.get("n_rows", np.inf)
    unseen = 1 / n_rows if estimate.mcse > 0 else 0.0
    mcse = np.hypot(max(factor * estimate.mcse, unseen), reference_mcse)
    return replace(estimate, mcse=float(mcse))


def estimates_of(directions: Directions) -> list[LogZEstimate]:
    """Estimates of a run, the recommended one first."""
    forward = forward_estimate(directions)
    if directions.reverse is None:
        return [forward]
    weights = weights_of(directions)
    found = (reverse_log_z(weights[1]), bar_log_z(*weights))
    factor, reference_mcse = directions.reference.error_factor, directions.reference.mcse
    reverse, bar = (with_error(one, factor, reference_mcse) for one in found)
    if directions.exact_starts:
        if reverse.status == "ok":
            reverse = replace(reverse, status="upper_end")
        return [bar, forward, reverse] if bar.usable else [forward, reverse, bar]
    both = [
        replace(estimate, status="approximate_starts") if estimate.status == "ok" else estimate
        for estimate in (reverse, bar)
    ]
    return [forward, *both]


def weights_of(directions: Directions) -> list[np.ndarray]:
    """Log weights of all forward rows, and of all reverse rows of a run that has them."""
    return [
        np.concatenate([run.log_weight for run in runs])
        for runs in (directions.forward, directions.reverse)
        if runs is not None
    ]


def doubts_of_ends(directions: Directions) -> list[Doubt]:
    """Whether log Z from both directions is above its own upper end: starts were no such draws."""
    if directions.reverse is None or not directions.exact_starts:
        return []
    forward, reverse = weights_of(directions)
    bar = bar_log_z(forward, reverse)
    if not bar.usable:
        return []
    above, error = above_upper_end(forward, reverse, bar.log_z)
    if not above > MAX_DISAGREEMENT[0] * error:
        return []
    reason = (
        f"log Z of both directions is {above:.3g} ± {error:.2g} nats above that of the reverse "
        "particles alone, which is its upper end where they start at draws of the posterior"
    )
    return [Doubt("disagrees", reason)]


def of_model(run: Annealed, reference: Reference) -> Annealed:
    """Rows as the model has them, if they were evened out while they moved."""
    log_reference = run.log_reference - reference.log_volume(run.position)
    position = reference.restored(run.position)
    return run._replace(position=position, log_reference=log_reference)
