"""Rows of a target where no draw of it is, by values of its density alone.

Rows that walk from the prior find modes; lines that lead away from draws tell an infinite log Z.
"""

from collections.abc import Callable

import numpy as np

from pymc_logz.models.density import ROWS_PER_CALL
from pymc_logz.paths.schedules import next_beta
from pymc_logz.weights import resampled

N_ROWS = ROWS_PER_CALL
"""Rows that walk: as many as one call evaluates."""
MAX_DIMS = 16
"""Dimensions up to which rows that know values alone, and no gradient, get to a posterior."""
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


def walk_from_prior(
    densities: Densities, start: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
    """Rows (n, d) of the posterior; None if those of the prior (n, d) do not get there."""
    n = len(start)
    rows, (prior, ratio) = start.copy(), _finite(densities, start)
    beta = 0.0
    for _ in range(24):
        if not np.isfinite(ratio.max()):
            return None
        before, beta = beta, next_beta(ratio, beta)
        chosen = resampled((beta - before) * ratio, rng, n)
        rows, prior, ratio = (x[chosen] for x in (rows, prior, ratio))
        for _ in range(2 if beta < 1.0 else 6):
            rows, prior, ratio = _moved(densities, rows, prior, ratio, beta, rng)
        if beta >= 1.0:
            return rows
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


def growing_tail(
    densities: Densities,
    rows: np.ndarray,
    bends: np.ndarray,
    rng: np.random.Generator,
    looked_at: np.ndarray,
) -> int | None:
    """Dimension along which the mass of the target does not fall, or None.

    If Z is finite, so is the integral along nearly every line parallel to an axis (Fubini), so that
    density times distance falls to zero. Where it does not fall on the last of steps that grow from
    a sixteenth of a standard deviation to 2,048, as the likelihood grows, and the mass there is
    like that nearby, Z is infinite or nearly so. A line may also end where a transformed variable
    rounds to zero. What grows only on a curve, such as a scale that goes to zero together with a
    residual, no such line follows. ``rows`` are draws of the posterior, ``bends`` says which
    dimensions have a transform that is not linear, and no line leads through discrete values.
    """
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
        rounds = np.abs(points[k, ..., dimension]) > (700.0 if bends[dimension] else np.inf)
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
