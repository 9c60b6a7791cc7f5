"""Modes that draws lack are found by rows from the prior, and nothing is found where none is."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from support.checks import make_rng

from pymc_logz.models.beyond_draws import (
    N_ROWS,
    in_company,
    other_mode,
    walk_from_prior,
)

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

    def draws(self, rng: np.random.Generator, n: int, parts: list[int]) -> np.ndarray:
        """Draws of some of the parts."""
        shares = self.shares[parts] / self.shares[parts].sum()
        centres = self.centres[rng.choice(parts, n, p=shares)]
        return centres + self.sd * rng.standard_normal(centres.shape)

    def found(self, label: str, parts: list[int]) -> tuple[float, float] | None:
        """What is found beside draws of some of the parts."""
        rng = make_rng("modes", label)
        start = 3 * rng.standard_normal((N_ROWS, self.centres.shape[1]))
        log_z = float(np.log(self.shares[parts].sum()))
        return other_mode(self, start, self.draws(rng, 2000, parts), log_z, rng)


TWO = Mixture([0.9, 0.1], np.array([[2.0, 2.0], [-2.0, -1.0]]), 0.3)
IN_FIVE = Mixture([0.5, 0.5], np.vstack([np.ones(5), -np.ones(5)]), 0.2)


@pytest.mark.parametrize("seed", range(5))
def test_a_mode_without_draws_is_found(seed: int) -> None:
    """Catches rows that die out on the way, and a mass that is that of something else."""
    found = TWO.found(f"first {seed}", [0])
    assert found is not None
    assert found[1] == pytest.approx(np.log(0.1), abs=0.3)
    other = IN_FIVE.found(f"five {seed}", [1])
    assert other is not None
    assert abs(other[1]) < 1.5


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_beside_all_modes(seed: int) -> None:
    """Catches rows in the tails, or on the way, that are taken for a mode."""
    assert TWO.found(f"both {seed}", [0, 1]) is None
    assert IN_FIVE.found(f"five, both {seed}", [0, 1]) is None


def test_a_curved_ridge_is_one_mode() -> None:
    """Catches straight lines that leave a ridge, and so find a barrier."""

    def ring(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        prior = norm.logpdf(rows, 0, 2).sum(axis=1)
        return prior, norm.logpdf(np.hypot(*rows.T), 2, 0.05)

    rng = make_rng("ring")
    angle, radius = rng.uniform(0, 2 * np.pi, 3000), 2 + 0.05 * rng.standard_normal(3000)
    draws = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    start = 2 * rng.standard_normal((N_ROWS, 2))
    assert other_mode(ring, start, draws, -2.5, rng) is None
    half = other_mode(ring, start, draws[draws[:, 0] > 0], -3.2, rng)
    assert half is not None


def test_what_has_no_mass_to_speak_of_is_none() -> None:
    """Catches an alarm for a mode that log Z would not notice."""
    faint = Mixture([0.998, 0.002], TWO.centres, 0.3)
    assert faint.found("faint", [0]) is None


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


def test_a_few_draws_are_no_company() -> None:
    """Catches a mode that counts as seen because four draws of a thousand are in it."""
    rng = make_rng("company")
    draws = rng.normal(size=(1000, 20))
    draws[:4, 0] += 60.0
    kept = in_company(draws)
    assert len(kept) > 900
    assert np.all(kept[:, 0] < 30)
    assert len(in_company(np.vstack([draws, draws + 60.0]))) > 1800
