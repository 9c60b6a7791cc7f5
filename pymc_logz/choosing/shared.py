"""What every route to the evidence takes and leaves."""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import xarray as xr

from pymc_logz.estimators import LogZEstimate
from pymc_logz.trees.layout import ESTIMATOR, with_evidence

logger = logging.getLogger("pymc.pymc_logz")
UNITS = ("row_gradients", "row_evaluations")
"""Of what a run cost, in the attributes of ``evidence``."""


class How(NamedTuple):
    """What all methods take, whatever is chosen."""

    random_seed: Any
    progressbar: bool
    compile_kwargs: Mapping[str, Any] | None


def chosen_by(tree: xr.DataTree, chosen: str, reason: str) -> xr.DataTree:
    """The tree with the choice in the attributes of ``evidence``."""
    group = tree["evidence"].to_dataset()
    return with_evidence(tree, group.assign_attrs(chosen=chosen, reason=reason))


def spent_on(tree: xr.DataTree) -> dict[str, int]:
    """Evaluations of a run by their unit, those of its pilot and its checks among them."""
    attrs = tree["evidence"].attrs
    return {
        unit: sum(int(attrs.get(f"{part}_{unit}", 0)) for part in ("pilot", "run", "check"))
        for unit in UNITS
    }


def spent_before(tree: xr.DataTree, spent: Mapping[str, int]) -> xr.DataTree:
    """The tree, evaluations of what ran before it counted among those of its pilot."""
    group = tree["evidence"].to_dataset()
    sums = {
        f"pilot_{unit}": n + int(group.attrs.get(f"pilot_{unit}", 0)) for unit, n in spent.items()
    }
    return with_evidence(tree, group.assign_attrs({name: n for name, n in sums.items() if n}))


def estimate_of(group: xr.Dataset) -> LogZEstimate:
    """First entry of a group ``evidence`` as an estimate."""
    entry = group.isel({ESTIMATOR: 0})
    return LogZEstimate(
        str(entry[ESTIMATOR].item()),
        log_z=float(entry["log_z"]),
        mcse=float(entry["mcse"]),
        weight_ess=float(entry["weight_ess"]),
        khat=float(entry["khat"]),
        status=str(entry["status"].item()),
    )
