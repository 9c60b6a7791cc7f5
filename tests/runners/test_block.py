"""The compiled block: padding, first evaluation, other batch sizes, every backend."""

from typing import Any

import numpy as np
import pytest
from support.checks import make_rng
from support.kernel_contracts import constant_moves, evaluated_state
from support.paths_with_exact_draws import N_ROWS, TARGETS, compiled_block, dead_zone_block

from pymc_logz.kernels import Hamiltonian
from pymc_logz.kernels.base import KernelState, Move, draw_noise
from pymc_logz.runners import block as block_module
from pymc_logz.runners.block import MOVES_PER_BLOCK, Block, Trace

KERNEL = Hamiltonian()
SCALE = TARGETS["gaussian"].scale


def start_state(block: Block, n: int = N_ROWS) -> KernelState:
    rng = make_rng("block start")
    position = TARGETS["gaussian"].sample(rng, 0.6, n)
    return evaluated_state(block, position, rng.standard_normal(position.shape))


def some_moves(block: Block, n_moves: int) -> Move:
    return constant_moves(
        block, n_moves=n_moves, beta=0.6, step_size=0.8, scale=SCALE, refreshment=0.3
    )


def run(
    block: Block, n_moves: int, n: int = N_ROWS, label: str = "block"
) -> tuple[KernelState, Trace]:
    return block.run(start_state(block, n), some_moves(block, n_moves), make_rng(label))


@pytest.mark.parametrize("n_moves", [1, 5, MOVES_PER_BLOCK - 1])
def test_a_short_list_of_moves_is_the_beginning_of_a_long_one(n_moves: int) -> None:
    """Catches padding that moves rows, and noise that depends on how many moves are asked for."""
    block = compiled_block("gaussian", KERNEL)
    short, short_trace = run(block, n_moves)
    _, trace = run(block, block.n_moves)
    assert short_trace.log_ratio.shape == short_trace.acceptance_rate.shape == (n_moves, N_ROWS)
    np.testing.assert_array_equal(short_trace.log_ratio, trace.log_ratio[:n_moves])
    np.testing.assert_array_equal(short_trace.acceptance_rate, trace.acceptance_rate[:n_moves])
    np.testing.assert_array_equal(short.evaluation.log_ratio, trace.log_ratio[n_moves - 1])


def test_padding_keeps_position_and_cached_values() -> None:
    """Catches padding that leaves the cached values at another point than the position."""
    block = compiled_block("gaussian", KERNEL)
    state, _ = run(block, 5)
    position = np.asarray(state.position)
    again = evaluated_state(block, position, np.zeros_like(position))
    for name, new, old in zip(
        again.evaluation._fields, again.evaluation, state.evaluation, strict=True
    ):
        np.testing.assert_allclose(new, old, atol=1e-10, err_msg=name)


def test_start_is_evaluated_by_the_first_move() -> None:
    """Catches a start whose own density is lost, or that moves before it is evaluated."""
    block = compiled_block("gaussian", KERNEL)
    x = TARGETS["gaussian"].sample(make_rng("first"), 0.0, N_ROWS)
    state = evaluated_state(block, x, np.zeros_like(x))
    np.testing.assert_allclose(state.evaluation.log_reference, -0.5 * (x**2).sum(axis=1))
    np.testing.assert_allclose(state.evaluation.grad_log_reference, -x)
    np.testing.assert_allclose(block.densities(x)[1], state.evaluation.log_ratio)


def test_evaluate_returns_nan_and_infinities_as_they_are() -> None:
    """Catches a guard rail that cannot see NaN, because the kernel has already replaced it."""
    x = np.linspace(-3, 3, N_ROWS)[:, None]
    values = dead_zone_block(KERNEL).densities(x)[1]
    np.testing.assert_array_equal(np.isnan(values), x[:, 0] < -1)
    np.testing.assert_array_equal(np.isneginf(values), x[:, 0] > 1.5)
    inside = (x[:, 0] >= -1) & (x[:, 0] <= 1.5)
    np.testing.assert_allclose(values[inside], -(x[inside, 0] ** 2))


def test_rows_do_not_move_into_nan() -> None:
    """Catches a comparison with NaN that accepts: at beta > 0 no live row leaves the support."""
    block = dead_zone_block(KERNEL)
    x = np.linspace(-1, 1.5, N_ROWS)[:, None]
    state = evaluated_state(block, x, make_rng("nan").standard_normal(x.shape))
    moves = constant_moves(block, beta=0.5, step_size=1.0, scale=1.0, refreshment=0.5)
    end, trace = block.run(state, moves, make_rng("nan moves"))
    assert np.all(np.isfinite(trace.log_ratio))
    assert np.all((np.asarray(end.position) >= -1) & (np.asarray(end.position) <= 1.5))
    assert np.any(trace.acceptance_rate == 0)


def test_another_number_of_rows_works() -> None:
    """Catches a batch size baked into the graph."""
    state, trace = run(compiled_block("gaussian", KERNEL), 3, n=7)
    assert np.shape(state.position) == (7, 2)
    assert trace.log_ratio.shape == (3, 7)


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation")
@pytest.mark.parametrize("mode", ["FAST_COMPILE", pytest.param("NUMBA", marks=pytest.mark.slow)])
@pytest.mark.parametrize("batching", ["vector", "row"])
def test_backends_and_batchings_make_the_same_chain(mode: str, batching: str) -> None:
    """Catches a graph that means one thing on JAX and another elsewhere."""
    target = TARGETS["gaussian"]
    other = Block(target.path(batching=batching), KERNEL, 16, {"mode": mode})
    assert other.compiled.backend != "jax"
    jax = Block(target.path(), KERNEL, 16, {"mode": "JAX"})
    assert jax.compiled.backend == "jax"
    (end, trace), (jax_end, jax_trace) = (
        run(other, MOVES_PER_BLOCK, 16),
        run(jax, MOVES_PER_BLOCK, 16),
    )
    np.testing.assert_allclose(trace.log_ratio, jax_trace.log_ratio, atol=1e-8)
    np.testing.assert_allclose(end.position, jax_end.position, atol=1e-8)
    np.testing.assert_allclose(end.momentum, jax_end.momentum, atol=1e-8)


def test_block_length_is_limited_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches noise for more rows and moves than memory has room for."""
    monkeypatch.setattr(block_module, "MAX_NOISE_PER_BLOCK", 50)
    block = Block(TARGETS["log_gamma"].path(), KERNEL, 10)
    assert block.n_moves == 5
    rng = make_rng("short block")
    noise = draw_noise(rng, block.n_moves, 10, 1)
    assert noise.normal.size == 50


def test_noise_is_finite_and_fits_its_law() -> None:
    """Catches log(0), and a logarithm of the wrong tail."""

    class Extreme:
        def standard_normal(self, shape: Any) -> np.ndarray:
            return np.zeros(shape)

        def random(self, shape: Any) -> np.ndarray:
            return np.resize([0.0, 1 - 2**-53], shape)

    noise = draw_noise(Extreme(), 2, 3, 1)
    assert np.all(np.isfinite(noise.log_uniform))
    assert noise.log_uniform.max() == 0
    drawn = draw_noise(make_rng("noise"), 20, 500, 1).log_uniform
    error = 1 / np.sqrt(drawn.size)  # -log u is exponential, of standard deviation one
    assert abs(drawn.mean() + 1) < 5 * error
