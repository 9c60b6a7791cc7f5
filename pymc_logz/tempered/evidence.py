"""Every estimator on one stored tempered run, and whether they agree."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from pymc_logz.errors import warn
from pymc_logz.estimators import METHODS, LogZCurve, check_agreement
from pymc_logz.estimators.agreement import joint_covariance
from pymc_logz.trees.layout import ESTIMATOR, evidence_dataset
from pymc_logz.trees.readers import stored_draws

MATERIAL = 0.25
"""Difference between methods that matters, in units of the first one's error."""


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

    Along ``estimator``: log Z at beta = 1 with its error and status; ``log_z_curve`` and
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
    recommended = str(np.asarray(stored[ESTIMATOR])[0])
    curves = [METHODS[name](draws) for name in check_methods(methods, recommended)]
    dataset = evidence_dataset([curve.estimate for curve in curves], {})
    dataset.attrs = stored.attrs
    names = [curve.method for curve in curves]
    dataset = dataset.assign_coords(
        other_estimator=names, stage=np.arange(draws.n_levels), beta=("stage", draws.betas)
    )
    dataset["log_z_curve"] = (ESTIMATOR, "stage"), np.stack([curve.log_z for curve in curves])
    dataset["mcse_curve"] = (ESTIMATOR, "stage"), np.stack([curve.mcse for curve in curves])
    dataset["covariance"] = (ESTIMATOR, "other_estimator"), _covariance(curves)
    dataset["departs"] = ESTIMATOR, np.isin(names, departing_methods(curves))
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
