"""Log Z of two Gaussians along the path from their box, against quadrature and Monte Carlo."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

from pymc_logz.energies import two_gaussians, two_gaussians_log_z

WEIGHTS, CENTRES, SD = np.array([0.1, 0.9]), np.array([0.5, -0.5]), 0.1
BETAS = np.array([0.0, 1e-3, 0.02, 0.4, 1.0])


def test_one_dimension() -> None:
    """Catches a factor of the truncated law, and the weight of a mode at the wrong power."""
    exact = [
        integrate.quad(
            lambda x, beta: (WEIGHTS @ stats.norm.pdf(x, CENTRES, SD)) ** beta / 4,
            *(-2, 2),
            args=(beta,),
            points=[-0.5, 0.0, 0.5],
            limit=500,
        )[0]
        for beta in BETAS
    ]
    np.testing.assert_allclose(two_gaussians_log_z(BETAS, 1), np.log(exact), atol=1e-7)


def test_two_dimensions() -> None:
    """Catches a convolution that is off by a place."""
    x = (np.arange(2000) + 0.5) * 0.002 - 2
    parts = [
        np.log(w) + np.add.outer(stats.norm.logpdf(x, c, SD), stats.norm.logpdf(x, c, SD))
        for w, c in zip(WEIGHTS, CENTRES, strict=True)
    ]
    exact = [logsumexp(beta * np.logaddexp(*parts)) - 2 * np.log(2000) for beta in BETAS]
    np.testing.assert_allclose(two_gaussians_log_z(BETAS, 2), exact, atol=1e-5)


def test_the_end_is_the_energy() -> None:
    """Catches an error that grows with the number of dimensions."""
    curve = two_gaussians_log_z(np.array([0.0, 1.0]), 20)
    assert curve == pytest.approx([0.0, two_gaussians(20).log_z], abs=1e-8)
