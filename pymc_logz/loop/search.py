"""The memory of a search: parts, rows drawn from them, and rows that came from elsewhere.

Every row that was drawn is weighted by all parts together, whichever it came from (deterministic
mixture), so no part has to be judged before it is used: with K of them a bad one costs its share.
Rows that walked from the prior to the posterior are witnesses: nothing is estimated from them, but
where they have a large weight the parts have too little density. Rows of the prior climb by
gradients to modes that the parts may lack.
"""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from pymc_logz.loop.looking import Look
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.pilot.population import ROWS_TO_CORRELATE
from pymc_logz.references.blend import (
    N_ROWS,
    Blend,
    Component,
    Evaluated,
    Part,
    Prior,
    Target,
    drawn,
    log_blend,
)
from pymc_logz.references.modes import modes_of
from pymc_logz.runners.anneal import Annealed
from pymc_logz.runners.climb import can_climb, tops, towards_data
from pymc_logz.weights import NEGLIGIBLE, TOLERANCE, log_mean, relative, resampled, weight_ess

N_TRIED = N_ROWS[0]
"""Rows of a blend in each round."""
HEAVY = 3.0
"""Weight of a row, where the mean is one, from which on parts have too little density there."""
FLOOR = 0.1
"""Share of the rows that is dealt out over all parts evenly, whatever their weights say: the
variance is a ninth larger at most, and no part is lost because few rows of it were seen."""
OF_CLIMBS = "modes that particles climbed to"


class Search:
    """What is known of a posterior, and what its rows are to be drawn from."""

    def __init__(self, target: Target, rng: np.random.Generator, look: Look | None = None) -> None:
        self.target, self.rng, self.parts = target, rng, list[Part]()
        self.look = look
        """Without one, no rows but those that are drawn say what the parts lack."""
        nothing = np.empty((0, target.prepared.n_dims)), np.empty(0), np.empty(0)
        self.pool = self.witnesses = self.tops = Evaluated(*nothing, np.empty((0, 0)))
        self._drawn = np.empty(0)

    def add_parts(self, parts: Sequence[Part]) -> None:
        """More densities to draw from."""
        if not parts:
            return
        self.parts += parts
        self.pool = self.pool.by(parts, self.target)
        self.witnesses = self.witnesses.by(parts, self.target)
        self._drawn = np.append(self._drawn, np.zeros(len(parts)))

    def add_and_draw(self, parts: Sequence[Part]) -> None:
        """More densities, and rows of the next blend."""
        self.add_parts(parts)
        self.draw()

    def add_witnesses(self, rows: Evaluated) -> None:
        """Rows of the posterior, as far as it is known, which came from elsewhere."""
        rows = rows.chosen(np.isfinite(rows.log_target)).by(self.parts, self.target)
        self.witnesses = self.witnesses.joined(rows)

    def draw(self, n: int = N_TRIED) -> None:
        """About n more rows, in the shares of the parts."""
        counts = np.round(n * self.shares()).astype(int)
        if counts.any():
            self._add_drawn(drawn(self.parts, self.target, self.rng, counts), counts)

    def add_tried(self, rows: Evaluated, shares: np.ndarray) -> None:
        """Rows that were drawn in these shares of the parts, to see whether they hold."""
        n = len(rows.position)
        rows = rows._replace(log_parts=np.empty((0, n))).by(self.parts, self.target)
        self._add_drawn(rows, n * shares)

    def _add_drawn(self, rows: Evaluated, counts: np.ndarray) -> None:
        self.pool, self._drawn = self.pool.joined(rows), self._drawn + counts

    @property
    def log_weight(self) -> np.ndarray:
        """Of the rows that were drawn, shape (N,)."""
        log_q = log_blend(self.pool.log_parts, self._drawn / self._drawn.sum())
        return self.pool.log_target - log_q

    @property
    def log_z(self) -> float:
        """By all rows that were drawn."""
        return log_mean(self.log_weight)

    def shares(self, which: np.ndarray | None = None) -> np.ndarray:
        """Shares of parts by which the second moment of the weights is least, with a floor.

        Where a part has no rows yet they are even. ``which`` are the parts to be used.
        """
        used = np.ones(len(self.parts), dtype=bool) if which is None else which
        even = used / used.sum()
        return FLOOR * even + (1 - FLOOR) * self._best(even)

    def shares_of_kept_parts(self, with_fewer: float = 0.95) -> np.ndarray:
        """The same, with none for parts that bring nothing; the prior always has its floor.

        The fewest parts, those with the largest shares first, whose weights are about as even:
        evaluating a part costs as much as ``with_fewer`` times the effective share is worth.
        """
        k = len(self.parts)
        order = np.argsort(-self._best(np.full(k, 1 / k)))
        is_prior = np.array([isinstance(part, Prior) for part in self.parts])
        enough = with_fewer * self.effective_fraction(self.shares())

        def with_first(n: int) -> np.ndarray:
            return self.shares(is_prior | np.isin(np.arange(k), order[:n]))

        def even_with(n: int) -> float:
            return self.effective_fraction(with_first(n))

        return with_first(1 + bisect_left(range(1, k), enough, key=even_with))

    def _best(self, start: np.ndarray, n_steps: int = 60, large: float = 600.0) -> np.ndarray:
        """Shares of the least second moment, from a start that is zero for parts not to be used.

        The iteration is monotone. Logs of ratios are no larger than what has finite sums.

        References
        ----------
        He & Owen (2014), Optimal mixture weights in multiple importance sampling, arXiv 1411.3954.
        """
        shares = start
        if not np.all(self._drawn[start > 0]):
            return start
        chance, log_target, log_parts = self._points()
        highest = log_parts.max(axis=0, initial=-np.inf)
        kept = np.isfinite(highest)
        parts = np.exp(log_parts[:, kept] - highest[kept])
        with np.errstate(divide="ignore"):
            log_cost = np.log(chance[kept]) + log_target[kept] - highest[kept]
        cost = np.exp(np.minimum(log_cost, large))
        # a point that costs nothing says nothing, also where no part is left
        parts, cost = parts[:, cost > 0], cost[cost > 0]
        for _ in range(n_steps):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                blend = shares @ parts
                slope = parts @ np.minimum(cost / blend**2, np.exp(large))
            shares = shares * np.sqrt(np.nan_to_num(slope))
            if not shares.sum() > 0:
                return start
            shares = shares / shares.sum()
        return shares

    def _points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points that stand for the posterior: their chance, log density over Z, and parts.

        Rows that were drawn, by their weights, and witnesses, by their number, half and half.
        """
        log_weight = self.log_weight
        weight = relative(log_weight)
        chance, points = weight / max(weight.sum(), 1e-300), self.pool
        if n := len(self.witnesses.position):
            chance = np.concatenate([chance, np.full(n, 1 / n)]) / 2
            points = points.joined(self.witnesses)
        kept = chance > 0
        points = points.chosen(kept)
        return chance[kept], points.log_target - log_mean(log_weight), points.log_parts

    def effective_fraction(self, shares: np.ndarray) -> float:
        """Weight ESS of rows of these parts, for each: as drawn rows and as witnesses tell it.

        The smaller of the two. Of witnesses the most surprising ones, as many as may be missing,
        count no more than the next.
        """
        log_weight = self.log_weight
        if not np.isfinite(log_weight.max(initial=-np.inf)):
            return 0.0
        log_z = log_mean(log_weight)
        log_q = log_blend(self.pool.log_parts, shares)
        with np.errstate(invalid="ignore"):
            both = log_weight + self.pool.log_target - log_z - log_q
        own = log_mean(np.where(np.isnan(both), -np.inf, both)) - log_z
        heavy = self.log_weight_at(self.witnesses, shares)
        if heavy.size:
            heavy = np.minimum(heavy, np.quantile(heavy, 1 - TOLERANCE))
            own = max(own, log_mean(heavy))
        return float(np.exp(min(-own, 0.0)))

    def needs(self, part: Part, n: int = 256, good: float = 0.5) -> bool:
        """Whether n rows of another part tell of a smaller effective fraction than is known.

        Where that is ``good`` a part has to bring mass, or tails, that no known row has.
        """
        shares = self.shares()
        if (even := self.effective_fraction(shares)) < good:
            return True
        seen = drawn([part], self.target, self.rng, np.array([n]))
        seen = seen.chosen(np.isfinite(seen.log_target) & np.isfinite(seen.log_parts[0]))
        if not len(log_chance := seen.log_target - seen.log_parts[0]):
            return False
        log_weight = self.log_weight_at(seen._replace(log_parts=seen.log_parts[:0]), shares)
        log_even = log_mean(log_chance) - log_mean(log_chance + log_weight)
        return bool(log_even < np.log(0.95 * even))

    def log_weight_at(self, rows: Evaluated, shares: np.ndarray) -> np.ndarray:
        """Log weights that rows would have as draws of parts in these shares, shape (n,)."""
        known = rows if len(rows.log_parts) else rows.by(self.parts, self.target)
        log_q = log_blend(known.log_parts, shares)
        with np.errstate(invalid="ignore"):
            return rows.log_target - self.log_z - log_q

    def unexplained(self, shares: np.ndarray) -> np.ndarray:
        """Witnesses (m, d) that hardly a part but the prior brings rows to; none if they are few.

        Few are those of which as many may be missing.
        """
        log_weight = self.log_weight_at(self.witnesses, shares)
        of_prior = np.array([isinstance(part, Prior) for part in self.parts])
        log_parts = self.witnesses.log_parts
        log_prior = log_blend(log_parts[of_prior], shares[of_prior])
        log_q = log_blend(log_parts, shares)
        left = (log_weight > np.log(HEAVY)) & (log_prior - log_q > np.log(0.5))
        few = left.mean() <= TOLERANCE if left.size else True
        return self.witnesses.position[left & (not few)]

    def known(self) -> tuple[np.ndarray, float]:
        """Rows of the posterior, as far as it is known, shape (N, d), and how many they are worth.

        All that were drawn, resampled by weights that are flattened until a fit has enough of them.

        References
        ----------
        Cornuet, Marin, Mira & Robert (2012), Adaptive multiple importance sampling, arXiv
        0907.1254; Koblents & Miguez (2015), A population Monte Carlo scheme with transformed
        weights, doi 10.1007/s11222-013-9440-2.
        """
        log_weight, d = self.log_weight, self.pool.position.shape[1]
        log_weight = np.where(np.isfinite(log_weight), log_weight, -np.inf)
        enough = min(ROWS_TO_CORRELATE * d, np.isfinite(log_weight).sum() / 2)
        power = 1.0
        while weight_ess(power * log_weight) < enough and power > 1e-3:
            power *= 0.8
        chosen = resampled(power * log_weight, self.rng, len(log_weight))
        return self.pool.position[chosen], float(weight_ess(power * log_weight))

    def climb(self) -> None:
        """Take the tops that rows of the prior climb to; those still on their way are left out.

        They are never resampled: whichever basin holds a row of the prior is found, however little
        of the posterior is there half way. One in eight goes to where it fits the data first.
        """
        look = self.look
        if look is None or not can_climb(look.walked):
            return
        n_rows = look.n_climbing(self.target)
        start = look.walked.path.sample_reference(self.rng, n_rows)
        unit = np.maximum(start.std(axis=0), look.scale)
        # a black box need not cope with what is far from the prior
        far = not self.target.prepared.flat.calls_host
        start[: n_rows // 8] = towards_data(look.walked, start[: n_rows // 8], far=far)
        ends, _ = tops(look.walked.target_and_gradient, start, unit)
        self.tops = self.target(look.restored(ends)) if len(ends) else self.tops

    def lacking_modes(
        self, shares: np.ndarray, heavy: float = HEAVY, most: int = N_ROWS[1]
    ) -> list[Component]:
        """Components with the curvature at tops where parts in these shares lack density.

        At most so many tops are looked at. Weights above ``heavy`` are too large.
        """
        tops, look = self.tops.chosen(slice(most)), self.look
        if look is None:
            return []
        rows = tops.position[self.log_weight_at(tops, shares) > np.log(heavy)]
        if not len(rows):
            return []
        rows = look.whitened(rows)
        return self._lacking(look, rows, look.walked.log_target(rows), shares, heavy)

    def modes_of_heavy(self, tried: Annealed, most: int = 64) -> list[Component]:
        """Components with the curvature at modes that heavy rows of a blend climb to.

        Few rows of a region say that it is there, and not how wide it is. At most ``most`` of the
        rows that were ``tried`` climb.
        """
        weight = relative(tried.log_weight)
        order = np.argsort(-weight)[:most]
        heavy = tried.position[order[weight[order] > HEAVY * weight.mean()]]
        return self.modes_near(heavy, self.shares(), HEAVY)

    def modes_near(self, rows: np.ndarray, shares: np.ndarray, heavy: float) -> list[Component]:
        """Components with the curvature at modes that rows (n, d) of the model climb to.

        There are none where parts in these shares lack too little, in weights above ``heavy``.
        """
        if (look := self.look) is None or not can_climb(look.walked) or not len(rows):
            return []
        rows = look.whitened(rows)
        unit = np.maximum(rows.std(axis=0), look.scale)
        ends, height = tops(look.walked.target_and_gradient, rows, unit)
        return self._lacking(look, ends, height, shares, heavy)

    def modes_one_entry_away(
        self, shares: np.ndarray, heavy: float, most: int = N_TRIED
    ) -> list[Component]:
        """Components at modes near rows that have one entry of a row of the prior.

        Where several variables have several modes each, no row of the prior may be in the basin of
        one that differs from a known mode in a single entry. At most ``most`` of the rows climb.
        """
        if self.look is None or not can_climb(self.look.walked):
            return []
        target, rng, rows = self.target, self.rng, list[np.ndarray]()
        counts = np.round(self.look.n_climbing(target) * shares).astype(int)
        others = np.split(target.prepared.prior(rng, counts.sum()), np.cumsum(counts)[:-1])
        for part, other in zip(self.parts, others, strict=True):
            if isinstance(part, Component) and isinstance(part.density, Elliptical):
                moved = part.density.with_one_entry_of(part.whitened(other), rng)
                rows.append(part.restored(moved))
        if not sum(map(len, rows)):
            return []
        found = self._heaviest(target(np.concatenate(rows)), shares, heavy, most)
        return self.modes_near(found.position, shares, heavy)

    def beside(
        self, tried: Annealed, shares: np.ndarray, heavy: float, most: int = 64
    ) -> Evaluated:
        """The heaviest of rows beside those that were tried, where the parts lack density.

        Weights are even too where rows are the same to the last digit, and where all parts lack a
        mirror image. Half of the rows have one entry further out, by any factor that floats have,
        and half have other signs: of one entry, or of the variables in a random set.
        """
        chosen = resampled(tried.log_weight, self.rng, len(tried.log_weight))
        moved, rng = tried.position[self.rng.permutation(chosen)], self.rng
        n, d = moved.shape
        each, column = np.arange(n), rng.integers(d, size=n)
        flipped = np.arange(d) == column[:, None]
        several = rng.random(n) < 0.5
        for columns in self.target.prepared.flat.columns_by_name.values():
            flipped[np.ix_(several, columns.ravel())] = rng.random((several.sum(), 1)) < 0.5
        apart = (np.roll(moved, 1, axis=0) - moved)[each, column]
        apart = np.where(apart == 0, np.spacing(moved[each, column]), apart)
        further = 2.0 ** rng.uniform(0, np.finfo(float).nmant, n) * apart
        moved[1::2] *= np.where(flipped[1::2], -1.0, 1.0)
        moved[each[::2], column[::2]] += further[::2]
        if self.target.prepared.flat.calls_host:  # which copes with what was drawn
            moved = np.clip(moved, self.pool.position.min(axis=0), self.pool.position.max(axis=0))
        return self._heaviest(self.target(moved), shares, heavy, most)

    def _heaviest(self, seen: Evaluated, shares: np.ndarray, heavy: float, most: int) -> Evaluated:
        """Rows whose weight is above ``heavy``, the heaviest first, at most ``most``."""
        log_weight = self.log_weight_at(seen, shares)
        n_heavy = min(most, int(np.sum(log_weight > np.log(heavy))))
        return seen.chosen(np.argsort(-log_weight)[:n_heavy])

    def _lacking(
        self,
        look: Look,
        rows: np.ndarray,
        height: np.ndarray,
        shares: np.ndarray,
        heavy: float,
        n: int = 64,
    ) -> list[Component]:
        """Components at modes near rows (m, d), as they move, where these parts lack mass.

        There are none if that mass may be missing. It is counted in rows that would have weights
        above ``heavy``, by n draws of each component.
        """
        modes = modes_of(look.walked, rows, height, look.scale)
        parts = [Component(one.component, look.funnel, OF_CLIMBS) for one in modes]
        if not parts:
            return []
        draws = [part.draw(self.target, self.rng, n) for part in parts]
        position, own = (np.concatenate(each) for each in zip(*draws, strict=True))
        seen = self.target(position)
        with np.errstate(invalid="ignore", over="ignore"):
            mass = np.exp(seen.log_target - own - self.log_z)
        mass[~(self.log_weight_at(seen, shares) > np.log(heavy))] = 0.0
        lacks = mass.reshape(-1, n).mean(axis=1)
        if lacks.sum() <= NEGLIGIBLE:
            return []
        # all that are left out together are no more than may be missing
        least = NEGLIGIBLE / len(parts)
        return [part for part, one in zip(parts, lacks, strict=True) if one > least]

    def blend(self, shares: np.ndarray) -> Blend:
        """The parts in these shares."""
        kept = shares > 0
        parts = tuple(part for part, keep in zip(self.parts, kept, strict=True) if keep)
        return Blend(parts, shares[kept] / shares.sum())
