"""Block Gibbs of bits: it keeps exact draws as they are, and broken ones do not."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from support.checks import assert_detects, check_means, make_rng
from support.kernel_contracts import constant_moves
from support.small_machines import MACHINES, expectations

from pymc_logz.energies import BinaryEnergy, beta_bernoulli
from pymc_logz.kernels import BlockGibbs, KernelInfo, KernelState
from pymc_logz.models.flat import flatten_model, model_path
from pymc_logz.models.prior import PriorDraws
from pymc_logz.runners.block import Block
from pymc_logz.runners.temper import Tables, TemperBlock, Walkers

BETA, N = 0.7, 6000


@dataclass(frozen=True)
class WrongBeta(BlockGibbs):
    """The first block is drawn at another inverse temperature."""

    def step(self, path: Any, state: Any, move: Any, noise: Any) -> Any:
        """A sweep at 1.3 beta where blocks are drawn first."""
        return super().step(path, state, move._replace(beta=1.3 * move.beta), noise)


@dataclass(frozen=True)
class AllAtOnce(BlockGibbs):
    """All blocks are drawn given what the others were before."""

    def step(self, path: Any, state: Any, move: Any, noise: Any) -> Any:
        """The simultaneous update of sites that depend on each other."""
        before, uniforms = path.parts(state.position), path.parts(noise)
        parts = []
        for k in range(len(before)):
            at_reference, by_beta = path.log_odds(k, before)
            drawn = uniforms[k] < pt.sigmoid(at_reference + move.beta * by_beta)
            parts.append(pt.cast(drawn, "float64"))
        new = KernelState(pt.concatenate(parts, axis=1), state.momentum, path.evaluated(parts))
        return new, KernelInfo(pt.ones_like(new.evaluation.log_ratio))


def check_kept(kernel: BlockGibbs, energy: BinaryEnergy, label: str) -> None:
    """Fail unless exact draws keep the exact means of bits and of products of two."""
    rng, d = make_rng("gibbs", label), energy.n_sites
    block = Block(energy.path, kernel, N)
    moves = constant_moves(block, beta=BETA, step_size=1.0, scale=1.0, refreshment=0.0)
    start = energy.sample_rows(rng, BETA, N)
    state, _ = block.run(block.initial_state(start), moves, rng)
    rows = np.asarray(state.position)
    assert np.any(rows != start, axis=0).all()
    mean, products = expectations(energy, BETA)
    pairs = {
        f"{i}, {j}": rows[:, i] * rows[:, j] - products[i, j] for i in range(d) for j in range(i)
    }
    check_means({f"x{i}": rows[:, i] - mean[i] for i in range(d)} | pairs)


@pytest.mark.parametrize("name", MACHINES)
def test_exact_draws_stay_exact(name: str) -> None:
    """Catches odds of the wrong block, and blocks drawn from each other's past."""
    check_kept(BlockGibbs(), MACHINES[name], name)


@pytest.mark.parametrize("name", ["rbm", "checkerboard", "three_blocks"])
@pytest.mark.parametrize("kernel", [WrongBeta(), AllAtOnce()])
def test_broken_sweeps_are_found(kernel: BlockGibbs, name: str) -> None:
    """The test above must be able to fail."""
    energy = MACHINES[name]
    assert_detects(lambda broken: check_kept(broken, energy, name), kernel)


def test_values_on_the_path() -> None:
    """Catches a log ratio that belongs to the rows before the sweep, or lacks a constant."""
    energy, rng = MACHINES["checkerboard"], make_rng("values")
    block = Block(energy.path, BlockGibbs(), 64)
    moves = constant_moves(block, beta=0.5, step_size=1.0, scale=1.0, refreshment=0.0)
    state, trace = block.run(block.initial_state(energy.sample_rows(rng, 0.0, 64)), moves, rng)
    rows, base = np.asarray(state.position), np.asarray(energy.path.values[2])
    log_reference = rows @ base - np.logaddexp(0, base).sum()
    log_ratio = energy.log_density(energy.named(rows)) - log_reference
    np.testing.assert_allclose(state.evaluation.log_reference, log_reference, atol=1e-10)
    np.testing.assert_allclose(trace.log_ratio[-1], log_ratio, atol=1e-10)
    np.testing.assert_array_equal(trace.acceptance_rate, 1.0)


def test_each_walker_has_its_own_beta() -> None:
    """Catches a beta that is that of another row: means at each level against exact ones."""
    energy, rng, betas = MACHINES["rbm"], make_rng("levels"), np.array([0.0, 0.5, 1.0])
    level = np.repeat(np.arange(3), N // 3)
    start = np.concatenate([energy.sample_rows(rng, beta, N // 3) for beta in betas])
    block = TemperBlock(Block(energy.path, BlockGibbs(), 64), 3, N, "gibbs")
    ones = np.ones(3)
    tables = Tables(betas, ones, np.ones((3, energy.n_sites)), 0 * ones, 0 * ones)
    walkers = Walkers(block.start(start, rng).state, level)
    _, trace = block.launch(walkers, tables, rng)
    rows = trace().position[0]
    for k, beta in enumerate(betas):
        mean, products = expectations(energy, beta)
        part = rows[level == k]
        check_means({f"x{i}": part[:, i] - mean[i] for i in range(energy.n_sites)})
        check_means({"x0 x8": part[:, 0] * part[:, 8] - products[0, 8]})


def test_a_model_of_real_numbers_is_refused() -> None:
    """Catches rows of real numbers that are taken for bits."""
    model = beta_bernoulli().model
    path = model_path(flatten_model(model), PriorDraws(model))
    with pytest.raises(TypeError, match="energies that are made of bits"):
        Block(path, BlockGibbs(), 8).compile()
