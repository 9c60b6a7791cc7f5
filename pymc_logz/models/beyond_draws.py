"""Mass where no draw of a target is, by values of its density alone: endless tails, other modes.

Rows that walk from the prior find modes; lines that lead away from draws tell an infinite log Z.
"""

from collections.abc import Callable

import numpy as np

from pymc_logz.paths.elliptical import fitted_to_few
from pymc_logz.weights import conditional_ess, log_mean, resampled

N_ROWS = 512
"""Rows that walk: as many as one call evaluates."""
MAX_DIMS = 16
"""Dimensions up to which rows that know values alone, and no gradient, get to a posterior."""
N_LOOKED_AT = 32
"""Far rows that are looked at."""
FAR_FACTOR = 1.5
"""Distance from the nearest draw, in units of the largest between draws, beyond which a row is."""
LEAST_SHARE = 0.01
"""Fraction of the posterior that matters, 0.01 nats; and of draws that are no company."""
DISTANCES = 2.0 ** np.arange(-4, 12)
"""Distances along a line, in standard deviations of the draws."""
FALL = 0.6
"""Nats that the mass at a distance may fall by where the distance grows by four: a tail index of
0.43. With one of 0.4 a third of the mass is further out than ten spreads of the rest, and rows from
a reference that has it in a few hundredths were off by up to 20 of their errors."""
GROWTH = 0.5
"""Nats by which the likelihood has to grow where the distance grows by four: priors are proper."""

Densities = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From rows (n, d) to their log prior and log likelihood, potentials included, shape (n,) each."""


def other_mode(
    densities: Densities,
    start: np.ndarray,
    draws: np.ndarray,
    log_z: float,
    rng: np.random.Generator,
) -> tuple[float, float] | None:
    """Share of rows from prior draws (n, d) that end far from draws (m, d), and log mass there."""
    # rows that end far from all draws, where the density falls by 3 nats on all lines to draws
    # nearby, are in another mode, whose mass is measured by importance sampling. It is found if
    # some of the n rows start in its basin, of probability 1 - (1 - s)**n for a fraction s of the
    # prior, and if it has mass enough on the way for their descendants to live
    walked = walk_from_prior(densities, start, rng)
    if walked is None:
        return None
    rows, log_target, founder = walked
    far, nearest = far_rows(rows, draws, rng)
    if len(far) < LEAST_SHARE * len(rows):
        return None
    seen = rng.permutation(len(far))[:N_LOOKED_AT]
    those = far[seen]
    apart = seen[are_apart(densities, rows[those], log_target[those], nearest[seen])]
    share = len(far) * len(apart) / len(seen) / len(rows)
    if share < LEAST_SHARE or len(np.unique(founder[far[apart]])) < 2:
        return None
    log_mass = _log_mass(densities, rows[far[apart]], draws, rng)
    if log_mass < np.log(LEAST_SHARE) + log_z:
        return None
    return share, log_mass


def in_company(draws: np.ndarray) -> np.ndarray:
    """Draws (m, d) without those that hardly any other is near, shape (k, d)."""
    scaled = (draws - draws.mean(axis=0)) / np.maximum(draws.std(axis=0), 1e-300)
    some = scaled[np.linspace(0, len(draws) - 1, min(len(draws), 4 * N_ROWS)).astype(int)]
    n_near = 1 + max(1, int(LEAST_SHARE * len(some)))
    distance = _nearest(some, scaled, n_near)[0][:, -1]
    return np.asarray(draws[distance <= FAR_FACTOR * np.quantile(distance, 0.9)])


def _nearest(points: np.ndarray, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances of rows (n, d) from the k points that are nearest, and which, shape (n, k)."""
    # takes a third of a second, and most who import this module never get here
    from scipy.spatial import KDTree

    distance, index = KDTree(points).query(rows, k=range(1, k + 1))
    return distance, index


def walk_from_prior(
    densities: Densities, start: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Rows (n, d) of the posterior, their log target, and which of the prior each descends from.

    None if those of the prior do not get there.
    """
    n = len(start)
    rows, (prior, ratio) = start.copy(), _finite(densities, start)
    founder, beta = np.arange(n), 0.0
    for _ in range(24):
        if not np.isfinite(ratio.max()):
            return None
        step = _next_step(ratio, 1.0 - beta)
        beta += step
        chosen = resampled(step * ratio, rng, n)
        rows, prior, ratio, founder = (x[chosen] for x in (rows, prior, ratio, founder))
        for _ in range(2 if beta < 1.0 else 6):
            rows, prior, ratio = _moved(densities, rows, prior, ratio, beta, rng)
        if beta >= 1.0:
            return rows, prior + ratio, founder
    return None


def moved_on(
    densities: Densities, rows: np.ndarray, n_moves: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows (n, d) of a posterior, some of which may repeat, after moves that leave it as it is."""
    prior, ratio = _finite(densities, rows)
    for _ in range(n_moves):
        rows, prior, ratio = _moved(densities, rows, prior, ratio, 1.0, rng)
    return rows


def _finite(densities: Densities, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Densities with -inf for NaN."""
    with np.errstate(all="ignore"):
        return tuple(np.where(np.isnan(part), -np.inf, part) for part in densities(rows))  # type: ignore[return-value]


def _next_step(ratio: np.ndarray, left: float) -> float:
    """Change of beta that keeps half of the rows, effectively; at most what is left."""
    alive = np.isfinite(ratio).mean()

    def keeps_half(step: float) -> bool:
        return bool(conditional_ess(step * ratio) >= 0.5 * alive)

    if keeps_half(left):
        return left
    low, high = 0.0, left
    for _ in range(50):
        middle = np.sqrt(low * high) if low > 0 else high / 16
        low, high = (middle, high) if keeps_half(middle) else (low, middle)
        if low > 0.95 * high:
            break
    return max(low, 1e-300)


def _moved(
    densities: Densities,
    rows: np.ndarray,
    prior: np.ndarray,
    ratio: np.ndarray,
    beta: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows after one move at this temperature: ter Braak (2006), doi 10.1007/s11222-006-8769-1."""
    # by the difference of two others, of any length from a tenth of the usual, so that rows in one
    # mode move by its width, whatever the distance to another
    n, d = rows.shape
    first, second = rng.integers(n, size=(2, n))
    length = 2.38 / np.sqrt(2 * d) * 10.0 ** rng.uniform(-1.5, 0, (n, 1))
    jitter = 1e-3 * rows.std(axis=0) * rng.standard_normal((n, d))
    proposed = rows + length * (rows[first] - rows[second]) + length * jitter
    new_prior, new_ratio = _finite(densities, proposed)
    with np.errstate(invalid="ignore"):
        change = new_prior - prior + beta * (new_ratio - ratio)
    accept = np.log1p(-rng.random(n)) < np.where(np.isnan(change), -np.inf, change)
    pick = accept[:, None]
    return (
        np.where(pick, proposed, rows),
        np.where(accept, new_prior, prior),
        np.where(accept, new_ratio, ratio),
    )


def far_rows(
    rows: np.ndarray, draws: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are far from all draws, and draws near each of them, shape (f, at most 4, d)."""
    chosen = rng.permutation(len(draws))[: 5 * N_ROWS]
    n_held_out = max(1, min(N_ROWS, len(chosen) // 4))
    held_out, near = draws[chosen[:n_held_out]], draws[chosen[n_held_out:]]
    centre, spread = draws.mean(axis=0), np.maximum(draws.std(axis=0), 1e-300)
    scaled, of_held_out, of_rows = ((one - centre) / spread for one in (near, held_out, rows))
    usual = _nearest(scaled, of_held_out, 1)[0].max()
    distance, index = _nearest(scaled, of_rows, min(4, len(near)))
    (far,) = np.nonzero(distance[:, 0] > FAR_FACTOR * usual)
    return far, near[index[far]]


def are_apart(
    densities: Densities, rows: np.ndarray, log_target: np.ndarray, nearest: np.ndarray
) -> np.ndarray:
    """Which rows (f, d) 3 nats part, on all lines, from draws near them, shape (f, any, d)."""
    part = np.linspace(0.0, 1.0, 17)[1:, None]
    here = rows[:, None, None]
    points = here + part * (nearest[:, :, None] - here)
    value = np.add(*_finite(densities, points.reshape(-1, here.shape[-1])))
    value = value.reshape(points.shape[:-1])
    ends = np.minimum(log_target[:, None], value[..., -1])
    falls = ends - value[..., :-1].min(axis=2)
    return np.asarray(falls.min(axis=1) > 3.0)


def _log_mass(
    densities: Densities, rows: np.ndarray, draws: np.ndarray, rng: np.random.Generator
) -> float:
    """Log of the target's mass around rows, of what is nearer to them than to the draws."""
    fitted = fitted_to_few(rows, 5.0)
    proposed = fitted(rng, N_ROWS)
    spread = np.maximum(rows.std(axis=0), 1e-300)
    own, others = (_nearest(some / spread, proposed / spread, 1)[0][:, 0] for some in (rows, draws))
    value = np.add(*_finite(densities, proposed)) - fitted.log_density_of(proposed)
    return log_mean(np.where(own < others, value, -np.inf))


def growing_tail(
    densities: Densities,
    rows: np.ndarray,
    transformed: np.ndarray,
    rng: np.random.Generator,
    continuous: np.ndarray | None = None,
) -> int | None:
    """Dimension along which the mass of the target does not fall, or None.

    If Z is finite, so is the integral along nearly every line parallel to an axis (Fubini), so that
    density times distance falls to zero. Where it does not fall on the last of steps that grow from
    a sixteenth of a standard deviation to 2,048, as the likelihood grows, and the mass there is
    like that nearby, Z is infinite or nearly so. A line may also end where a transformed variable
    rounds to zero. What grows only on a curve, such as a scale that goes to zero together with a
    residual, no such line follows. ``rows`` are draws of the posterior, ``transformed`` says which
    dimensions have a transform, and ``continuous`` are those to look at: no line leads through
    discrete values.
    """
    looked_at = np.arange(rows.shape[1]) if continuous is None else continuous
    if not looked_at.size:
        return None
    most = 2048 // (2 * DISTANCES.size)  # of lines, for so many evaluations
    n_lines = int(np.clip(most // looked_at.size, 2, min(8, len(rows))))
    if n_lines * looked_at.size > most:
        looked_at = rng.permutation(looked_at)[: most // n_lines]
    starts = rows[rng.choice(len(rows), n_lines, replace=False)]
    steps = np.concatenate([[0.0], DISTANCES])
    points = np.tile(starts[:, None], (looked_at.size, 2, 1, steps.size, 1))
    for lines, dimension in zip(points, looked_at, strict=True):
        away = steps * rows[:, dimension].std()
        lines[..., dimension] += np.stack([away, -away])[:, None]
    target, ratio = _along(points, densities)
    for k, dimension in enumerate(looked_at):
        # a transformed variable rounds to zero or infinity by then
        rounds = np.abs(points[k, ..., dimension]) > (700.0 if transformed[dimension] else np.inf)
        for lines in zip(target[k], ratio[k], rounds, strict=True):  # to either side
            if np.mean([_grows(*line) for line in zip(*lines, strict=True)]) > 0.25:
                return int(dimension)
    return None


def _along(points: np.ndarray, densities: Densities) -> tuple[np.ndarray, np.ndarray]:
    """Log target and log likelihood along lines; NaN where far ends settle that they fall."""
    # the far end of most lines is an eighth of the evaluations
    target = np.full(points.shape[:-1], np.nan)
    ratio = target.copy()

    def fill(lines: np.ndarray, steps: slice) -> None:
        at = points[lines][:, steps]
        if not len(at):
            return
        with np.errstate(all="ignore"):
            prior, likelihood = densities(at.reshape(-1, at.shape[-1]))
            target[lines, steps] = (prior + likelihood).reshape(at.shape[:-1])
        ratio[lines, steps] = likelihood.reshape(at.shape[:-1])

    every = np.ones(points.shape[:-2], dtype=bool)
    fill(every, slice(-3, None, 2))
    mass = target + np.log(np.concatenate([[1.0], DISTANCES]))
    falls = (mass[..., -1] <= mass[..., -3] - FALL) | (ratio[..., -1] <= ratio[..., -3] + GROWTH)
    fill(~(falls & np.isfinite(target[..., -3]) & np.isfinite(target[..., -1])), slice(None))
    return target, ratio


def _grows(target: np.ndarray, ratio: np.ndarray, rounds: np.ndarray) -> bool:
    """Whether the mass along a line, by log target (m,), does not fall; it may round at its end."""
    finite = np.isfinite(target)
    n = finite.size if finite.all() else int(np.argmin(finite))
    if n < 5 or (n < finite.size and not rounds[n]):
        return bool(n < finite.size and rounds[0])  # the draws themselves are at the end
    mass = target[1:n] + np.log(DISTANCES[: n - 1])
    return bool(
        mass[-1] > mass[-3] - FALL
        and mass[-1] > mass.max() - 5.0  # nats: comparable to the largest along the line
        and ratio[n - 1] > ratio[n - 3] + GROWTH
    )
