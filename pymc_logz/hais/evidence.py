"""Log Z of a stored run: what the run made of its rows, or what some of them say."""

import numpy as np
import xarray as xr

from pymc_logz.estimators import importance_log_z
from pymc_logz.hais.directions import with_error
from pymc_logz.references.reference import ERROR_FACTOR, REFERENCE_MCSE
from pymc_logz.trees.doubts import doubted, noted, stored_doubts, warn_of_doubts
from pymc_logz.trees.kinds import HAIS, kind_of
from pymc_logz.trees.layout import ESTIMATOR, evidence_dataset, with_evidence
from pymc_logz.trees.readers import log_weights


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
