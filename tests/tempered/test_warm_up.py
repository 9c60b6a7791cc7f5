"""Warm-up: walkers get near every level, and rough constants become good enough to mix."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from support.checks import check_means, make_rng
from support.paths_with_exact_draws import TARGETS, log_z_at

from pymc_logz.kernels import Hamiltonian, RandomWalk
from pymc_logz.runners.block import Block
from pymc_logz.runners.temper import TemperBlock, walk
from pymc_logz.tempered import warm_up
from pymc_logz.tempered.warm_up import (
    Ladder,
    climb,
    level_probabilities,
    make_ladder,
    run_rounds,
    with_tuned_steps,
)

W = 64
SHIFT = 30.0
"""Added to the log ratio: without estimated constants all walkers would stay at beta = 1."""
BETAS = np.array([0.0, 0.05, 0.2, 0.5, 1.0])
K = BETAS.size
TARGET = TARGETS["log_gamma"]


@cache
def block() -> TemperBlock:
    base = Block(TARGET.path(shift=SHIFT), Hamiltonian(), W)
    return TemperBlock(base, K, W)


def first_ladder(step_size: float = 0.8) -> Ladder:
    plan = TARGET.plan(BETAS, step_size)
    return make_ladder(plan, np.zeros(K))


def exact_log_z() -> np.ndarray:
    return log_z_at("log_gamma", BETAS) + SHIFT * BETAS


def start(label: str) -> tuple[np.random.Generator, np.ndarray]:
    rng = make_rng("warm-up", label)
    return rng, TARGET.sample(rng, 0.0, W)


def long_run_share(ladder: Ladder, label: str) -> np.ndarray:
    rng, rows = start(label)
    walkers = block().start(rows, rng)
    tables = ladder.tables(block().kernel)
    walkers, _ = walk(block(), walkers, tables, 64, rng, every=64)
    return level_probabilities(ladder.draws(walk(block(), walkers, tables, 640, rng, every=640)[1]))


def test_ladder_has_the_settings_of_the_plan_at_both_ends() -> None:
    """Catches scales shifted by a level, a lost last one, a prior that does not sum to one."""
    plan = TARGET.plan(BETAS, np.linspace(0.3, 1.1, K))
    plan = replace(plan, scale=plan.scale * np.linspace(1, 2, K)[:, None])
    ladder = make_ladder(plan, 3.0 + BETAS)
    np.testing.assert_allclose(ladder.scale, plan.scale)
    np.testing.assert_array_equal(ladder.step_size, plan.step_size)
    assert np.exp(ladder.log_prior).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(np.diff(ladder.log_prior), np.diff(BETAS))
    tables = replace(ladder, log_z_hat=2 * BETAS).tables(Hamiltonian())
    np.testing.assert_allclose(tables.log_pseudo_prior, ladder.log_prior - 2 * BETAS)


def test_climb_finds_log_z_and_leaves_walkers_at_their_levels() -> None:
    """Catches weights out of step with moves, and walkers kept at another level than their own."""
    log_z, at_level = [], {0: [], K - 1: []}
    for i in range(24):
        rng, rows = start(f"climb {i}")
        walkers, log_z_hat = climb(block(), first_ladder(), rows, 32, rng)
        log_z.append(log_z_hat)
        assert np.all(np.bincount(walkers.level) >= W // K)
        for k, means in at_level.items():
            means.append(np.tanh(np.asarray(walkers.state.position)[walkers.level == k]).mean())
        ratio = np.asarray(walkers.state.evaluation.log_ratio)
        np.testing.assert_allclose(ratio, block_ratio(walkers.state.position))
    errors = np.array(log_z) - exact_log_z()
    # log of an average of 64 rows: low by half its variance, which is far below its error here
    check_means({f"log Z at {k}": errors[:, k] for k in range(1, K)})
    rng = make_rng("exact")
    for k, means in at_level.items():
        exact = np.tanh(TARGET.sample(rng, BETAS[k], 100_000)).mean()
        check_means({f"position at {k}": np.array(means) - exact})


def block_ratio(position: np.ndarray) -> np.ndarray:
    u = np.asarray(position)[:, 0]
    return 2.0 * u - 3.0 * np.exp(u) + SHIFT


@pytest.mark.parametrize(
    ("update", "head_start"),
    [("rts", 0.0), ("wang_landau", 0.8), ("stochastic_approximation", 0.8)],
)
def test_rounds_bring_shares_to_their_prior(update: str, head_start: float) -> None:
    """Catches a correction of the wrong sign or size: section 2.4 of Carlson et al.

    The first guess is off by 30 nats, which takes rounds by Rao-Blackwellized shares one step;
    small steps are given a guess that is off by 3.
    """
    rng, rows = start(update)
    ladder = replace(first_ladder(), log_z_hat=head_start * SHIFT * BETAS)
    assert np.abs(long_run_share(ladder, update) * K - 1).max() > 0.8, "the guess is good already"
    rounds = run_rounds(
        block(), ladder, block().start(rows, rng), rng, length=64, target_accept=0.8, update=update
    )
    assert rounds.history[-1].deviation < warm_up.MAX_LEVEL_DEVIATION
    assert rounds.n_iterations < 9000
    # the rule allows 10% in the last round, whose noise the final guess has as well
    assert np.abs(long_run_share(rounds.ladder, update) * K - 1).max() < 0.25
    assert rounds.ladder.log_z_hat[0] == 0


def test_rounds_that_correct_nothing_do_not_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a rule that is met by whatever the shares are."""
    monkeypatch.setitem(warm_up.CORRECTIONS, "rts", lambda: lambda draws: draws.log_z_hat[0])
    monkeypatch.setattr(warm_up, "MAX_ROUNDS", 3)
    rng, rows = start("nothing")
    walkers = block().start(rows, rng)
    rounds = run_rounds(block(), first_ladder(), walkers, rng, length=32, target_accept=0.8)
    assert rounds.history[-1].deviation > 1
    assert rounds.n_iterations == 32 + 64 + 128


def test_rounds_tune_step_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a step size tuned by the acceptance of another level, or the wrong way."""
    monkeypatch.setattr(warm_up, "MAX_LEVEL_DEVIATION", 0.0)
    monkeypatch.setattr(warm_up, "MAX_ROUNDS", 5)
    rng, rows = start("steps")
    ladder = replace(first_ladder(), step_size=np.array([0.05, 3.0, 0.05, 3.0, 0.05]))
    walkers = block().start(rows, rng)
    rounds = run_rounds(block(), ladder, walkers, rng, length=64, target_accept=0.8)
    tables = rounds.ladder.tables(block().kernel)
    _, done = walk(block(), walkers, tables, 320, rng, every=320)
    rates = [done.acceptance_rate[done.level == k].mean() for k in range(K)]
    np.testing.assert_allclose(rates, 0.8, atol=0.1)


def test_step_sizes_are_tuned_only_where_that_is_open() -> None:
    """Catches tuning on a handful of moves, or of a step size that the user has fixed."""
    ladder = first_ladder()
    moved = np.array([1000.0, 10.0, 1000.0, 0.0, 1000.0])
    accepted = moved * np.array([0.99, 0.99, 0.3, 0.0, 0.8])
    tuned = with_tuned_steps(ladder, Hamiltonian(), moved, accepted, 0.8).step_size
    assert tuned[0] > 0.8 > tuned[2]
    np.testing.assert_allclose(tuned[[1, 3, 4]], 0.8)
    fixed = with_tuned_steps(ladder, Hamiltonian(step_size=0.8), moved, accepted, 0.8)
    np.testing.assert_array_equal(fixed.step_size, ladder.step_size)
    # a random walk has an aim of its own: 0.3 is right for it
    walked = with_tuned_steps(ladder, RandomWalk(), moved, accepted, 0.8).step_size
    assert walked[2] == pytest.approx(0.8)
