"""RTS and TS: formulas by hand, several segments, bias and variance of the source."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from support.checks import assert_detects, check_coverage, check_means, make_rng
from support.tempered_draws import PoissonPath, TruncatedPath, gibbs_draws, ladder, sticky_draws

from pymc_logz.estimators import (
    RunningRTS,
    TemperedDraws,
    mbar,
    rao_blackwell_log_weight,
    rts,
    rts_log_z,
    ts,
)

PATH, BETAS = PoissonPath(), ladder(5)
EXACT = PATH.log_z(BETAS)
LOG_PRIOR = np.log([3.0, 2.0, 1.0, 1.5, 2.5])
BAD_GUESS = EXACT + np.array([0.0, 0.7, -0.4, 0.9, -0.8])


def q_by_hand(draws: TemperedDraws, log_z_hat: np.ndarray) -> np.ndarray:
    """q(level | x) of all draws in order, shape (W * N, K)."""
    log_q = draws.log_ratio.ravel()[:, None] * draws.betas + draws.log_prior - log_z_hat
    return np.exp(log_q - logsumexp(log_q, axis=1, keepdims=True))


def joined(parts: list[TemperedDraws], guesses: list[np.ndarray]) -> TemperedDraws:
    """One run whose log_z_hat changed from part to part."""
    sizes = [part.level.shape[1] for part in parts]
    return replace(
        parts[0],
        level=np.concatenate([part.level for part in parts], axis=1),
        log_ratio=np.concatenate([part.log_ratio for part in parts], axis=1),
        log_z_hat=np.array(guesses),
        segment=np.repeat(np.arange(len(parts)), sizes),
    )


def three_segments(label: object, shape: tuple[int, int] = (16, 40)) -> TemperedDraws:
    rng = make_rng("segments", label)
    guesses = [np.zeros(5), BAD_GUESS, EXACT]
    parts = [
        sticky_draws(PATH, rng, betas=BETAS, shape=shape, log_z_hat=guess, log_prior=LOG_PRIOR)
        for guess in guesses
    ]
    return joined(parts, guesses)


def test_formulas_by_hand() -> None:
    """Catches a prior or a guess of log Z upside down, and ratios to the wrong level."""
    draws = sticky_draws(
        PATH, make_rng("hand"), betas=BETAS, log_prior=LOG_PRIOR, log_z_hat=BAD_GUESS
    )
    share = q_by_hand(draws, BAD_GUESS).mean(axis=0)
    expected = BAD_GUESS - BAD_GUESS[0] + np.log(share / share[0]) - LOG_PRIOR + LOG_PRIOR[0]
    assert rts(draws).log_z == pytest.approx(expected, abs=1e-10)
    assert rts_log_z(draws) == pytest.approx(expected, abs=1e-10)
    assert rts(draws).details["level_share"] == pytest.approx(share)
    counts = draws.visits / draws.n_draws
    expected = BAD_GUESS - BAD_GUESS[0] + np.log(counts / counts[0]) - LOG_PRIOR + LOG_PRIOR[0]
    assert ts(draws).log_z == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("guess", [EXACT, BAD_GUESS, np.zeros(5)], ids=["exact", "bad", "zero"])
def test_right_whatever_the_guess(guess: np.ndarray) -> None:
    """Catches an estimate that leans on log_z_hat, or that forgets the prior over levels."""
    draws = gibbs_draws(
        PATH,
        make_rng("guess", guess.sum()),
        betas=BETAS,
        shape=(40, 300),
        log_prior=LOG_PRIOR,
        log_z_hat=guess,
    )
    for curve in (rts(draws), ts(draws)):
        assert curve.status == "ok"
        assert np.all(np.abs(curve.log_z - EXACT)[1:] < 5 * curve.mcse[1:])
    without = ts(replace(draws, log_prior=np.zeros(5)))
    assert np.max(np.abs(without.log_z - EXACT)[1:] / without.mcse[1:]) > 10


def test_rao_blackwell_beats_counting() -> None:
    """Catches q(level | x) that is no more than the level."""
    draws = sticky_draws(PATH, make_rng("beats"), betas=BETAS)
    assert rts(draws).mcse[-1] < 0.6 * ts(draws).mcse[-1]


def test_a_hopeless_guess_leads_to_a_better_one() -> None:
    """Catches sums that underflow in the warm-up, where log_z_hat is off by thousands."""
    log_ratio = np.array([[-9000.0, -4000.0, -2500.0, -2100.0]])
    draws = TemperedDraws(np.zeros((1, 4), int), log_ratio, BETAS, np.zeros(5), np.zeros(5))
    log_z = rts_log_z(draws)
    assert np.all(np.isfinite(log_z))
    # log q(level | x) is beta * log ratio here
    expected = logsumexp(BETAS * log_ratio.T, axis=0) - np.log(4)
    assert log_z == pytest.approx(expected, abs=1e-9)
    assert rts(draws).status == "unvisited_level"


def test_one_segment_twice_is_one_segment() -> None:
    """Catches a likelihood whose maximum is not the closed form."""
    draws = sticky_draws(PATH, make_rng("twice"), betas=BETAS, log_z_hat=BAD_GUESS)
    twice = joined([draws], [BAD_GUESS, BAD_GUESS])
    twice = replace(twice, segment=np.arange(draws.level.shape[1]) % 2)
    for method in (rts, ts):
        one, two = method(draws), method(twice)
        assert two.log_z == pytest.approx(one.log_z, abs=1e-9)
        assert two.mcse == pytest.approx(one.mcse, rel=1e-6, abs=1e-12)
        assert two.contributions == pytest.approx(one.contributions, abs=1e-9)
    assert rts_log_z(twice) == pytest.approx(rts(draws).log_z, abs=1e-9)


def test_segments_maximise_their_likelihood() -> None:
    """Catches a wrong score: eq. 14 summed over segments, maximised by another method."""
    draws = three_segments("likelihood")
    q = np.concatenate([q_by_hand(draws, guess) for guess in draws.log_z_hat])
    q = q.reshape(3, *draws.level.shape, 5)
    by_segment = [q[s][:, draws.segment[0] == s].sum(axis=(0, 1)) for s in range(3)]

    def loss(log_z: np.ndarray) -> float:
        log_z = np.append(0.0, log_z)
        return -sum(
            c @ log_z - c.sum() * logsumexp(LOG_PRIOR + log_z - guess)
            for c, guess in zip(by_segment, draws.log_z_hat, strict=True)
        )

    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-6})
    assert rts(draws).log_z[1:] == pytest.approx(best.x, abs=1e-4)


def test_intervals_over_segments_cover() -> None:
    """Catches errors of one segment for those of all, and pooling under one guess."""
    curves = [rts(three_segments(i)) for i in range(200)]
    z = np.array([(curve.log_z[-1] - EXACT[-1]) / curve.mcse[-1] for curve in curves])
    check_coverage(np.abs(z) < 1.96)
    assert_detects(check_coverage, np.abs(z) < 1.96 / 2)
    assert np.mean(np.abs(z) < 1.96 * 2) > 0.99, "errors twice as large would go unnoticed"
    draws = three_segments("pooled", (40, 300))
    pooled = ts(replace(draws, log_z_hat=EXACT, segment=np.zeros(1, dtype=int)))
    assert np.max(np.abs(pooled.log_z - EXACT)[1:] / pooled.mcse[1:]) > 5
    for curve in (ts(draws), rts(draws)):
        assert np.max(np.abs(curve.log_z - EXACT)[1:] / curve.mcse[1:]) < 5


def test_counting_with_a_level_unseen_over_segments() -> None:
    """Catches a likelihood that is solved for a level nobody has visited."""
    draws = three_segments("unseen")
    kept = np.where(draws.level == 2, 1, draws.level)
    curve = ts(replace(draws, level=kept))
    assert np.isnan(curve.log_z[2])
    assert np.all(np.isfinite(curve.log_z[[0, 1, 3, 4]]))
    assert np.all(np.isfinite(curve.mcse[[0, 1, 3, 4]]))
    assert rts(replace(draws, level=kept)).usable


def test_bias_and_variance_are_those_of_the_source() -> None:
    """Catches a sign or a level in eq. 15 and 16: independent draws, by hand."""
    draws = sticky_draws(PATH, make_rng("by hand"), betas=BETAS, log_z_hat=BAD_GUESS)
    q = q_by_hand(draws, BAD_GUESS)
    c, sigma = q.mean(axis=0), np.cov(q.T) / draws.n_draws
    relative = np.diag(sigma) / c**2
    curve = rts(draws)
    # the autocorrelations, all zero, are estimated too
    variance = relative[0] + relative - 2 * sigma[0] / (c * c[0])
    assert curve.mcse == pytest.approx(np.sqrt(np.maximum(variance, 0)), rel=0.1)
    assert curve.details["bias"] == pytest.approx(
        0.5 * (relative[0] - relative), abs=0.2 * relative.max()
    )


def test_bias_and_variance_of_the_source_are_true() -> None:
    """Catches a misprint in eq. 15 and 16: the spread of many short runs with a rare reference."""
    n_runs, n = 10_000, 100
    betas = np.array([0.0, 1.0])
    exact = PATH.log_z(betas)
    guess = exact + np.array([2.5, 0.0])
    draws = sticky_draws(PATH, make_rng("eq15"), betas=betas, shape=(n_runs, n), log_z_hat=guess)
    q = q_by_hand(draws, guess).reshape(n_runs, n, 2)
    c = q.mean(axis=1)
    log_z = guess[1] - guess[0] + np.log(c[:, 1] / c[:, 0])
    mean, sigma = c.mean(axis=0), np.cov(c.T)
    relative = np.diag(sigma) / mean**2
    bias = 0.5 * (relative[0] - relative[1])
    noise = log_z.std() / np.sqrt(n_runs)
    assert bias > 8 * noise, "too small a bias to tell its sign"
    # what is left is of second order in the bias
    assert (log_z - exact[1]).mean() == pytest.approx(bias, abs=0.2 * bias + 5 * noise)
    variance = relative.sum() - 2 * sigma[0, 1] / mean.prod()
    assert log_z.var() == pytest.approx(variance, rel=0.3)
    assert rts_log_z(draws)[1] == pytest.approx(exact[1], abs=5 * np.sqrt(variance / n_runs))


def test_errors_are_those_of_replicates() -> None:
    """Catches an mcse off by a factor, with draws that are autocorrelated."""
    curves = [
        rts(
            sticky_draws(
                PATH, make_rng("spread", i), betas=BETAS, shape=(20, 60), stay=0.7, log_z_hat=EXACT
            )
        )
        for i in range(150)
    ]
    for k in (1, 4):
        spread = np.var([curve.log_z[k] for curve in curves], ddof=1)
        square = np.mean([curve.mcse[k] ** 2 for curve in curves])
        assert square == pytest.approx(spread, rel=4 * np.sqrt(2 / 150))


@pytest.mark.parametrize("guess", [EXACT, BAD_GUESS], ids=["exact", "bad"])
def test_all_draws_stand_for_the_target(guess: np.ndarray) -> None:
    """Catches weights of the wrong level, or of draws at the last level only."""
    draws = gibbs_draws(
        PATH, make_rng("weights", guess.sum()), betas=BETAS, shape=(60, 200), log_z_hat=guess
    )
    weight = np.exp(rao_blackwell_log_weight(draws))
    assert weight.shape == draws.level.shape
    assert weight.sum() == pytest.approx(1.0)

    def walkers_off(weight: np.ndarray) -> dict[str, np.ndarray]:
        """What each walker adds to the error of a ratio of sums."""
        exact = PATH.mean_log_ratio(np.ones(1))[0]
        return {"mean log ratio": (weight * (draws.log_ratio - exact)).sum(axis=1)}

    check_means(walkers_off(weight))
    assert_detects(check_means, walkers_off(np.full(weight.shape, 1 / weight.size)))
    # weights of the target only: many more effective draws than were made there
    ess = 1 / (weight**2).sum()
    assert ess > 1.5 * draws.visits[-1]


def test_weights_over_segments() -> None:
    """Catches one guess of log Z used for all segments."""
    draws = three_segments("weights", (40, 100))
    log_weight = rao_blackwell_log_weight(draws)
    q = np.stack([q_by_hand(draws, guess)[:, -1] for guess in draws.log_z_hat])
    by_hand = np.choose(draws.segment.ravel(), q)
    assert np.exp(log_weight.ravel()) == pytest.approx(by_hand / by_hand.sum())


def test_a_reference_with_draws_outside_the_support() -> None:
    """Catches NaN from draws of probability zero at all levels but the first."""
    path = TruncatedPath()
    draws = gibbs_draws(path, make_rng("truncated"), betas=BETAS, shape=(20, 400))
    assert np.isneginf(draws.log_ratio).any()
    exact = path.log_z(BETAS)
    for method in (rts, ts, mbar):
        curve = method(draws)
        assert curve.status == "ok"
        assert np.all(np.abs(curve.log_z - exact)[1:] < 5 * curve.mcse[1:])
    assert rts_log_z(draws) == pytest.approx(rts(draws).log_z)
    outside = np.isneginf(draws.log_ratio)
    assert np.all(np.isneginf(rao_blackwell_log_weight(draws)[outside]))


def test_sums_alone_are_enough() -> None:
    """Catches walkers that are mixed up, draws that count twice, and an error between draws."""
    draws = sticky_draws(
        PATH, make_rng("running"), betas=BETAS, shape=(40, 60), log_z_hat=BAD_GUESS, stay=0.5
    )
    running = RunningRTS(BETAS, draws.log_prior, BAD_GUESS)
    for first, last in ((0, 1), (1, 25), (25, 60)):
        running.add(draws.log_ratio[:, first:last])
    kept, found = rts(draws), running.curve
    assert found.log_z == pytest.approx(kept.log_z)
    assert running.level_share == pytest.approx(kept.details["level_share"])
    assert found.weight_ess == pytest.approx(kept.weight_ess)
    assert found.status == kept.status == "ok"
    between = kept.contributions.sum(axis=1)
    assert found.contributions[:, 0] == pytest.approx(between)
    assert found.mcse[1:] == pytest.approx(np.sqrt(40 / 39 * (between**2).sum(axis=0))[1:], rel=0.3)
    with pytest.raises(ValueError, match="there were 40 walkers"):
        running.add(draws.log_ratio[:10])
    with pytest.raises(ValueError, match="there are no draws yet"):
        RunningRTS(BETAS, np.zeros(5), EXACT).curve  # noqa: B018


def test_sums_over_blocks_have_the_error_of_draws() -> None:
    """Catches a block that is cut in two by a call, and autocorrelation that is not seen."""
    draws = sticky_draws(
        PATH, make_rng("blocks"), betas=BETAS, shape=(8, 6001), log_z_hat=BAD_GUESS, stay=0.9
    )
    running = RunningRTS(BETAS, draws.log_prior, BAD_GUESS, draws.block_length)
    assert draws.block_length == 3
    for first, last in ((0, 1), (1, 700), (700, 6001)):
        some = slice(first, last)
        running.add(draws.log_ratio[:, some], draws.level[:, some])
    kept, found = rts(draws), running.curve
    for name in ("log_z", "mcse", "contributions", "weight_ess"):
        np.testing.assert_allclose(getattr(found, name), getattr(kept, name), atol=1e-12)
    assert found.status == kept.status == "ok"
    # between walkers alone, eight of them are a rough guess
    alone = RunningRTS(BETAS, draws.log_prior, BAD_GUESS)
    alone.add(draws.log_ratio)
    assert alone.curve.status == "short_run"


@pytest.mark.parametrize(
    ("log_ratio", "level", "status"),
    [
        (np.array([[0.0, np.inf], [1.0, 0.0]]), None, "infinite_weight"),
        (np.full((2, 2), -np.inf), None, "no_support"),
        (np.zeros((2, 2)), np.array([[0, 0], [4, 0]]), "unvisited_level"),
    ],
)
def test_sums_of_draws_that_have_no_log_z(
    log_ratio: np.ndarray, level: np.ndarray | None, status: str
) -> None:
    """Catches an infinite weight that counts as one, and an end of the ladder that nobody saw."""
    running = RunningRTS(BETAS, np.zeros(5), EXACT)
    running.add(log_ratio, level)
    assert running.curve.status == status
    assert np.isnan(running.curve.log_z[-1])


def test_few_walkers_alone_do_not_tell_their_error() -> None:
    """Catches an error from four numbers that is called ok."""
    draws = sticky_draws(PATH, make_rng("few walkers"), betas=BETAS, shape=(4, 400))
    running = RunningRTS(BETAS, draws.log_prior, draws.log_z_hat[0])
    running.add(draws.log_ratio)
    assert running.curve.status == "short_run"
