"""One sentence of result at the end of a call."""

import logging
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps

import numpy as np
import xarray as xr

from pymc_logz.trees.kinds import HAIS, HAIS_BOTH, TEMPERED, kind_of
from pymc_logz.trees.layout import ESTIMATOR

logger = logging.getLogger("pymc.pymc_logz")
STARTS = {
    "prior": "the prior",
    "learned": "a learned reference",
    "laplace": "a Laplace fit",
}
_is_inside: ContextVar[bool] = ContextVar("is_inside", default=False)


def says_result[**P](function: Callable[P, xr.DataTree]) -> Callable[P, xr.DataTree]:
    """Decorator of what users call: at its end the result is logged.

    Calls inside such a call say nothing: theirs is no result yet. An interrupt that leaves none
    says so, whatever was going on.
    """

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> xr.DataTree:
        if _is_inside.get():
            return function(*args, **kwargs)
        start, token = time.perf_counter(), _is_inside.set(True)
        try:
            tree = function(*args, **kwargs)
        except KeyboardInterrupt as interrupt:
            if interrupt.args:  # what was going on is said already
                raise
            raise KeyboardInterrupt("interrupted before there was a result") from None
        finally:
            _is_inside.reset(token)
        logger.info("%s", result_sentence(tree, time.perf_counter() - start))
        return tree

    return wrapped


def result_sentence(tree: xr.DataTree, seconds: float) -> str:
    """What a call came to, the seconds that it took, and of how much it was made."""
    group = tree["evidence"].to_dataset()
    entry = group.isel({ESTIMATOR: 0}) if ESTIMATOR in group.dims else group
    took = f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
    if entry["log_z"].ndim:
        return f"log Z of each {entry['log_z'].dims[0]}, {took}"
    status = str(entry["status"].item())
    made_of = _made_of(tree, str(entry[ESTIMATOR].item()))
    return f"{_number(float(entry['log_z']), float(entry['mcse']))} ({status}), {took}; {made_of}"


def _number(log_z: float, mcse: float) -> str:
    """Log Z to the digit that its error is known to."""
    if not np.isfinite(log_z):
        return "no log Z"
    if not mcse > 0:
        return f"log Z {log_z:.4f}"
    decimals = int(np.clip(np.ceil(-np.log10(mcse)), 0, 6))
    return f"log Z {log_z:.{decimals}f} ± {mcse:.{decimals}f}"


def _made_of(tree: xr.DataTree, estimator: str) -> str:
    """Rows, temperatures and reference of a run along a path; draws and method of all others."""
    attrs, kind = tree["evidence"].attrs, kind_of(tree)
    if kind in (HAIS, HAIS_BOTH) and "weighted_posterior" in tree.children:
        size = _size(tree["weighted_posterior"].to_dataset())
        n = int(attrs["n_temperatures"])
        reference = str(attrs.get("reference", "prior"))
        of = STARTS.get(reference, f"reference {reference!r}")
        return f"{size} particles, {n} temperature{'s' if n > 1 else ''} from {of}"
    size = _size(tree["posterior"].to_dataset()) if "posterior" in tree.children else ""
    if kind == TEMPERED:
        n = tree["tempering"].sizes["stage"] if "tempering" in tree.children else 0
        return f"{size} draws, tempered over {n} temperatures"
    return f"{estimator} of {size} draws" if size else estimator


def _size(draws: xr.Dataset) -> str:
    """Chains and draws of each."""
    return f"{draws.sizes['chain']} x {draws.sizes['draw']}"
