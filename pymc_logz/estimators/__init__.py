"""Estimators of log Z: plain functions from arrays to a `LogZEstimate`."""

from pymc_logz.estimators.bridge import bar_log_z, reverse_log_z
from pymc_logz.estimators.importance import importance_log_z
from pymc_logz.estimators.result import LogZEstimate

__all__ = ["LogZEstimate", "bar_log_z", "importance_log_z", "reverse_log_z"]
