"""Moments of a tracked log Z as groups of an ArviZ tree, along the dimension ``time``.

`pymc_logz.trees.layout` has the table of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from pymc_logz.estimators.result import LogZEstimate
from pymc_logz.trees.layout import ESTIMATOR, evidence_of_rows, with_units

TIME = "time"


class Moment(NamedTuple):
    """What is known of one moment."""

    tracked: LogZEstimate
    """From this update and those before."""
    alone: LogZEstimate
    """From this update alone."""
    log_z: np.ndarray
    """Tracked log Z at each level, shape (K,)."""
    mcse: np.ndarray
    """Its error, shape (K,)."""
    occupancy: np.ndarray
    """Share of time at each level, shape (K,)."""
    step_size: np.ndarray
    """Shape (K,)."""
    acceptance_rate: float
    """Mean over all moves."""
    carried_share: float
    """Share of the effective number of walkers that the change of the model left, at the level with
    the smallest."""


def moment_datasets(
    moments: Sequence[Moment], betas: np.ndarray, attrs: Mapping[str, Any]
) -> dict[str, xr.Dataset]:
    """Groups ``evidence`` (estimator, time), with attributes, and ``tracking`` (time, stage)."""
    time = {TIME: np.arange(len(moments))}
    evidence = xr.concat(
        [
            evidence_of_rows([getattr(moment, name) for moment in moments], TIME, time, {})
            for name in ("tracked", "alone")
        ],
        ESTIMATOR,
        combine_attrs="drop_conflicts",
    ).assign_attrs(attrs)
    per_stage, per_time = (
        {name: np.stack([getattr(moment, name) for moment in moments]) for name in names}
        for names in (
            ("log_z", "mcse", "occupancy", "step_size"),
            ("acceptance_rate", "carried_share"),
        )
    )
    tracking = xr.Dataset(
        {
            **{name: ((TIME, "stage"), values) for name, values in per_stage.items()},
            **{name: (TIME, values) for name, values in per_time.items()},
        },
        coords={**time, "stage": np.arange(betas.size), "beta": ("stage", betas)},
    )
    return {"evidence": evidence, "tracking": with_units(tracking)}
