"""Draws of PyMC's own sampler, where a population from the prior is too small for the posterior."""

from dataclasses import replace

import numpy as np

from pymc_logz.models.posterior_draws import draw_posterior
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.funnels import fitted_funnel
from pymc_logz.pilot.learned import (
    COVERED,
    NEGLIGIBLE,
    apart,
    covered_share,
    falls_short,
    finds_more,
    left_to_prior,
)
from pymc_logz.pilot.population import Stages, TargetRows
from pymc_logz.pilot.reference import Reference, fitted_to_draws, look_at_prior
from pymc_logz.runners.block import Block
from pymc_logz.trees.doubts import Doubt

MANY_DIMENSIONS = 16
"""Dimensions from which on a posterior is sampled rather than annealed to from the prior, whose
ladder has thousands of temperatures there. In fewer it costs less than the sampler's compilation,
and loses no mode."""
FEW_DIMENSIONS = 8
"""Dimensions up to which the sampler is not asked at all."""
LONG = 2**18
"""Moves of all rows of a run beyond which it is asked: about as many as it makes itself where a
posterior is difficult."""


def is_sampled(prepared: Prepared) -> bool:
    """Whether ``pm.sample`` is called where a fit to a pilot's rows is refused."""
    return prepared.n_dims > MANY_DIMENSIONS and prepared.exact_row is None


def is_asked_if_long(prepared: Prepared) -> bool:
    """Whether ``pm.sample`` is called where a run would make more than `LONG` moves."""
    return prepared.n_dims > FEW_DIMENSIONS and prepared.exact_row is None


def sampled_reference(
    prepared: Prepared,
    block: Block,
    taken: Reference,
    stages: Stages,
    n_moves: int,
    rng: np.random.Generator,
) -> Reference | None:
    """Mixture fitted to draws of ``pm.sample``, where a run from another reference would be long.

    In few dimensions it has to cover the rows that the pilot carried from the prior, as the other
    one had to, or to find much more than they did: see `objection_to_draws`. In many dimensions
    these rows are too few to judge it, and a mode that all chains miss may be missing.

    Parameters
    ----------
    prepared
        The model.
    block
        Moves on the path from the prior, where the sampler's evaluations are counted.
    taken
        Where the run would start: at a fit, or at the prior because a fit was refused.
    stages
        The pilot, from the prior.
    n_moves
        Moves of all rows of that run, at least.
    rng
        Generator of the sampler and of the fit.

    Returns
    -------
    Reference or None
        None where the sampler was not asked, or cannot sample the model.
    """
    if taken.poor_fit and is_sampled(prepared):
        return _of_sampler(prepared, block, taken.reason, rng)
    is_fit = taken.mixture is not None or taken.poor_fit
    if not is_fit or n_moves <= LONG or stages.rows is None or not is_asked_if_long(prepared):
        return None
    because = f"a run would take {n_moves:,} moves otherwise: {taken.reason}"
    reference = _of_sampler(prepared, block, because, rng)
    if reference is None or reference.mixture is None:
        return None
    rows, judges = (
        in_coordinates_of(part, taken, reference) for part in (stages.rows, apart(stages)[1])
    )
    missed = left_to_prior(reference.mixture, rows) > NEGLIGIBLE
    return replace(reference, covered=0.0 if missed else covered_share(reference.mixture, judges))


def objection_to_draws(
    sampled: Reference, stages: Stages, log_z: float, error: float
) -> Doubt | None:
    """What speaks against a fit to draws: that it lacks what the pilot found.

    Where rows from it find much more than the pilot did, it is the pilot that got lost, and what it
    found is no part of the posterior to speak of. Where neither finds more, and the fit has next to
    no density at the pilot's rows, one of the two is wrong: status ``"disagrees"``.

    Parameters
    ----------
    sampled
        From `sampled_reference`.
    stages
        The pilot, from the prior.
    log_z, error
        Of rows from this reference, in nats.
    """
    if against := falls_short(stages, log_z, error):
        return Doubt("missed_mode", against)
    if sampled.covered < COVERED and not finds_more(stages, log_z, error):
        share = f"{sampled.covered:.1g}"
        reason = (
            f"draws of pm.sample cover the pilot's rows with an effective share of {share} only"
        )
        return Doubt("disagrees", reason)
    return None


def in_coordinates_of(rows: TargetRows, one: Reference, other: Reference) -> TargetRows:
    """Rows in the coordinates of one reference, in those of another; without gradients."""
    position = other.evened(one.restored(rows.position))
    volume = other.log_volume(position) - one.log_volume(rows.position)
    log_reference = rows.log_reference + volume
    return TargetRows(position, log_reference, rows.log_ratio, np.zeros_like(position))


def _of_sampler(
    prepared: Prepared, block: Block, because: str, rng: np.random.Generator
) -> Reference | None:
    """Mixture fitted to draws of ``pm.sample``; None if it cannot sample the model."""
    if (draws := draw_posterior(prepared, rng)) is None:
        return None
    block.work.add(draws.n_gradients)
    # few rows of a pilot that did not get far look like a funnel where there is none
    funnel = fitted_funnel(draws.rows, look_at_prior(prepared, rng))
    log_mass, error = prepared.prior.log_share(rng)
    mixture, what = fitted_to_draws(prepared, draws.rows, log_mass, rng, funnel)
    reason = f"{what} of pm.sample, since {because}"
    return Reference("learned", reason, mixture, error, funnel, is_sampled=True, draws=draws.rows)
