"""Densities that the check of priors compares with."""

import numpy as np
from scipy.stats import gaussian_kde
from support.checks import make_rng

from pymc_logz.models.prior_check import CENTRAL_SHARE, _kernels


def test_kernels_are_those_of_scipy() -> None:
    """Would catch a bandwidth or a constant by which all priors of vectors look improper."""
    rng = make_rng("kernels")
    fitted = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3))
    distance = (fitted**2).sum(axis=1)
    central = fitted[distance <= np.quantile(distance, CENTRAL_SHARE)]
    x = rng.normal(size=(50, 3))
    np.testing.assert_allclose(_kernels(fitted, x), gaussian_kde(central.T).logpdf(x.T), rtol=1e-9)
