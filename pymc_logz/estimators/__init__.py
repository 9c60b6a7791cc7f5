"""Estimators of log Z: plain functions from arrays to a `LogZEstimate`."""

from pymc_logz.estimators.importance import importance_log_z
from pymc_logz.estimators.result import LogZEstimate

__all__ = ["LogZEstimate", "importance_log_z"]
