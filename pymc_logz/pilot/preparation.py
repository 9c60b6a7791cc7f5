"""Makes a PyMC model ready to run: checks, path, compiled block, random generators."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pymc.util import get_random_generator

from pymc_logz.errors import ModelError, warn
from pymc_logz.kernels.base import Kernel
from pymc_logz.models.flat import FlatModel, describe_row, flatten_model, model_path, simulate
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.prior_check import check_prior_mass
from pymc_logz.pilot.reference import make_reference
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.runners.block import Block
from pymc_logz.seeds import spawn_generators

PILOT_ROWS = (128, 512)


@dataclass(frozen=True)
class Prepared:
    """A model made ready to run."""

    flat: FlatModel
    prior: PriorDraws
    block: Block
    n_pilot: int
    exact_row: np.ndarray | None
    """The draw that simulated data came from, shape (1, d)."""
    rng: np.random.Generator
    pilot_rng: np.random.Generator


def prepare(
    model: pm.Model,
    settings: RunSettings,
    random_seed: Any = None,
    compile_kwargs: Mapping[str, Any] | None = None,
    simulate_data: bool = False,
) -> Prepared:
    """Check a model, then compile its moves.

    Raises
    ------
    ModelError
        If log Z of the model is undefined or out of reach.
    ValueError
        If the settings do not fit the model.
    """
    rng = get_random_generator(random_seed)
    [check_rng, pilot_rng] = spawn_generators(rng, 2)
    flat, exact_row = flatten_model(model), None
    prior = PriorDraws(model)
    if simulate_data:
        exact_row, observed = simulate(flat, check_rng)
        flat = flatten_model(model, observed)
    check_scale(settings.kernel, flat.n_dims)
    check_prior_mass(model, check_rng)
    # rows of one size for the pilot and the chains save JAX a second compilation
    draws = settings.draws
    n_pilot = draws if PILOT_ROWS[0] <= draws <= PILOT_ROWS[1] else 256
    kernel = settings.kernel.resolved(flat.n_dims)
    start = make_reference(flat, prior, settings.reference, check_rng, compile_kwargs)
    block = Block(
        model_path(flat, start), kernel, n_pilot, compile_kwargs, transports=settings.transports
    )
    return Prepared(flat, prior, block, n_pilot, exact_row, rng, pilot_rng)


def check_start(prepared: Prepared, start: np.ndarray) -> None:
    """Look at prior draws and their likelihood before anything is run on them."""
    if prepared.prior.finite_share < 1.0:
        warn(
            f"the transforms take only {prepared.prior.finite_share:.1%} of the prior draws: log Z "
            "is that of the prior restricted to them and renormalised"
        )
    log_ratio = prepared.block.evaluate(start)
    if np.any(log_ratio == np.inf):
        row = start[int(np.argmax(log_ratio))]
        raise ModelError(
            "the likelihood (or a potential) is infinite at the prior draw "
            f"{describe_row(prepared.flat, row)}, so log Z is infinite; bound it away from there"
        )
    if not np.any(np.isfinite(log_ratio)):
        raise ModelError(
            f"the log likelihood plus potentials is not finite at any of {len(start)} prior draws, "
            f"such as {describe_row(prepared.flat, start[0])}; check the observed data against the "
            "support of the likelihood, or use a prior that reaches it"
        )
    n_nan = int(np.isnan(log_ratio).sum())
    if n_nan:
        row = start[int(np.argmax(np.isnan(log_ratio)))]
        warn(
            f"the log likelihood plus potentials is NaN at {n_nan} of {len(start)} prior draws, "
            f"such as {describe_row(prepared.flat, row)}; NaN counts as a likelihood of zero. If "
            "that is not what is meant, guard the expression or restrict the prior"
        )


def check_scale(kernel: Kernel, n_dims: int) -> None:
    """Refuse a kernel with scales for another number of dimensions."""
    if isinstance(kernel.scale, tuple) and len(kernel.scale) != n_dims:
        raise ValueError(
            f"scale has {len(kernel.scale)} entries, but the model has {n_dims} unconstrained "
            "dimensions; give one number, or one for each of them"
        )
