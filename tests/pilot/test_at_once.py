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
from pymc_logz.models.posterior_draws import PosteriorDraws
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.pilot import posterior
from pymc_logz.pilot.at_once import Proposal, weighed_at_once
from pymc_logz.pilot.marginals import SHARES, Marginals
from pymc_logz.pilot.planning import block_for
from pymc_logz.pilot.posterior import _of_sampler
from pymc_logz.pilot.reference import Reference
from pymc_logz.runners.anneal import Annealed
from pymc_logz.runners.block import Block

GROUPS, EACH = 9, 3
SHAPE, RATE, PULL = 1.5, 2.0, 0.3
Y = (
    make_rng("at once").normal(1.0, 2.0, size=(GROUPS, EACH))
    * np.geomspace(0.2, 3, GROUPS)[:, None]
)


def normal_gammas() -> pm.Model:
    """Groups with a mean and a precision each: nine entries that are not normal, and skewed."""
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


def sampled(rows: np.ndarray) -> Reference:
    """A reference fitted to draws as if they were of pm.sample."""
    prepared, block = ready()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posterior, "draw_posterior", lambda *_: PosteriorDraws(rows, 0))
        found = _of_sampler(prepared, block, "it is long", make_rng("fit"))
    assert found is not None
    return found


@cache
def fitted() -> Proposal:
    found = weighed_at_once(*ready(), sampled(exact_rows(2000)), 1024, 0.05, make_rng("trial"))
    assert found is not None
    proposal, estimate, reason = found
    assert estimate.status == "ok"
    assert "9 of 18 as normal given the others" in reason
    return proposal


def test_maps_of_single_entries() -> None:
    """Catches a slope that is not that of the map, tails that turn back, and too few draws."""
    rng = make_rng("marginals")
    draws = np.stack([np.log(rng.gamma(0.5, size=4000)), rng.standard_t(3, size=4000)], axis=1)
    marginals = Marginals.of_draws(draws)
    assert marginals is not None
    scores = np.linspace(-6, 6, 49)[:, None] * np.ones(2)
    entries, log_volume = marginals.entries(scores)
    assert np.all(np.diff(entries, axis=0) > 0)
    above, below = (marginals.entries(scores + step)[0] for step in (1e-6, -1e-6))
    slope = (above - below) / 2e-6
    np.testing.assert_allclose(np.log(slope).sum(axis=1), log_volume, atol=1e-3)
    np.testing.assert_allclose(marginals.scores(entries), scores, atol=2e-3)
    found = marginals.scores(draws)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose(found.std(axis=0), 1, atol=0.05)
    assert Marginals.of_draws(draws[:999]) is None
    assert Marginals.of_draws(np.repeat(draws[:5], 1000, axis=0)) is None
    assert len(SHARES) == len(marginals.curves[0].scores)


def test_mean_weight_is_z() -> None:
    """Catches a density without a volume, without the normal entries, or of another fit."""
    proposal = fitted()

    def check(one: Proposal, lacks: float = 0.0) -> None:
        log_weight = one.weighted(make_rng("weigh"), 4096).log_weight
        check_means({"z": np.exp(log_weight - lacks - exact_log_z()) - 1})

    check(proposal)
    check(replace(proposal, tries=3))
    wider = replace(proposal.fit, components=tuple(c.wider(1.3) for c in proposal.fit.components))

    class NoVolume(Marginals):
        def entries(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            entries, log_volume = super().entries(scores)
            return entries, 0 * log_volume

    class OtherFit(Proposal):
        def _outer(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            outer, _ = super()._outer(scores)
            return outer, replace(proposal, fit=wider)._outer(scores)[1]

    assert_detects(check, replace(proposal, marginals=NoVolume(proposal.marginals.curves)))
    assert_detects(check, OtherFit(**vars(proposal)))
    rows, log_density = proposal(make_rng("density"), 200)
    np.testing.assert_allclose(proposal.log_density_of(rows), log_density, atol=0.02)


def test_rows_without_a_conditional_mode_count() -> None:
    """Catches rows that are dropped where Newton's method finds nothing."""
    proposal = fitted()

    limit = np.quantile(exact_rows(2000)[:, 0], 0.7)

    class Lost(type(proposal.parts)):  # type: ignore[misc]
        def modes(self, outer, start, scale):  # type: ignore[no-untyped-def]
            found = super().modes(outer, start, scale)
            lost = outer[:, 0] > limit
            found.log_marginal[lost], found.precision[lost] = -np.inf, np.nan
            return found

    parts = Lost(*vars(proposal.parts).values())
    wide = 1.5 * proposal.scale
    weighted = replace(proposal, parts=parts, scale=wide).weighted(make_rng("lost"), 8192)
    assert np.isfinite(weighted.log_weight).all()
    estimate = importance_log_z(weighted.log_weight)
    assert abs(estimate.log_z - exact_log_z()) < 4 * estimate.mcse
    left_out = importance_log_z(weighted.log_weight[weighted.position[:, 0] <= limit])
    share = np.mean(weighted.position[:, 0] <= limit)
    assert left_out.log_z + np.log(share) < exact_log_z() - 4 * left_out.mcse


def test_coverage() -> None:
    """Catches errors that are too small for the weights, or too large."""
    rng = make_rng("coverage")
    estimates = [importance_log_z(fitted().weighted(rng, 1024).log_weight) for _ in range(200)]
    estimates += [
        importance_log_z(replace(fitted(), tries=4).weighted(rng, 128).log_weight)
        for _ in range(100)
    ]
    z = np.array([(one.log_z - exact_log_z()) / one.mcse for one in estimates])
    check_coverage(np.abs(z) < 1.96)


def test_rows_chosen_from_several_are_of_the_posterior() -> None:
    """Catches a choice that leaves out the weights, and weights that count twice."""
    exact = exact_rows(20_000).mean(axis=0)
    [part] = fitted().fit.components
    fit = replace(fitted().fit, components=(replace(part, centre=part.centre + 0.3),))
    proposal = replace(fitted(), fit=fit, tries=4)

    def check(found: Annealed) -> None:
        weight = np.exp(found.log_weight - exact_log_z())
        check_means({f"x{i}": weight * (found.position[:, i] - exact[i]) for i in range(18)})

    found = proposal.weighted(make_rng("choose"), 8192)
    check(found)
    assert_detects(check, found._replace(log_weight=found.log_ratio))
    fresh = replace(proposal, tries=1).weighted(make_rng("fresh"), 8192)
    assert_detects(check, fresh._replace(log_weight=found.log_weight))


def test_when_it_is_taken() -> None:
    """Catches a fit that draws of another shape are taken for, or an error beyond the one asked."""
    rows = exact_rows(2000)

    def taken(given: np.ndarray, mcse: float = 0.05) -> bool:
        return weighed_at_once(*ready(), sampled(given), 1024, mcse, make_rng("trial")) is not None

    assert taken(rows)
    assert not taken(rows, 0.001)
    assert not taken(rows[:500])
    shifted = rows.copy()
    shifted[:, :GROUPS] += 1.5 * rows[:, :GROUPS].std(axis=0)
    assert not taken(shifted)


def test_draws_in_another_conditional_mode_refuse() -> None:
    """Catches normal entries that have a second mode, to which Newton's method does not go."""
    with pm.Model() as model:
        pm.Gamma("precision", SHAPE, RATE, shape=GROUPS)
        z = pm.Normal("z", 0, 1)
        pm.Normal("y", (z - 0.1) ** 2, 0.3, observed=2.0)
    rng, grid = make_rng("two modes"), np.linspace(-4, 4, 8001)
    density = np.exp(-0.5 * grid**2 - 0.5 * ((grid - 0.1) ** 2 - 2.0) ** 2 / 0.09)
    others = np.log(rng.gamma(SHAPE, 1 / RATE, size=(2000, GROUPS)))
    two = rng.choice(grid, p=density / density.sum(), size=2000)
    prepared = prepare(model, rng)
    block = block_for(prepared, HaisSettings(), None)

    def taken(z: np.ndarray) -> bool:
        rows = np.concatenate([others, z[:, None]], axis=1)
        reference = Reference("learned", "", sampled(exact_rows(2000)).mixture, draws=rows)
        return weighed_at_once(prepared, block, reference, 1024, 0.05, rng) is not None

    assert not taken(two)
    assert taken(rng.choice(two[two > 0], size=2000))  # nothing tells of a mode without a draw


def test_a_run_without_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a tree with another log Z, draws or cost than the rows have, and one that is kept."""
    rows = exact_rows(2000)
    monkeypatch.setattr(posterior, "draw_posterior", lambda *_: PosteriorDraws(rows, 1234))
    monkeypatch.setattr(posterior, "LONG", 0)
    tree = lz.sample_hais(model=normal_gammas(), random_seed=3, progressbar=False)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    attrs = tree["evidence"].attrs
    assert attrs["n_temperatures"] == 1
    assert "9 of 18 as normal given the others" in attrs["reference_reason"]
    assert entry["status"] == "ok"
    assert abs(float(entry["log_z"]) - exact_log_z()) < 4 * float(entry["mcse"]) < 0.2
    precision = tree["posterior"]["precision"].to_numpy().reshape(-1, GROUPS)
    shape, rate, _, _ = of_posterior()
    ess = float(tree["posterior"].attrs["weight_ess"])
    error = np.sqrt(shape) / rate / np.sqrt(ess)
    assert np.all(np.abs(precision.mean(axis=0) - shape / rate) < 5 * error)
    assert tree["sample_stats"]["lp"].shape == (4, 256)
    finer = lz.sample_hais(
        model=normal_gammas(), random_seed=3, progressbar=False, target_mcse=0.012
    )
    assert float(finer["evidence"]["mcse"][0]) <= 0.012
    assert finer["evidence"].attrs["n_temperatures"] == 1


def test_what_was_asked_for_comes_first() -> None:
    """Catches rows without a path where one was asked for."""
    plain = HaisSettings()
    assert plain.mcse_at_once == 0.05
    assert replace(plain, direction="both").mcse_at_once is None
    assert replace(plain, target_variance=0.1).mcse_at_once is None
    assert replace(plain, kernel=lz.kernels.Langevin()).mcse_at_once is None
    assert replace(plain, running=replace(plain.running, checkpoint="x")).mcse_at_once is None
