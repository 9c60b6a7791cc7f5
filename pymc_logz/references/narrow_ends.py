"""Components along the ends of an entry: it is held, and the others climb to their modes given it.

Rows that move do not get to where a spread is small, and all that it scales is close to one of a
few values. Each of these has a narrow end of its own, which ends nowhere before the prior does.
"""

from contextlib import suppress
from itertools import product

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_logz.models.context import n_affordable
from pymc_logz.models.known_priors import normal_columns
from pymc_logz.paths.elliptical import Clusters, Elliptical
from pymc_logz.references.blend import N_STARTS, Component, Target
from pymc_logz.references.conditional_modes import Conditionals, Modes
from pymc_logz.references.marginal_peaks import spread_of
from pymc_logz.references.matrices import Whole
from pymc_logz.references.modes import has_dense_curvature
from pymc_logz.weights import NEGLIGIBLE

OF_ENDS = "narrow ends"


def narrow_ends(
    target: Target, rows: np.ndarray, rng: np.random.Generator, n_steps: int = 24
) -> Component | None:
    """Components along both ends of entries, from rows (n, d) that are known.

    They are ``n_steps`` at most, half a standard deviation apart. Of entries that are not normal in
    the prior, where more may be beyond those rows than may be missing. None where there are none,
    or looking takes too long.
    """
    flat, d = target.prepared.flat, rows.shape[1]
    if not has_dense_curvature(target.block):
        return None
    columns = np.setdiff1d(np.arange(d), normal_columns(flat))
    # Newton's method takes a few steps, each with a matrix of differences
    n_gradients = 2 * n_steps * 8 * d * len(columns)
    n_starts = n_affordable(flat, 1, 64, max(n_gradients, 1))
    if not columns.size or n_starts < N_STARTS:
        return None
    starts, found = rows[rng.permutation(len(rows))[:n_starts]], list[tuple[Elliptical, float]]()
    for j, way in product(columns, (-1.0, 1.0)):
        found += end_of(target, rows, starts, j, way, n_steps)
    if not found:
        return None
    components, log_mass = zip(*found, strict=True)
    return Component(Clusters(components, softmax(log_mass)), None, OF_ENDS)


def end_of(
    target: Target, rows: np.ndarray, starts: np.ndarray, j: int, way: float, n_steps: int
) -> list[tuple[Elliptical, float]]:
    """Components along one end of an entry, and logs of their masses; none if little is there."""
    inner = np.setdiff1d(np.arange(rows.shape[1]), j)
    parts = Conditionals(target.block, inner, np.array([j]), Whole(inner.size))
    scale, step = spread_of(rows[:, inner]), way * 0.5 * rows[:, j].std()
    value, last = np.median(rows[:, j]), np.max(way * rows[:, j])
    few = starts[:N_STARTS]
    middle, end = (log_sum(held_at(parts, x, step, few, scale)) for x in (value, way * last))
    # as a rule less is there, and two looks from a few rows tell
    if end < middle + np.log(NEGLIGIBLE):
        return []
    log_total = log_beyond = -np.inf
    found, known = list[tuple[Elliptical, float]](), starts
    for _ in range(n_steps):
        held = held_at(parts, value, step, known, scale)
        if not held:
            break
        log_mass = log_sum(held)
        log_total = np.logaddexp(log_total, log_mass)
        if way * value > last:
            log_beyond = np.logaddexp(log_beyond, log_mass)
        if log_mass < log_total + 2 * np.log(NEGLIGIBLE):
            break
        found += held
        known, value = np.vstack([starts, *(one.centre for one, _ in held)]), value + step
    return found if log_beyond - log_total > np.log(NEGLIGIBLE) else []


def log_sum(held: list[tuple[Elliptical, float]]) -> float:
    """Log of the mass of all of these components."""
    return float(logsumexp([mass for _, mass in held])) if held else -np.inf


def held_at(
    parts: Conditionals, value: float, step: float, starts: np.ndarray, scale: np.ndarray
) -> list[tuple[Elliptical, float]]:
    """Student-t components where others climb to from starts (n, d), with one entry at a value.

    They are as wide as the step that it takes next, and the others follow it. And logs of their
    masses, by Laplace's method, but for a factor.
    """
    outer, found = np.full((len(starts), 1), value), list[tuple[Elliptical, float]]()
    modes = parts.modes(outer, starts[:, parts.inner], scale)
    chosen = different(modes)
    inner, few, h = modes.inner[chosen], outer[: len(chosen)], 1e-5 * max(1.0, abs(value))
    turn = parts.inner_at(few + h, inner)[1] - parts.inner_at(few - h, inner)[1]
    turn /= 2 * h
    for k, row, own in zip(chosen, parts.rows(few, inner), turn, strict=True):
        # curvatures may be too far apart for a matrix of floats
        with suppress(np.linalg.LinAlgError):
            covariance = np.zeros((row.size, row.size))
            within = np.linalg.inv(modes.precision[k])
            covariance[np.ix_(parts.inner, parts.inner)] = within
            follows = np.insert(within @ own, parts.outer[0], 1.0)
            factor = np.linalg.cholesky(covariance + step**2 * np.outer(follows, follows))
            if np.isfinite(factor).all():
                component = Elliptical(row, factor).with_heavy_tails()
                found.append((component, float(modes.log_marginal[k])))
    return found


def different(modes: Modes, most: int = 32) -> list[int]:
    """Which of the modes are not one that was there before, the heaviest first."""
    chosen = list[int]()
    for i in np.argsort(-modes.log_marginal):
        if not np.isfinite(modes.log_marginal[i]) or len(chosen) == most:
            break
        away = modes.inner[chosen] - modes.inner[i]
        if not np.any(np.einsum("ki,ij,kj->k", away, modes.precision[i], away) < 1.0):
            chosen.append(int(i))
    return chosen
