"""The gradient-free kernels and Langevin against their contracts, with broken ones as controls."""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy import stats
from support import pymc_models as models
from support.checks import assert_detects, check_means, make_rng
from support.kernel_contracts import RecordedNoise, check_invariant, constant_moves, evaluated_state
from support.paths_with_exact_draws import N_ROWS, TARGETS, compiled_block, dead_zone_block

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.kernels import KERNELS, Hamiltonian, Langevin, RandomWalk, Slice
from pymc_logz.kernels.base import Kernel
from pymc_logz.runners.block import Block

WALK, LANGEVIN = RandomWalk(), Langevin()
SLICE = Slice(n_expand=2, n_shrink=3)
"""Tight limits, so that they bind at each of the widths below."""
SIZES = {WALK: (0.3, 1.0, 3.0), LANGEVIN: (0.3, 1.0, 1.6), SLICE: (0.6, 2.0, 8.0)}
DENSE = np.array([[0.7, 0.0], [0.28, 0.35]])
EACH_KERNEL = pytest.mark.parametrize("kernel", SIZES, ids=lambda kernel: type(kernel).__name__)


# Broken kernels: each has one deliberate error, made in its noise so that nothing is recompiled.


@dataclass(frozen=True)
class DriftingWalk(RandomWalk):
    """Proposes to the right more often than to the left, without a correction."""

    def draw_noise(self, *args: Any) -> Any:
        noise = super().draw_noise(*args)
        return noise._replace(normal=noise.normal + 0.5)


@dataclass(frozen=True)
class AcceptingLangevin(Langevin):
    """Has no Metropolis step."""

    def draw_noise(self, *args: Any) -> Any:
        noise = super().draw_noise(*args)
        return noise._replace(log_uniform=np.full_like(noise.log_uniform, -np.inf))


@dataclass(frozen=True)
class LeftSlice(Slice):
    """Gives the whole limit on expansions to the left end."""

    def draw_noise(self, *args: Any) -> Any:
        forward, log_level, place, split, tries = super().draw_noise(*args)
        return forward, log_level, place, np.full_like(split, 0.999), tries


@dataclass(frozen=True)
class AcceptingSlice(Slice):
    """Takes any point, inside the slice or not."""

    def draw_noise(self, *args: Any) -> Any:
        forward, log_level, place, split, tries = super().draw_noise(*args)
        return forward, np.full_like(log_level, -np.inf), place, split, tries


@dataclass(frozen=True)
class OrderedSlice(Slice):
    """Visits its directions first to last: invariant, but not its own reversal."""

    def draw_noise(self, *args: Any) -> Any:
        forward, *rest = super().draw_noise(*args)
        return np.zeros_like(forward), *rest


def block_of(name: str, kernel: Any) -> Block:
    """Compiled block; a broken kernel borrows that of the sound one."""
    sound = next((sound for sound in SIZES if isinstance(kernel, type(sound))), kernel)
    block = copy(compiled_block(name, replace(sound, dense=kernel.dense)))
    block.kernel = kernel
    return block


def check_kernel(kernel: Any, *, name: str, beta: float, sizes: Iterable[float]) -> None:
    target = TARGETS[name]
    check_invariant(
        block_of(name, kernel),
        target.sample,
        make_rng(kernel, name, beta),
        n_rows=N_ROWS,
        beta=beta,
        scale=DENSE if kernel.dense else target.scale,
        settings=product(sizes, [1.0]),
    )


# Langevin is the Hamiltonian kernel with other settings; for slices see the dense and by hand
COVERED = {LANGEVIN: ("gaussian", "student", "bimodal"), SLICE: ("gaussian", "student"), WALK: ()}


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        pytest.param(name, kernel, marks=[pytest.mark.slow] * (name in COVERED[kernel]))
        for name, kernel in product(TARGETS, SIZES)
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_invariance(name: str, kernel: Kernel) -> None:
    """Catches any error of density, acceptance, interval, expansion or shrinkage."""
    for beta in (0.0, 0.3, 1.0):
        check_kernel(kernel, name=name, beta=beta, sizes=SIZES[kernel])


@pytest.mark.parametrize("kernel", [WALK, SLICE], ids=["RandomWalk", "Slice"])
def test_invariance_with_dense_scale(kernel: Any) -> None:
    """Catches rows of the scale where its columns are the directions."""
    dense = replace(kernel, dense=True)
    check_kernel(dense, name="gaussian", beta=0.6, sizes=SIZES[kernel])


@pytest.mark.parametrize(
    ("broken", "size"),
    [
        (DriftingWalk(), 1.0),
        (AcceptingLangevin(), 1.6),
        (LeftSlice(), 0.6),
        (AcceptingSlice(), 2.0),
    ],
    ids=lambda value: str(value) if isinstance(value, float) else type(value).__name__,
)
@pytest.mark.parametrize("name", ["log_gamma", "bimodal"])
def test_invariance_detects_broken_kernel(broken: Kernel, size: float, name: str) -> None:
    """Catches an invariance test without power."""
    assert_detects(partial(check_kernel, name=name, beta=1.0, sizes=[size]), broken)


def check_reversal(kernel: Any) -> None:
    """Fail unless a point and the next one can be exchanged."""
    target, block, rng = TARGETS["gaussian"], block_of("gaussian", kernel), make_rng("reversal")
    before = target.sample(rng, 0.6, N_ROWS)
    start = evaluated_state(block, before, rng.standard_normal(before.shape))
    moves = constant_moves(
        block, n_moves=1, beta=0.6, step_size=2.0, scale=target.scale, refreshment=1.0
    )
    after = np.asarray(block.run(start, moves, rng)[0].position)
    check_means(
        {
            "x0 y1": before[:, 0] * after[:, 1] - after[:, 0] * before[:, 1],
            "x0^2 y1": before[:, 0] ** 2 * after[:, 1] - after[:, 0] ** 2 * before[:, 1],
        }
    )


@EACH_KERNEL
def test_a_move_is_its_own_reversal(kernel: Kernel) -> None:
    """Catches a fixed order of directions: reverse annealing would not be the reversal then."""
    check_reversal(kernel)


def test_reversal_detects_an_order() -> None:
    """Catches a test of reversal without power."""
    assert_detects(check_reversal, OrderedSlice())


# What a block asks of a kernel


@EACH_KERNEL
def test_start_is_evaluated_as_it_is(kernel: Any) -> None:
    """Catches a start that moves before it is evaluated, and NaN that nobody sees."""
    x = np.linspace(-3, 3, N_ROWS)[:, None]
    _, values = dead_zone_block(kernel).densities(x)
    np.testing.assert_array_equal(np.isnan(values), x[:, 0] < -1)
    np.testing.assert_array_equal(np.isneginf(values), x[:, 0] > 1.5)
    inside = (x[:, 0] >= -1) & (x[:, 0] <= 1.5)
    np.testing.assert_allclose(values[inside], -(x[inside, 0] ** 2))


@EACH_KERNEL
def test_rows_move_within_the_support(kernel: Any) -> None:
    """Catches a comparison with NaN that accepts."""
    block = dead_zone_block(kernel)
    x = np.linspace(-1, 1.5, N_ROWS)[:, None]
    momentum = make_rng("momentum").standard_normal(x.shape)
    start = evaluated_state(block, x, momentum)
    moves = constant_moves(block, beta=0.5, step_size=1.0, scale=1.0, refreshment=0.5)
    end, trace = block.run(start, moves, make_rng("dead zones"))
    assert np.all(np.isfinite(trace.log_ratio))
    assert np.all((np.asarray(end.position) >= -1) & (np.asarray(end.position) <= 1.5))
    assert np.any(np.asarray(end.position) != x)
    assert np.all((trace.acceptance_rate >= 0) & (trace.acceptance_rate <= 1))
    if not kernel.needs_gradient:
        np.testing.assert_array_equal(end.momentum, momentum)
        np.testing.assert_array_equal(end.evaluation.grad_log_ratio, 0)


@EACH_KERNEL
def test_step_size_zero_stays(kernel: Any) -> None:
    """Catches padding that moves rows: a short list of moves is the beginning of a long one."""
    target, block, rng = TARGETS["gaussian"], block_of("gaussian", kernel), make_rng("zero")
    position = target.sample(rng, 0.6, N_ROWS)
    start = evaluated_state(block, position, rng.standard_normal(position.shape))
    some = partial(constant_moves, block, beta=0.6, step_size=1.0, scale=target.scale)
    short, short_trace = block.run(start, some(refreshment=0.5, n_moves=5), make_rng("moves"))
    _, trace = block.run(start, some(refreshment=0.5), make_rng("moves"))
    np.testing.assert_array_equal(short_trace.log_ratio, trace.log_ratio[:5])
    again = evaluated_state(block, np.asarray(short.position), position)
    np.testing.assert_allclose(again.evaluation.log_ratio, trace.log_ratio[4], atol=1e-10)
    np.testing.assert_allclose(
        again.evaluation.log_reference, short.evaluation.log_reference, atol=1e-10
    )


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation")
@pytest.mark.parametrize("mode", ["FAST_COMPILE", pytest.param("NUMBA", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kernel", [WALK, SLICE], ids=["RandomWalk", "Slice"])
def test_backends_make_the_same_chain(kernel: Any, mode: str) -> None:
    """Catches a graph that means one thing on JAX and another elsewhere."""
    target, ends = TARGETS["gaussian"], []
    x = target.sample(make_rng("backend"), 0.6, 16)
    for block in (
        block_of("gaussian", kernel),
        Block(target.path(), kernel, 16, {"mode": mode}),
    ):
        start = evaluated_state(block, x, np.zeros_like(x))
        moves = constant_moves(
            block, n_moves=5, beta=0.6, step_size=1.5, scale=target.scale, refreshment=1.0
        )
        ends.append(block.run(start, moves, make_rng("backend noise"))[0])
    assert np.any(ends[0].position != x)
    np.testing.assert_allclose(ends[0].position, ends[1].position, atol=1e-8)
    np.testing.assert_allclose(ends[0].evaluation[1], ends[1].evaluation[1], atol=1e-8)


def test_slice_by_hand() -> None:
    """Catches an expansion of the wrong end, and a cut at the wrong side."""
    block = block_of("student", SLICE)
    x = np.full((N_ROWS, 1), 0.5)
    start = evaluated_state(block, x, np.zeros_like(x))
    # uniforms of 1/2 throughout: level f/2, interval (0, 1), one expansion on each side. With
    # density (1 + x^2)^-1 the slice is |x| < sqrt(1.5) = 1.22: the left end 0 and the right end 1
    # are inside and move out to -1 and 2, and the point tried is the middle
    moves = constant_moves(block, n_moves=1, beta=0.0, step_size=1.0, scale=1.0, refreshment=0.0)
    end, _ = block.run(start, moves, RecordedNoise(uniform=0.5))
    np.testing.assert_allclose(end.position, 0.5)
    # all uniforms 0.9: level f/10, slice |x| < 3.39, interval (-0.4, 0.6), both expansions on the
    # left, to -2.4; the point is 0.9 of the way from there to 0.6
    end, _ = block.run(start, moves, RecordedNoise(uniform=0.9))
    np.testing.assert_allclose(end.position, -2.4 + 0.9 * 3.0)


# Whole runs


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
@pytest.mark.parametrize(
    "kernel",
    [
        # two are the Hamiltonian kernel with other settings, and walks have a test below
        pytest.param(name, marks=[pytest.mark.slow] * (name != "slice"))
        for name in KERNELS
        if name != "hais"
    ],
)
def test_log_z_is_exact(kernel: str) -> None:
    """Catches a kernel that the pilot cannot tune, or that a weighted run leaves unmoved."""
    energy = energies.beta_bernoulli()
    tree = models.quick(energy.model, kernel=kernel, betas=64, draws=200, chains=2)
    estimate = tree["evidence"].isel(estimator=0)
    assert abs(float(estimate["log_z"]) - energy.log_z) < 4 * float(estimate["mcse"])
    assert float(estimate["mcse"]) < 0.1
    assert type(KERNELS[kernel]).__name__ in str(tree.attrs)


class Simulator(Op):
    """A log likelihood without a gradient: that of a normal observation 0.7."""

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [pt.as_tensor(x)], [pt.dscalar()])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = np.asarray(stats.norm.logpdf(0.7, inputs[0]))


def simulator_model() -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Potential("y", Simulator()(mu))
    return model


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
@pytest.mark.filterwarnings("ignore:the model has potentials")
@pytest.mark.parametrize(
    "kernel",
    [RandomWalk(step_size=1.5, scale=1.0), Slice(n_expand=0, n_shrink=2, scale=1.0)],
    ids=["RandomWalk", "Slice"],
)
def test_model_without_gradient(kernel: Kernel) -> None:
    """Catches a gradient that is taken although nobody needs it."""
    tree = models.quick(
        simulator_model(),
        kernel=kernel,
        betas=6,
        draws=128,
        chains=1,
        compile_kwargs={"mode": "FAST_COMPILE"},
    )
    estimate = tree["evidence"].isel(estimator=0)
    exact = stats.norm.logpdf(0.7, 0, np.sqrt(2))
    assert abs(float(estimate["log_z"]) - exact) < 4 * float(estimate["mcse"])


@pytest.mark.filterwarnings("ignore:the model has potentials")
@pytest.mark.parametrize("kernel", ["hais", "hmc", "langevin"])
def test_gradient_kernel_says_that_there_is_no_gradient(kernel: str) -> None:
    """Catches PyTensor's error where one that names the remedy is due."""
    with pytest.raises(lz.ModelError, match=r"no gradient .*Simulator.*kernel=RandomWalk\(\)"):
        models.quick(simulator_model(), kernel=kernel, betas=8)


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_chains_that_need_a_gradient_say_what_does_without() -> None:
    """Catches advice to give an argument that is not there."""
    with pytest.raises(lz.ModelError, match=r"sample_hais or sample_tempered with kernel=Random"):
        lz.sample_hmc(model=simulator_model(), random_seed=1, progressbar=False)


# Settings


def test_random_walk_is_tuned_to_its_own_acceptance() -> None:
    """Catches a random walk tuned to take tiny steps, or by the law of the leapfrog."""
    assert WALK.acceptance_for(0.8) == 0.3
    assert LANGEVIN.acceptance_for(0.8) == Hamiltonian().acceptance_for(0.8) == 0.8
    size = 0.05
    for _ in range(8):  # a normal in 50 dimensions, by its exact limit law
        rate = 2 * stats.norm.cdf(-0.5 * size * np.sqrt(50))
        size = WALK.tuned_step_size(size, rate, 0.3)
    assert 2 * stats.norm.cdf(-0.5 * size * np.sqrt(50)) == pytest.approx(0.3)
    assert WALK.tuned_step_size(1.0, 0.0, 0.3) == pytest.approx(1 / 3)
    assert WALK.tuned_step_size(1.0, 1.0, 0.3) == 3.0


def test_langevin_is_the_hamiltonian_kernel_with_full_refreshment() -> None:
    """Catches a step or a share of momentum that is not the one of the definition."""
    assert (LANGEVIN.n_steps, LANGEVIN.refreshment) == (1, 1.0)
    assert isinstance(LANGEVIN.resolved(3), Langevin)
    assert Langevin(0.3, (1.0, 2.0)).step_size == 0.3
    with pytest.raises(TypeError):
        Langevin(n_steps=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Langevin(half_life=1.0)  # type: ignore[call-arg]


@pytest.mark.parametrize("kernel", [RandomWalk(), Langevin(), Slice()])
def test_dense_is_decided_by_dimensions(kernel: Any) -> None:
    """Catches matrices in thousands of dimensions, or beside a scale that the user gave."""
    assert kernel.resolved(64).dense
    assert not kernel.resolved(65).dense
    assert not replace(kernel, scale=1.0).resolved(2).dense
    with pytest.raises(ValueError, match=r"dense=True .* scale=1.0 is given: leave out one"):
        replace(kernel, scale=1.0, dense=True)


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (RandomWalk, {"step_size": 0.0}, "step_size=0.0 must be positive"),
        (RandomWalk, {"scale": (1.0, np.nan)}, "must be positive and finite"),
        (Langevin, {"step_size": -1.0}, "step_size=-1.0 must be positive"),
        (Slice, {"width": 0.0}, "width=0.0 must be positive"),
        (Slice, {"width": np.inf}, "width=inf must be positive"),
        (Slice, {"scale": -1.0}, "scale=-1.0 must be positive"),
        (Slice, {"n_expand": -1}, "n_expand=-1 must be an integer from 0 to 64"),
        (Slice, {"n_shrink": 0}, "n_shrink=0 must be an integer from 1 to 64"),
        (Slice, {"n_shrink": 2.5}, "n_shrink=2.5 must be an integer"),
    ],
)
def test_settings_are_checked(make: Any, settings: dict[str, Any], message: str) -> None:
    """Catches a bad setting that would surface as NaN in the middle of a run."""
    with pytest.raises(ValueError, match=message):
        make(**settings)


@pytest.mark.parametrize("kernel", ["nuts", RandomWalk, 3])
def test_other_kernels_are_refused(kernel: Any) -> None:
    """Catches a misspelt name that runs something else."""
    with pytest.raises(TypeError, match=r"kernel=.* is not a kernel.*'random_walk'.*Slice\(\)"):
        models.quick(models.normal_normal(), kernel=kernel)
