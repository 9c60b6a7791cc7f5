"""Paths whose density at every beta can be drawn from exactly, compiled once per kernel.

They are asymmetric on purpose: many errors of sign or scale cancel on a centred normal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy.special import betaln, gammaln

from pymc_logz.kernels.base import Kernel
from pymc_logz.paths.geometric import AnnealingPath
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block

N_ROWS = 10_000
"""Rows of every statistical run: another number would make JAX compile again."""


@dataclass(frozen=True)
class Target:
    """A path with exact draws at every beta."""

    name: str
    n_dims: int
    log_reference: Callable[[TensorVariable], TensorVariable]
    log_ratio: Callable[[TensorVariable], TensorVariable]
    sample: Callable[[np.random.Generator, float, int], np.ndarray]
    """``(rng, beta, n)`` to exact draws (n, d) of the density at beta."""
    log_z: float
    """Log of the mean weight: log Z of the target minus log Z of the reference."""
    scale: tuple[float, ...]
    """Typical length in each dimension, shape (d,)."""

    def path(self, shift: float = 0.0, batching: str = "vector") -> AnnealingPath:
        """The path, its log ratio raised by ``shift``."""
        point = pt.tensor("point", dtype="float64", shape=(self.n_dims,))
        return AnnealingPath(
            point,
            self.log_reference(point),
            self.log_ratio(point) + shift,
            n_dims=self.n_dims,
            sample_reference=lambda rng, n: self.sample(rng, 0.0, n),
            how=batching,
        )

    def plan(self, betas: np.ndarray, step_size: float | np.ndarray) -> Plan:
        """Plan with the target's own scale."""
        step_sizes = np.broadcast_to(np.asarray(step_size, dtype=float), betas.shape).copy()
        return Plan(betas, step_sizes, np.tile(self.scale, (betas.size, 1)))


MEAN = np.array([1.0, -0.5])
COVARIANCE = np.array([[0.5, 0.2], [0.2, 0.2]])
PRECISION = np.linalg.inv(COVARIANCE)


def _sample_gaussian(rng: np.random.Generator, beta: float, n: int) -> np.ndarray:
    precision = (1 - beta) * np.eye(2) + beta * PRECISION
    covariance = np.linalg.inv(precision)
    return rng.multivariate_normal(covariance @ (beta * PRECISION @ MEAN), covariance, n)


def _gaussian_log_ratio(x: TensorVariable) -> TensorVariable:
    centred = x - MEAN
    return 0.5 * (x**2).sum() - 0.5 * (centred * pt.dot(PRECISION, centred)).sum()


GAUSSIAN = Target(
    "gaussian",
    2,
    lambda x: -0.5 * (x**2).sum(),
    _gaussian_log_ratio,
    _sample_gaussian,
    0.5 * float(np.log(np.linalg.det(COVARIANCE))),
    (0.5, 0.3),
)

SHAPES, RATES = (1.5, 2.0), (1.0, 3.0)


def _sample_log_gamma(rng: np.random.Generator, beta: float, n: int) -> np.ndarray:
    shape, rate = SHAPES[0] + beta * SHAPES[1], RATES[0] + beta * RATES[1]
    return np.log(rng.gamma(shape, 1 / rate, (n, 1)))


LOG_GAMMA = Target(
    "log_gamma",
    1,
    lambda u: (SHAPES[0] * u - RATES[0] * pt.exp(u)).sum(),
    lambda u: (SHAPES[1] * u - RATES[1] * pt.exp(u)).sum(),
    _sample_log_gamma,
    float(
        gammaln(sum(SHAPES))
        - sum(SHAPES) * np.log(sum(RATES))
        - gammaln(SHAPES[0])
        + SHAPES[0] * np.log(RATES[0])
    ),
    (0.8,),
)

POWERS = (1.0, 1.0)
"""Density (1 + x^2)^-p: a Cauchy reference, and three degrees of freedom at the target."""


def _sample_student(rng: np.random.Generator, beta: float, n: int) -> np.ndarray:
    nu = 2 * (POWERS[0] + beta * POWERS[1]) - 1
    return rng.standard_t(nu, (n, 1)) / np.sqrt(nu)


STUDENT = Target(
    "student",
    1,
    lambda x: -POWERS[0] * pt.log1p(x**2).sum(),
    lambda x: -POWERS[1] * pt.log1p(x**2).sum(),
    _sample_student,
    float(betaln(0.5, sum(POWERS) - 0.5) - betaln(0.5, POWERS[0] - 0.5)),
    (0.8,),
)

SHARES, CENTRES = np.array([0.7, 0.3]), np.array([-1.5, 2.5])


def _sample_bimodal(rng: np.random.Generator, beta: float, n: int) -> np.ndarray:
    """Rejection from sum_i q_i^beta, which is at least (sum_i q_i)^beta."""
    mass = SHARES**beta * np.exp(0.5 * (beta**2 - beta) * CENTRES**2)
    draws = np.empty(0)
    while draws.size < n:
        mode = rng.choice(2, size=4 * n, p=mass / mass.sum())
        x = rng.normal(beta * CENTRES[mode], 1.0)
        q = SHARES[:, None] * np.exp(np.outer(CENTRES, x) - 0.5 * CENTRES[:, None] ** 2)
        kept = rng.random(4 * n) < q.sum(axis=0) ** beta / (q**beta).sum(axis=0)
        draws = np.concatenate([draws, x[kept]])
    return draws[:n, None]


BIMODAL = Target(
    "bimodal",
    1,
    lambda x: -0.5 * (x**2).sum(),
    lambda x: pt.log(pt.sum(SHARES * pt.exp(CENTRES * x[0] - 0.5 * CENTRES**2))),
    _sample_bimodal,
    0.0,
    (1.0,),
)

TARGETS = {target.name: target for target in (GAUSSIAN, LOG_GAMMA, STUDENT, BIMODAL)}


@cache
def compiled_block(name: str, kernel: Kernel, shift: float = 0.0) -> Block:
    """Block of a target and a kernel for ``N_ROWS`` rows, compiled once."""
    block = Block(TARGETS[name].path(shift), kernel, N_ROWS)
    block.compile()
    return block


def dead_zones(x: TensorVariable) -> TensorVariable:
    """Log ratio -x^2 on [-1, 1.5], zero probability above, NaN below."""
    inside = -(x[0] ** 2)
    return pt.switch(x[0] > 1.5, -np.inf, pt.switch(x[0] < -1, np.nan, inside))


def dead_zone_path() -> AnnealingPath:
    """Path from N(0, 1) to a target with dead zones."""
    point = pt.tensor("point", dtype="float64", shape=(1,))
    return AnnealingPath(
        point,
        -0.5 * (point**2).sum(),
        dead_zones(point),
        n_dims=1,
        sample_reference=lambda rng, n: rng.standard_normal((n, 1)),
    )


@cache
def dead_zone_block(kernel: Kernel) -> Block:
    """Block of a path from N(0, 1) to a target with dead zones."""
    return Block(dead_zone_path(), kernel, N_ROWS)


def log_z_at(name: str, betas: np.ndarray) -> np.ndarray:
    """Exact log Z of a target at each beta, relative to beta = 0."""
    if name == "log_gamma":
        shape, rate = SHAPES[0] + betas * SHAPES[1], RATES[0] + betas * RATES[1]
        log_z = gammaln(shape) - shape * np.log(rate)
    else:
        log_z = np.empty(betas.size)
        for k, beta in enumerate(betas):
            precision = (1 - beta) * np.eye(2) + beta * PRECISION
            pull = beta * PRECISION @ MEAN
            log_z[k] = 0.5 * pull @ np.linalg.solve(precision, pull) - 0.5 * beta * MEAN @ (
                PRECISION @ MEAN
            )
            log_z[k] -= 0.5 * np.linalg.slogdet(precision)[1]
    return log_z - log_z[0]
