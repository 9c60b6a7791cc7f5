"""Draws of PyMC's own sampler, where a population from the prior is too small for the posterior."""

import numpy as np

from pymc_logz.models.posterior_draws import draw_posterior
from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.reference import Reference, fitted_to_draws
from pymc_logz.runners.block import Block

MANY_DIMENSIONS = 16
"""Dimensions from which on a posterior is sampled rather than annealed to from the prior, whose
ladder has thousands of temperatures there. In fewer it costs less than the sampler's compilation,
and loses no mode."""


def sampled_reference(
    prepared: Prepared,
    block: Block,
    refused: Reference,
    rng: np.random.Generator,
) -> Reference:
    """Mixture fitted to draws of ``pm.sample``, or the reference that was to be taken before.

    A mode that all of its chains miss is missing from the mixture.

    Parameters
    ----------
    prepared
        The model.
    block
        Moves on the path from the prior, where the sampler's evaluations are counted.
    refused
        What is taken if this fit is none: the prior, because a fit to the pilot's rows was refused.
    rng
        Generator of the sampler and of the fit.
    """
    worthwhile = refused.poor_fit and prepared.n_dims > MANY_DIMENSIONS
    if not worthwhile or prepared.exact_row is not None:
        return refused
    if (draws := draw_posterior(prepared, rng)) is None:
        return refused
    block.work.add(draws.n_gradients)
    log_mass, error = prepared.prior.log_share(rng)
    mixture, what = fitted_to_draws(prepared, draws.rows, log_mass, rng, refused.funnel)
    reason = f"{what} of pm.sample, since {refused.reason}"
    return Reference("learned", reason, mixture, error, refused.funnel)
