"""What a path starts from: the prior, or a mixture fitted to rows or to the curvature at a mode."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np

from pymc_logz.errors import ImproperPriorError, ModelError, says_if_interrupted, warn
from pymc_logz.kernels.hamiltonian import outside, walls_of
from pymc_logz.models.context import check_infinite, describe_row, n_affordable, nowhere_finite
from pymc_logz.models.preparation import Prepared
from pymc_logz.models.prior import FARTHEST, PriorDraws
from pymc_logz.paths.elliptical import INFLATION, Clusters, check_enough, fitted_clusters
from pymc_logz.paths.funnels import Funnel, fitted_funnel
from pymc_logz.paths.mixture import Mixture, leaving
from pymc_logz.references.blend import AT_ONCE, Moving
from pymc_logz.runners.block import Block
from pymc_logz.weights import NEGLIGIBLE

PRIOR_SHARE = 0.02
"""Share of the prior in a reference: it bounds the weights and costs next to nothing
(docs/theory/decisions.md)."""
ERROR_FACTOR, REFERENCE_MCSE = "error_factor", "reference_mcse"
"""Attributes of a result: what its error has beside that of its weights."""
MAX_SHARE_ERROR = NEGLIGIBLE
"""Error, in nats, of the constant of a restricted prior up to which it may be part of a reference.
"""


@dataclass(frozen=True)
class Reference(Moving):
    """What a path starts from, and why."""

    taken: str
    """``"learned"``, ``"nested_laplace"``, ``"laplace"``, ``"draws"`` or ``"prior"``."""
    reason: str
    """In a sentence without a full stop."""
    mixture: Mixture | None = None
    """None for the prior."""
    mcse: float = 0.0
    """Error of its log normalising constant, in nats."""
    funnel: Funnel | None = None
    """What rows are whitened by while they move; None if they are not."""
    covered: float = np.nan
    """Effective share of a pilot's rows that it covers, if it was fitted to such."""

    @classmethod
    def of_components(
        cls,
        taken: str,
        reason: str,
        prior: PriorDraws,
        fit: Clusters,
        prior_share: float,
        funnel: Funnel | None,
        covered: float = np.nan,
    ) -> Self:
        """Components in a funnel's coordinates, whose shares leave this one to the prior."""
        log_mass, error = prior.log_mass()
        mixture = Mixture(fit.components, fit.shares, prior_share, log_mass)
        return cls(taken, reason, mixture, error, funnel, covered)

    def start(self, block: Block) -> Block:
        """The moves of a block whose path starts at the prior, on the path from this reference."""
        if self.mixture is None and self.funnel is None:
            return block
        funnel = self.funnel or Funnel.none(block.path.n_dims)
        values, sample = leaving(block.path, self.mixture, funnel), block.path.sample_reference

        def draw(rng: np.random.Generator, n: int) -> np.ndarray:
            return self.whitened(sample(rng, n))

        start = draw if self.mixture is None else partial(self.mixture, sample_prior=draw)
        return block.along(values, sample_reference=start)

    @property
    def is_given(self) -> bool:
        """Whether it was asked for, and nothing was looked for."""
        return self.taken == "draws" or self.reason == ASKED_FOR.reason

    @property
    def error_factor(self) -> float:
        """Factor in the error of weights of rows that start from it.

        There is too little density in places between several components. A run sees some of the
        rows that these bring, and has too low a log Z beside too small an error if it sees none.
        """
        several = self.mixture is not None and len(self.mixture.components) > 1
        return 1.15 if several else 1.0

    def record(self) -> dict[str, str]:
        """For the attributes of a result."""
        return {"reference": self.taken, "reference_reason": self.reason}


ASKED_FOR = Reference("prior", "it was asked for")
OF_INTEGERS = Reference("prior", "a fit has no whole numbers, and some variables are discrete")


def widened(fit: Clusters) -> Clusters:
    """The same with components somewhat wider than they were fitted."""
    return fit._replace(components=tuple(part.wider(INFLATION) for part in fit.components))


def reference_of_draws(
    prepared: Prepared,
    rows: np.ndarray,
    rng: np.random.Generator,
    of_several: float = 0.1,
    of_funnel: float = 0.15,
    *,
    even: bool = True,
) -> Reference:
    """Reference fitted to draws that a user has.

    Unconstrained draws (n, d) are whitened, if they are in a funnel, unless ``even`` is false. The
    prior has a larger share beside several components, since there is too little density between
    them: with 0.02 intervals of 95% covered 86% and 91% on two curved posteriors
    (docs/theory/coverage.md). And it has one in a funnel's coordinates, whose narrow end, to which
    few draws get, is its own.

    Raises
    ------
    ValueError
        If there are too few draws, or a transform restricts the prior too much.
    """
    check_enough(rows)
    error = prepared.prior.log_mass()[1]
    if error > MAX_SHARE_ERROR:
        raise ValueError(
            f"a transform restricts the prior of this model, whose constant is known to "
            f"{error:.2g} nats only unless the path starts there: use reference='prior'"
        )
    funnel = funnel_of(prepared, rows, rng) if even else None
    moving = rows if funnel is None else funnel.whitened(rows)
    fit = widened(fitted_clusters(moving, len(moving), rng))
    share = PRIOR_SHARE if len(fit.components) == 1 else of_several
    share = share if funnel is None else of_funnel
    what = f"{components_in_words(len(fit.components))} fitted to {len(rows)} draws"
    fit = fit._replace(shares=fit.shares * (1 - share))
    reason = f"it was asked for: {what}"
    return Reference.of_components("draws", reason, prepared.prior, fit, share, funnel)


def funnel_of(
    prepared: Prepared, rows: np.ndarray, rng: np.random.Generator, n: int = 2**11
) -> Funnel | None:
    """The funnel that rows (m, d) are in, if any; draws of the prior tell what its spreads are."""
    return fitted_funnel(rows, prepared.prior(rng, n if prepared.prior.vectorized else n // 8))


def components_in_words(n: int) -> str:
    """A number of components, in words."""
    return f"{n} Student-t component{'s' * (n > 1)}"


@says_if_interrupted("draws of the reference were being looked at")
def check_start(
    prepared: Prepared,
    block: Block,
    start: np.ndarray,
    rng: np.random.Generator | None = None,
    beyond: Callable[[], np.ndarray] | None = None,
    fewest: int = 64,
    most: int = 2**17,
) -> np.ndarray | None:
    """Look at rows of the reference and their likelihood before anything is run on them.

    Where that is zero at all but a few, more are drawn from the prior by a generator, until it is
    positive at the ``fewest`` that a population can start from; these are returned. Where it is
    zero at all of them, those from ``beyond`` stand in for them.
    """

    def such_as(which: np.ndarray) -> str:
        return describe_row(prepared.flat, start[int(np.argmax(which))])

    prepared.prior.warn_of_restriction()
    walls = walls_of(block.kernel)
    if walls and (too_far := outside(walls, start)).any():
        raise ModelError(
            f"{too_far.mean():.0%} of the prior draws are beyond the walls of the kernel, such as "
            f"{such_as(too_far)}; walls reflect what is within them, so give the "
            "model a prior that stays there"
        )
    _, log_ratio = block.densities(start)
    check_infinite(prepared.flat, start, log_ratio)
    is_few = np.isfinite(log_ratio).sum() * AT_ONCE < fewest * len(start)
    if is_few and rng is not None:
        most = n_affordable(prepared.flat, len(start), most)
        while len(start) < most and np.isfinite(log_ratio).sum() < fewest:
            more = prepared.prior(rng, len(start))
            start = np.concatenate([start, more])
            log_ratio = np.concatenate([log_ratio, block.densities(more)[1]])
    if not np.any(np.isfinite(log_ratio)):
        draws, start = start, start[:0] if beyond is None else beyond()
        log_ratio = block.densities(start)[1] if len(start) else log_ratio
        if not np.any(np.isfinite(log_ratio)):
            raise ModelError(nowhere_finite(prepared.flat, draws))
    far = check_far_rows(prepared, start, log_ratio)
    is_nan = np.isnan(log_ratio) & ~far
    if n_nan := int(is_nan.sum()):
        warn(
            f"the log likelihood plus potentials is NaN at {n_nan} of {len(start)} prior draws, "
            f"such as {such_as(is_nan)}; NaN counts as a likelihood of zero. If "
            "that is not what is meant, guard the expression or restrict the prior"
        )
    return start[np.isfinite(log_ratio)] if is_few and rng is not None else None


def check_far_rows(
    prepared: Prepared, start: np.ndarray, log_ratio: np.ndarray, gone: float = 700.0
) -> np.ndarray:
    """Which draws of the prior were too large, and put nearer, shape (n,).

    Raises
    ------
    ImproperPriorError
        If their likelihood does not vanish beside that of the others: it is less than ``gone``
        nats below.
    """
    beyond = np.abs(start) >= FARTHEST
    far = beyond.any(axis=1)
    known = np.where(np.isnan(log_ratio), -np.inf, log_ratio)
    if far.any() and not known[far].max() < known.max(where=~far, initial=-np.inf) - gone:
        names = sorted({prepared.flat.owners[i] for i in np.flatnonzero(beyond.any(axis=0))})
        raise ImproperPriorError(
            f"{far.mean():.0%} of the prior draws of {names} are larger than {FARTHEST:g}, and "
            "their likelihood does not vanish, so log Z would lack their part; give their scales a "
            "prior with less mass far out, such as pm.HalfNormal"
        )
    return far
