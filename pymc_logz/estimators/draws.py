"""Draws of a tempered run: the one input of every estimator that uses a ladder of temperatures."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pymc_logz.arguments import check_betas

MIN_CHAIN = 4
"""Fewest draws of a chain whose autocorrelation ArviZ estimates."""
ROUNDING = 1e-12
"""Relative range below which values differ by rounding only."""


def check_chains(**given: np.ndarray) -> None:
    """Raise a ValueError for chains (..., draws) that are too short to tell an error."""
    for name, values in given.items():
        if values.shape[-1] < MIN_CHAIN or values.size == 0:
            raise ValueError(
                f"{name} has shape {values.shape}; each chain needs at least {MIN_CHAIN} draws, so "
                "that its autocorrelation can be estimated"
            )


def effective_draws(values: np.ndarray, *, tails: bool = False) -> float:
    """Number of independent draws that values (chains, draws) are worth for their mean, or 1."""
    # at most their number: a gain from negative autocorrelation is not trusted; with tails absolute
    # deviations count too, where slow chains show first (Vehtari et al. 2021, doi
    # 10.1214/20-BA1221)
    # ArviZ takes seconds to import, and few who import this module have chains
    from arviz_stats.base import array_stats

    if np.ptp(values) < ROUNDING * np.abs(values).max():
        return float(values.size)
    measured = (values, np.abs(values - values.mean())) if tails else (values,)
    sizes = [float(array_stats.ess(one, method="mean")) for one in measured]
    finite = [size for size in sizes if np.isfinite(size)]
    return min([*finite, float(values.size)]) if finite else 1.0


EXAMPLE = """Examples
--------
Walkers with exponential log ratios, drawn exactly, with log Z = -log(1 + beta):

>>> import numpy as np
>>> from pymc_logz.estimators import {names}
>>> rng, betas = np.random.default_rng(1), np.linspace(0, 1, 5)
>>> level = rng.integers(5, size=(20, 200))
>>> log_ratio = -rng.exponential(1 / (1 + betas[level]))
>>> draws = TemperedDraws(level, log_ratio, betas, np.zeros(5), -np.log1p(betas))
"""


def documented[T: Any](
    *names: str, parameters: str = "", returns: str = "", shows: str = ""
) -> Callable[[T], T]:
    """Decorator that completes a docstring, whose example imports ``names``, or ``shows`` this."""

    def complete(given: T) -> T:
        text = inspect.cleandoc(given.__doc__ or "")
        for heading, body in (("Returns", returns), ("Parameters", parameters)):
            first = re.search(r"^\w+\n-+$", text, re.MULTILINE)
            if body and first:
                before, after = text[: first.start()], text[first.start() :]
                text = f"{before}{heading}\n{'-' * len(heading)}\n{body}\n\n{after}"
        if shows:
            call = f">>> print({given.__name__}(draws).estimate)  # true: -log(2) = -0.693"
            text += f"\n\nExamples\n--------\n{call}\n{shows}"
        own = [] if isinstance(given, type) else [given.__name__]
        imported = {"TemperedDraws", *own, *names}
        example = EXAMPLE.format(names=", ".join(sorted(imported)))
        given.__doc__ = text.replace("Examples\n--------\n", example)
        return given

    return complete


CHUNK_ELEMENTS = 2**20
MAX_BLOCKS = 2**14


@documented()
@dataclass(frozen=True, eq=False)
class TemperedDraws:
    """Levels and log ratios of W walkers with N draws each on a ladder of K temperatures.

    On a geometric path level k has the unnormalised density ``reference(x) * exp(beta_k *
    log_ratio(x))``, so the log ratio of a draw gives its density at every level.

    Attributes
    ----------
    level
        Level at which each draw was made, integers in 0..K-1, shape (W, N).
    log_ratio
        Log target minus log reference of each draw, shape (W, N); -inf outside the support of the
        target, which has probability zero at every level but the first.
    betas
        Inverse temperatures, increasing from 0 to 1, shape (K,).
    log_prior
        Log of the prior weight r_k of each level, up to a constant, shape (K,).
    log_z_hat
        Guess of log Z_k under which the levels were drawn, up to a constant, shape (K,); or (S, K)
        when it changed during the run, one row per segment. Stored as (S, K).
    segment
        Row of ``log_z_hat`` in force at each draw, shape (N,) or (W, N).
    log_z_reference
        Known log Z at beta = 0.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is out of range, or a log ratio is NaN.

    References
    ----------
    Carlson, Stinson, Pakman & Paninski (2016), arXiv 1603.01912, eq. 7.

    Examples
    --------
    >>> draws.n_levels, draws.n_draws, int(draws.visits.sum())
    (5, 4000, 4000)
    """

    level: np.ndarray
    log_ratio: np.ndarray
    betas: np.ndarray
    log_prior: np.ndarray
    log_z_hat: np.ndarray
    segment: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=int))
    log_z_reference: float = 0.0

    def __post_init__(self) -> None:
        arrays = {
            "betas": check_betas(self.betas),
            "log_ratio": np.asarray(self.log_ratio, dtype=float),
            "level": np.asarray(self.level),
            "log_prior": np.asarray(self.log_prior, dtype=float),
            "log_z_hat": np.atleast_2d(np.asarray(self.log_z_hat, dtype=float)),
        }
        for name, array in arrays.items():
            object.__setattr__(self, name, array)
        _check_draws(self.level, self.log_ratio, self.n_levels)
        for name in ("log_prior", "log_z_hat"):
            array, k = arrays[name], self.n_levels
            if array.shape[-1:] != (k,) or array.ndim > 2 or not np.all(np.isfinite(array)):
                raise ValueError(
                    f"{name} has shape {array.shape}, {np.sum(~np.isfinite(array))} entries not "
                    f"finite; give one finite number for each of the {k} betas"
                )
        shape, n_segments = self.log_ratio.shape, len(self.log_z_hat)
        segment = _checked_segment(np.asarray(self.segment), shape, n_segments)
        object.__setattr__(self, "segment", segment)

    @property
    def n_levels(self) -> int:
        """Number of temperatures K."""
        return self.betas.size

    @property
    def n_draws(self) -> int:
        """Number of draws of all walkers."""
        return self.level.size

    @cached_property
    def visits(self) -> np.ndarray:
        """Number of draws at each level, shape (K,)."""
        return np.bincount(self.level.ravel(), minlength=self.n_levels)

    @property
    def block_length(self) -> int:
        """Draws per block, so that the blocks of all walkers fit in little memory."""
        return length_of_blocks(*self.level.shape)

    def log_tilt(self, log_ratio: np.ndarray) -> np.ndarray:
        """``beta_k * log_ratio`` of n draws, shape (n, K), where ``0 * -inf = 0``."""
        tilt = np.where(np.isfinite(log_ratio), log_ratio, 0.0)[:, None] * self.betas
        tilt[np.isneginf(log_ratio), 1:] = -np.inf
        return tilt

    def log_level_weight(self, log_ratio: np.ndarray, segment: np.ndarray) -> np.ndarray:
        """Log q(level k | x) of n draws up to a constant per draw, shape (n, K).

        Eq. 7 of Carlson et al. (2016), for a geometric path.
        """
        return self.log_tilt(log_ratio) + (self.log_prior - self.log_z_hat)[segment]

    def level_given(self, log_ratio: np.ndarray, segment: np.ndarray) -> np.ndarray:
        """q(level k | x) of n draws, shape (n, K)."""
        return shares(self.log_level_weight(log_ratio, segment))

    def chunks(self, width: int) -> Iterator[tuple[slice, slice]]:
        """Tiles (walkers, draws) of whole blocks with about ``CHUNK_ELEMENTS / width`` draws."""
        n_walkers, n = self.level.shape
        budget = max(1, CHUNK_ELEMENTS // width)
        span = min(n, max(1, budget // self.block_length) * self.block_length)
        rows = max(1, budget // span)
        for row in range(0, n_walkers, rows):
            for start in range(0, n, span):
                yield slice(row, row + rows), slice(start, min(start + span, n))

    def flat(self, rows: slice, columns: slice) -> tuple[np.ndarray, np.ndarray]:
        """Log ratios and segments of a tile, each of shape (n,)."""
        return self.log_ratio[rows, columns].ravel(), self.segment[rows, columns].ravel()

    def block_sums(
        self, statistic: Callable[[np.ndarray, np.ndarray], np.ndarray], width: int
    ) -> np.ndarray:
        """Sums over blocks of a statistic of (log_ratio, segment), shape (W, B, S).

        Parameters
        ----------
        statistic
            From the log ratios (n,) and segments (n,) of some draws to S values each, (n, S).
        width
            Number of values S.
        """
        n_walkers, n = self.level.shape
        length = self.block_length
        sums = np.empty((n_walkers, -(-n // length), width))
        for rows, columns in self.chunks(width):
            values = statistic(*self.flat(rows, columns))
            values = values.reshape(-1, columns.stop - columns.start, width)
            starts = np.arange(0, values.shape[1], length)
            first = columns.start // length
            sums[rows, first : first + starts.size] = np.add.reduceat(values, starts, axis=1)
        return sums

    def level_means(self, values: np.ndarray) -> np.ndarray:
        """Mean at each level of one value per draw (W, N), shape (K,); NaN without draws."""
        total = np.bincount(self.level.ravel(), values.ravel(), minlength=self.n_levels)
        with np.errstate(invalid="ignore"):
            return total / self.visits

    def level_block_sums(self, values: np.ndarray) -> np.ndarray:
        """Sums over blocks and levels of one value per draw (W, N), shape (W, B, K)."""
        n_walkers, n = self.level.shape
        n_blocks = -(-n // self.block_length)
        block = np.arange(n) // self.block_length + n_blocks * np.arange(n_walkers)[:, None]
        index = (block * self.n_levels + self.level).ravel()
        size = n_walkers * n_blocks * self.n_levels
        sums = np.bincount(index, weights=values.ravel(), minlength=size)
        return sums.reshape(n_walkers, n_blocks, self.n_levels)


def length_of_blocks(n_walkers: int, n_draws: int) -> int:
    """Draws per block of walkers with so many draws each."""
    return -(-n_draws // max(1, MAX_BLOCKS // n_walkers))


def shares(log_weight: np.ndarray) -> np.ndarray:
    """Weights of each row as shares of their sum, shape (n, K); overwrites the argument."""
    # weights.normalise, for arrays that fill memory, in two thirds of its time
    log_weight -= log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight, out=log_weight)
    weight /= weight.sum(axis=1, keepdims=True)
    return weight


def _check_draws(level: np.ndarray, log_ratio: np.ndarray, n_levels: int) -> None:
    if level.ndim != 2 or level.shape != log_ratio.shape or level.size < 1:
        raise ValueError(
            f"level has shape {level.shape} and log_ratio {log_ratio.shape}; both must be "
            "(walkers, draws) with at least one entry: reshape a single walker to (1, draws)"
        )
    if level.dtype.kind not in "iu" or level.min() < 0 or level.max() >= n_levels:
        raise ValueError(
            f"level has dtype {level.dtype} and values in [{level.min()}, {level.max()}]; "
            f"it must hold integers in 0..{n_levels - 1}, an index into betas"
        )
    if np.any(np.isnan(log_ratio)):
        raise ValueError(
            f"{np.isnan(log_ratio).sum()} of {log_ratio.size} entries of log_ratio are NaN; "
            "a draw outside the support of the target has log_ratio=-inf"
        )
    impossible = np.count_nonzero(np.isneginf(log_ratio) & (level > 0))
    if impossible:
        raise ValueError(
            f"{impossible} of {level.size} draws have log_ratio=-inf at a level above 0, where "
            "that has probability zero; leave out the draws made before the walkers had mixed"
        )


def _checked_segment(segment: np.ndarray, shape: tuple[int, ...], n_segments: int) -> np.ndarray:
    if segment.dtype.kind not in "iu" or segment.min() < 0 or segment.max() >= n_segments:
        raise ValueError(
            f"segment has dtype {segment.dtype} and values in [{segment.min()}, {segment.max()}]; "
            f"it must hold integers in 0..{n_segments - 1}, an index of a row of log_z_hat"
        )
    if segment.size == 1 and n_segments > 1:
        raise ValueError(
            f"log_z_hat has {n_segments} rows; give segment=, the row in force at each draw"
        )
    if segment.size > 1 and segment.shape not in (shape, shape[1:]):
        raise ValueError(
            f"segment has shape {segment.shape}; give one entry per draw, {shape[1:]} or {shape}"
        )
    return np.broadcast_to(segment, shape)
