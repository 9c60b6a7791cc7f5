"""Whether a log Z may be infinite: the target along lines that lead away from its draws."""

from collections.abc import Callable

import numpy as np

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
        for sign in (0, 1):
            grows = [
                _grows(target[k, sign, i], ratio[k, sign, i], rounds[sign, i])
                for i in range(n_lines)
            ]
            if np.mean(grows) > 0.25:
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
