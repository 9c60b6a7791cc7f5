"""Repetitions of a bridge, each a unit of work, and what a bridge says against the draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from pymc_logz.estimators.bridge import solve_bridge
from pymc_logz.estimators.draws import effective_draws
from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import FlatModel
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.posterior.own_proposal import bounded
from pymc_logz.runners.moves_of_rows import Report, Work
from pymc_logz.runners.running import Job, generator_at, state_of
from pymc_logz.trees.doubts import Doubt

UNIT = "repetitions"


@dataclass(frozen=True)
class BridgeCourse:
    """What the repetitions of a bridge have in common: a density, and what it is looked at with."""

    flat: FlatModel
    compile_kwargs: Mapping[str, Any] | None
    proposal: Elliptical
    mirrored: bool
    """Whether the target is made symmetric in the centre of the proposal."""
    work: Work = field(default_factory=Work)

    def compile(self) -> RowDensity:
        """The model's log density, compiled once, which counts from zero."""
        return RowDensity(self.flat, self.compile_kwargs)

    def counted(self, work: Work) -> "BridgeCourse":
        """The same, counting elsewhere."""
        return replace(self, work=work)


@dataclass(frozen=True)
class Repetition(Job):
    """Draws of the proposal, and the target's density there, once they are made."""

    rng: dict[str, Any]
    """State of the generator of the draws."""
    n_total: int
    """Number of draws."""
    rows: np.ndarray | None = None
    """Shape (n, d)."""
    log_proposal: np.ndarray | None = None
    """Log density of the proposal there, shape (n,)."""
    log_target: np.ndarray | None = None
    """That of the target."""
    log_bridged: np.ndarray | None = None
    """That of the end of the bridge: the target, or the target made symmetric."""
    n_nan: int = 0
    """Rows where the target was NaN."""
    n_evaluations: int = 0

    @property
    def n_done(self) -> int:
        """Draws made."""
        return 0 if self.rows is None else self.n_total

    def advance(self, course: BridgeCourse, report: Report | None) -> tuple["Repetition", None]:
        """The whole of it; see `pymc_logz.runners.running.Job`."""
        rng, density = generator_at(self.rng), course.compile()
        rows = course.proposal(rng, self.n_total)
        log_target = bridged = bounded(density.log_target(rows))
        if course.mirrored:
            bridged = symmetrised(density, log_target, course.proposal.mirrored(rows))
        course.work.add(density.n_evaluated)
        if report is not None:
            report(self.n_total)
        made = replace(
            self,
            rng=state_of(rng),
            rows=rows,
            log_proposal=course.proposal.log_density_of(rows),
            log_target=log_target,
            log_bridged=bridged,
            n_nan=density.n_nan,
        )
        return made, None


def symmetrised(density: RowDensity, log_target: np.ndarray, mirrored: np.ndarray) -> np.ndarray:
    """Log of the mean of the target's density at rows and at their mirror images, shape (n,)."""
    return np.logaddexp(log_target, bounded(density.log_target(mirrored))) - np.log(2.0)


def imbalance_of_draws(
    owners: Sequence[str],
    rows: np.ndarray,
    ratio: np.ndarray,
    proposed: np.ndarray,
    at_proposed: np.ndarray,
    near: Elliptical,
) -> list[Doubt]:
    """What a bridge between draws and those of a proposal says against the draws.

    Given are the names of the variables that columns belong to, draws (chains, draws, d) and (n, d)
    with log ratios of target and proposal there (infinite where the proposal is zero), and a
    distribution near the draws, which was fitted to others.

    Of a draw that is of the posterior p = f / Z or of the proposal q, the densities say which: the
    first has the probability P = s f / (s f + (1 - s) Z q). So for any function g ::

        s mean_p[(1 - P) g] = (1 - s) mean_q[P g]

    With g = 1 that is the equation of the bridge, which makes log Z of it and can check nothing.
    Looked at are the log ratio of f and q, the distance from the centre, and each coordinate, where
    both have draws: a mode that the draws have missed does not show. Draws of the posterior are
    accused with a probability of 1e-4.
    """
    shape, rows = ratio.shape, rows.reshape(-1, rows.shape[-1])
    bridge = solve_bridge(ratio, at_proposed, ratio.size)
    if bridge is None:
        return []
    ratio = ratio.ravel()
    log_odds = bridge.log_z - np.log(ratio.size / at_proposed.size)
    terms = bridge.of_posterior.ravel(), bridge.of_proposal
    seen = (
        _seen(rows, ratio - log_odds, near),
        _seen(proposed, at_proposed - log_odds, near),
    )
    known = [term * (1 - term) for term in terms]
    total = known[0].sum() + known[1].sum()
    if not total > 0:
        return []
    centre = (known[0] @ seen[0] + known[1] @ seen[1]) / total
    posterior, other = (
        term[:, None] * (one - centre) for term, one in zip(terms, seen, strict=True)
    )
    # shares and means: sums over both kinds of draws, by their number
    difference = posterior.sum(axis=0) - other.sum(axis=0)
    variance = other.var(axis=0) * len(other)
    for i, column in enumerate(posterior.T):
        worth = effective_draws(column.reshape(shape), tails=True)
        variance[i] += column.var() * column.size**2 / worth
    # the relative error of sums
    floor = 1e-9 * (np.abs(posterior).sum(axis=0) + np.abs(other).sum(axis=0))
    errors = np.abs(difference) / np.sqrt(variance + floor**2)
    limit = -ndtri(0.5 * 1e-4 / errors.size)
    worst = int(np.argmax(errors))
    if not errors[worst] > limit:
        return []
    names = ["log density", "distance from the centre", *map(repr, owners)]
    reason = (
        f"the draws and the proposal's, weighted by the density, disagree about the mean "
        f"{names[worst]} by {errors[worst]:.3g} errors"
    )
    return [Doubt("wrong_draws", reason)]


def _seen(rows: np.ndarray, ratio: np.ndarray, near: Elliptical) -> np.ndarray:
    """Log ratio, log of the squared distance, whitened coordinates, shape (n, d + 2)."""
    whitened = np.linalg.solve(near.factor, (rows - near.centre).T).T
    distance = np.log1p((whitened**2).sum(axis=1))
    # an infinite one has a term of zero
    return np.column_stack([np.where(np.isfinite(ratio), ratio, 0.0), distance, whitened])
