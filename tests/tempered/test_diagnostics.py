"""Diagnostics of tempered runs against what is known by hand or by formula."""

import numpy as np
from scipy import stats
from support.checks import make_rng

from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.tempered.results import level_mixing, level_overlap, rejection_rates, round_trips


def make_draws(level: np.ndarray, log_ratio: np.ndarray, n_levels: int) -> TemperedDraws:
    betas = np.linspace(0, 1, n_levels)
    # log Z of a log ratio that is normal at the reference, see `normal_ratios`
    log_z = 0.5 * (SD * betas) ** 2
    return TemperedDraws(level, log_ratio, betas, np.zeros(n_levels), log_z)


SD = 3.0


def normal_ratios(rng: np.random.Generator, level: np.ndarray, n_levels: int) -> np.ndarray:
    """Log ratios that are N(0, SD^2) at beta = 0: then N(beta SD^2, SD^2) at beta."""
    return SD**2 * level / (n_levels - 1) + SD * rng.standard_normal(level.shape)


def test_round_trips_by_hand() -> None:
    """Catches a trip counted at each end, levels in between counted, and walkers joined."""
    level = np.array(
        [
            [0, 1, 2, 1, 0, 0, 1, 2, 2, 0],
            [2, 2, 1, 0, 0, 1, 2, 1, 1, 1],
            [0, 1, 0, 1, 0, 1, 0, 1, 0, 1],
            [1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
            [1, 2, 0, 1, 1, 1, 1, 1, 1, 1],
        ]
    )
    np.testing.assert_array_equal(round_trips(level, 3), [2, 1, 0, 0, 0])


def test_rejection_rates_of_normal_log_ratios() -> None:
    """Catches a sign, a step of the ladder, or pairs of one level with itself.

    The exponent of the swap of two such draws is normal with mean ``-(SD step)^2`` and variance
    twice that, so it is accepted with probability ``2 Phi(-SD step / sqrt 2)``.
    """
    n_levels, rng = 4, make_rng("rejection")
    level = np.tile(np.arange(n_levels), (8, 500))
    draws = make_draws(level, normal_ratios(rng, level, n_levels), n_levels)
    exact = 1 - 2 * stats.norm.cdf(-SD / (n_levels - 1) / np.sqrt(2))
    # a mean over all pairs of 512 and 512 varies no more than one over 512 independent pairs
    error = np.sqrt(exact * (1 - exact) / 512)
    np.testing.assert_allclose(rejection_rates(draws), exact, atol=5 * error)


def test_rejection_rate_of_a_level_without_draws_is_nan() -> None:
    """Catches a rate of nothing."""
    level = np.tile([0, 2], (2, 50))
    rates = rejection_rates(make_draws(level, np.zeros((2, 100)), 3))
    assert np.all(np.isnan(rates))


def test_mixing_of_independent_draws_and_of_walkers_that_stay() -> None:
    """Catches ESS and R-hat of something else than the walkers' own series."""
    n_levels, rng = 4, make_rng("mixing")
    level = rng.integers(n_levels, size=(8, 1000))
    ess, rhat = level_mixing(make_draws(level, normal_ratios(rng, level, n_levels), n_levels))
    assert np.all((ess > 0.7 * level.size) & (ess < 1.4 * level.size))
    assert np.all(rhat < 1.02)
    stays = np.tile(np.arange(n_levels)[:, None], (2, 1000))
    ess, rhat = level_mixing(make_draws(stays, normal_ratios(rng, stays, n_levels), n_levels))
    assert np.all(rhat[[0, -1]] > 1.3)
    assert np.all(ess[[0, -1]] < 100)


def test_mixing_of_walks_too_short_to_tell_is_nan() -> None:
    """Catches a failure inside ArviZ where there is nothing to measure."""
    level = np.zeros((3, 2), dtype=int)
    ess, rhat = level_mixing(make_draws(level, np.zeros((3, 2)), 3))
    assert np.all(np.isnan(ess))
    assert np.all(np.isnan(rhat))


def test_overlap_of_normal_log_ratios() -> None:
    """Catches an overlap of all draws, not of those at each level, and a row without draws."""
    rng = make_rng("overlap")
    level = rng.integers(4, size=(50, 400))
    draws = make_draws(level, normal_ratios(rng, level, 4), 4)
    found = level_overlap(draws)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    # detailed balance: as many draws of j could be of k as the other way round
    flow = found * (draws.visits / draws.n_draws)[:, None]
    np.testing.assert_allclose(flow, flow.T, atol=0.01)
    assert np.argmin(found[0]) == 3
    without = make_draws(np.where(level == 1, 0, level), draws.log_ratio, 4)
    assert np.isnan(level_overlap(without)[1]).all()
