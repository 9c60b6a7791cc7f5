"""Conditional normals: their density, log Z, and which entries they are conditional on."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln
from support.checks import assert_detects, check_means, check_own_density, make_rng

import pymc_logz as lz
from pymc_logz.estimators import importance_log_z
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.paths.elliptical import Clusters
from pymc_logz.references.blend import Blend, Target
from pymc_logz.references.conditional import (
    ConditionalNormal,
    conditional_normal,
    without_factors,
)
from pymc_logz.references.conditional_modes import Conditionals
from pymc_logz.references.matrices import Whole, WholeFactors
from pymc_logz.runners.block import Block

GROUPS, EACH = 4, 3
SHAPE, RATE, PULL = 1.5, 2.0, 0.3
Y = (
    make_rng("at once").normal(1.0, 2.0, size=(GROUPS, EACH))
    * np.geomspace(0.2, 3, GROUPS)[:, None]
)


def normal_gammas() -> pm.Model:
    """Groups with a mean and a precision each: four entries that are not normal, and skewed."""
    with pm.Model() as model:
        precision = pm.Gamma("precision", SHAPE, RATE, shape=GROUPS)
        mean = pm.Normal("mean", 0, 1 / np.sqrt(PULL) * precision**-0.5, shape=GROUPS)
        pm.Normal("y", mean[:, None], precision[:, None] ** -0.5, observed=Y)
    return model


def of_posterior() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Shape and rate of the precisions, and centre and pull of the means, one for each group."""
    pull, shape = PULL + EACH, SHAPE + EACH / 2
    centre = Y.sum(axis=1) / pull
    rate = RATE + 0.5 * ((Y**2).sum(axis=1) - pull * centre**2)
    return np.full(GROUPS, shape), rate, centre, np.full(GROUPS, pull)


def exact_log_z() -> float:
    """Sum of the log marginal likelihoods of the groups."""
    shape, rate, _, pull = of_posterior()
    parts = gammaln(shape) - gammaln(SHAPE) + SHAPE * np.log(RATE) - shape * np.log(rate)
    return float(np.sum(parts + 0.5 * np.log(PULL / pull) - 0.5 * EACH * np.log(2 * np.pi)))


def exact_rows(n: int) -> np.ndarray:
    """Unconstrained rows of the posterior: log precisions, then means."""
    rng = make_rng("exact rows")
    shape, rate, centre, pull = of_posterior()
    precision = rng.gamma(shape, 1 / rate, size=(n, GROUPS))
    mean = centre + rng.standard_normal((n, GROUPS)) / np.sqrt(pull * precision)
    return np.concatenate([np.log(precision), mean], axis=1)


@cache
def ready() -> tuple[Prepared, Block]:
    prepared = prepare(normal_gammas(), make_rng("prepare"))
    return prepared, block_for(prepared, HaisSettings(), None)


def target() -> Target:
    return Target(*ready())


@cache
def fitted() -> ConditionalNormal:
    found = conditional_normal(target(), exact_rows(1000), make_rng("fit"))
    assert found is not None
    assert found.what == "4 of 8 values drawn as normal given the others"
    return found


def weighted(part: ConditionalNormal, label: str, n: int) -> np.ndarray:
    """Log weights of draws of a part alone."""
    return Blend((part,), np.ones(1)).weighted(target(), make_rng(label), n).log_weight


def test_mean_weight_is_z() -> None:
    """Catches a density without a part, without the normal entries, or of another fit."""

    def check(one: ConditionalNormal) -> None:
        check_means({"z": np.exp(weighted(one, "weigh", 4096) - exact_log_z()) - 1})

    check(fitted())

    class OtherFit(ConditionalNormal):
        def _density(self, outer: np.ndarray, *others: Any) -> np.ndarray:
            assert self.fit is not None
            wider = Clusters(tuple(c.wider(1.5) for c in self.fit.components), self.fit.shares)
            own = super()._density(outer, *others)
            return own - self.fit.log_density_of(outer) + wider.log_density_of(outer)

    class NoTails(ConditionalNormal):
        def _density(self, outer: np.ndarray, whitened: np.ndarray, *others: Any) -> np.ndarray:
            return super()._density(outer, 0.5 * whitened, *others)

    for broken in (OtherFit, NoTails):
        assert_detects(check, broken(**vars(fitted())))


def test_rows_have_the_density_that_they_were_drawn_by() -> None:
    """Catches a density that depends on what was drawn beside it, or on where a search began."""
    check_own_density(fitted(), target(), 100, 37, 1e-12)


def test_wrong_settings_of_the_others_are_left() -> None:
    """Catches an exploration that stays where the rows that are known are."""
    shifted = exact_rows(1000)
    shifted[:, :GROUPS] += 1.5 * shifted[:, :GROUPS].std(axis=0)
    found = conditional_normal(target(), shifted, make_rng("shifted"))
    assert found is not None
    estimate = importance_log_z(weighted(found, "shifted", 2048))
    assert abs(estimate.log_z - exact_log_z()) < 4 * estimate.mcse < 0.1


def test_a_factor_of_other_entries_is_one_of_the_others() -> None:
    """Catches a slope beside a covariate that is unknown too, taken for normal: -0.2 nats, ok."""
    rng = make_rng("factors")
    x = rng.normal(size=12)
    seen, y = rng.normal(x, 0.7), rng.normal(0.5 + 1.5 * x, 0.4)
    with pm.Model() as model:
        intercept, slope = pm.Normal("intercept", 0, 3), pm.Normal("slope", 0, 2)
        noise = pm.HalfNormal("noise", 1)
        true = pm.Normal("true", 0, 1, shape=12)
        pm.Normal("seen", true, 0.7, observed=seen)
        pm.Normal("y", intercept + slope * true, noise, observed=y)
    prepared = prepare(model, rng)
    block = block_for(prepared, HaisSettings(), None)
    parts = Conditionals.of_normal_entries(Target(prepared, block))
    assert parts is not None
    rows = np.concatenate(
        [
            rng.normal([0.5, 1.5, np.log(0.4)], 0.2, size=(500, 3)),
            rng.normal(x, 0.4, size=(500, 12)),
        ],
        axis=1,
    )
    found = without_factors(parts, rows)
    assert prepared.flat.owners[1] == "slope"
    assert 1 in found.outer
    assert found.inner.size >= 11


def test_entries_that_are_normal_together_stay() -> None:
    """Catches coefficients of a regression taken for factors of each other."""
    parts = Conditionals.of_normal_entries(Target(*ready()))
    assert parts is not None
    found = without_factors(parts, exact_rows(500))
    np.testing.assert_array_equal(found.outer, parts.outer)


@pytest.mark.parametrize("scale", [100.0, 1000.0])
def test_spreads_far_from_their_prior(scale: float) -> None:
    """Catches a regression whose noise the prior has at a hundred times what the data say."""
    rng = make_rng("vague")
    x, grid = rng.normal(size=(20, 3)), np.linspace(-6, np.log(scale), 4001)
    y = x @ [1.0, -2.0, 0.5] + rng.normal(size=20)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1000, shape=3)
        noise = pm.Uniform("noise", 0, scale)
        pm.Normal("y", (x * slope).sum(axis=1), noise, observed=y)
    left, values, _ = np.linalg.svd(x)
    variance = np.exp(2 * grid)[:, None] + np.append(values**2, np.zeros(17)) * 1000**2
    log_f = -0.5 * ((left.T @ y) ** 2 / variance + np.log(2 * np.pi * variance)).sum(axis=1)
    exact = np.log(np.trapezoid(np.exp(log_f + grid - log_f.max()), grid)) + log_f.max()
    tree = lz.sample_hais(model=model, random_seed=3, progressbar=False)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    assert entry["status"] == "ok"
    assert abs(float(entry["log_z"]) - exact + np.log(scale)) < 4 * float(entry["mcse"]) < 0.2
    assert tree["sample_stats"]["lp"].shape == (4, 256)


def test_what_was_asked_for_comes_first() -> None:
    """Catches rows without a path where one was asked for."""
    plain = HaisSettings()
    assert plain.mcse_without_path == 0.05
    assert replace(plain, direction="both").mcse_without_path is None
    assert replace(plain, target_variance=0.1).mcse_without_path is None
    assert replace(plain, kernel=lz.kernels.Langevin()).mcse_without_path is None
    kept = replace(plain.running, cores=2)
    assert replace(plain, running=kept).mcse_without_path == plain.mcse_without_path


def test_a_singular_matrix_among_others_is_solved_by_nan() -> None:
    """Catches a run that ends because spreads of one row are too far apart for any number."""
    matrices = np.array([[[2.0, 0.0], [0.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]]])
    solved = WholeFactors(matrices).solved(np.ones((2, 2)))
    np.testing.assert_array_equal(solved[0], [0.5, 0.25])
    assert np.isnan(solved[1]).all()


@pytest.mark.parametrize("skewed", [False, True])
def test_a_mode_has_a_precision_to_draw_by(skewed: bool) -> None:
    """Catches a run that ends because rounding makes a precision singular."""
    rng, whole, n_found = make_rng("rounding"), Whole(2), 0
    for width in rng.uniform(1, 3, size=50):

        def along_one_line(rows: np.ndarray, width: float = width) -> tuple[np.ndarray, np.ndarray]:
            apart = rows[:, 0] - width * rows[:, 1]
            return -0.5 * apart**2, -apart[:, None] * [1.0, -width]

        block = SimpleNamespace(target_and_gradient=along_one_line)
        parts = Conditionals(block, np.arange(2), np.arange(0), whole, skewed)
        modes = parts.modes(np.empty((8, 0)), rng.normal(size=(8, 2)), np.ones(2))
        found = np.isfinite(modes.log_marginal)
        assert whole.are_positive(modes.precision[found]).all()
        n_found += found.sum()
    assert n_found > 50


def test_the_slope_alone_is_a_factor_far_from_the_mode_too() -> None:
    """Catches curvatures that are made positive, which differ then in entries no factor touches."""
    rng = np.random.default_rng(3)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 3), pm.Normal("b", 0, 3)
        sigma = pm.Exponential("sigma", 2)
        x = pm.Normal("x", 0, 1, shape=5)
        pm.Normal("w", x, 1.5, observed=rng.normal(size=5))
        pm.Normal("y", a + b * x, sigma, observed=rng.normal(size=5))
    prepared = prepare(model, np.random.default_rng(0))
    block = block_for(prepared, HaisSettings(), None)
    rows = rng.normal(size=(64, 8)) * [1.4, 1.8, 0.8, 0.7, 0.9, 0.7, 0.9, 0.8]
    parts = Conditionals.of_normal_entries(Target(prepared, block))
    assert parts is not None
    found = without_factors(parts, rows)
    assert found.outer.tolist() == [1, 2]
