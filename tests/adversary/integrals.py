"""Integrals of one or two variables by plain rules with very many nodes.

A rule is a pair of arrays: where the nodes are, and the logs of their weights.
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.special import logsumexp

Rule = tuple[np.ndarray, np.ndarray]


def line(centre: float = 0.0, scale: float = 1.0, n: int = 200_001, reach: float = 40.0) -> Rule:
    """The whole line: even in ``t`` with ``x = centre + scale sinh t``."""
    t = np.linspace(-reach, reach, n)
    return centre + scale * np.sinh(t), np.log(scale * np.cosh(t) * (t[1] - t[0]))


def half_line(n: int = 200_001, low: float = -60.0, high: float = 60.0) -> Rule:
    """Numbers above 0: even in their logs."""
    t = np.linspace(low, high, n)
    return np.exp(t), t + np.log(t[1] - t[0])


def interval(*ends: float, n: int = 2_000) -> Rule:
    """An interval, Gauss-Legendre on each of the parts between `ends`, which go up."""
    nodes, weights = _legendre(n)
    parts = [
        (0.5 * (a + b) + 0.5 * (b - a) * nodes, np.log(0.5 * (b - a) * weights))
        for a, b in pairwise(ends)
    ]
    return np.concatenate([x for x, _ in parts]), np.concatenate([w for _, w in parts])


@cache
def _legendre(n: int) -> Rule:
    return np.polynomial.legendre.leggauss(n)


def log_integral(log_f: Callable[..., np.ndarray], *rules: Rule) -> float:
    """Log of the integral of ``exp(log_f(x, ...))``, vectorised, by one rule for each variable."""
    grids = np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij", sparse=True)
    weights = np.meshgrid(*(weights for _, weights in rules), indexing="ij", sparse=True)
    with np.errstate(all="ignore"):
        values = log_f(*grids) + sum(weights[1:], weights[0])
    return float(logsumexp(np.nan_to_num(values, nan=-np.inf, posinf=np.inf, neginf=-np.inf)))


def normal_log_z(y: np.ndarray, design: np.ndarray, prior_sd: np.ndarray, sd: float) -> float:
    """Log density of ``y ~ Normal(design @ b, sd)`` with ``b ~ Normal(0, prior_sd)``."""
    # as least squares with the prior as further rows, where nothing large cancels
    rows = np.vstack([design * prior_sd / sd, np.eye(prior_sd.size)])
    target = np.concatenate([y / sd, np.zeros(prior_sd.size)])
    q, r = np.linalg.qr(rows)
    residual = target - rows @ np.linalg.solve(r, q.T @ target)
    log_det = 2 * np.log(np.abs(np.diag(r))).sum() + y.size * np.log(2 * np.pi * sd**2)
    return float(-0.5 * (residual @ residual + log_det))
