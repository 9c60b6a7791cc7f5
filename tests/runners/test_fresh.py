"""Walkers at the reference are drawn afresh, which leaves the joint law as it is."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from runners.test_temper import K, Law, make_tables, temper_block
from support.checks import assert_detects, check_same_law, make_rng
from support.paths_with_exact_draws import TARGETS

from pymc_logz.kernels import Hamiltonian
from pymc_logz.paths.geometric import AnnealingPath
from pymc_logz.runners.block import Block
from pymc_logz.runners.temper import FreshRows, Tables, TemperBlock, Walkers, walk


def check_renewal(block: TemperBlock) -> None:
    """Fail unless exact draws keep their law where those at the reference are drawn afresh."""
    law, rng = Law("log_gamma", block.exchange), make_rng("renewed", type(block).__name__)
    tables = make_tables(block.kernel, TARGETS["log_gamma"].scale)
    before, drawn = law.draw(rng, block), law.draw(rng, block)
    after = block.renewed(before, tables, block.fresh_rows(8, rng))
    at_reference = np.asarray(after.level) == 0
    old, new = (np.asarray(w.state.position) for w in (before, after))
    assert np.all((new != old).any(axis=1)[at_reference])
    x, fresh = new[:, 0], np.asarray(drawn.state.position)[:, 0]
    levels = np.asarray(after.level), np.asarray(drawn.level)
    check_same_law({f"x at {k}": (x[levels[0] == k], fresh[levels[1] == k]) for k in range(K)})
    for i, part in enumerate(after.state.evaluation):  # of where they are now
        again = block.start(new, rng).state.evaluation[i]
        np.testing.assert_allclose(np.asarray(part), np.asarray(again), atol=1e-9)


class RenewsTwoLevels(TemperBlock):
    """Takes another level for the reference too."""

    def renewed(self, walkers: Walkers, tables: Tables, fresh: Any) -> Walkers:
        level = np.asarray(walkers.level)
        lowered = walkers._replace(level=np.where(level == 2, 0, level))
        return super().renewed(lowered, tables, fresh)._replace(level=level)


@pytest.mark.parametrize("exchange", ["gibbs", "swap"])
def test_fresh_draws_of_the_reference_keep_the_law(exchange: str) -> None:
    """Catches draws for walkers elsewhere, and what a path is worth at the place before."""
    check_renewal(temper_block("log_gamma", exchange, Hamiltonian()))
    broken = temper_block("log_gamma", exchange, Hamiltonian(), RenewsTwoLevels)
    assert_detects(check_renewal, broken)


def test_walkers_leave_a_mode_of_the_reference() -> None:
    """Catches walks without fresh draws: moves do not get 40 standard deviations away."""
    point = pt.tensor("point", dtype="float64", shape=(1,))

    def density(x: Any) -> Any:
        return pt.logaddexp(-0.5 * (x - 20) ** 2, -0.5 * (x + 20) ** 2).sum()

    def sample(rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.choice([-20.0, 20.0], (n, 1)) + rng.standard_normal((n, 1))

    path = AnnealingPath(
        point, density(point), 0.01 * point.sum(), n_dims=1, sample_reference=sample
    )
    block, rng = TemperBlock(Block(path, Hamiltonian(), 16), K, 16), make_rng("far modes")
    walkers = block.start(np.full((16, 1), 20.0), rng)
    tables = make_tables(Hamiltonian(), (0.8,))._replace(log_pseudo_prior=np.zeros(K))
    _, done = walk(block, walkers, tables, 400, rng)
    assert 0.3 < np.mean(done.position[200:] > 0) < 0.7


def test_fresh_rows_are_used_once() -> None:
    """Catches rows that are handed out twice, or thrown away."""
    made: list[np.ndarray] = []

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        made.append(rng.standard_normal((n, 1)))
        return made[-1]

    fresh = FreshRows(draw, make_rng("once"), 10)
    taken = np.concatenate([fresh.take(n) for n in (3, 4, 5, 20)])
    np.testing.assert_array_equal(taken, np.concatenate(made)[: len(taken)])
    assert sum(map(len, made)) < 50
