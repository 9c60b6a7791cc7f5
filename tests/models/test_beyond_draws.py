"""A log Z that lacks a mode is below that of rows which walk from the prior, and no other is."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from support.checks import make_rng

from pymc_logz.checks.missed_modes import larger, walked_log_z
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.models.beyond_draws import N_ROWS, walk_from_prior

Draw = Callable[[np.random.Generator, int], np.ndarray]


class Mixture:
    """Normals in d dimensions as a likelihood times a normal prior of standard deviation 3."""

    def __init__(self, shares: list[float], centres: np.ndarray, sd: float) -> None:
        self.shares, self.centres, self.sd = np.array(shares), centres, sd

    def __call__(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log prior, and log target (normalised) less that."""
        prior = norm.logpdf(rows, 0, 3).sum(axis=1)
        parts = [multivariate_normal.logpdf(rows, centre, self.sd**2) for centre in self.centres]
        target = logsumexp(np.log(self.shares)[:, None] + np.atleast_2d(parts), axis=0)
        return prior, target - prior

    def told(self, label: str, parts: list[int]) -> bool:
        """Whether something is found beside log Z of some of the parts."""
        rng = make_rng("modes", label)
        d = self.centres.shape[1]
        found = walked_log_z(self, lambda rng, n: 3 * rng.standard_normal((n, d)), rng)
        return found is not None and bool(larger(found, estimate(self.shares[parts].sum())))


def estimate(z: float) -> LogZEstimate:
    """One of a Z that is known to a hundredth."""
    log_weight = np.log(z) + 0.3 * make_rng("estimate").standard_normal(1000) - 0.045
    return importance_log_z(log_weight, method="hais")


TWO = Mixture([0.8, 0.2], np.array([[2.0, 2.0], [-2.0, -1.0]]), 0.3)
IN_FIVE = Mixture([0.5, 0.5], np.vstack([np.ones(5), -np.ones(5)]), 0.2)


@pytest.mark.parametrize("seed", range(5))
def test_a_mode_without_draws_is_found(seed: int) -> None:
    """Catches rows that die out on the way, and a mass that is that of something else."""
    assert TWO.told(f"first {seed}", [0])
    assert IN_FIVE.told(f"in five {seed}", [1])


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_beside_all_modes(seed: int) -> None:
    """Catches a false alarm."""
    assert not TWO.told(f"both {seed}", [0, 1])
    assert not IN_FIVE.told(f"five, both {seed}", [0, 1])


def test_a_curved_ridge_is_seen_whole() -> None:
    """Catches a fit that has less than it, or more."""

    def ring(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        prior = norm.logpdf(rows, 0, 2).sum(axis=1)
        return prior, norm.logpdf(np.hypot(*rows.T), 2, 0.05)

    radius = np.linspace(1e-3, 4, 4000)
    density = norm.pdf(radius, 2, 0.05) * radius / 4 * np.exp(-(radius**2) / 8)
    exact = float(np.trapezoid(density, radius))
    found = walked_log_z(ring, lambda rng, n: 2 * rng.standard_normal((n, 2)), make_rng("ring"))
    assert found is not None
    assert not larger(found, estimate(exact))
    assert larger(found, estimate(exact / 2))


def test_rows_that_cannot_get_there_say_nothing() -> None:
    """Catches an endless walk, and NaN that spreads."""

    def nowhere(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ratio = np.where(rows[:, 0] > 0, np.nan, -np.inf)
        return np.zeros(len(rows)), ratio

    def far(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return norm.logpdf(rows, 0, 1).sum(axis=1), -1e12 * (rows[:, 0] - 50) ** 2

    rng = make_rng("nowhere")
    start = rng.standard_normal((N_ROWS, 2))
    assert walk_from_prior(nowhere, start, rng) is None
    assert walk_from_prior(far, start, rng) is None
