"""A reference made of Student-t components and a share of the prior: drawn from and evaluated.

A compiled path takes the mixture as numbers, so that one compilation serves the prior alone (no
components), from which a pilot starts, and whatever is fitted to that pilot's rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.funnels import Funnel
from pymc_logz.paths.geometric import AnnealingPath, DrawRows, Evaluation
from pymc_logz.weights import origins


class MixtureTerms(NamedTuple):
    """A mixture of K Student-t components and the prior as arrays, or as symbolic variables.

    The squared distance of a point y from component k is ``sum_i owner[k, i] (whitening[i] y -
    offset[i])**2``. With K = 0, and zeros for the first two, nothing is left but the prior.
    """

    log_mass: Any
    """Log of the prior's own integral, by which the target is divided too; a scalar."""
    log_share: Any
    """Log of the share of the prior; a scalar."""
    log_height: Any
    """Log density of each component at its centre, plus the log of its share, shape (K,)."""
    df: Any
    """Degrees of freedom, shape (K,)."""
    whitening: Any
    """Rows of the inverse factors of all components, shape (K * d, d)."""
    offset: Any
    """``whitening`` at the centres, shape (K * d,)."""
    owner: Any
    """1 where a row of ``whitening`` belongs to a component, else 0, shape (K, K * d)."""


@dataclass(frozen=True)
class Mixture:
    """Student-t components, and the prior with a small share; normalised (log Z = 0).

    Its log ratio to a target is bounded by the largest log likelihood less the log of the prior's
    share, whatever the components miss.
    """

    components: tuple[Elliptical, ...]
    shares: np.ndarray
    """Shares of the components, shape (K,)."""
    prior_share: float
    """Share of the prior: what the others leave of 1."""
    log_prior_mass: float = 0.0
    """Log of the integral of the prior: below 0 where a transform cuts part of it off."""

    def __call__(
        self, rng: np.random.Generator, n: int, sample_prior: DrawRows | None = None
    ) -> np.ndarray:
        """Draw n rows in the shares of the components, to within one row, shape (n, d).

        Those of the prior, if it has a share, are draws of ``sample_prior``.
        """
        origin = origins(np.append(self.shares, self.prior_share), n, rng)
        rows = np.empty((n, len(self.components[0].centre)))
        of_prior = origin == len(self.components)
        for k, draw in enumerate(self.components):
            chosen = origin == k
            rows[chosen] = draw(rng, int(chosen.sum()))
        if of_prior.any():
            assert sample_prior is not None
            rows[of_prior] = sample_prior(rng, int(of_prior.sum()))
        return rows

    def terms(self) -> MixtureTerms:
        """Arrays that a compiled path takes."""
        k, d = len(self.components), len(self.components[0].centre)
        whitening = np.concatenate([np.linalg.inv(part.factor) for part in self.components])
        centres = np.repeat([part.centre for part in self.components], d, axis=0)
        heights = np.array([part.log_constant for part in self.components])
        with np.errstate(divide="ignore"):
            log_share = np.log(self.prior_share)
        return MixtureTerms(
            np.asarray(self.log_prior_mass),
            log_share,
            heights + np.log(self.shares),
            np.array([part.df for part in self.components]),
            whitening,
            (whitening * centres).sum(axis=1),
            np.repeat(np.eye(k), d, axis=1),
        )


def mixture_path(path: AnnealingPath) -> AnnealingPath:
    """The path from the prior to a target, open for mixtures in its place: see `leaving`."""
    d = path.n_dims

    def made() -> tuple[tuple[Any, ...], Callable[..., Evaluation]]:
        shapes = ((), (), (None,), (None,), (None, d), (None,), (None, None))
        parts = [pt.tensor("mixture", dtype="float64", shape=shape) for shape in shapes]
        terms, funnel = MixtureTerms._make(parts), Funnel.symbolic(d)
        return (*terms, *funnel.flat), partial(from_mixture, terms, funnel)

    parameters, rebased = path.kept.get(("mixture", d), made)
    return replace(
        path,
        parameters=(*path.parameters, *parameters),
        values=(*path.values, *prior_alone(d), *Funnel.none(d).flat),
        rebased=rebased,
    )


def prior_alone(d: int) -> MixtureTerms:
    """No components; or one that counts for nothing, so that XLA has compiled for one by then."""
    # two products with a matrix (d, d) cost next to nothing in few dimensions, where compiling for
    # another number of components takes as long as the whole pilot of a small model
    k = int(d <= 64)
    height, one = np.full(k, -np.inf), np.ones(k)
    whitening, offset, owner = np.zeros((k * d, d)), np.zeros(k * d), np.ones((k, k * d))
    return MixtureTerms(0.0, 0.0, height, one, whitening, offset, owner)


def leaving(path: AnnealingPath, mixture: Mixture | None, funnel: Funnel) -> tuple[Any, ...]:
    """Values of the parameters of a `mixture_path` that starts from this mixture, or the prior."""
    terms = prior_alone(path.n_dims) if mixture is None else mixture.terms()
    values = *terms, *funnel.flat
    return *path.values[: -len(values)], *values


def from_mixture(
    terms: MixtureTerms,
    funnel: Funnel,
    rows: TensorVariable,
    of_rows: Callable[[TensorVariable], Evaluation],
) -> Evaluation:
    """Of the path from a mixture, at whitened rows; ``of_rows`` is of that from the prior."""
    of_prior, d = funnel.evaluated(rows, of_rows), rows.type.shape[1]
    white = rows @ terms.whitening.T - terms.offset
    square = (white**2) @ terms.owner.T
    log_prior = of_prior.log_reference - terms.log_mass
    heights = terms.log_height - 0.5 * (terms.df + d) * pt.log1p(square / terms.df)
    parts = pt.concatenate([(log_prior + terms.log_share)[:, None], heights], axis=1)
    top = parts.max(axis=1)
    # nothing has any density where a row is outside the support of a prior alone
    top = pt.switch(pt.eq(top, -np.inf), 0.0, top)
    log_mixture = top + pt.log(pt.exp(parts - top[:, None]).sum(axis=1))
    log_target = log_prior + of_prior.log_ratio
    # a row outside the target's support, rather than a NaN where it is outside the prior's too;
    # so far out that the difference is rounding, of 1e-6 there, no row of the mixture can be
    lost = pt.or_(pt.eq(log_target, -np.inf), log_mixture < -1e10)
    log_ratio = pt.switch(lost, -np.inf, log_target - log_mixture)
    belongs = pt.exp(parts - log_mixture[:, None])
    pull = belongs[:, 1:] * (terms.df + d) / (terms.df + square)
    of_parts = ((pull @ terms.owner) * white) @ terms.whitening
    # where the prior is alone the slope of the ratio keeps its last digits, however small it is
    more = belongs[:, 1:].sum(axis=1)[:, None] * of_prior.grad_log_reference + of_parts
    grad_mixture, grad_ratio = of_prior.grad_log_reference - more, of_prior.grad_log_ratio + more
    return Evaluation(log_mixture, log_ratio, grad_mixture, grad_ratio)
