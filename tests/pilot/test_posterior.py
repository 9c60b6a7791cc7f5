"""A reference fitted to draws of pm.sample: when it is, that it serves, and what refuses it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from support.checks import assert_detects, check_means, make_rng

import pymc_logz as lz
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.models.posterior_draws import PosteriorDraws
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.paths.funnels import Features, Funnel
from pymc_logz.pilot import planning, posterior
from pymc_logz.pilot.ladder import settled
from pymc_logz.pilot.learned import falls_short, islands_log_z
from pymc_logz.pilot.planning import block_for
from pymc_logz.pilot.population import Stages, TargetRows
from pymc_logz.pilot.posterior import (
    FEW_DIMENSIONS,
    LONG,
    MANY_DIMENSIONS,
    in_coordinates_of,
    objection_to_draws,
    sampled_reference,
)
from pymc_logz.pilot.reference import Reference
from pymc_logz.runners.anneal import anneal
from pymc_logz.runners.block import Block
from pymc_logz.trees.doubts import Doubt

D = MANY_DIMENSIONS + 1
OBSERVED = np.linspace(-2, 2, D)
SD = np.geomspace(0.1, 3, D)
LOG_Z = float(stats.norm.logpdf(OBSERVED, 0, np.hypot(1, SD)).sum())
REFUSED = Reference("prior", "no fit covers the rows", poor_fit=True)


def normals(d: int = D) -> pm.Model:
    """Independent normals, each seen once."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=d)
        pm.Normal("y", x, SD[:d], observed=OBSERVED[:d])
    return model


@cache
def ready(d: int = D) -> tuple[Prepared, Block]:
    prepared = prepare(normals(d), make_rng("prepare", d))
    return prepared, block_for(prepared, HaisSettings(), None)


def exact_rows(n: int) -> np.ndarray:
    precision = 1 + SD**-2
    normal = make_rng("posterior").standard_normal((n, D))
    return OBSERVED * SD**-2 / precision + normal / np.sqrt(precision)


def pilot_rows(prepared: Prepared) -> TargetRows:
    """Exact rows of a model's posterior, as a pilot leaves them."""
    d = prepared.n_dims
    precision = 1 + SD[:d] ** -2
    normal = make_rng("pilot", d).standard_normal((512, d))
    position = OBSERVED[:d] * SD[:d] ** -2 / precision + normal / np.sqrt(precision)
    log_prior = stats.norm.logpdf(position).sum(axis=1)
    log_ratio = stats.norm.logpdf(OBSERVED[:d], position, SD[:d]).sum(axis=1)
    return TargetRows(position, log_prior, log_ratio, np.zeros_like(position))


def drawn(monkeypatch: pytest.MonkeyPatch, rows: np.ndarray | None) -> list[int]:
    """Let draws of the posterior be these; what is returned notes each call."""
    calls: list[int] = []

    def draw(prepared: Prepared, rng: np.random.Generator) -> PosteriorDraws | None:
        calls.append(prepared.n_dims)
        return None if rows is None else PosteriorDraws(rows, 1234)

    monkeypatch.setattr(posterior, "draw_posterior", draw)
    return calls


def test_rows_from_the_fit_have_the_mean_weight_z(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a density without the Jacobian of a transform, or draws that are not its own."""
    prepared, block = ready()
    drawn(monkeypatch, exact_rows(2000))
    before = block.work.done
    reference = sampled_reference(prepared, block, REFUSED, stages_with(0.0), 0, make_rng("fit"))
    assert reference is not None
    assert reference.taken == "learned"
    assert "2000 draws of pm.sample, since no fit covers the rows" in reference.reason
    assert block.work.done - before == 1234
    moved = reference.start(block)
    ones = np.ones(2)
    plan = settled(
        Stages(
            np.array([0.0, 1.0]), 0.5 * ones, np.ones((2, D)), np.tile(np.eye(D), (2, 1, 1)), ones
        )
    ).plan(4)

    def check(start: np.ndarray) -> None:
        log_weight = anneal(moved, plan, start, make_rng("weigh")).log_weight
        check_means({"z": np.exp(log_weight - LOG_Z) - 1})

    check(moved.path.sample_reference(make_rng("fresh"), 2048))
    assert_detects(check, 0.5 * moved.path.sample_reference(make_rng("fresh"), 2048))


def test_when_the_posterior_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a sampler that is called where the path from the prior costs less, or for nothing."""
    calls = drawn(monkeypatch, None)
    asked_for, long = Reference("prior", "it was asked for"), LONG + 1

    def asks(d: int, taken: Reference, n_moves: int) -> bool:
        prepared, block = ready(d)
        stages = replace(stages_with(0.0), rows=pilot_rows(prepared), end=np.zeros((512, d)))
        calls.clear()
        assert sampled_reference(prepared, block, taken, stages, n_moves, make_rng("x")) is None
        return bool(calls)

    assert asks(D, REFUSED, 0)
    assert not asks(D, asked_for, long)
    assert not asks(FEW_DIMENSIONS + 1, REFUSED, LONG)
    assert asks(FEW_DIMENSIONS + 1, REFUSED, long)
    assert not asks(FEW_DIMENSIONS + 1, asked_for, long)
    assert not asks(FEW_DIMENSIONS, REFUSED, long)


def test_draws_must_cover_what_the_pilot_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches chains that all miss a mode, or rows compared in the coordinates of another path."""
    d = FEW_DIMENSIONS + 1
    prepared, block = ready(d)
    rows = pilot_rows(prepared)
    stages = replace(stages_with(0.0), rows=rows, end=np.zeros((512, d)))
    normal = make_rng("others").standard_normal((2000, d))
    draws = rows.position.mean(axis=0) + rows.position.std(axis=0) * normal

    def refused(log_z: float) -> Doubt | None:
        args = (prepared, block, REFUSED, stages, LONG + 1, make_rng("fit"))
        sampled = sampled_reference(*args)
        assert sampled is not None
        return objection_to_draws(sampled, stages, *islands_log_z(stages_with(log_z)))

    drawn(monkeypatch, draws)
    assert refused(0.0) is None
    assert getattr(refused(-2.0), "status", None) == "missed_mode"
    drawn(monkeypatch, draws + 12 * rows.position.std(axis=0))
    assert getattr(refused(0.0), "status", None) == "disagrees"
    # the pilot got lost where there is next to nothing of the posterior
    assert refused(5.0) is None
    # the same rows as a funnel has them
    children = np.arange(d)[:, None] > 0
    funnel = Funnel(
        np.full(d, 0.5), np.eye(d)[:1], Features.linear(1), 0.1 * children, 0.3 * children
    )
    one, other = replace(REFUSED, funnel=funnel), Reference("prior", "as it is")
    there = in_coordinates_of(in_coordinates_of(rows, other, one), one, other)
    np.testing.assert_allclose(there.position, rows.position)
    np.testing.assert_allclose(there.log_reference, rows.log_reference)
    evened = in_coordinates_of(rows, other, one)
    assert np.ptp(evened.log_reference - rows.log_reference) > 1


def stages_with(log_z: float) -> Stages:
    ones = np.ones(2)
    islands = log_z + 0.01 * np.arange(4)
    return Stages(np.array([0.0, 1.0]), ones, np.ones((2, 1)), None, ones, log_z=islands)


def test_rows_that_fall_short_of_the_pilot_refuse() -> None:
    """Catches half of the posterior that is missing, and a pilot that itself lost it."""
    assert falls_short(stages_with(0.0), *islands_log_z(stages_with(-0.2))) is None
    assert "0.70 nats below" in str(
        falls_short(stages_with(0.0), *islands_log_z(stages_with(-0.7)))
    )
    assert falls_short(stages_with(-0.7), *islands_log_z(stages_with(0.0))) is None


def test_a_run_that_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a plan for another reference than the one that is named."""
    monkeypatch.setattr(
        planning, "learned_reference", lambda prepared, stages, rng, **kwargs: REFUSED
    )
    monkeypatch.setattr(planning, "nested_laplace", lambda prepared, block, rng: None)
    monkeypatch.setattr(planning, "planned_at_once", lambda *_: None)
    rows = exact_rows(2000)
    drawn(monkeypatch, rows)
    tree = lz.sample_hais(model=normals(), random_seed=1, progressbar=False)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    assert "draws of pm.sample" in tree["evidence"].attrs["reference_reason"]
    assert abs(float(entry["log_z"]) - LOG_Z) < 4 * float(entry["mcse"])
    # a posterior a nat away from where the rows are: what the pilot found speaks against it
    drawn(monkeypatch, rows[:1] + 1e-3 * rows)
    tree = lz.sample_hais(model=normals(), random_seed=1, progressbar=False)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    assert abs(float(entry["log_z"]) - LOG_Z) < 4 * float(entry["mcse"])


def test_a_ladder_that_was_cut_short_is_tried_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a ladder of a guessed length where the sampler cannot sample the model."""
    monkeypatch.setattr(planning, "LONG", 0)
    monkeypatch.setattr(posterior, "LONG", 0)
    monkeypatch.setattr(planning, "nested_laplace", lambda prepared, block, rng: None)
    calls, limits = drawn(monkeypatch, None), []
    refine = planning.refine

    def noted(*args: object) -> object:
        limits.append(args[6] if len(args) > 6 else np.inf)
        return refine(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(planning, "refine", noted)
    prepared, block = ready(FEW_DIMENSIONS + 1)
    planned = planning.plan_run(prepared, block, HaisSettings(), make_rng("cut"))
    assert calls
    assert limits == [0, np.inf]
    assert planned.stages is not None
    assert planned.contradicted == ()
