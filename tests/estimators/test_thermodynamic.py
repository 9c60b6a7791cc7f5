"""Stepping stones and thermodynamic integration: rules by hand, order, limits of support."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from support.checks import make_rng
from support.tempered_draws import PoissonPath, TruncatedPath, ladder, sticky_draws

from pymc_logz.estimators import (
    METHODS,
    TemperedDraws,
    bar_chain,
    check_agreement,
    rts,
    stepping_stone,
    stepping_stone_reverse,
    ti_corrected,
    ti_left,
    ti_marginal,
    ti_rb,
    ti_right,
    ti_simpson,
    ti_trapezoid,
)
from pymc_logz.weights import pareto_khat

PATH = PoissonPath()
REPEATS = 30


def small_run(log_ratio: list[float]) -> TemperedDraws:
    """Two values of the log ratio at each of three levels, repeated in as many walkers."""
    level, values = np.array([[0, 0, 1, 1, 2, 2]]), np.array([log_ratio])
    return TemperedDraws(
        np.tile(level, (REPEATS, 1)),
        np.tile(values, (REPEATS, 1)),
        np.array([0.0, 0.25, 1.0]),
        np.zeros(3),
        np.zeros(3),
    )


def test_rules_by_hand() -> None:
    """Catches widths of the wrong interval, or a correction of the wrong sign."""
    draws = small_run([-4.0, -2.0, 0.0, 2.0, 3.0, 5.0])  # means -3, 1, 4 and equal variances
    expected = {
        ti_left: [0.0, -0.75, 0.0],
        ti_right: [0.0, 0.25, 3.25],
        ti_trapezoid: [0.0, -0.25, 1.625],
        ti_corrected: [0.0, -0.25, 1.625],
        # the parabola through the three means is -3 + 19 x - 12 x**2
        ti_simpson: [0.0, -0.21875, 2.5],
    }
    for method, log_z in expected.items():
        assert method(draws).log_z == pytest.approx(log_z)
    n = 2 * REPEATS
    wider = small_run([-4.0, -2.0, 0.0, 2.0, 2.0, 6.0])  # variances 1, 1, 4 but for n / (n - 1)
    correction = 0.75**2 / 12 * 3 * n / (n - 1)
    assert ti_corrected(wider).log_z == pytest.approx([0.0, -0.25, 1.625 - correction])


def test_stones_by_hand() -> None:
    """Catches stones that step from the wrong level or in the wrong direction."""
    draws = small_run([-4.0, -2.0, 0.0, 2.0, 3.0, 5.0])
    up = np.log([np.mean(np.exp([-1.0, -0.5])), np.mean(np.exp([0.0, 1.5]))])
    assert stepping_stone(draws).log_z[1:] == pytest.approx(np.cumsum(up))
    down = -np.log([np.mean(np.exp([0.0, -0.5])), np.mean(np.exp([-2.25, -3.75]))])
    assert stepping_stone_reverse(draws).log_z[1:] == pytest.approx(np.cumsum(down))


def test_means_are_the_derivative_of_log_z() -> None:
    """Catches a mean over all draws, or over the draws of a neighbour."""
    betas = ladder(6)
    draws = sticky_draws(PATH, make_rng("means"), betas=betas, shape=(20, 500))
    exact = PATH.mean_log_ratio(betas)
    error = np.sqrt(PATH.variance_log_ratio(betas) / draws.visits)
    for method in (ti_trapezoid, ti_rb):
        assert np.all(np.abs(method(draws).details["mean_log_ratio"] - exact) < 5 * error)


def test_riemann_sums_enclose_the_integral() -> None:
    """Catches left and right exchanged: the integrand increases."""
    betas = ladder(6)
    exact = PATH.log_z(betas)[-1]
    draws = sticky_draws(PATH, make_rng("enclose"), betas=betas, shape=(20, 500))
    left, right = ti_left(draws), ti_right(draws)
    assert left.log_z[-1] < exact - 5 * left.noise[-1]
    assert right.log_z[-1] > exact + 5 * right.noise[-1]
    middle = (left.log_z + right.log_z) / 2
    assert ti_trapezoid(draws).log_z == pytest.approx(middle)


def test_ti_rb_tends_to_rts_as_the_ladder_gets_finer() -> None:
    """Catches another integrand: the two differ by the rule's error alone, of order 2."""
    sizes = np.array([8, 16, 32])
    difference = []
    for n_levels in sizes:
        draws = sticky_draws(
            PATH, make_rng("tends", n_levels), betas=ladder(n_levels), shape=(10, 500)
        )
        curves = [rts(draws), ti_rb(draws)]
        result = check_agreement(curves)
        difference.append(result.difference[1, 0])
        assert abs(difference[-1]) > 10 * result.error[1, 0], "noise hides the rule's error"
    slope = np.polyfit(np.log(sizes - 1), np.log(np.abs(difference)), 1)[0]
    assert slope == pytest.approx(-2, abs=0.15)
    assert abs(difference[-1]) < 0.1 * curves[0].mcse[-1] + 0.003


def test_part_of_the_reference_outside_the_support() -> None:
    """Catches a number from methods that cannot see that part of the reference."""
    path = TruncatedPath()
    betas = ladder(5)
    draws = sticky_draws(path, make_rng("support"), betas=betas, shape=(20, 300))
    exact = path.log_z(betas)[-1]
    blind = {name for name in METHODS if name.startswith("ti_")} | {"stepping_stone_reverse"}
    for name, method in METHODS.items():
        curve = method(draws)
        if name in blind:
            assert curve.status == "partial_support"
            assert np.isnan(curve.log_z[1:]).all()
        else:
            assert curve.status == "ok"
            assert abs(curve.log_z[-1] - exact) < 5 * curve.mcse[-1]
    # without those draws the reverse stones are off by the share of the reference that they miss
    inside = np.where(
        np.isneginf(draws.log_ratio), np.log(path.limit) * path.power, draws.log_ratio
    )
    wrong = stepping_stone_reverse(replace(draws, log_ratio=inside))
    assert abs(wrong.log_z[-1] - exact) > 5 * wrong.mcse[-1]


def test_stones_too_far_apart() -> None:
    """Catches a number from a step that one draw carries."""
    path = PoissonPath(total=3000.0, n=10.0)
    draws = sticky_draws(path, make_rng("far"), betas=np.array([0.0, 0.5, 1.0]), shape=(8, 300))
    curve = stepping_stone(draws)
    assert curve.status in {"degenerate", "high_khat"}
    assert curve.status == "high_khat" or np.isnan(curve.log_z[-1])
    assert curve.weight_ess < 20


def test_repeated_draws_do_not_break_the_tail_fit() -> None:
    """Catches an exception where the largest weights are one draw, kept by rejections."""
    draws = small_run([-4.0, -2.0, 0.0, 2.0, 3.0, 5.0])
    assert np.isnan(stepping_stone(draws).khat)
    # a tail of few values, at which the fit divides zero by zero; bounded, so not heavy
    assert pareto_khat(np.repeat([0.0, 0.5, 1.0], [1115, 20, 90])) < 0.5


@dataclass(frozen=True)
class WidePath:
    """A normal prior of standard deviation 1,000 and one observation of error 0.01."""

    def log_z(self, betas: np.ndarray) -> np.ndarray:
        return -0.5 * np.log1p(betas * 1e10)

    def draw(self, rng: np.random.Generator, beta: np.ndarray) -> np.ndarray:
        return rng.normal(size=beta.shape) / np.sqrt(1e-6 + beta * 1e4)

    def log_ratio(self, x: np.ndarray) -> np.ndarray:
        return -0.5 * 1e4 * x**2


INTEGRALS = (ti_left, ti_right, ti_trapezoid, ti_corrected, ti_rb, ti_simpson, ti_marginal)


@pytest.mark.parametrize("power", [2.0, 5.0, 20.0])
def test_rules_are_never_ok_where_they_are_wrong(power: float) -> None:
    """Catches ti_corrected = 4e9 and ti_left = -2788 for -310, both with status ok.

    Whatever the ladder is, a sum is off by at most a few errors, or says that it is off, or has no
    number; methods without such an error keep theirs wherever draws overlap.
    """
    path = WidePath()
    betas = np.append(0.0, np.geomspace(10.0**-power, 1.0, 12))
    draws = sticky_draws(path, make_rng("wide", power), betas=betas, shape=(20, 600))  # type: ignore[arg-type]
    exact = path.log_z(betas)[-1]
    for method in (*INTEGRALS, stepping_stone, stepping_stone_reverse):
        found = method(draws).estimate
        if found.status == "ok":
            assert abs(found.log_z - exact) < 4 * found.mcse, found
        if found.status not in ("high_khat", "low_weight_ess") and found.usable:
            assert abs(found.log_z - exact) < 4, found
        else:
            assert np.isnan(found.log_z)
            assert found.status in ("coarse_ladder", "degenerate", "no_overlap")


def test_a_fine_ladder_is_ok() -> None:
    """Would catch a rule that is accused of its noise."""
    alarms = 0
    for i in range(10):
        rng = make_rng("fine ladder", i)
        draws = sticky_draws(PATH, rng, betas=ladder(60), shape=(40, 400))
        for method in (ti_corrected, ti_trapezoid, ti_rb, stepping_stone):
            alarms += method(draws).status != "ok"
    assert alarms <= 1


def test_stones_err_at_least_as_much_as_the_best_method() -> None:
    """Catches stones from the side that does not see the tail: 15 errors off, with status ok."""
    betas = np.array([0.0, 1.0])
    for i in range(20):
        rng = make_rng("unseen tail", i)
        # a share of 1% of the reference is wide, and all but never seen at the target
        wide = rng.uniform(size=(16, 400)) < 0.01
        level = rng.integers(2, size=(16, 400))
        x = rng.normal(size=(16, 400)) * np.where(wide & (level == 0), 30.0, 1.0)
        log_reference = np.logaddexp(np.log(0.99) - x**2 / 2, -np.log(3000) - x**2 / 1800)
        draws = TemperedDraws(level, -(x**2) / 2 - log_reference, betas, np.zeros(2), np.zeros(2))
        for method in (stepping_stone, stepping_stone_reverse):
            found = method(draws)
            assert found.mcse[1] >= 0.999 * bar_chain(draws).mcse[1]
            if found.status == "ok":
                assert abs(found.log_z[1]) < 4 * found.mcse[1]
