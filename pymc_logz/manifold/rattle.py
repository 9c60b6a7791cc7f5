"""Hamiltonian Monte Carlo on a level set by RATTLE, for NumPy and JAX from one source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pymc_logz.manifold.algebra import Linear
from pymc_logz.manifold.backends import System
from pymc_logz.runners.arrays import filled, leaves

OK, NOT_CONVERGED, NOT_REVERSIBLE, NOT_FINITE = range(4)
"""What ended a trajectory: its length; no point of the level set found after a step; a step back
that does not lead to where the step came from; a density or Jacobian that is not finite, or a
Jacobian that has not full rank."""

MAX_RESIDUAL = 1e30
"""Units of the tolerance: a search that is as far off as this has diverged."""


class Projection(NamedTuple):
    """Where the search for a point of the level set ended."""

    position: Any
    residual: Any
    """In units of the tolerance: it converged if this is at most 1."""
    n_iterations: Any
    """Of the quasi-Newton search."""
    n_newton: Any
    """Of Newton's method with line search, which takes over where that fails."""


def project_position(
    system: System, start: Any, base: Linear, max_iterations: int = 30
) -> Projection:
    """Point of the level set at ``start - J_base' multipliers``, by solving for the multipliers.

    The quasi-Newton search has the Gram matrix of the base point for its derivative (Barth et al.,
    1995, doi 10.1002/jcc.540161003); Newton's method with line search takes over where it fails.
    The result depends on ``start`` and ``base`` alone, as the reversibility check needs it.
    """
    algebra, xp = system.algebra, system.arrays.xp

    def search(state: tuple[Any, ...]) -> Any:
        _, _, residual, n = state
        return (residual > 1.0) & (residual < MAX_RESIDUAL) & (n < max_iterations)

    def improve(state: tuple[Any, ...]) -> tuple[Any, ...]:
        position, value, _, n = state
        position = position - algebra.transposed(base, algebra.solved(base, value))
        value = system.constraint(position)
        return position, value, system.residual(value), n + 1

    value = system.constraint(start)
    first = (start, value, system.residual(value))
    *last, n = system.arrays.while_loop(search, improve, (*first, 0))
    found = last[2] <= 1.0
    begin = [xp.where(found, *pair) for pair in zip(last, first, strict=True)]
    position, residual, n_newton = _newton(system, begin, base, max_iterations)
    return Projection(position, residual, n, n_newton)


def _newton(
    system: System, begin: Sequence[Any], base: Linear, max_iterations: int
) -> tuple[Any, Any, Any]:
    """Newton's method with line search from a position, its value and its residual."""
    # it gives up where a thousandth of a step is not enough of a decrease (Armijo's usual constant)
    algebra, xp, min_step, sufficient = system.algebra, system.arrays.xp, 2.0**-10, 1e-4

    def search(state: tuple[Any, ...]) -> Any:
        _, _, residual, n, step = state
        return (
            (residual > 1.0) & (residual < MAX_RESIDUAL) & (n < max_iterations) & (step >= min_step)
        )

    def improve(state: tuple[Any, ...]) -> tuple[Any, ...]:
        position, value, residual, n, _ = state
        jacobian = system.jacobian(position)
        multipliers = algebra.cross_solve(jacobian, base.jacobian, value)
        direction = -algebra.transposed(base, multipliers)

        def worse(line: tuple[Any, ...]) -> Any:
            step, _, reached = line
            return ~(reached <= (1.0 - sufficient * step) * residual) & (step >= min_step)

        def shorten(line: tuple[Any, ...]) -> tuple[Any, ...]:
            step = 0.5 * line[0]
            value = system.constraint(position + step * direction)
            return step, value, system.residual(value)

        trial = system.constraint(position + direction)
        line = (xp.asarray(1.0), trial, system.residual(trial))
        step, trial, reached = system.arrays.while_loop(worse, shorten, line)
        return position + step * direction, trial, reached, n + 1, step

    start = (*begin, 0, xp.asarray(1.0))
    position, _, residual, n, _ = system.arrays.while_loop(search, improve, start)
    return position, residual, n


class ManifoldState(NamedTuple):
    """A point of the level set, with what has been computed there."""

    position: Any
    """Inputs in units of their scales, shape (d,)."""
    linear: Linear
    log_density: Any
    """Log of rho times |J J'|^(-1/2), in nats."""
    gradient: Any
    """Of ``log_density``, shape (d,)."""


class Trajectory(NamedTuple):
    """Where a trajectory is, and what all projections, those of checks included, took together."""

    state: ManifoldState
    momentum: Any
    """Tangent to the level set, shape (d,)."""
    n_steps: Any
    status: Any
    """`OK` or what ended it early."""
    n_iterations: Any
    n_newton: Any


class TransitionInput(NamedTuple):
    """What decides a transition, besides the state that it starts from."""

    noise: Any
    """Independent standard normals for the momentum, shape (d,)."""
    log_uniform: Any
    """Log of a uniform number, which decides on acceptance."""
    step_size: Any
    n_steps: Any
    """Of the trajectory."""


class TransitionRecord(NamedTuple):
    """What is known after a transition; what has no word here is as of the state or trajectory."""

    position: Any
    log_density: Any
    log_rho: Any
    """Log of rho alone, which does not depend on the units of the inputs."""
    acceptance_rate: Any
    accepted: Any
    energy: Any
    """Of the state that the chain is left in, with the momentum it had."""
    energy_error: Any
    """Of the proposal; infinite where there is none."""
    residual: Any
    """Largest constraint of the state, in units of its tolerance."""
    status: Any
    n_steps: Any
    n_iterations: Any
    n_newton: Any

    @property
    def clean_acceptance_rate(self) -> float:
        """Acceptance rate, zero where a projection needed the fallback."""
        return float(self.acceptance_rate * (self.n_newton == 0))


def state_at(system: System, position: Any) -> ManifoldState:
    """State at a point of the level set."""
    return ManifoldState(position, *system.evaluate(position))


@dataclass(frozen=True)
class ConstrainedHamiltonian:
    """Settings of constrained Hamiltonian Monte Carlo (algorithm 1 of Graham & Storkey): RATTLE.

    A kick, a drift in ``n_inner`` geodesic sub-steps, a kick. After each sub-step the step back is
    made too, and the trajectory rejected unless it leads back (Zappa, Holmes-Cerfon & Goodman,
    2018, doi 10.1002/cpa.21783). The number of iterations of its searches is known only on the way,
    so that it is no kernel of a path.
    """

    n_inner: int = 1
    max_iterations: int = 20

    def project_momentum(self, system: System, linear: Linear, momentum: Any) -> Any:
        """Part of a momentum that is tangent to the level set."""
        algebra = system.algebra
        multipliers = algebra.solved(linear, algebra.multiplied(linear, momentum))
        return momentum - algebra.transposed(linear, multipliers)

    def is_reversible(self, system: System, old: Any, back: Any) -> Any:
        """Whether the step back arrived where the step began."""
        distance = system.arrays.xp.max(system.arrays.xp.abs(back.position - old))
        return (back.residual <= 1.0) & (distance <= 1e-6)

    def energy(self, state: ManifoldState, momentum: Any) -> Any:
        """Potential plus kinetic energy, in nats."""
        return 0.5 * (momentum @ momentum) - state.log_density

    def transition(
        self, system: System, state: ManifoldState, given: TransitionInput
    ) -> tuple[ManifoldState, TransitionRecord]:
        """State after fresh momentum, a trajectory, and its acceptance or rejection."""
        xp = system.arrays.xp
        momentum = self.project_momentum(system, state.linear, given.noise)
        end = self.integrate(system, state, momentum, given.step_size, given.n_steps)
        start_energy = self.energy(state, momentum)
        error = self.energy(end.state, end.momentum) - start_energy
        error = xp.where((end.status == OK) & ~xp.isnan(error), error, xp.inf)
        accepted = given.log_uniform < -error
        # each array out of the one state or out of the other
        either = zip(leaves(end.state), leaves(state), strict=True)
        new = filled(state, (xp.where(accepted, *pair) for pair in either))
        return new, TransitionRecord(
            new.position,
            new.log_density,
            log_rho=new.log_density + system.algebra.half_log_det(new.linear),
            acceptance_rate=xp.exp(-xp.maximum(error, 0.0)),
            accepted=accepted,
            energy=xp.where(accepted, start_energy + error, start_energy),
            energy_error=error,
            residual=system.residual(system.constraint(new.position)),
            status=end.status,
            n_steps=end.n_steps,
            n_iterations=end.n_iterations,
            n_newton=end.n_newton,
        )

    def integrate(
        self, system: System, state: ManifoldState, momentum: Any, step_size: Any, n_steps: Any
    ) -> Trajectory:
        """Trajectory of ``n_steps`` steps, shorter where one of them fails."""

        def continues(trajectory: Trajectory) -> Any:
            return (trajectory.n_steps < n_steps) & (trajectory.status == OK)

        def step(trajectory: Trajectory) -> Trajectory:
            """Kick, drift, kick."""
            trajectory = self._kick(system, trajectory, 0.5 * step_size)
            inner = step_size / self.n_inner
            for i in range(self.n_inner):
                trajectory = self._drift(system, trajectory, inner, is_last=i == self.n_inner - 1)
            trajectory = self._kick(system, trajectory, 0.5 * step_size)
            return trajectory._replace(n_steps=trajectory.n_steps + 1)

        first = Trajectory(state, momentum, 0, OK, 0, 0)
        return system.arrays.while_loop(continues, step, first)

    def _kick(self, system: System, trajectory: Trajectory, step_size: Any) -> Trajectory:
        state = trajectory.state
        momentum = trajectory.momentum + step_size * state.gradient
        momentum = self.project_momentum(system, state.linear, momentum)
        return trajectory._replace(momentum=momentum)

    def _drift(
        self, system: System, trajectory: Trajectory, step_size: Any, *, is_last: bool
    ) -> Trajectory:
        """Geodesic sub-step and the check that it can be undone."""
        xp, old = system.arrays.xp, trajectory.state
        ahead = old.position + step_size * trajectory.momentum
        there = project_position(system, ahead, old.linear, self.max_iterations)
        if is_last:
            state = state_at(system, there.position)
        else:  # the density is not needed between sub-steps
            linear = system.algebra.factorise(system.jacobian(there.position))
            state = old._replace(position=there.position, linear=linear)
        momentum = (state.position - old.position) / step_size
        momentum = self.project_momentum(system, state.linear, momentum)
        behind = state.position - step_size * momentum
        back = project_position(system, behind, state.linear, self.max_iterations)
        finite = xp.isfinite(state.log_density) & xp.all(xp.isfinite(state.gradient))
        finite = finite & xp.all(xp.isfinite(momentum))
        status = xp.where(
            self.is_reversible(system, old.position, back), trajectory.status, NOT_REVERSIBLE
        )
        status = xp.where(finite, status, NOT_FINITE)
        status = xp.where(there.residual <= 1.0, status, NOT_CONVERGED)
        # a sub-step that failed before stays what it was
        status = xp.where(trajectory.status == OK, status, trajectory.status)
        return Trajectory(
            state,
            momentum,
            trajectory.n_steps,
            status,
            trajectory.n_iterations + there.n_iterations + back.n_iterations,
            trajectory.n_newton + there.n_newton + back.n_newton,
        )
