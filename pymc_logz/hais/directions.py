"""Weighted rows of a run in one direction or both, and what they, or a stored run, say of log Z."""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from pymc_logz.estimators import LogZEstimate, bar_log_z, importance_log_z, reverse_log_z
from pymc_logz.references.reference import ERROR_FACTOR, REFERENCE_MCSE, Reference
from pymc_logz.runners.anneal import Annealed
from pymc_logz.trees.doubts import doubted, noted, stored_doubts, warn_of_doubts
from pymc_logz.trees.kinds import HAIS, HAIS_BOTH, kind_of
from pymc_logz.trees.layout import ESTIMATOR, evidence_dataset, log_weights, with_evidence


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
    weights = [
        np.concatenate([run.log_weight for run in runs])
        for runs in (directions.forward, directions.reverse)
    ]
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


def of_model(run: Annealed, reference: Reference) -> Annealed:
    """Rows as the model has them, if they were evened out while they moved."""
    log_reference = run.log_reference - reference.log_volume(run.position)
    position = reference.restored(run.position)
    return run._replace(position=position, log_reference=log_reference)


def of_weights(tree: xr.DataTree) -> xr.DataTree:
    """The tree with log Z from the log weights that it holds.

    A whole run keeps its own estimate. Some rows of it have all that spoke against the run, and an
    error of their own.
    """
    estimate = importance_log_z(log_weights(tree), method="hais")
    if kind_of(tree) != HAIS or "evidence" not in tree.children:
        return with_evidence(tree, evidence_dataset([with_error(estimate)], {}))
    stored = tree["evidence"].to_dataset()
    if estimate.method in stored[ESTIMATOR]:
        of_run = stored.sel({ESTIMATOR: [estimate.method]})
        if np.isclose(estimate.log_z, of_run["log_z"].item(), rtol=1e-6, equal_nan=True):
            return with_evidence(tree, of_run)
    errors = stored.attrs.get(ERROR_FACTOR, 1.0), stored.attrs.get(REFERENCE_MCSE, 0.0)
    doubts = stored_doubts(stored)
    warn_of_doubts(doubts)
    estimates = doubted([with_error(estimate, *errors)], doubts)
    return with_evidence(tree, evidence_dataset(estimates, {**stored.attrs, **noted(doubts)}))
