"""Expectation maximization of generative models: posterior draws by our Hamiltonian kernel.

In the E step each patch has one row of latent variables, which goes on from where it was with a
momentum that is refreshed in part. The M step has closed forms, or a few iterations of L-BFGS. In
linear models latent variables are then stretched to the spread (for Laplace priors: turned and
stretched to the independence) that their prior says, and bases take it back: parameter expansion
(Liu, Rubin & Wu 1998), without which EM with so little noise needs hundreds of rounds for what
takes a few.
"""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pymc as pm
import xarray as xr
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

from pymc_logz.energies import Energy, bilinear_generative, linear_generative
from pymc_logz.hmc import after_move
from pymc_logz.kernels import Hamiltonian
from pymc_logz.kernels.base import Move
from pymc_logz.models.flat import flatten_model, model_path
from pymc_logz.models.prior import PriorDraws
from pymc_logz.runners.block import MAX_NOISE_PER_BLOCK, Block

NOISE, N_STEPS, TARGET_ACCEPT = 0.1, 4, 0.8
MOVES = 7
"""Of a call, besides the one that evaluates."""
WARM, KEPT = 3, 4
"""Times four calls that posterior draws are taken after, and how often."""
TURNS, TURN = 5, 0.2
"""Steps of the natural gradient, and their size, that make latent variables independent."""


class Posterior:
    """Rows of latent variables, one for each patch, that follow the model's parameters."""

    def __init__(
        self, energy: Energy, data: np.ndarray, step_size: float, rng: np.random.Generator
    ) -> None:
        self.model, self.rng = energy.model, rng
        path = model_path(flatten_model(self.model, data=["x"]), PriorDraws(self.model))
        kernel = Hamiltonian(n_steps=N_STEPS, scale=1.0, dense=False, half_life=4 * step_size)
        self.block = Block(path, kernel, len(data), data=data)
        self.state = self.block.initial_state(np.zeros((len(data), path.n_dims)))
        self.step_size, self.average = step_size, TARGET_ACCEPT

    def move(
        self, rows: np.ndarray, parameters: dict[str, np.ndarray], n_moves: int
    ) -> tuple[np.ndarray, float]:
        """Rows some moves on from these, under these parameters; and the acceptance rate."""
        n_moves = min(n_moves, self.block.n_moves - 1)
        if not n_moves:
            raise ValueError(f"{len(rows)} rows are too many to move at a time")
        pm.set_data(parameters, self.model)
        values = flatten_model(self.model, data=["x"]).values
        block = self.block.along(values, sample_reference=self.block.path.sample_reference)
        fresh = block.initial_state(rows)
        # a first move that stays where it is evaluates rows under the new parameters
        step_sizes = np.r_[0.0, np.full(n_moves, self.step_size)]
        move = Move(
            np.ones(n_moves + 1),
            step_sizes,
            np.ones((n_moves + 1, *block.scale_shape)),
            block.kernel.refreshment_for(step_sizes),
        )
        self.state, trace = block.run(fresh._replace(momentum=self.state.momentum), move, self.rng)
        accepted = float(trace.acceptance_rate[1:].mean())
        self.step_size, self.average = after_move(
            self.step_size, self.average, accepted, TARGET_ACCEPT
        )
        return np.array(self.state.position), accepted


def stretched(a: np.ndarray) -> np.ndarray:
    """Matrix T such that a @ T.T has the covariance of a standard normal prior."""
    return np.linalg.inv(np.linalg.cholesky(a.T @ a / len(a)))


def independent(a: np.ndarray) -> np.ndarray:
    """Matrix T such that a @ T.T is closer to independent Laplace, by the natural gradient."""
    turn = np.diag(1 / np.abs(a).mean(axis=0))
    for _ in range(TURNS):
        y = a @ turn.T
        turn += TURN * (turn - np.sign(y).T @ y @ turn / len(y))
    return turn


def learn_linear(
    data: np.ndarray, n_causes: int, prior: str, n_rounds: int, n_moves: int, seed: int
) -> np.ndarray:
    """Bases of a linear generative model, shape (M, n_causes)."""
    rng = np.random.default_rng(seed)
    # orthogonal rows, since the patches are white
    bases = np.linalg.qr(rng.normal(size=(n_causes, data.shape[1])))[0].T
    posterior = Posterior(linear_generative(bases, data[0], prior, NOISE), data, 0.05, rng)
    a = data @ np.linalg.pinv(bases).T
    transform = stretched if prior == "normal" else independent
    for _ in range(n_rounds):
        a, _ = posterior.move(a, {"bases": bases}, n_moves)
        bases = np.linalg.solve(a.T @ a, a.T @ data).T
        turn = transform(a)
        a, bases = a @ turn.T, bases @ np.linalg.inv(turn)
    return bases


def surprise(parts: dict[str, jax.Array], a: jax.Array, d: jax.Array) -> jax.Array:
    """Mean of -log p(a | d), up to a constant; Theta and the log of Psi are the parameters."""
    strength = d @ jnp.exp(parts["log_second"]).T
    c = jnp.linalg.solve(parts["first"], (a / strength).T).T
    each = jnp.abs(c).sum(axis=1) + jnp.log(strength).sum(axis=1)
    return each.mean() + jnp.linalg.slogdet(parts["first"])[1]


def data_of(matrices: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Data of the centred model."""
    rest = {name: matrices[name] for name in ("bases", "second")}
    log_det = np.linalg.slogdet(matrices["first"])[1]
    return {**rest, "unmixing": np.linalg.inv(matrices["first"]), "log_det": log_det}


def units(log_d: np.ndarray, matrices: dict[str, np.ndarray]) -> np.ndarray:
    """What b is multiplied with to have a; see `pymc_logz.energies.bilinear_generative`."""
    strength = np.exp(log_d) @ matrices["second"].T
    return strength / np.sqrt(1 + (strength / NOISE) ** 2)


def learn_bilinear(
    data: np.ndarray, bases: np.ndarray, n_second: int, n_rounds: int, n_moves: int, seed: int
) -> dict[str, np.ndarray]:
    """Bases, first and second matrix of a bilinear model, from bases (M, L) of a linear one."""
    rng = np.random.default_rng(seed)
    n_causes = bases.shape[1]
    parts = {
        "first": np.eye(n_causes),
        "log_second": np.log(rng.dirichlet(np.full(n_second, 0.5), n_causes) + 0.01),
    }
    flat, unravel = ravel_pytree({name: jnp.asarray(part) for name, part in parts.items()})
    function = jax.jit(jax.value_and_grad(lambda flat, *given: surprise(unravel(flat), *given)))
    matrices = {"bases": bases, "first": parts["first"], "second": np.exp(parts["log_second"])}
    energy = bilinear_generative(*matrices.values(), data[0], NOISE, centred=True)
    posterior = Posterior(energy, data, 0.5, rng)
    log_d, a = np.zeros((len(data), n_second)), data @ np.linalg.pinv(bases).T
    for _ in range(n_rounds):
        rows = np.hstack([log_d, a / units(log_d, matrices)])
        rows, _ = posterior.move(rows, data_of(matrices), n_moves)
        log_d = rows[:, :n_second]
        a = rows[:, n_second:] * units(log_d, matrices)
        flat = minimised(function, flat, (a, np.exp(log_d)))
        parts = unravel(flat)
        matrices = {
            "bases": np.linalg.solve(a.T @ a, a.T @ data).T,
            "first": np.array(parts["first"]),
            "second": np.exp(parts["log_second"]),
        }
    return matrices


def posterior_draws(
    matrices: dict[str, np.ndarray], test: np.ndarray, n: int, seed: int
) -> Iterator[xr.DataTree]:
    """Posterior draws of the bilinear model for each test patch, of n chains from one start."""
    rng = np.random.default_rng(seed)
    # more rows than that are not moved by so many moves at a time
    n_numbers = n * (MOVES + 1) * sum(matrices[name].shape[1] for name in ("bases", "second"))
    n_together = max(1, MAX_NOISE_PER_BLOCK // n_numbers)
    for some in np.array_split(test, -(-len(test) // n_together)):
        yield from _posterior_draws(matrices, some, n, rng)


def _posterior_draws(
    matrices: dict[str, np.ndarray], test: np.ndarray, n: int, rng: np.random.Generator
) -> list[xr.DataTree]:
    """The same of so few patches that all move at a time."""
    n_second = matrices["second"].shape[1]
    order = ("bases", "first", "second")
    energy = bilinear_generative(*(matrices[name] for name in order), test[0], NOISE, centred=True)
    data = np.repeat(test, n, axis=0)
    posterior = Posterior(energy, data, 0.5, rng)
    log_d, a = np.zeros((len(data), n_second)), data @ np.linalg.pinv(matrices["bases"]).T
    rows = np.hstack([log_d, a / units(log_d, matrices)])
    kept = []
    for i in range(4 * (WARM + KEPT)):
        rows, _ = posterior.move(rows, data_of(matrices), MOVES)
        if i % 4 == 3 and i >= 4 * WARM:
            kept.append(rows.reshape(len(test), n, -1))
    of_each = np.stack(kept, axis=2)
    return [
        xr.DataTree.from_dict(
            {
                "posterior": xr.Dataset(
                    {
                        "d": (("chain", "draw", "d_dim_0"), np.exp(of_one[..., :n_second])),
                        "b": (("chain", "draw", "b_dim_0"), of_one[..., n_second:]),
                    }
                )
            }
        )
        for of_one in of_each
    ]


def minimised(
    function: Callable[..., tuple[jax.Array, jax.Array]],
    start: jax.Array,
    given: tuple[np.ndarray, ...],
    n_iterations: int = 5,
) -> jax.Array:
    """Where a few iterations of L-BFGS lead."""
    fixed = tuple(jnp.asarray(part) for part in given)
    found = minimize(
        lambda point: tuple(np.asarray(part) for part in function(point, *fixed)),
        np.asarray(start),
        method="L-BFGS-B",
        jac=True,
        options={"maxiter": n_iterations},
    )
    return jnp.asarray(found.x)
