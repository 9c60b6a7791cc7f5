"""The Hamiltonian kernel against its contracts, with broken kernels as positive controls."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from support.checks import assert_detects, make_rng
from support.kernel_contracts import (
    RecordedNoise,
    check_invariant,
    check_local_order,
    check_order,
    check_reversible,
    check_volume,
    constant_moves,
    evaluated_state,
)
from support.paths_with_exact_draws import N_ROWS, TARGETS, compiled_block

from pymc_logz.graphs.compiling import compile_function
from pymc_logz.kernels import Hamiltonian
from pymc_logz.kernels.base import KernelState, Move, column
from pymc_logz.kernels.hamiltonian import energy, leapfrog, refreshed
from pymc_logz.paths.geometric import grad_log_density

STEP_SIZES = (0.3, 1.0, 1.6)
REFRESHMENTS = (0.05, 0.5, 1.0)
SMOOTH = ("gaussian", "log_gamma", "bimodal")


DENSE = np.array([[0.7, 0.0], [0.28, 0.35]])
"""Lower triangular scale of the Gaussian target, close to a factor of its covariance."""

# Broken kernels: each has one deliberate error.


@dataclass(frozen=True)
class NoFlip(Hamiltonian):
    """Keeps the momentum on rejection."""

    def step(self, path: Any, state: Any, move: Any, noise: Any) -> Any:
        momentum = refreshed(state.momentum, noise.normal, column(move.refreshment), pt.sqrt)
        new, info = super().step(path, state, move, noise)
        stayed = pt.eq(new.position, state.position).all(axis=1)[:, None]
        return new._replace(momentum=pt.switch(stayed, momentum, new.momentum)), info


@dataclass(frozen=True)
class PrintedRefreshment(Hamiltonian):
    """Adds ``g r`` in place of ``sqrt(g) r``, as the paper prints."""

    def step(self, path: Any, state: Any, move: Any, noise: Any) -> Any:
        noise = noise._replace(normal=pt.sqrt(move.refreshment) * noise.normal)
        return super().step(path, state, move, noise)


@dataclass(frozen=True)
class AcceptAlways(Hamiltonian):
    """Has no Metropolis step."""

    def step(self, path: Any, state: Any, move: Any, noise: Any) -> Any:
        noise = noise._replace(log_uniform=pt.full_like(noise.log_uniform, -np.inf))
        return super().step(path, state, move, noise)


@dataclass(frozen=True)
class NoKineticEnergy(Hamiltonian):
    """Accepts on the density of the position alone."""

    def step(self, path: Any, state: Any, move: Any, noise: Any) -> Any:
        momentum = refreshed(state.momentum, noise.normal, column(move.refreshment), pt.sqrt)
        proposal = leapfrog(path, state._replace(momentum=momentum), move, self.n_steps)
        lost = 0.5 * (momentum**2 - proposal.momentum**2).sum(axis=1)
        noise = noise._replace(log_uniform=noise.log_uniform + lost)
        return super().step(path, state, move, noise)


def check_kernel(
    kernel: Hamiltonian, *, name: str, beta: float, settings: Iterable[tuple[float, float]]
) -> None:
    target = TARGETS[name]
    check_invariant(
        compiled_block(name, kernel),
        target.sample,
        make_rng(kernel, name, beta),
        n_rows=N_ROWS,
        beta=beta,
        scale=DENSE if kernel.dense else target.scale,
        settings=settings,
    )


# several steps differ from one in the trajectory alone, whatever beta and the target are
@pytest.mark.parametrize(
    ("name", "n_steps", "beta"),
    [
        pytest.param(
            *case, marks=[pytest.mark.slow] * (case[1] == 3 and case != ("gaussian", 3, 1.0))
        )
        for case in product(TARGETS, (1, 3), (0.0, 0.3, 1.0))
    ],
)
def test_invariance(name: str, n_steps: int, beta: float) -> None:
    """Catches any error of density, gradient pairing, acceptance, flip or refreshment."""
    settings = product(STEP_SIZES, REFRESHMENTS)
    check_kernel(Hamiltonian(n_steps=n_steps), name=name, beta=beta, settings=settings)


@pytest.mark.parametrize("n_steps", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_invariance_with_dense_scale(n_steps: int) -> None:
    """Catches a triangular factor in the drift that the kick does not transpose."""
    kernel = Hamiltonian(n_steps=n_steps, dense=True)
    check_kernel(kernel, name="gaussian", beta=0.6, settings=product(STEP_SIZES, [0.3]))


@pytest.mark.parametrize(
    ("broken", "refreshment"),
    [
        (NoFlip(), 0.05),
        (PrintedRefreshment(), 0.5),
        (AcceptAlways(), 0.5),
        (NoKineticEnergy(), 0.5),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Hamiltonian) else str(value),
)
@pytest.mark.parametrize("name", [pytest.param("gaussian", marks=pytest.mark.slow), "log_gamma"])
def test_invariance_detects_broken_kernel(
    broken: Hamiltonian, refreshment: float, name: str
) -> None:
    """Catches an invariance test without power."""
    check = partial(check_kernel, name=name, beta=1.0, settings=[(1.6, refreshment)])
    assert_detects(check, broken)


# The integrator


@cache
def compiled_integrator(name: str, n_steps: int, broken: str = "", dense: bool = False) -> Callable:
    """Function of position, momentum, step size and beta: one trajectory and its energies."""
    target = TARGETS[name]
    scale = DENSE if dense else np.array(target.scale)
    path = target.path()
    position, momentum = (
        pt.tensor(label, dtype="float64", shape=(None, target.n_dims)) for label in "xv"
    )
    step_size, beta = pt.dscalars("step_size", "beta")
    move = Move(beta, step_size, pt.constant(scale), None)
    start = KernelState(position, momentum, path.evaluate(position))
    step = {"": leapfrog, "euler": euler, "damped": damped, "untransposed": untransposed}[broken]
    end = step(path, start, move, n_steps)
    outputs = [end.position, end.momentum, energy(start, beta), energy(end, beta)]
    return compile_function([position, momentum, step_size, beta], outputs).call


def euler(path: Any, state: KernelState, move: Move, n_steps: int) -> KernelState:
    """Kick, then drift: keeps volume, but is of first order and no reversal of itself."""
    stride = move.step_size * move.scale
    momentum = state.momentum + stride * grad_log_density(state.evaluation, move.beta)
    position = state.position + stride * momentum
    return KernelState(position, momentum, path.evaluate(position))


def damped(path: Any, state: KernelState, move: Move, n_steps: int) -> KernelState:
    """Leapfrog with a little friction: loses volume."""
    end = leapfrog(path, state, move, n_steps)
    return end._replace(momentum=end.momentum * pt.exp(-1e-3 * move.step_size))


def untransposed(path: Any, state: KernelState, move: Move, n_steps: int) -> KernelState:
    """Leapfrog whose kick has the dense scale where its transpose belongs."""
    half = 0.5 * move.step_size
    momentum = state.momentum + half * grad_log_density(state.evaluation, move.beta) @ move.scale.T
    position = state.position + move.step_size * momentum @ move.scale.T
    evaluation = path.evaluate(position)
    momentum = momentum + half * grad_log_density(evaluation, move.beta) @ move.scale.T
    return KernelState(position, momentum, evaluation)


def make_integrator(
    name: str, beta: float = 0.6, n_steps: int = 1, broken: str = "", dense: bool = False
) -> Callable[..., tuple[np.ndarray, ...]]:
    call = compiled_integrator(name, n_steps, broken, dense)

    def integrate(
        position: np.ndarray, momentum: np.ndarray, step_size: float
    ) -> tuple[np.ndarray, ...]:
        outputs = call(position, momentum, np.float64(step_size), np.float64(beta))
        return tuple(np.asarray(value) for value in outputs)

    return integrate


def start_of(name: str, beta: float = 0.6, n: int = 256) -> tuple[np.ndarray, np.ndarray]:
    rng = make_rng("start", name)
    position = TARGETS[name].sample(rng, beta, n)
    return position, rng.standard_normal(position.shape)


@pytest.mark.parametrize("name", SMOOTH)
def test_leapfrog_has_order_two(name: str) -> None:
    """Catches a half kick with the wrong gradient, beta or step size: the order falls to one."""
    check = partial(check_order, position=start_of(name)[0], momentum=start_of(name)[1])
    check = partial(check, duration=1.5, order=2.0)
    check(make_integrator(name))
    assert_detects(check, make_integrator(name, broken="euler"))


def test_leapfrog_with_dense_scale_has_order_two() -> None:
    """Catches a kick by the factor in place of its transpose: energy is lost at any step size."""
    position, momentum = start_of("gaussian")
    check = partial(check_order, position=position, momentum=momentum, duration=1.5, order=2.0)
    check(make_integrator("gaussian", dense=True))
    assert_detects(check, make_integrator("gaussian", dense=True, broken="untransposed"))


@pytest.mark.parametrize("name", SMOOTH)
def test_leapfrog_has_local_order_three(name: str) -> None:
    """Catches an error that cancels over a trajectory but not within a step."""
    position, momentum = start_of(name)
    check = partial(check_local_order, position=position, momentum=momentum)
    check = partial(check, step_sizes=np.array([0.005, 0.01, 0.02]), order=3.0)
    check(make_integrator(name))
    assert_detects(check, make_integrator(name, broken="euler"))


EACH_TRAJECTORY = pytest.mark.parametrize(
    ("name", "n_steps"),
    [
        *((name, 1) for name in TARGETS),
        *(
            pytest.param(name, 3, marks=[pytest.mark.slow] * (name != "gaussian"))
            for name in TARGETS
        ),
    ],
)


@EACH_TRAJECTORY
def test_leapfrog_is_reversible(name: str, n_steps: int) -> None:
    """Catches an asymmetric composition, which makes Metropolis acceptance wrong."""
    position, momentum = start_of(name)
    check = partial(check_reversible, position=position, momentum=momentum, step_size=0.7)
    check(make_integrator(name, n_steps=n_steps))
    assert_detects(check, make_integrator(name, n_steps=1, broken="euler"))


@EACH_TRAJECTORY
def test_leapfrog_keeps_volume(name: str, n_steps: int) -> None:
    """Catches a kick that reads the momentum or a drift that reads the position."""
    position, momentum = start_of(name, n=8)
    check = partial(check_volume, position=position, momentum=momentum, step_size=0.7)
    check(make_integrator(name, n_steps=n_steps))
    assert_detects(check, make_integrator(name, n_steps=1, broken="damped"))


# The kernel as a block sees it


def run_moves(
    state: KernelState, step_size: float, refreshment: float, noise: Any, n_moves: int = 8
) -> tuple[KernelState, np.ndarray]:
    block = compiled_block("gaussian", Hamiltonian())
    moves = constant_moves(
        block,
        n_moves=n_moves,
        beta=0.6,
        step_size=step_size,
        scale=TARGETS["gaussian"].scale,
        refreshment=refreshment,
    )
    state, trace = block.run(state, moves, noise)
    return KernelState(*(np.asarray(part) for part in state[:2]), state[2]), trace.acceptance_rate


def test_moves_step_back_after_a_flip() -> None:
    """Catches hidden state between moves, and cached gradients of the wrong point."""
    position, momentum = start_of("gaussian", n=N_ROWS)
    start = evaluated_state(compiled_block("gaussian", Hamiltonian()), position, momentum)
    accept_all = RecordedNoise(uniform=1 - 1e-15)
    there, _ = run_moves(start, 0.8, 0.0, accept_all)
    back, _ = run_moves(there._replace(momentum=-there.momentum), 0.8, 0.0, accept_all)
    assert np.abs(there.position - position).max() > 1
    np.testing.assert_allclose(back.position, position, atol=1e-9)
    np.testing.assert_allclose(-back.momentum, momentum, atol=1e-9)
    np.testing.assert_allclose(
        back.evaluation.grad_log_ratio, start.evaluation.grad_log_ratio, atol=1e-8
    )


def test_rejection_keeps_the_row_and_flips_its_momentum() -> None:
    """Catches a rejected row whose cached values are those of the proposal."""
    position, momentum = start_of("gaussian", n=N_ROWS)
    start = evaluated_state(compiled_block("gaussian", Hamiltonian()), position, momentum)
    # a step size far beyond stability and a uniform that asks for acceptance one
    end, acceptance = run_moves(start, 30.0, 0.0, RecordedNoise(uniform=1e-300), n_moves=1)
    rejected = acceptance[0] < 1
    assert rejected.mean() > 0.9
    np.testing.assert_array_equal(end.position[rejected], position[rejected])
    for new, old in zip(end.evaluation, start.evaluation, strict=True):
        np.testing.assert_array_equal(np.asarray(new)[rejected], old[rejected])


def test_refreshment_mixes_momentum_by_variance() -> None:
    """Catches ``g`` and ``sqrt(g)`` exchanged, and ``1 - g`` without its root."""
    position, momentum = start_of("gaussian", n=N_ROWS)
    start = evaluated_state(compiled_block("gaussian", Hamiltonian()), position, momentum)
    normal = make_rng("refreshment").standard_normal((N_ROWS, 2))
    end, _ = run_moves(start, 0.0, 0.36, RecordedNoise(normal, 0.5), n_moves=8)
    decay = 0.8**8
    np.testing.assert_allclose(
        end.momentum, decay * momentum + 0.6 * (1 - decay) / (1 - 0.8) * normal, atol=1e-12
    )


@pytest.mark.parametrize("half_life", [0.5, 1.0])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_default_refreshment_halves_momentum_per_half_life(n_steps: int, half_life: float) -> None:
    """Catches a refreshment per move where it is meant per unit of trajectory time."""
    kernel = Hamiltonian(n_steps=n_steps, half_life=half_life)
    for step_size in (0.05, 0.25):
        n_moves = round(1 / (n_steps * step_size) * 3)  # three units of time
        refreshment = kernel.refreshment_for(np.array([step_size]))[0]
        remaining = (1 - refreshment) ** n_moves
        assert np.log2(remaining) == pytest.approx(-n_moves * n_steps * step_size / half_life)
    np.testing.assert_array_equal(
        Hamiltonian(refreshment=0.3).refreshment_for(np.array([0.1, 2.0])), [0.3, 0.3]
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_steps": 0}, "n_steps=0 must be an integer from 1 to 64"),
        ({"n_steps": 65}, "n_steps=65 must"),
        ({"n_steps": 1.5}, "n_steps=1.5 must"),
        ({"refreshment": -0.1}, "refreshment=-0.1 must lie in"),
        ({"refreshment": 1.1}, "refreshment=1.1 must lie in"),
        ({"refreshment": np.nan}, "refreshment=nan must lie in"),
        ({"step_size": 0.0}, "step_size=0.0 must be positive"),
        ({"step_size": np.inf}, "step_size=inf must be positive"),
        ({"step_size": np.nan}, "step_size=nan must be positive"),
        ({"half_life": 0.0}, "half_life=0.0 must be positive"),
        ({"half_life": 1.0, "refreshment": 0.3}, "half_life=1.0 says how fast"),
        ({"scale": 0.0}, "scale=0.0 must be positive"),
        ({"scale": (1.0, -1.0)}, "must be positive and finite"),
        ({"scale": (1.0, np.nan)}, "must be positive and finite"),
    ],
)
def test_settings_are_checked_at_construction(settings: dict[str, Any], message: str) -> None:
    """Catches a bad setting that would surface as NaN in the middle of a run."""
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        Hamiltonian(**settings)
