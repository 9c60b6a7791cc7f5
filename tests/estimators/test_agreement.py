"""Agreement between estimates that share their draws: false alarms, names of the guilty."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from support.checks import assert_detects, check_coverage, make_rng
from support.tempered_draws import PoissonPath, gibbs_draws, ladder, sticky_draws

from pymc_logz.estimators import (
    METHODS,
    LogZCurve,
    TemperedDraws,
    bootstrap_log_z,
    check_agreement,
    joint_covariance,
)

PATH = PoissonPath()
SOUND = ("rts", "mbar", "ts", "bar_chain", "stepping_stone")
REPLICATES = 80


def curves_of(draws: TemperedDraws, names: tuple[str, ...] = SOUND) -> list[LogZCurve]:
    return [METHODS[name](draws) for name in names]


def replicate(i: int, maker: Callable = sticky_draws, **settings) -> TemperedDraws:
    return maker(PATH, make_rng("agreement", i), betas=ladder(5), **settings)


@pytest.fixture(scope="module")
def replicates() -> list[list[LogZCurve]]:
    """Sound estimates of many runs."""
    names = (*SOUND, "ti_trapezoid")
    return [curves_of(replicate(i, shape=(16, 120), stay=0.5), names) for i in range(REPLICATES)]


def test_sound_methods_agree(replicates: list[list[LogZCurve]]) -> None:
    """Catches false alarms, from errors of differences that are too small."""
    results = [check_agreement(curves[:-1]) for curves in replicates]
    alarms = sum(not result.agree for result in results)
    assert alarms <= binom.isf(1e-4, REPLICATES, 0.02)
    joint = np.array([result.p_joint for result in results])
    assert np.sum(joint < 0.05) <= binom.isf(1e-4, REPLICATES, 0.05)


def test_errors_of_differences_are_honest(replicates: list[list[LogZCurve]]) -> None:
    """Catches errors that forget what the methods have in common."""
    results = [check_agreement(curves[:-1]) for curves in replicates]
    for i in range(1, len(SOUND)):
        difference = np.array([result.difference[i, 0] for result in results])
        error = np.array([result.error[i, 0] for result in results])
        check_coverage(np.abs(difference) < 1.96 * error)
        independent = np.array(
            [np.hypot(curves[i].mcse[-1], curves[0].mcse[-1]) for curves in replicates]
        )
        if SOUND[i] == "mbar":
            assert np.median(independent / error) > 1.5
            assert_detects(check_coverage, np.abs(difference) < 1.96 * error / 3)


def test_a_coarse_ladder_gives_the_rule_away(replicates: list[list[LogZCurve]]) -> None:
    """Catches a test too weak to see the discretisation bias of thermodynamic integration."""
    results = [check_agreement(curves) for curves in replicates]
    assert np.mean(["ti_trapezoid" in result.departing for result in results]) > 0.95
    assert np.mean([result.departing == ("ti_trapezoid",) for result in results]) > 0.85
    bias = np.mean([result.difference[-1, 0] for result in results])
    assert bias < 0
    assert "ti_trapezoid by -0." in str(results[0])
    # the same bias drowns in independent errors
    curves = replicates[0]
    assert abs(curves[-1].log_z[-1] - curves[0].log_z[-1]) < 4 * curves[-1].mcse[-1]


@pytest.mark.parametrize("broken", SOUND)
def test_the_guilty_one_is_named(broken: str) -> None:
    """Catches a verdict that blames the others when the first entry is wrong."""
    curves = curves_of(replicate(0, gibbs_draws, shape=(20, 300)))
    k = SOUND.index(broken)
    # as much as forgetting a prior weight of 1.3 does
    curves[k] = replace(curves[k], log_z=curves[k].log_z + np.log(1.3))
    result = check_agreement(curves)
    assert result.departing == (broken,)
    assert not result.agree
    assert result.p_joint < 1e-3
    assert broken in str(result)


def test_a_forgotten_prior_over_levels() -> None:
    """Catches the slip that RTS invites: r_k left out of the formula, on a run that had it."""
    log_prior = np.log([1.0, 2.0, 1.0, 3.0, 2.0])
    draws = replicate(1, gibbs_draws, shape=(20, 300), log_prior=log_prior)
    assert check_agreement(curves_of(draws)).agree
    curves = curves_of(replace(draws, log_prior=np.zeros(5)))
    assert "ts" in check_agreement(curves).departing
    assert "mbar" not in check_agreement(curves).departing


def test_a_method_without_a_number_is_left_out() -> None:
    """Catches NaN in the comparison."""
    draws = replicate(2, shape=(16, 200))
    curves = curves_of(draws)
    empty = METHODS["ti_left"](replace(draws, level=np.where(draws.level == 2, 1, draws.level)))
    result = check_agreement([empty, *curves])
    assert result.methods == SOUND
    with pytest.raises(ValueError, match="1 of 2 curves have a number at level -1"):
        check_agreement([empty, curves[0]])


def test_identical_estimates_agree() -> None:
    """Catches 0 / 0 where a method is compared to itself, and rounding taken for a departure."""
    curve = METHODS["rts"](replicate(3, shape=(16, 200)))
    rounded = replace(curve, log_z=curve.log_z + 1e-12)
    result = check_agreement([curve, rounded, METHODS["mbar"](replicate(3, shape=(16, 200)))])
    assert result.agree
    assert result.error[0, 1] == 0
    assert check_agreement([curve, curve]).p_joint == 1


def test_every_level_can_be_compared() -> None:
    """Catches the target's numbers at another level."""
    curves = curves_of(replicate(4, shape=(16, 200)))
    result = check_agreement(curves, level=2)
    assert result.difference[1, 0] == pytest.approx(curves[1].log_z[2] - curves[0].log_z[2])
    covariance = joint_covariance(curves, level=2)
    assert np.sqrt(np.diag(covariance)) == pytest.approx([curve.noise[2] for curve in curves])


@pytest.mark.parametrize(("shape", "stay"), [((64, 60), 0.5), ((4, 1500), 0.8)])
def test_bootstrap_tells_the_same(shape: tuple[int, int], stay: float) -> None:
    """Catches contributions that are not those of the estimate: another way to the same errors."""
    names = ("rts", "mbar", "stepping_stone", "ti_trapezoid")
    draws = replicate(5, shape=shape, stay=stay)
    curves = curves_of(draws, names)
    resamples = bootstrap_log_z(
        draws, {name: METHODS[name] for name in names}, n_resamples=50, rng=make_rng("boot")
    )
    assert resamples.shape == (50, 4, 5)
    at_target = resamples[..., -1]
    # 64 units and 50 resamples: an error is known to about an eighth
    spread = at_target.std(axis=0, ddof=1)
    assert spread == pytest.approx([curve.noise[-1] for curve in curves], rel=0.5)
    scale = np.sqrt(np.diag(joint_covariance(curves)))
    correlation = joint_covariance(curves) / np.outer(scale, scale)
    assert np.corrcoef(at_target.T) == pytest.approx(correlation, abs=4 / 8)
    between = (at_target[:, 1] - at_target[:, 0]).std(ddof=1)
    assert between == pytest.approx(check_agreement(curves).error[1, 0], rel=0.5)
