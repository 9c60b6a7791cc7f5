"""Draws of the prior that hit what a run has missed, in few dimensions."""

import numpy as np
from scipy import stats
from support.checks import make_rng

from pymc_logz.checks.missed_modes import HIT_MASS, hit_doubts

WIDE, NARROW = stats.norm(-5, 3), stats.norm(8, 0.05)
PRIOR = stats.norm(0, 10)


def densities(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Prior, and a likelihood with half of the posterior in a mode 60 times as narrow."""
    x = rows[:, 0]
    log_posterior = np.logaddexp(WIDE.logpdf(x), NARROW.logpdf(x)) + np.log(0.5)
    return PRIOR.logpdf(x), log_posterior - PRIOR.logpdf(x)


def told(n_wide: int, n_narrow: int, log_z: float, seed: int, log_share: float = 0.0) -> list[str]:
    """Statuses for so many draws of each mode, and 1,024 of the prior."""
    rng = make_rng("hit", seed)
    parts = [law.rvs(n, random_state=rng) for law, n in ((WIDE, n_wide), (NARROW, n_narrow))]
    draws, prior = np.concatenate(parts)[:, None], PRIOR.rvs((1024, 1), random_state=rng)
    return [one.status for one in hit_doubts(densities, prior, draws, log_z, log_share)]


def test_a_narrow_mode_that_a_thousand_draws_hit_is_told() -> None:
    """Catches a mode that two stray rows hide, and a mass that is not one of the prior's draws."""
    for seed in range(3):
        assert told(900, 0, np.log(0.5), seed) == ["missed_mode"]
        assert told(900, 2, np.log(0.5), seed) == ["missed_mode"]


def test_draws_of_a_restricted_prior_weigh_its_share() -> None:
    """Catches a mode counted as often as orders that a transform rules out: 6 for three places."""
    for seed in range(3):
        assert told(900, 0, np.log(0.5), seed, np.log(1 / 24)) == []


def test_the_flank_of_a_mode_is_none_of_its_own() -> None:
    """Catches draws of the prior beside a narrow ridge, of which they find what draws have."""

    def ridge(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return stats.norm.logpdf(rows).sum(axis=1), stats.norm.logpdf(rows[:, 0], 0.2, 0.003)

    for seed in range(5):
        rng = make_rng("ridge", seed)
        draws = np.column_stack([rng.normal(0.2, 0.003, 600), rng.normal(size=600)])
        log_z = stats.norm.logpdf(0.2, 0, np.hypot(1, 0.003))
        prior = rng.normal(size=(1024, 2))
        assert hit_doubts(ridge, prior, draws, log_z, 0.0) == []


def test_where_the_likelihood_is_nan_it_is_zero() -> None:
    """Catches a mean over what is left of the draws, which makes a mode of a tail."""

    def positive(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = rows[:, 0]
        with np.errstate(invalid="ignore"):
            return PRIOR.logpdf(x), stats.norm.logpdf(np.log(x), np.log(5), 1)

    rng = make_rng("positive")
    x = PRIOR.rvs(200_000, random_state=rng)[:, None]
    weight = np.nan_to_num(np.exp(positive(x)[1]))
    draws, log_z = x[rng.random(len(x)) < weight / weight.max()][:1000], np.log(weight.mean())
    for _ in range(10):
        prior = PRIOR.rvs((1024, 1), random_state=rng)
        assert hit_doubts(positive, prior, draws, log_z, 0.0) == []


def test_a_handful_of_draws_tells_nothing() -> None:
    """Catches a crash where there is nothing to measure distances by."""
    for n in (1, 2, 3, 8):
        assert told(n, 0, np.log(0.5), n) == []


def test_draws_of_both_modes_are_not_accused() -> None:
    """Catches tails that count as modes."""
    for seed in range(10):
        assert told(450, 450, 0.0, seed) == []


def test_a_spike_among_the_rows_is_told_by_its_height() -> None:
    """Catches a mode that is far from no row, since they fill the plateau that it stands on."""

    def spiked(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        spike = stats.norm.logpdf(rows[:, 0], 0.3, 1e-3) + np.log(0.5)
        return np.zeros(len(rows)), np.logaddexp(spike, np.log(0.5))

    for seed in range(5):
        rng = make_rng("spike", seed)
        plateau = rng.random((900, 1))
        plateau = plateau[np.abs(plateau[:, 0] - 0.3) > 0.01]
        spike = rng.normal(0.3, 1e-3, (900, 1))
        prior = rng.random((4096, 1))
        for stray in (0, 1, 5, 30):
            draws = np.concatenate([plateau, spike[:stray]])
            found = hit_doubts(spiked, prior, draws, np.log(0.5), 0.0)
            assert [one.status for one in found] == ["missed_mode"]
        both = np.concatenate([plateau, spike])
        assert hit_doubts(spiked, prior, both, 0.0, 0.0) == []


def test_what_few_rows_have_above_them_is_no_mode() -> None:
    """Catches the noise of a hundred rows taken for what they lack."""

    def line(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return stats.norm.logpdf(rows[:, 0]), stats.norm.logpdf(rows[:, 0], 1.0, 1.0)

    log_z = stats.norm.logpdf(1.0, 0, np.sqrt(2))
    for seed in range(20):
        rng = make_rng("few", seed)
        draws = rng.normal(0.5, np.sqrt(0.5), (100, 1))
        assert hit_doubts(line, rng.normal(size=(4096, 1)), draws, log_z, 0.0) == []


def test_one_hit_is_worth_more_draws() -> None:
    """Would catch a spike of which 1,024 draws have but one hit, and a hit that is chance taken."""

    def spiked(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        spike = stats.norm.logpdf(rows, 0.3, 0.05).sum(axis=1) + np.log(0.5)
        return np.zeros(len(rows)), np.logaddexp(spike, np.log(0.5))

    rng = make_rng("one hit")
    plateau = rng.random((1024, 3))
    plateau = plateau[np.abs(plateau - 0.3).max(axis=1) > 0.25]
    first = np.concatenate([plateau, [[0.3, 0.3, 0.35]]])
    args = first, plateau, np.log(0.5), 0.0
    assert hit_doubts(spiked, *args) == []
    asked = []

    def more() -> np.ndarray:
        asked.append(True)
        return rng.random((8192, 3))

    assert [one.status for one in hit_doubts(spiked, *args, more)] == ["missed_mode"]
    # none of the others hits anything
    assert hit_doubts(spiked, *args, lambda: plateau) == []
    whole = np.concatenate([plateau, rng.normal(0.3, 0.05, (1000, 3))])
    assert hit_doubts(spiked, plateau, whole, 0.0, 0.0, more) == []
    assert len(asked) == 1


def test_a_sixth_of_z_above_all_rows_is_a_mode_if_weights_are_good() -> None:
    """Would catch a pole whose rows stop short of it, `ok`; a heavy tail is told by its weights."""

    def bumped(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        bump = stats.norm.logpdf(rows[:, 0], 0.3, 0.004) + np.log(0.15)
        return np.zeros(len(rows)), np.logaddexp(bump, np.log(0.85))

    for seed in range(5):
        rng = make_rng("a sixth", seed)
        plateau = rng.random((600, 1))
        plateau = plateau[np.abs(plateau[:, 0] - 0.3) > 0.02]
        args = bumped, rng.random((4096, 1)), plateau, np.log(0.85), 0.0
        assert [one.status for one in hit_doubts(*args)] == ["missed_mode"]
        assert hit_doubts(*args, least_mass=HIT_MASS) == []
        whole = np.concatenate([plateau, rng.normal(0.3, 0.004, (106, 1))])
        assert hit_doubts(*args[:2], whole, 0.0, 0.0) == []
