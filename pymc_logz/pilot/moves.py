"""Compiled moves of a prepared model, and a look at where they start."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_logz.errors import ModelError, warn
from pymc_logz.kernels.base import Kernel
from pymc_logz.models.flat import describe_row, model_path
from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.reference import make_reference
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.runners.block import Block

PILOT_ROWS = (128, 512)
"""Numbers of rows per chain that suit a pilot too: more would make it dear, fewer unsure."""
USUAL_ROWS = 256
"""Rows of a pilot beside chains of another size."""


def compile_moves(
    prepared: Prepared,
    settings: RunSettings,
    compile_kwargs: Mapping[str, Any] | None = None,
    *,
    n_rows: int | None = None,
    data: np.ndarray | None = None,
) -> Block:
    """Moves from the reference that the settings ask for towards the target.

    Parameters
    ----------
    prepared
        The model.
    settings
        Kernel and reference.
    compile_kwargs
        Keyword arguments of ``pytensor.function``.
    n_rows
        Rows of the pilot. None takes as many as a chain has, where a pilot can do with that: rows
        of one size save JAX a second compilation.
    data
        What groups of rows bring along, shape (groups, D), if the model was prepared with data.

    Raises
    ------
    ModelError, ValueError
        If the settings do not fit the model.
    """
    check_scale(settings.kernel, prepared.n_dims)
    if n_rows is None:
        is_fit = PILOT_ROWS[0] <= settings.draws <= PILOT_ROWS[1]
        n_rows = settings.draws if is_fit else USUAL_ROWS
    reference = make_reference(
        prepared.flat, prepared.prior, settings.reference, prepared.check_rng, compile_kwargs
    )
    return Block(
        model_path(prepared.flat, reference),
        settings.kernel.resolved(prepared.n_dims),
        n_rows,
        compile_kwargs,
        data=data,
        # maps would have to differ from group to group
        transports=settings.transports and data is None,
    )


def check_scale(kernel: Kernel, n_dims: int) -> None:
    """Refuse a kernel with scales for another number of dimensions."""
    if isinstance(kernel.scale, tuple) and len(kernel.scale) != n_dims:
        raise ValueError(
            f"scale has {len(kernel.scale)} entries, but the model has {n_dims} unconstrained "
            "dimensions; give one number, or one for each of them"
        )


def check_start(prepared: Prepared, block: Block, start: np.ndarray) -> None:
    """Look at rows of the reference and their likelihood before anything is run on them."""
    prepared.prior.warn_of_share()
    log_ratio = block.evaluate(start)
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
