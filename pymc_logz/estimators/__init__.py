"""Estimators of log Z: plain functions from arrays to a `LogZEstimate` or a `LogZCurve`."""

from pymc_logz.estimators.agreement import (
    Agreement,
    bootstrap_log_z,
    check_agreement,
    joint_covariance,
)
from pymc_logz.estimators.bridge import bar_log_z, bridge_log_z, reverse_log_z
from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.estimators.importance import importance_log_z, reweighted_log_z
from pymc_logz.estimators.multistate import bar_chain, mbar, stepping_stone, stepping_stone_reverse
from pymc_logz.estimators.result import Estimator, LogZCurve, LogZEstimate
from pymc_logz.estimators.running import RunningRTS
from pymc_logz.estimators.tempering import rao_blackwell_log_weight, rts, rts_log_z, ts
from pymc_logz.estimators.thermodynamic import (
    ti_corrected,
    ti_left,
    ti_marginal,
    ti_rb,
    ti_right,
    ti_simpson,
    ti_trapezoid,
)

_STONES = (stepping_stone, stepping_stone_reverse)
_INTEGRALS = (ti_trapezoid, ti_simpson, ti_corrected, ti_rb, ti_marginal, ti_left, ti_right)
_ALL = (rts, mbar, ts, bar_chain, *_STONES, *_INTEGRALS)
METHODS: dict[str, Estimator] = {method.__name__: method for method in _ALL}
"""Estimators of a tempered run, by the name that each goes by."""

__all__ = [
    "METHODS",
    "Agreement",
    "LogZCurve",
    "LogZEstimate",
    "RunningRTS",
    "TemperedDraws",
    "bar_chain",
    "bar_log_z",
    "bootstrap_log_z",
    "bridge_log_z",
    "check_agreement",
    "importance_log_z",
    "joint_covariance",
    "mbar",
    "rao_blackwell_log_weight",
    "reverse_log_z",
    "reweighted_log_z",
    "rts",
    "rts_log_z",
    "stepping_stone",
    "stepping_stone_reverse",
    "ti_corrected",
    "ti_left",
    "ti_marginal",
    "ti_rb",
    "ti_right",
    "ti_simpson",
    "ti_trapezoid",
    "ts",
]
