"""Draws of PyMC's own sampler, where a population from the prior is too small for the posterior."""

import numpy as np

from pymc_logz.models.posterior_draws import draw_posterior
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.funnels import fitted_funnel
from pymc_logz.pilot.reference import Reference, fitted_to_draws, look_at_prior
from pymc_logz.runners.block import Block

MANY_DIMENSIONS = 16
"""Dimensions from which on a posterior is sampled rather than annealed to from the prior, whose
ladder has thousands of temperatures there. In fewer it costs less than the sampler's compilation,
and loses no mode."""


def is_sampled(prepared: Prepared) -> bool:
    """Whether ``pm.sample`` is called where a fit to a pilot's rows is refused."""
    return prepared.n_dims > MANY_DIMENSIONS and prepared.exact_row is None


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
    if not (refused.poor_fit and is_sampled(prepared)):
        return refused
    if (draws := draw_posterior(prepared, rng)) is None:
        return refused
    block.work.add(draws.n_gradients)
    # few rows of a pilot that did not get far look like a funnel where there is none
    funnel = fitted_funnel(draws.rows, look_at_prior(prepared, rng))
    log_mass, error = prepared.prior.log_share(rng)
    mixture, what = fitted_to_draws(prepared, draws.rows, log_mass, rng, funnel)
    reason = f"{what} of pm.sample, since {refused.reason}"
    return Reference("learned", reason, mixture, error, funnel)
