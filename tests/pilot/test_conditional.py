"""Rows weighted without a path: their density, log Z, its coverage, and when they are not taken."""

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln
from support.checks import assert_detects, check_coverage, check_means, make_rng

import pymc_logz as lz
from pymc_logz.estimators import importance_log_z
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.paths.clusters import Clusters
from pymc_logz.pilot.conditional import ConditionalNormal, Proposal, weighted_at_once
from pymc_logz.pilot.planning import block_for
from pymc_logz.pilot.reference import Reference, fitted_to_draws
from pymc_logz.runners.anneal import Annealed
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


def taken(known: np.ndarray, mcse: float = 0.05) -> Proposal | None:
    """What is proposed where these rows are known."""
    prepared, block = ready()
    rng = make_rng("trial")
    mixture, _ = fitted_to_draws(prepared, exact_rows(500), 0.0, rng, None)
    beside = Reference("learned", "", mixture)
    found = weighted_at_once(prepared, block, known, beside, 1024, mcse, rng)
    if found is None:
        return None
    proposal, estimate, reason = found
    assert estimate.status == "ok"
    assert "4 of 8 entries are drawn as normal given the others" in reason
    return proposal


@cache
def fitted() -> Proposal:
    found = taken(exact_rows(1000))
    assert found is not None
    return replace(found, tries=1)


def own() -> ConditionalNormal:
    """Its conditional normals."""
    part = fitted().own
    assert isinstance(part, ConditionalNormal)
    return part


def test_mean_weight_is_z() -> None:
    """Catches a density without a part, without the normal entries, or of another fit."""

    def check(one: Proposal) -> None:
        log_weight = one.weighted(make_rng("weigh"), 4096).log_weight
        check_means({"z": np.exp(log_weight - exact_log_z()) - 1})

    check(fitted())
    check(replace(fitted(), tries=3))

    class OtherFit(ConditionalNormal):
        def _of_outer(self, outer: np.ndarray) -> np.ndarray:
            assert self.fit is not None
            wider = Clusters(
                tuple(c.wider(1.5) for c in self.fit.components), self.fit.shares, np.nan
            )
            return ConditionalNormal(self.parts, wider, self.start, self.scale)._of_outer(outer)

    class NoTails(ConditionalNormal):
        def _of_inner(self, noise: np.ndarray, factor: np.ndarray) -> np.ndarray:
            return super()._of_inner(0.5 * noise, factor)

    for broken in (OtherFit, NoTails):
        assert_detects(check, replace(fitted(), own=broken(**vars(own()))))
    nothing = replace(fitted(), beside_density=lambda rows, _: np.full(len(rows), -np.inf))
    assert_detects(check, nothing)
    rows, log_density = own()(make_rng("density"), 200)
    np.testing.assert_allclose(own().log_density_of(rows), log_density, atol=0.02)


def test_wrong_settings_of_the_others_are_left() -> None:
    """Catches an exploration that stays where the rows that are known are."""
    shifted = exact_rows(1000)
    shifted[:, :GROUPS] += 1.5 * shifted[:, :GROUPS].std(axis=0)
    found = taken(shifted)
    assert found is not None
    estimate = importance_log_z(found.weighted(make_rng("shifted"), 2048).log_weight)
    assert abs(estimate.log_z - exact_log_z()) < 4 * estimate.mcse < 0.1


def test_coverage() -> None:
    """Catches errors that are too small for the weights, or too large."""
    rng = make_rng("coverage")
    estimates = [importance_log_z(fitted().weighted(rng, 512).log_weight) for _ in range(150)]
    z = np.array([(one.log_z - exact_log_z()) / one.mcse for one in estimates])
    check_coverage(np.abs(z) < 1.96)


def test_rows_chosen_from_several_are_of_the_posterior() -> None:
    """Catches a choice that leaves out the weights, and weights that count twice."""
    exact = exact_rows(20_000).mean(axis=0)
    fit = own().fit
    assert fit is not None
    moved = tuple(replace(one, centre=one.centre + 0.5) for one in fit.components)
    proposal = replace(fitted(), own=replace(own(), fit=fit._replace(components=moved)), tries=4)

    def check(found: Annealed) -> None:
        weight = np.exp(found.log_weight - exact_log_z())
        check_means(
            {f"x{i}": weight * (found.position[:, i] - exact[i]) for i in range(2 * GROUPS)}
        )

    found = proposal.weighted(make_rng("choose"), 8192)
    check(found)
    assert_detects(check, found._replace(log_weight=found.log_ratio))


def test_an_error_that_is_out_of_reach_is_not_tried() -> None:
    """Catches rows that are chosen from thousands."""
    assert taken(exact_rows(1000), 0.0005) is None


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
    assert plain.mcse_at_once == 0.05
    assert replace(plain, direction="both").mcse_at_once is None
    assert replace(plain, target_variance=0.1).mcse_at_once is None
    assert replace(plain, kernel=lz.kernels.Langevin()).mcse_at_once is None
    assert replace(plain, running=replace(plain.running, checkpoint="x")).mcse_at_once is None
