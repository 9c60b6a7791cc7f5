"""Components along the ends of an entry, where others are close to what it scales."""

import numpy as np
import pymc as pm
from generated import generate
from scipy import stats
from support.checks import assert_detects, check_means, make_rng

import pymc_logz as lz
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Target
from pymc_logz.references.narrow_ends import narrow_ends
from pymc_logz.weights import weight_ess

OBSERVED, NOISE, WIDE = 0.7, 0.5, 3.0


def with_a_neck() -> Target:
    """A value whose square is seen with noise that may vanish: two necks, each as wide as it."""
    with pm.Model() as model:
        noise = pm.HalfNormal("noise", NOISE)
        value = pm.Normal("value", 0, WIDE)
        pm.Normal("y", value**2, noise, observed=OBSERVED)
    prepared = prepare(model, make_rng("prepare"))
    return Target(prepared, block_for(prepared, RunSettings(), None))


def rows_above(target: Target, least: float, n: int = 1024) -> np.ndarray:
    """Draws (n, 2) of the target, of the logs of noise above a size and of values."""
    rng = make_rng("rows", least)
    noise = np.abs(rng.normal(0, NOISE, 200 * n))
    squares = stats.truncnorm.rvs(-OBSERVED / noise, np.inf, OBSERVED, noise, random_state=rng)
    signs = rng.choice([-1.0, 1.0], noise.size)
    rows = np.column_stack([np.log(noise), signs * np.sqrt(squares)])[noise > least]
    # draws of squares given the noise, weighted by what their density lacks
    chance = stats.norm.pdf(rows[:, 1], 0, WIDE) / np.abs(rows[:, 1])
    chance *= stats.norm.cdf(OBSERVED / np.exp(rows[:, 0]))
    return rows[rng.choice(len(rows), n, p=chance / chance.sum())]


def exact_mass(most: float) -> float:
    """Log Z where the noise is below a size at which the prior hardly changes along a neck."""
    root = np.sqrt(OBSERVED)
    density = 2 * stats.norm.pdf(root, 0, WIDE) / (2 * root)
    return float(np.log(density) + np.log(2 * stats.norm.cdf(most / NOISE) - 1))


def test_necks_that_no_row_is_in_are_covered():
    """Would catch a slope, a width or a mode that is not followed: weights there are uneven."""
    target, most = with_a_neck(), 0.02
    part = narrow_ends(target, rows_above(target, 0.1), make_rng("starts"))
    assert part is not None
    rows, log_q = part.draw(target, make_rng("drawn"), 20_000)
    weight = np.exp(target(rows).log_target - log_q) * (rows[:, 0] < np.log(most))
    assert weight_ess(np.log(weight[weight > 0])) > 0.3 * np.sum(weight > 0)
    check_means({"mass": weight / np.exp(exact_mass(most))}, 1.0)
    one = {"one neck": weight * (rows[:, 1] > 0) / np.exp(exact_mass(most))}
    assert_detects(lambda weights: check_means(weights, 1.0), one)


def test_nothing_is_proposed_where_rows_get_everywhere():
    """Would catch a part for each model, however well its rows are spread."""
    target = with_a_neck()
    assert narrow_ends(target, rows_above(target, 1e-9), make_rng("starts")) is None


def test_a_mixture_of_lines_through_few_points():
    """Would catch an eighth of Z at noise that rows do not get to, with ``ok``."""
    case = generate("two_lines", 1690355723)
    tree = lz.sample_hais(model=case.build(), random_seed=1, progressbar=False)
    found = tree["evidence"].isel(estimator=0)
    assert found["status"].item() == "ok"
    assert found["mcse"].item() < 0.04
    assert abs(found["log_z"].item() - case.log_z) < 4 * found["mcse"].item()
