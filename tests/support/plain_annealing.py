"""Annealing in plain NumPy, written from the paper, one row of the ladder after another.

Sohl-Dickstein & Culpepper (2012), section 2.3, with ``sqrt(gamma) r`` and kick-drift-kick steps.
It shares no code with the package except the order in which noise is drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from support.paths_with_exact_draws import MEAN, PRECISION, RATES, SHAPES

Values = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class PlainPath:
    """Log densities (n,) and gradients (n, d) of rows (n, d)."""

    log_reference: Values
    log_ratio: Values
    grad_log_reference: Values
    grad_log_ratio: Values

    def energy(self, x: np.ndarray, v: np.ndarray, beta: float) -> np.ndarray:
        """Potential plus kinetic energy (n,)."""
        potential = -self.log_reference(x) - beta * self.log_ratio(x)
        return np.asarray(potential + 0.5 * (v**2).sum(axis=1))

    def force(self, x: np.ndarray, beta: float) -> np.ndarray:
        """Gradient of the log density at beta (n, d)."""
        return np.asarray(self.grad_log_reference(x) + beta * self.grad_log_ratio(x))


PLAIN = {
    "gaussian": PlainPath(
        lambda x: -0.5 * (x**2).sum(axis=1),
        lambda x: (
            0.5 * (x**2).sum(axis=1) - 0.5 * np.einsum("ni,ij,nj->n", x - MEAN, PRECISION, x - MEAN)
        ),
        lambda x: -x,
        lambda x: x - (x - MEAN) @ PRECISION,
    ),
    "log_gamma": PlainPath(
        lambda u: (SHAPES[0] * u - RATES[0] * np.exp(u))[:, 0],
        lambda u: (SHAPES[1] * u - RATES[1] * np.exp(u))[:, 0],
        lambda u: SHAPES[0] - RATES[0] * np.exp(u),
        lambda u: SHAPES[1] - RATES[1] * np.exp(u),
    ),
}


def recorded_noise(
    rng: np.random.Generator, n_moves: int, block_length: int, n_rows: int, n_dims: int
) -> tuple[np.ndarray, np.ndarray]:
    """Normals (n_moves, n, d) and log uniforms (n_moves, n), drawn block by block."""
    normals, uniforms = [], []
    for _ in range(-(-n_moves // block_length)):
        normals.append(rng.standard_normal((block_length, n_rows, n_dims)))
        uniforms.append(1 - rng.random((block_length, n_rows)))
    return np.concatenate(normals)[:n_moves], np.log(np.concatenate(uniforms)[:n_moves])


def plain_anneal(
    path: PlainPath,
    start: np.ndarray,
    noise: tuple[np.ndarray, np.ndarray],
    *,
    betas: np.ndarray,
    step_sizes: np.ndarray,
    scale: np.ndarray,
    n_steps: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log weights (n,), end points (n, d) and acceptance of each move (K - 1, n)."""
    normal, log_uniform = noise
    x, v = start.copy(), normal[0]
    log_weight = (betas[1] - betas[0]) * path.log_ratio(x)
    acceptance = []
    for k in range(1, betas.size - 1):
        beta, stride = betas[k], step_sizes[k] * scale[k]
        time = n_steps * 0.5 * (step_sizes[k - 1] + step_sizes[k])
        g = 1 - 2.0**-time
        v = np.sqrt(1 - g) * v + np.sqrt(g) * normal[k]
        y, w = x, v
        for _ in range(n_steps):
            w = w + 0.5 * stride * path.force(y, beta)
            y = y + stride * w
            w = w + 0.5 * stride * path.force(y, beta)
        gain = path.energy(x, v, beta) - path.energy(y, w, beta)
        accepted = (log_uniform[k] < gain)[:, None]
        x, v = np.where(accepted, y, x), np.where(accepted, w, -v)
        log_weight = log_weight + (betas[k + 1] - betas[k]) * path.log_ratio(x)
        acceptance.append(np.exp(np.minimum(gain, 0)))
    return log_weight, x, np.array(acceptance)
