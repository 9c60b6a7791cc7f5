"""The mass of all priors of a model, of those too that a run takes for granted."""

import numpy as np
import pymc as pm

from pymc_logz.models.prior_check import Conditional, PriorMass, checked_masses


def check_prior_mass(model: pm.Model, rng: np.random.Generator) -> list[PriorMass]:
    """Log prior mass of each free variable, known or not; refuses as `check_priors` does."""
    return checked_masses(Conditional(model, tuple(model.free_RVs)), rng)
