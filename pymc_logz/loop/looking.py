"""The look: rows of the prior that walk to the posterior, or what is given in their place."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import xarray as xr

from pymc_logz.errors import PilotError
from pymc_logz.models.context import n_affordable, n_numbers
from pymc_logz.models.flat import unconstrain
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.funnels import Funnel, funnels_of_target
from pymc_logz.pilot.exchanges import reflected, reordered, slid
from pymc_logz.pilot.population import ROWS_TO_CORRELATE, Stages, run_pilot
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.pilot.within import rows_within
from pymc_logz.references.blend import AT_ONCE, N_ROWS, Moving, Target
from pymc_logz.references.reference import (
    ASKED_FOR,
    MAX_SHARE_ERROR,
    OF_INTEGERS,
    Reference,
    check_start,
    funnel_of,
    reference_of_draws,
)
from pymc_logz.runners.block import Block
from pymc_logz.trees.posterior import posterior_of
from pymc_logz.weights import TOLERANCE


@dataclass(frozen=True)
class Look(Moving):
    """Rows of the prior that walked to the posterior."""

    stages: Stages
    walked: Block
    """What they moved by."""
    funnel: Funnel | None
    """Coordinates that they moved in; None are the model's own."""

    @property
    def position(self) -> np.ndarray:
        """Where rows are at the end, in these coordinates, shape (n, d)."""
        assert self.stages.rows is not None
        return self.stages.rows

    @property
    def scale(self) -> np.ndarray:
        """Their standard deviations, shape (d,)."""
        return self.position.std(axis=0)

    def n_climbing(self, target: Target) -> int:
        """Rows of the prior that are looked at for other modes, fewer where one costs more."""
        flat = target.prepared.flat
        least = n_affordable(flat, self.walked.n_rows, N_ROWS[0])
        return int(np.clip(2**17 // n_numbers(flat), least, N_ROWS[1]))


def given_reference(
    target: Target, settings: RunSettings, rng: np.random.Generator, *, even: bool = True
) -> tuple[Reference | None, np.ndarray | None]:
    """What the path starts from, None where that is to be learned; and rows of positive likelihood.

    These are there only where it is zero at nearly all of the prior. ``even`` is as of
    `explore_prior`.
    """
    prepared, block, requested = target.prepared, target.block, settings.requested_reference
    given, draws = _prior_if_given(prepared, requested), None
    if given is None and isinstance(requested, xr.DataTree):
        draws = unconstrain(prepared.flat, posterior_of(requested, "reference"))

    def beyond() -> np.ndarray:
        return rows_within(prepared, block, rng) if draws is None else draws

    start = prepared.prior(rng, block.n_rows)
    within = check_start(prepared, block, start, rng, beyond if given is None else None)
    if draws is not None:
        given = reference_of_draws(prepared, draws, rng, even=even)
    return given, within


def _prior_if_given(prepared: Prepared, requested: str | xr.DataTree) -> Reference | None:
    """The prior, where it is asked for or nothing else may be; draws that a user has go first."""
    if prepared.flat.sites:
        return OF_INTEGERS
    if isinstance(requested, xr.DataTree):
        return None
    if requested == "prior":
        return ASKED_FOR
    error = prepared.prior.log_mass()[1]
    if error > MAX_SHARE_ERROR:
        reason = (
            f"a transform restricts the prior, whose constant is known to {error:.2g} nats only "
            "from anywhere else"
        )
        return Reference("prior", reason)
    return None


def explore_prior(
    target: Target,
    settings: RunSettings,
    rng: np.random.Generator,
    within: np.ndarray | None = None,
    *,
    even: bool = True,
) -> Look:
    """Rows of the prior that walk to the posterior, from ``within`` its support if that is given.

    Where they are in a funnel they walk again in coordinates that straighten it, to get to its
    narrow end, unless ``even`` is false. Entries that may be exchanged are in all orders.
    """
    prepared, block = target.prepared, target.block
    n_start = n_affordable(prepared.flat, block.n_rows, AT_ONCE)
    if within is None:
        start = prepared.prior(rng, n_start)
    else:
        start = rng.permutation(np.resize(within, (n_start, prepared.n_dims)))
    n_rows = int(np.clip(ROWS_TO_CORRELATE * prepared.n_dims, *N_ROWS))
    walk = partial(run_pilot, n_target_rows=n_rows, stays_within=within is not None)
    found = Look(walk(block, start, rng, settings), block, None)
    n_moves, funnel = n_metropolis(target, len(found.position)), None
    if even:
        funnel = funnel_of(prepared, found.position, rng)
        funnel = funnel or narrow_end(target, found.position, rng)
    if funnel is not None:
        moved = Reference("prior", "", funnel=funnel).start(block)
        start = funnel.whitened(prepared.prior(rng, n_start) if within is None else start)
        # coordinates that make the way longer are not those of the funnel
        most = len(found.stages.betas)
        with suppress(PilotError):
            again = Look(walk(moved, start, rng, settings, max_stages=most), moved, funnel)
            # a funnel that few rows show may not be one
            if not found.stages.exceeds(*again.stages.islands_log_z()):
                rows = slid(block, funnel, funnel.restored(again.position), rng, n_moves)
                found = replace(again, stages=replace(again.stages, rows=funnel.whitened(rows)))
    columns = prepared.flat.columns_by_name
    rows = reordered(found.walked, columns, found.position, rng)
    rows = reflected(found.walked, columns, rows, rng, n_moves)
    stages = replace(found.stages, rows=rows)
    # islands that share rows tell no log Z
    return replace(found, stages=stages if within is None else replace(stages, log_z=None))


def n_metropolis(target: Target, n: int) -> int:
    """How many moves of n rows, by values alone, take no time that a user would notice."""
    flat = target.prepared.flat
    return 0 if flat.sites or flat.calls_host else max(0, n_affordable(flat, n, 32 * n) // n - 1)


def narrow_end(
    target: Target, rows: np.ndarray, rng: np.random.Generator, n_fits: int = 8
) -> Funnel | None:
    """A funnel that no prior tells, fitted to rows (n, d) of the target, if it is one.

    It is one if, after moves along it, three times as many rows as may be missing are narrower than
    all but that many were before; the one with most of them is fitted again to rows that moved.
    """
    found, moved, n_moves = None, rows, n_metropolis(target, len(rows))
    for _ in range(n_fits if n_moves else 0):
        most, before = 3 * TOLERANCE, moved
        for funnel in funnels_of_target(before):
            slides = slid(target.block, funnel, before, rng, n_moves)
            width, width_now = (funnel.log_volume(funnel.whitened(x)) for x in (rows, slides))
            if (share := float(np.mean(width_now < np.quantile(width, TOLERANCE)))) > most:
                most, found, moved = share, funnel, slides
        if moved is before:
            break
    return found
