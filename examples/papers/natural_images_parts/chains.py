"""Maximum likelihood by persistent chains: parameters of energies whose log Z is not known.

The gradient is a mean over patches less a mean over chains, which stay, and of which a trajectory
of HMC moves each on after each step of Adam (Tieleman 2008). Patches differ in length by a factor
of a hundred. With one step size chains cannot go from short ones to long ones and back: nothing
says then how many there should be of each, and the model diverges. So each trajectory has a step
size of its own, from a range in which the largest is 25 times the smallest. Single precision is
enough, and half the work.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .flow import EnergyOfRows, Parameters

N_CHAINS, BATCH = 500, 500
N_STEPS, TARGET_ACCEPT = 10, 0.8
"""Leapfrog steps of a trajectory; the acceptance rate that step sizes are led to."""
SPREAD = np.log(5.0)
"""Of log step sizes, to both sides of their common middle."""
RATE, MEMORY = 0.003, 0.998
"""Of Adam, constant in the first half and falling to zero then; of the average that is returned."""


def hamiltonian(
    energy: Any, x: jax.Array, middle: jax.Array, spread: float, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Rows after a trajectory of HMC each, and their probabilities of acceptance."""
    keys = jax.random.split(key, 3)
    force = jax.grad(lambda x: -energy(x).sum())
    exponent = jax.random.uniform(keys[0], (len(x), 1), x.dtype, -spread, spread)
    step = middle * jnp.exp(exponent)
    momentum = jax.random.normal(keys[1], x.shape, x.dtype)

    def leapfrog(_: int, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        there, v = now
        there = there + step * v
        return there, v + step * force(there)

    v = momentum + 0.5 * step * force(x)
    there, v = jax.lax.fori_loop(0, N_STEPS, leapfrog, (x, v))
    v = v - 0.5 * step * force(there)
    log_ratio = energy(x) - energy(there) + 0.5 * (momentum**2 - v**2).sum(axis=1)
    log_ratio = jnp.where(jnp.isfinite(log_ratio), log_ratio, -jnp.inf)
    accepted = jnp.log(jax.random.uniform(keys[2], log_ratio.shape, x.dtype)) < log_ratio
    return jnp.where(accepted[:, None], there, x), jnp.minimum(1, jnp.exp(log_ratio))


def moved(energy: Any, rows: np.ndarray, n_moves: int, seed: int) -> np.ndarray:
    """Where rows are after so many trajectories, with step sizes led to the acceptance rate."""

    def move(now: tuple[Any, ...], key: jax.Array) -> tuple[tuple[Any, ...], None]:
        x, middle = now
        x, acceptance = hamiltonian(energy, x, middle, SPREAD, key)
        return (x, middle * jnp.exp(0.02 * (acceptance.mean() - TARGET_ACCEPT))), None

    keys = jax.random.split(jax.random.key(seed), n_moves)
    start = (jnp.asarray(rows), jnp.asarray(0.1))
    return np.asarray(jax.jit(lambda start: jax.lax.scan(move, start, keys))(start)[0][0])


def learn(
    energy: EnergyOfRows,
    start: Parameters,
    data: np.ndarray,
    rng: np.random.Generator,
    n_updates: int,
    spread: float = SPREAD,
    rate: float = RATE,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Parameters after so many steps of Adam, averaged over the last ones; and where chains are."""
    rows = jnp.asarray(data, jnp.float32)
    given = {name: jnp.asarray(part, jnp.float32) for name, part in start.items()}
    chains = rows[rng.choice(len(data), min(N_CHAINS, len(data)), replace=False)]

    def update(state: tuple[Any, ...], i: jax.Array) -> tuple[tuple[Any, ...], jax.Array]:
        given, average, first, second, chains, middle, key = state
        key, *keys = jax.random.split(key, 3)
        now = partial(energy, given)
        chains, acceptance = hamiltonian(now, chains, middle, spread, keys[0])
        middle = middle * jnp.exp(0.02 * (acceptance.mean() - TARGET_ACCEPT))
        batch = rows[jax.random.randint(keys[1], (BATCH,), 0, len(rows))]
        mean = jax.grad(lambda given, x: energy(given, x).mean())
        gradient = jax.tree.map(jnp.subtract, mean(given, batch), mean(given, chains))
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = jax.tree.map(lambda m, g: 0.999 * m + 0.001 * g**2, second, gradient)
        size = rate * jnp.minimum(1, 2 * (1 - i / n_updates))

        def adam(part: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
            scaled = m / (1 - 0.9**i) / (jnp.sqrt(v / (1 - 0.999**i)) + 1e-6)
            return part - size * scaled

        given = jax.tree.map(adam, given, first, second)
        keep = jnp.minimum(MEMORY, 1 - 1 / i)
        average = jax.tree.map(lambda a, b: keep * a + (1 - keep) * b, average, given)
        return (given, average, first, second, chains, middle, key), acceptance.mean()

    nothing = jax.tree.map(jnp.zeros_like, given)
    key = jax.random.key(int(rng.integers(2**31)))
    state = (given, given, nothing, nothing, chains, jnp.float32(0.1), key)
    times = jnp.arange(1, n_updates + 1, dtype=jnp.float32)
    state, acceptance = jax.jit(lambda state: jax.lax.scan(update, state, times))(state)
    found = state[1]
    said = {
        "acceptance": float(acceptance.mean()),
        "step size": float(state[5]),
        "energy of data": float(energy(found, rows).mean()),
        "energy of chains": float(energy(found, state[4]).mean()),
        "chains": np.asarray(state[4], float),
    }
    return {name: np.asarray(part, float) for name, part in found.items()}, said
