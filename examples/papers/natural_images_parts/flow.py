"""Minimum probability flow: parameters of energies whose log Z is not known, by L-BFGS.

Data are joined with neighbours, where leapfrog steps from them lead under the parameters of the
last round. The flow of probability from data to neighbours, with the parameters to be learned, is::

    K = mean over data x, momenta v of exp((H(x, v) - H(x', v')) / 2),  H = E + |v|**2 / 2

of which no normalising constant is a part. Sohl-Dickstein, Battaglino & DeWeese (2011), Minimum
probability flow learning, ICML.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

type Parameters = dict[str, jax.Array]
type EnergyOfRows = Callable[[Parameters, jax.Array], jax.Array]
"""From parameters and rows (n, M) to energies (n,)."""

jax.config.update("jax_enable_x64", True)
STEP_SIZE, N_STEPS = 0.1, 40
"""Of trajectories to neighbours. Neighbours near by see the narrowest part of the data only, as
score matching does: with one step Student-t experts lose tens of nats to maximum likelihood."""


def laplace(given: Parameters, x: jax.Array) -> jax.Array:
    """Laplace experts (eq. 37)."""
    return jnp.abs(x @ given["filters"].T).sum(axis=1)


def student_t(given: Parameters, x: jax.Array) -> jax.Array:
    """Student-t experts (eq. 38)."""
    return jnp.log1p((x @ given["filters"].T) ** 2) @ exponents(given)


def exponents(given: Parameters) -> jax.Array:
    """Lambda, above 1/2: below an expert has no normalising constant of its own."""
    return 0.5 + jnp.exp(given["log_exponents"])


def mcrbm(given: Parameters, x: jax.Array, mean_square: bool = True) -> jax.Array:
    """Mean-covariance RBM: as Ranzato and Hinton's code has it, or as eq. 40 is printed."""
    square = (x**2).sum(axis=1, keepdims=True)
    length = square / x.shape[1] if mean_square else square
    seen = 0.5 * ((x @ given["C"].T) ** 2 / (length + 0.5)) @ given["P"]
    covariance = jax.nn.softplus(seen + given["bc"]).sum(axis=1)
    mean = jax.nn.softplus(x @ given["W"].T + given["bm"]).sum(axis=1)
    narrow = 0.5 * jnp.exp(-2 * given["log_sigma"]) * square[:, 0]
    return narrow - covariance - mean - x @ given["bv"]


def learn(
    energy: EnergyOfRows,
    start: Parameters,
    data: np.ndarray,
    rng: np.random.Generator,
    n_rounds: int = 60,
    n_iterations: int = 3,
) -> dict[str, np.ndarray]:
    """Parameters with little probability flow from the data, by rounds of L-BFGS.

    In each round fresh momenta lead to fresh neighbours.
    """
    flat, unravel = ravel_pytree(start)
    x = jnp.asarray(data)

    @jax.jit
    def neighbours(flat: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        force = jax.grad(lambda x: -energy(unravel(flat), x).sum())

        def leapfrog(_: int, now: tuple[jax.Array, jax.Array, jax.Array]) -> Any:
            there, momentum, at = now
            half = momentum + 0.5 * STEP_SIZE * at
            there = there + STEP_SIZE * half
            at = force(there)
            return there, half + 0.5 * STEP_SIZE * at, at

        there, end, _ = jax.lax.fori_loop(0, N_STEPS, leapfrog, (x, v, force(x)))
        return there, 0.5 * ((v**2).sum(axis=1) - (end**2).sum(axis=1))

    @jax.jit
    @jax.value_and_grad
    def flow(flat: jax.Array, there: jax.Array, kinetic: jax.Array) -> jax.Array:
        given = unravel(flat)
        change = energy(given, x) - energy(given, there) + kinetic
        return jnp.exp(0.5 * change).mean()

    for _ in range(n_rounds):
        there, kinetic = neighbours(flat, jnp.asarray(rng.normal(size=data.shape)))
        found = minimize(
            lambda point, *fixed: tuple(np.asarray(part) for part in flow(point, *fixed)),
            np.asarray(flat),
            (there, kinetic),
            "L-BFGS-B",
            jac=True,
            options={"maxiter": n_iterations},
        )
        flat = jnp.asarray(found.x)
    return {name: np.asarray(value) for name, value in unravel(flat).items()}
