"""A blend of densities: rows are drawn from all of its parts, and weighted by all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from scipy.special import logsumexp

from pymc_logz.models.context import check_infinite
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.elliptical import Clusters, Elliptical
from pymc_logz.paths.funnels import Funnel
from pymc_logz.runners.anneal import Annealed, merge
from pymc_logz.runners.block import Block
from pymc_logz.runners.climb import are_rounding
from pymc_logz.weights import DEGENERATE_ESS, normalise, origins, weight_ess

N_ROWS = (512, 4096)
"""Rows from which something is learned: of each round, or fewest and most of those that walk, climb
or are fitted to. Of a basin with a hundredth of the prior 512 miss one time in 170, 4,096 a
thousandth one in sixty."""
AT_ONCE = 1024
"""Rows that are drawn and evaluated at a time."""
N_STARTS = 8
"""Rows from which a mode or a peak is looked for, or which curvature is looked at."""


class Evaluated(NamedTuple):
    """Rows whose densities are known."""

    position: np.ndarray
    """Shape (n, d)."""
    log_prior: np.ndarray
    """Of the normalised prior, shape (n,)."""
    log_target: np.ndarray
    """Shape (n,); -inf in place of NaN."""
    log_parts: np.ndarray
    """By K parts of a blend, as far as these are asked for, shape (K, n); -inf in place of NaN."""
    n_nan: int = 0
    """How many log targets were NaN."""

    def chosen(self, which: np.ndarray | slice) -> "Evaluated":
        """Some of them."""
        of_rows = (part[which] for part in self[:3])
        return Evaluated._make([*of_rows, self.log_parts[:, which], self.n_nan])

    def by(self, parts: "Sequence[Part]", target: "Target") -> "Evaluated":
        """The same with densities by more parts."""
        found = [one.log_density_of(target, self.position, self.log_prior) for one in parts]
        known = np.where(np.isnan(found), -np.inf, found)
        return self._replace(log_parts=np.concatenate([self.log_parts, known]))

    def joined(self, other: "Evaluated") -> "Evaluated":
        """These rows, and then others."""
        of_rows = map(np.concatenate, zip(self[:3], other[:3], strict=True))
        log_parts = np.concatenate([self.log_parts, other.log_parts], axis=1)
        return Evaluated._make([*of_rows, log_parts, self.n_nan + other.n_nan])


class Moving:
    """Rows that move in the coordinates of a funnel, or in the model's own."""

    funnel: Funnel | None

    def whitened(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the model (n, d), as they move."""
        return rows if self.funnel is None else self.funnel.whitened(rows)

    def restored(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the model (n, d), from as they move."""
        return rows if self.funnel is None else self.funnel.restored(rows)

    def log_volume(self, rows: np.ndarray) -> np.ndarray:
        """What a log density of moving rows (n, d) has more than one of the model's, shape (n,)."""
        return np.zeros(len(rows)) if self.funnel is None else self.funnel.log_volume(rows)


@dataclass(frozen=True, eq=False)
class Target:
    """The posterior of a model, without its constant."""

    prepared: Prepared
    block: Block
    """On the path from the prior, where the model is evaluated and evaluations are counted."""

    def __call__(self, rows: np.ndarray) -> Evaluated:
        """Rows (n, d) with their densities."""
        log_prior, log_target = self._densities(rows)
        is_nan, is_infinite = np.isnan(log_target), log_target == np.inf
        log_target = np.where(is_nan | is_infinite, -np.inf, log_target)
        if is_infinite.any() and np.any(np.isfinite(log_target)):
            worst = rows[np.argmax(np.where(is_infinite, log_prior, -np.inf))]
            self._check_infinite(worst, rows[np.argmax(log_target)], log_target.max())
        log_parts = np.empty((0, len(rows)))
        return Evaluated(rows, log_prior, log_target, log_parts, int(is_nan.sum()))

    def _densities(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density of rows (n, d) by the prior, of which a transform may cut part off; target's.

        NaN or infinite where that is what the model says.
        """
        found = self.block.evaluated(rows)
        log_prior = found.log_reference - self.prepared.prior.log_mass()[0]
        with np.errstate(invalid="ignore"):
            return log_prior, log_prior + found.log_ratio

    def _check_infinite(
        self, worst: np.ndarray, best: np.ndarray, height: float, n_places: int = 65
    ) -> None:
        """Whether a density rises to where it is infinite, shape (d,), from a row of this height.

        Else that is rounding, as of a hurdle's whose rate is 1e-17: no draw of the prior has it,
        and on the way there the density has fallen.

        Raises
        ------
        ModelError
            If it is higher at the end.
        """
        low, high = best, worst
        for _ in range(3):
            places = low + np.linspace(0.0, 1.0, n_places)[:, None] * (high - low)
            _, value = self._densities(places)
            first = int(np.argmax(value == np.inf)) or n_places - 1
            low, high = places[first - 1], places[first]
            last = np.nan_to_num(value[first - 1], nan=-np.inf)
        if not last < height:
            check_infinite(self.prepared.flat, worst[None], np.array([np.inf]))


Drawn = tuple[np.ndarray, np.ndarray | None]


class Part(Protocol):
    """A normalised density of rows of a model: plain data, drawn from and evaluated anywhere."""

    def draw(self, target: Target, rng: np.random.Generator, n: int) -> Drawn:
        """Rows (n, d), and their log density (n,) if that is known from drawing them."""
        ...

    def log_density_of(self, target: Target, rows: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d) whose log prior (n,) is known, shape (n,)."""
        ...

    @property
    def what(self) -> str:
        """What it is, for a reason."""
        ...


@dataclass(frozen=True)
class Prior:
    """The model's own prior."""

    what: ClassVar = "the prior"

    def draw(self, target: Target, rng: np.random.Generator, n: int) -> Drawn:
        """Rows (n, d)."""
        return target.prepared.prior(rng, n), None

    def log_density_of(self, target: Target, rows: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        return log_prior


@dataclass(frozen=True)
class Component(Moving):
    """A Student-t, or some of them, in the coordinates of a funnel, or in the model's own."""

    density: Elliptical | Clusters
    funnel: Funnel | None = None
    what: str = "Student-t components"

    def draw(
        self, target: Target, rng: np.random.Generator, n: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n, d), and their log density."""
        moving = self.density(rng, n)
        return self.restored(moving), self._log_density(moving)

    def log_density_of(self, target: Target, rows: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        return self._log_density(self.whitened(rows))

    def _log_density(self, moving: np.ndarray) -> np.ndarray:
        return self.density.log_density_of(moving) - self.log_volume(moving)


@dataclass(frozen=True)
class Blend:
    """Parts in shares that sum to one."""

    parts: tuple[Part, ...]
    shares: np.ndarray
    """Shape (K,)."""
    tries: int = 1
    """Rows that each one is chosen from, in proportion to their weights."""

    def draw(self, target: Target, rng: np.random.Generator, n: int) -> Evaluated:
        """Rows in the shares of the parts, to within one row, in random order; see `drawn`."""
        counts = np.bincount(origins(self.shares, n, rng), minlength=len(self.parts))
        return drawn(self.parts, target, rng, counts).chosen(rng.permutation(n))

    def weighted(
        self,
        target: Target,
        rng: np.random.Generator,
        n: int,
        report: Callable[[float], None] | None = None,
    ) -> Annealed:
        """Rows as they are at the end of a path of one temperature, with their weights.

        ``report`` is called with the fraction of them that a portion is. Each is one of ``tries``
        rows, drawn by their weights, and has their mean weight: which leaves means over weighted
        rows as they are, for any function of a row, 1 among them.
        """
        size = max(1, AT_ONCE // self.tries)
        sizes = [min(size, n - first) for first in range(0, n, size)]
        parts = []
        for k in sizes:
            parts.append(self.weigh(self.draw(target, rng, k * self.tries), rng))
            if report is not None:
                report(k / n)
        return reduce(merge, parts)

    def weigh(self, seen: Evaluated, rng: np.random.Generator) -> Annealed:
        """One of each ``tries`` rows that were drawn, by their weights."""
        n = len(seen.position) // self.tries
        log_q = log_blend(seen.log_parts, self.shares)
        each = _log_weights(seen.log_target, log_q).reshape(n, self.tries)
        noise = rng.gumbel(size=each.shape)
        chosen = np.arange(n) * self.tries + np.argmax(each + noise, axis=1)
        log_weight = logsumexp(each, axis=1) - np.log(self.tries)
        return Annealed(
            position=seen.position[chosen],
            log_reference=log_q[chosen],
            log_ratio=each.ravel()[chosen],
            log_weight=log_weight,
            acceptance_rate=np.ones(n),
            n_nan=seen.n_nan,
            stage_acceptance_rate=np.full(2, np.nan),
            stage_mean_log_ratio=np.array([each.mean(), np.nan]),
            stage_weight_ess=np.array([n, weight_ess(log_weight)]),
        )

    def in_words(self) -> str:
        """What it is, for a reason."""
        shares: dict[str, float] = {}
        for part, share in zip(self.parts, self.shares, strict=True):
            shares[part.what] = shares.get(part.what, 0.0) + float(share)
        ordered = sorted(shares.items(), key=lambda one: -one[1])
        return ", ".join(f"{share:.0%} {what}" for what, share in ordered)


def drawn(
    parts: Sequence[Part], target: Target, rng: np.random.Generator, counts: np.ndarray
) -> Evaluated:
    """So many rows of each of K parts, one part after the other, with their densities by all.

    What a part knows of its own rows is not computed again.
    """
    each = {k: parts[k].draw(target, rng, int(n)) for k, n in enumerate(counts) if n}
    seen = target(np.concatenate([rows for rows, _ in each.values()]))
    origin, found = np.repeat(np.arange(len(parts)), counts), np.empty((len(parts), counts.sum()))
    for k, part in enumerate(parts):
        own = each[k][1] if k in each else None
        others = origin != k if own is not None else np.ones(len(origin), dtype=bool)
        found[k, others] = part.log_density_of(
            target, seen.position[others], seen.log_prior[others]
        )
        found[k, ~others] = own
    seen = seen._replace(log_parts=np.where(np.isnan(found), -np.inf, found))
    return without_rounding(target, seen, counts / counts.sum())


def without_rounding(
    target: Target, seen: Evaluated, shares: np.ndarray, close: float = 10.0
) -> Evaluated:
    """Rows drawn in these shares, without heavy ones whose density is what cancels in it.

    It is asked where a row has more than a tenth of all weight, of those that are as ``close``.
    """
    log_weight = _log_weights(seen.log_target, log_blend(seen.log_parts, shares))
    log_target, unknown = seen.log_target.copy(), np.isfinite(log_weight)
    log_weight = np.where(unknown, log_weight, -np.inf)
    while np.any(normalise(log_weight)[unknown] > 1 / DEGENERATE_ESS):
        (which,) = np.nonzero(unknown & (log_weight > log_weight.max() - close))
        lost = which[
            are_rounding(
                lambda rows: target(rows).log_target, seen.position[which], log_target[which]
            )
        ]
        log_target[lost], log_weight[lost], unknown[which] = -np.inf, -np.inf, False
    return seen._replace(log_target=log_target)


def _log_weights(log_target: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    """Shape (n,); where no part has a density there is no target."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(log_target), -np.inf, log_target - log_q)


def log_blend(log_parts: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Log density (n,) of a blend of parts whose log densities (K, n) are known."""
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(log_parts + np.log(shares)[:, None], axis=0))
