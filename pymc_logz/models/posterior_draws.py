"""Draws of a model's posterior by PyMC's own sampler."""

import logging
from typing import NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

from pymc_logz.interrupts import noting_interrupts
from pymc_logz.models.flat import unconstrain
from pymc_logz.models.preparation import Prepared

logger = logging.getLogger("pymc.pymc_logz")


class PosteriorDraws(NamedTuple):
    """What a default ``pm.sample`` found."""

    rows: np.ndarray
    """Unconstrained draws of all chains, shape (n, d)."""
    n_gradients: int
    """Evaluations that it made, as far as its statistics tell."""


def draw_posterior(
    prepared: Prepared, rng: np.random.Generator, progressbar: bool = False
) -> PosteriorDraws | None:
    """Draws of a default ``pm.sample``; None if it cannot sample the model.

    An interrupt, which ``pm.sample`` takes for the end of its run, is one of the whole call.
    """
    logger.info(
        "Drawing from the posterior by pm.sample, since no reference was found that it is near. "
        "Cheaper: lz.evidence(idata, model) with draws that you have."
    )
    with noting_interrupts() as interrupted:
        tree = _drawn(prepared, rng, progressbar)
    if interrupted.is_set():
        raise KeyboardInterrupt
    if tree is None:
        return None
    rows = unconstrain(prepared.flat, tree["posterior"].to_dataset())
    return PosteriorDraws(rows[np.isfinite(rows).all(axis=1)], n_gradients_of(tree))


def _drawn(prepared: Prepared, rng: np.random.Generator, progressbar: bool) -> xr.DataTree | None:
    try:
        return pm.sample(
            model=prepared.flat.model,
            random_seed=int(rng.integers(2**31)),
            progressbar=progressbar,
            quiet=not progressbar,
            compute_convergence_checks=False,
            discard_tuned_samples=False,  # whose evaluations count, too
        )
    except (pm.exceptions.SamplingError, RuntimeError, ValueError, SystemError):
        return None  # Numba makes a SystemError of an interrupt


def n_gradients_of(tree: xr.DataTree) -> int:
    """Evaluations that made a tree of ``pm.sample``, tuning included if the tree has kept it."""
    groups = [tree[name] for name in ("sample_stats", "warmup_sample_stats") if name in tree]
    return sum(int(group["n_steps"].sum()) for group in groups if "n_steps" in group)
