"""Log densities of a PyMC model at many rows at once, its gradients, and posterior draws."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.basic import Variable

from pymc_logz.errors import logger, noting_interrupts
from pymc_logz.graphs.compiling import Compiled, compile_function
from pymc_logz.graphs.functions import settings_key
from pymc_logz.graphs.gradients import NO_GRADIENT, gradients_of
from pymc_logz.models.flat import FlatModel, model_path, unconstrain
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.geometric import AnnealingPath, no_draws

ROWS_PER_CALL = 512


class RowDensity:
    """Log prior and log ratio of rows, compiled once; counts those computed, and NaN.

    For a few calls a small model need not be compiled.
    """

    def __init__(
        self,
        flat: FlatModel,
        compile_kwargs: Mapping[str, Any] | None = None,
        *,
        few_calls: bool = False,
    ) -> None:
        self.flat, self.compile_kwargs = flat, compile_kwargs
        self.n_nan = self.n_evaluated = 0
        key = ("row density", few_calls, settings_key(compile_kwargs))
        made = flat.kept.get(key, lambda: _compiled_rows(flat, compile_kwargs, few_calls))
        self.compiled, self.batching, self.rows_per_call = made

    def __call__(
        self, rows: np.ndarray, data: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log prior and log ratio of rows (n, d), shape (n,) each; for data (D,) if given."""
        n = self.rows_per_call
        own = () if data is None else (np.tile(data, (n, 1)).astype(float),)
        constant = (*own, *self.flat.values)
        log_prior, log_ratio = np.empty((2, len(rows)))
        for start in range(0, len(rows), n):
            part = rows[start : start + n]
            padded = np.resize(part, (n, rows.shape[1])).astype(float)
            values = self.compiled.call(padded, *constant)
            self.n_evaluated += n
            stop = start + len(part)
            log_prior[start:stop], log_ratio[start:stop] = (
                np.asarray(value)[: len(part)] for value in values
            )
        return log_prior, log_ratio

    def log_target(self, rows: np.ndarray, data: np.ndarray | None = None) -> np.ndarray:
        """Log prior plus log ratio of rows, with -inf for NaN and outside the prior, shape (n,)."""
        log_prior, log_ratio = self(rows, data)
        self.n_nan += int(np.count_nonzero(np.isnan(log_prior) | np.isnan(log_ratio)))
        with np.errstate(invalid="ignore"):
            total = log_prior + log_ratio
        return np.where(np.isnan(total), -np.inf, total)


def _compiled_rows(
    flat: FlatModel, compile_kwargs: Mapping[str, Any] | None, few_calls: bool
) -> tuple[Compiled, str, int]:
    """The densities of rows as a function, how the rows are batched, and how many there are."""
    path = model_path(flat, no_draws).without_gradients()
    n = path.rows_within_caches(ROWS_PER_CALL)
    # of what each row brings: its values, and its data if it has any. A fixed number of rows, so
    # that backends compile one shape only
    widths = [flat.n_dims, *([] if flat.data is None else [flat.data.type.shape[0]])]
    shapes = [(n, width) for width in widths]

    def graph(path: AnnealingPath) -> tuple[list[Variable], list[Variable]]:
        rows, *data = (pt.matrix(dtype="float64", shape=shape) for shape in shapes)
        found = (path.given(*data) if data else path).evaluate(rows)
        return [rows, *data, *path.parameters], [found.log_reference, found.log_ratio]

    compiled = compile_function(
        *graph(path),
        compile_kwargs,
        [*map(np.zeros, shapes), *path.values],
        (lambda: graph(replace(path, how="row"))) if path.may_turn else None,
        few_calls=few_calls and n == ROWS_PER_CALL,
    )
    return compiled, "row" if compiled.is_alternative else path.batching, n


def lacks_gradient(flat: FlatModel, columns: tuple[int, ...] | None = None) -> str | None:
    """Why there is no gradient of a model's log density, or by these entries; None if there is."""

    def found() -> str | None:
        try:
            gradients_of([flat.log_prior, flat.log_ratio], flat.point, columns)
        except NO_GRADIENT as error:
            return str(error)[:200]
        return None

    return flat.kept.get(("lacks gradient", columns), found)


def draw_posterior(
    prepared: Prepared, rng: np.random.Generator, progressbar: bool = False
) -> tuple[np.ndarray, int] | None:
    """Rows (n, d) of a default ``pm.sample``, and its evaluations; None if it cannot sample."""
    # an interrupt, which pm.sample takes for the end of its run, is one of the whole call
    logger.info(
        "Drawing from the posterior by pm.sample, since no reference was found that it is near. "
        "Cheaper: lz.evidence(idata, model) with draws that you have."
    )
    # Numba makes a SystemError of an interrupt
    failures = pm.exceptions.SamplingError, RuntimeError, ValueError, SystemError
    tree = None
    with noting_interrupts() as interrupted, suppress(*failures):
        tree = pm.sample(
            model=prepared.flat.model,
            random_seed=int(rng.integers(2**31)),
            progressbar=progressbar,
            quiet=not progressbar,
            compute_convergence_checks=False,
            discard_tuned_samples=False,  # whose evaluations count, too
        )
    if interrupted.is_set():
        raise KeyboardInterrupt
    if tree is None:
        return None
    rows = unconstrain(prepared.flat, tree["posterior"].to_dataset())
    return rows[np.isfinite(rows).all(axis=1)], n_gradients_of(tree)


def n_gradients_of(tree: xr.DataTree) -> int:
    """Evaluations that made a tree of ``pm.sample``, tuning included if the tree has kept it."""
    groups = [tree[name] for name in ("sample_stats", "warmup_sample_stats") if name in tree]
    return sum(int(group["n_steps"].sum()) for group in groups if "n_steps" in group)
