"""Approximate Bayesian computation in NumPy: rejection, MCMC, elliptical slice sampling.

A simulator is ``output(u, noise)``, a function of rows of standard normal inputs (n, k) and
(n, m_noise) that gives rows (n, m). A kernel gives the log density of what was observed around each
output, and is normalised, so that the mean of its exponential over prior draws is the evidence.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln


def distance(output, observed):
    """Euclidean distance of each row; infinite where the simulator was not finite."""
    with np.errstate(all="ignore"):
        found = np.sqrt(np.sum((output - observed) ** 2, axis=1))
    return np.where(np.isfinite(found), found, np.inf)


def log_volume(n_dims, radius):
    """Log volume of a ball."""
    return n_dims * (0.5 * np.log(np.pi) + np.log(radius)) - gammaln(0.5 * n_dims + 1)


def ball(observed, epsilon):
    """Kernel that is uniform within a distance."""
    level = -log_volume(observed.size, epsilon)
    return lambda output: np.where(distance(output, observed) < epsilon, level, -np.inf)


def gaussian(observed, epsilon):
    """Kernel that is normal with standard deviation epsilon."""
    level = -observed.size * np.log(np.sqrt(2 * np.pi) * epsilon)
    return lambda output: level - 0.5 * (distance(output, observed) / epsilon) ** 2


def normal_log_prior(u):
    """Log density of standard normal rows, up to a constant."""
    return -0.5 * np.sum(u**2, axis=1)


@dataclass(frozen=True)
class Draws:
    """Chains of the parameter inputs (chains, draws, k), and what they took."""

    u: np.ndarray
    accepted: float
    n_simulations: int


def rejection(output, observed, n_inputs, n_noise, n, rng, chunk=10_000):
    """Prior draws of the parameter inputs (n, k), and the distance of each output (n,)."""
    found = []
    for start in range(0, n, chunk):
        rows = min(chunk, n - start)
        u = rng.normal(size=(rows, n_inputs))
        found.append((u, distance(output(u, rng.normal(size=(rows, n_noise))), observed)))
    return tuple(np.concatenate(part) for part in zip(*found, strict=True))


def rejection_log_z(distances, epsilon, n_outputs):
    """Estimate and standard error of log Z with a uniform ball; (NaN, 95% upper bound) if none."""
    n, hits = len(distances), np.sum(distances < epsilon)
    if hits == 0:
        return np.nan, np.log(3 / n) - log_volume(n_outputs, epsilon)
    return np.log(hits / n) - log_volume(n_outputs, epsilon), np.sqrt((1 - hits / n) / hits)


def abc_mcmc(output, log_kernel, start, draws, tune, step, rng, log_prior=normal_log_prior):
    """Draws of ABC MCMC with a Gaussian random walk (Marjoram et al. 2003), a chain per row.

    ``start`` has inputs (n, k) and noise (n, m_noise) of simulations within the kernel's reach.
    """
    (u, noise), kept, n_accepted = start, [], 0
    log_k = log_kernel(output(u, noise))
    for i in range(-tune, draws):
        new = u + step * rng.normal(size=u.shape)
        new_log_k = log_kernel(output(new, rng.normal(size=noise.shape)))
        with np.errstate(invalid="ignore"):
            log_ratio = log_prior(new) - log_prior(u) + new_log_k - log_k
        accept = np.log(rng.uniform(size=len(u))) < log_ratio
        u, log_k = np.where(accept[:, None], new, u), np.where(accept, new_log_k, log_k)
        if i >= 0:
            kept.append(u)
            n_accepted += accept.sum()
    return Draws(np.stack(kept, axis=1), n_accepted / (draws * len(u)), (draws + tune) * len(u))


def elliptical_slice(output, log_kernel, start, draws, tune, rng):
    """Draws of elliptical slice sampling that moves parameter inputs and noise in turn.

    Each update has the other group fixed (Murray, Adams & MacKay 2010, arXiv 1001.0175; Murray &
    Graham 2016, arXiv 1510.02958). ``start`` as for `abc_mcmc`.
    """
    (u, noise), kept, n_simulations, n_updates = start, [], 0, 0
    log_k = log_kernel(output(u, noise))
    for i in range(-tune, draws):
        # rows still on their slice are passed with their own values of the other group
        u, log_k, n_first = _slice_update(
            u, log_k, lambda new, rows, fixed=noise: log_kernel(output(new, fixed[rows])), rng
        )
        noise, log_k, n_second = _slice_update(
            noise, log_k, lambda new, rows, fixed=u: log_kernel(output(fixed[rows], new)), rng
        )
        n_simulations, n_updates = n_simulations + n_first + n_second, n_updates + 2 * len(u)
        if i >= 0:
            kept.append(u)
    return Draws(np.stack(kept, axis=1), n_updates / n_simulations, n_simulations)


def _slice_update(x, log_k, log_k_of, rng):
    """Points (n, d) after one update of each row, their log kernel, and the simulations it took."""
    n, moved, moved_log_k, n_simulations = len(x), x.copy(), log_k.copy(), 0
    ellipse = rng.normal(size=x.shape)
    height = log_k + np.log(rng.uniform(size=n))
    angle = rng.uniform(0, 2 * np.pi, size=n)
    low, high = angle - 2 * np.pi, angle.copy()
    rows = np.arange(n)
    while rows.size:
        a = angle[rows, None]
        new = x[rows] * np.cos(a) + ellipse[rows] * np.sin(a)
        new_log_k = log_k_of(new, rows)
        n_simulations += rows.size
        inside = new_log_k > height[rows]
        moved[rows[inside]], moved_log_k[rows[inside]] = new[inside], new_log_k[inside]
        # a bracket of rounding size leaves the point where it is
        rows = rows[~inside & (high[rows] - low[rows] > 1e-12)]
        below = angle[rows] < 0
        low[rows[below]], high[rows[~below]] = angle[rows[below]], angle[rows[~below]]
        angle[rows] = rng.uniform(low[rows], high[rows])
    return moved, moved_log_k, n_simulations
