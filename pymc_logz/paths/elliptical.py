"""Normals, Student-t distributions and mixtures of them: drawn from, evaluated, and fitted."""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, logsumexp

from pymc_logz.errors import ModelError

STUDENT_DF = 5.0
"""Degrees of freedom of what is fitted to draws: the least with a finite fourth moment."""
INFLATION = 1.2
"""Factor in a fitted covariance, since a proposal that is too narrow costs more than a wide one."""
LEAST_VARIANCE = 1e-6
"""Floor of a variance, in units of the scale that rows were whitened by."""
RIDGE = 1e-12
"""Share of the mean variance added to each one, so that a factor exists."""


@dataclass(frozen=True)
class Elliptical:
    """Multivariate Student-t, or normal with infinite degrees of freedom; normalised (log Z = 0).

    With finite degrees of freedom its tails are heavier than those of a normal posterior, so that
    weights stay bounded there. A point x has the squared distance ``s = |factor^-1 (x -
    centre)|^2``, and a log density that falls by ``s / 2``, or by ``(df + d) / 2 log(1 + s / df)``.
    """

    centre: np.ndarray
    """Shape (d,)."""
    factor: np.ndarray
    """Lower triangular factor of the scale matrix, of a normal the covariance; shape (d, d)."""
    df: float = np.inf
    """Degrees of freedom."""

    def __call__(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n rows, shape (n, d)."""
        normal = rng.standard_normal((n, self.centre.size))
        return self.placed(normal, self.draw_stretch(rng, n))

    def draw_stretch(self, rng: np.random.Generator, n: int) -> np.ndarray | float:
        """By how much n normal draws are stretched to be Student-t ones, shape (n, 1); or 1."""
        if np.isinf(self.df):
            return 1.0
        return np.sqrt(self.df / rng.chisquare(self.df, size=(n, 1)))

    def placed(self, normal: np.ndarray, stretch: np.ndarray | float) -> np.ndarray:
        """Rows (n, d) made of standard normals (n, d) and stretches (n, 1)."""
        return self.centre + stretch * normal @ self.factor.T

    def with_one_entry_of(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws, each with one entry of its row (n, d), while the others follow, as they do here.

        They are moved as their mean is by that entry, so that no draw leaves a narrow ridge.
        """
        n, d = rows.shape
        each, column = np.arange(n), rng.integers(d, size=n)
        drawn, covariance = self(rng, n), self.factor @ self.factor.T
        slope = covariance[column] / covariance[column, column][:, None]
        return drawn + slope * (rows - drawn)[each, column][:, None]

    @property
    def log_constant(self) -> float:
        """Log density at the centre."""
        d, df = self.centre.size, self.df
        if np.isinf(df):
            return float(-(np.log(np.diag(self.factor)).sum() + 0.5 * d * np.log(2 * np.pi)))
        constant = gammaln(0.5 * (df + d)) - gammaln(0.5 * df) - 0.5 * d * np.log(df * np.pi)
        return float(constant - np.log(np.diag(self.factor)).sum())

    def log_density_of(self, rows: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        return self.log_density_at(self.square_distance(rows))

    def square_distance(self, rows: np.ndarray) -> np.ndarray:
        """Square of the Mahalanobis distance of rows (n, d) from the centre, shape (n,)."""
        whitened = solve_triangular(
            self.factor, (rows - self.centre).T, lower=True, check_finite=False
        )
        return np.asarray((whitened**2).sum(axis=0))

    def log_density_at(self, square: np.ndarray) -> np.ndarray:
        """Log density at these squares of the Mahalanobis distance, of the same shape."""
        if np.isinf(self.df):
            return self.log_constant - 0.5 * square
        return self.log_constant - 0.5 * (self.df + self.centre.size) * np.log1p(square / self.df)

    def mirrored(self, rows: np.ndarray) -> np.ndarray:
        """Rows reflected in the centre, which have the same density; shape (n, d)."""
        return 2 * self.centre - rows

    def wider(self, factor: float) -> "Elliptical":
        """The same with its scale matrix, of a normal the covariance, times a factor."""
        return replace(self, factor=self.factor * np.sqrt(factor))

    def with_heavy_tails(self) -> "Elliptical":
        """Wider, and Student-t: what bounds the weights of a target of about this shape."""
        return replace(self.wider(INFLATION), df=STUDENT_DF)


def shrinkage_by_variance(standard: np.ndarray, correlation: np.ndarray) -> float:
    """Share of the identity that brings the correlation matrix closest to the true one.

    The estimated variance of the correlations over the sum of their squares, if draws are
    independent. ``standard`` are standardised draws (n, d). 0 keeps the correlations, 1 drops them.
    """
    # Schaefer & Strimmer (2005), doi 10.2202/1544-6115.1175, target D; Ledoit & Wolf (2004)
    n, d = standard.shape
    if d == 1:
        return 0.0
    square = standard**2
    noise = (square.T @ square / n - correlation**2) / n
    off_diagonal = ~np.eye(d, dtype=bool)
    signal = (correlation[off_diagonal] ** 2).sum()
    return float(np.clip(noise[off_diagonal].sum() / signal, 0.0, 1.0)) if signal > 0 else 1.0


def shrinkage_by_divergence(correlation: np.ndarray, n: float, most: float) -> float:
    """Share of the identity, at most this one, that brings a normal closest to what rows follow.

    What is closest entry by entry may be far off where rows are nearly on a plane: a thousandth of
    the identity is ten times the variance across it, if that is 1e-5. So the divergence decides:
    what the rows lose in log likelihood, and how much more of it other rows would lose, which is
    ``(d + 1) / (2 n)`` for each direction that the rows, and not the identity, tell the width of.
    ``most`` is taken where rows are too few to tell.
    """
    d = len(correlation)
    if n <= 2 * d or most == 0:
        return most
    variance = np.maximum(np.linalg.eigvalsh(correlation), 0.0)
    shares = np.append(most * 10.0 ** -np.arange(0.0, 9.0, 0.5), 0.0)[:, None]
    made = np.maximum((1 - shares) * variance + shares, np.finfo(float).tiny)
    lost = np.log(made) + variance / made + (d + 1) / (n - d - 1) * (1 - shares / made)
    return float(shares[np.argmin(lost.sum(axis=1)), 0])


def shrunk_correlation(covariance: np.ndarray, n_effective: float) -> np.ndarray:
    """Correlation matrix with a share ``d / (d + n_effective)`` of the identity, shape (d, d)."""
    d, sd = len(covariance), np.sqrt(np.diag(covariance))
    share = d / (d + n_effective)
    return (1 - share) * covariance / np.outer(sd, sd) + share * np.eye(d)


def shrunk_covariance(covariance: np.ndarray, n_effective: float) -> np.ndarray:
    """Covariance with a share ``d / (d + n_effective)`` of its variances alone."""
    kept = n_effective / (n_effective + len(covariance))
    variance = np.maximum(np.diag(covariance), LEAST_VARIANCE)
    return kept * covariance + (1 - kept) * np.diag(variance)


def shrunk_to_variances(covariance: np.ndarray, n: int) -> np.ndarray:
    """Covariance with a share ``(d + 1) / n`` of its variances, which few rows tell."""
    d = len(covariance)
    share = min(1.0, (d + 1) / n)
    covariance = (1 - share) * covariance + share * np.diag(np.diag(covariance))
    return covariance + RIDGE * max(np.trace(covariance) / d, RIDGE) * np.eye(d)


def fitted_normal(rows: np.ndarray) -> Elliptical:
    """Normal with the mean and the covariance of draws; a ModelError if these do not vary.

    Correlations of few draws are shrunk towards zero, since noise in them would cost more overlap
    than they bring: by `shrinkage_by_divergence`, so that a narrow direction stays so, and at
    most by `shrinkage_by_variance`.
    """
    centre, scale = rows.mean(axis=0), rows.std(axis=0, ddof=1)
    if not np.all(scale > 0):
        raise ModelError(
            f"{np.count_nonzero(~(scale > 0))} of {scale.size} unconstrained dimensions do not "
            "vary among the draws, so no proposal can be fitted; check that the chains have moved"
        )
    standard = (rows - centre) / scale
    correlation = np.atleast_2d(np.corrcoef(standard.T))
    most = shrinkage_by_variance(standard, correlation)
    share = shrinkage_by_divergence(correlation, len(rows), most)
    correlation = (1 - share) * correlation + share * np.eye(len(scale))
    try:
        factor = np.linalg.cholesky(correlation)
    except np.linalg.LinAlgError as error:
        raise ModelError(
            "the covariance of the draws is singular: some parameters are exact functions of "
            "others, or the chains have not moved"
        ) from error
    return Elliptical(centre, scale[:, None] * factor)


def check_enough(rows: np.ndarray) -> None:
    """Raise a ValueError if draws (n, d) are too few to tell d scales and correlations."""
    n, d = rows.shape
    if n < 10 * d or not np.all(np.isfinite(rows)):
        raise ValueError(
            f"reference holds {n} draws, {np.sum(~np.isfinite(rows).all(axis=1))} of them not "
            f"finite; a fit in {d} dimensions needs at least {10 * d} finite ones"
        )


def fitted_to_few(rows: np.ndarray, df: float) -> Elliptical:
    """Student-t with the mean of draws and a wider covariance, however few; ``df`` is above 2."""
    n, d = rows.shape
    covariance = np.atleast_2d(np.cov(rows.T)) if n > 1 else np.eye(d)
    covariance = shrunk_to_variances(covariance, n)
    # the covariance of a Student-t is its scale matrix times df / (df - 2)
    factor = np.linalg.cholesky(covariance * INFLATION * (df - 2.0) / df)
    return Elliptical(rows.mean(axis=0), factor, df)


MAX_COMPONENTS = 8
"""More would be dear to evaluate, and hard to tell apart by a few hundred rows."""


class Clusters(NamedTuple):
    """A fitted mixture."""

    components: tuple[Elliptical, ...]
    shares: np.ndarray
    """Shape (K,), with sum 1."""

    def __call__(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n rows, shape (n, d)."""
        origin = rng.choice(len(self.shares), size=n, p=self.shares / self.shares.sum())
        rows = np.empty((n, self.components[0].centre.size))
        for k, component in enumerate(self.components):
            rows[origin == k] = component(rng, int((origin == k).sum()))
        return rows

    def log_density_of(self, rows: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        pairs = zip(self.components, self.shares, strict=True)
        parts = [one.log_density_of(rows) + np.log(share) for one, share in pairs]
        return np.asarray(logsumexp(parts, axis=0))


def fitted_clusters(rows: np.ndarray, n_effective: float, rng: np.random.Generator) -> Clusters:
    """Mixture with the best information criterion; rows are worth ``n_effective`` of them."""
    # Schwarz (1978), Estimating the dimension of a model, doi 10.1214/aos/1176344136
    best, highest = None, -np.inf
    fit_of = partial(fit_clusters, rows, independent=n_effective / len(rows), rng=rng)
    for k in range(1, MAX_COMPONENTS + 1):
        # with heavy tails, or nearly normal ones
        fits = [fit_of(k, df) for df in (5.0, 20.0)]
        if fits[0][1] > fits[1][1]:
            fits.append(fit_of(k, 1.0))  # as heavy as those of a Cauchy density
        fit, log_likelihood = max(fits, key=lambda one: one[1])
        criterion = _criterion(log_likelihood, k, rows.shape, n_effective)
        if criterion <= highest and best is not None:
            return best
        best, highest = fit, criterion
    assert best is not None
    return best


def _criterion(log_likelihood: float, k: int, shape: tuple[int, ...], n_effective: float) -> float:
    """Minus half of the Bayesian information criterion."""
    n, d = shape
    n_parameters = k * (1 + d + d * (d + 1) / 2)
    return float(n_effective / n * log_likelihood - 0.5 * n_parameters * np.log(n_effective))


def fit_clusters(
    rows: np.ndarray,
    k: int,
    df: float,
    independent: float,
    rng: np.random.Generator,
) -> tuple[Clusters, float]:
    """Mixture of k Student-t components, and log likelihood; a share of rows is ``independent``."""
    # expectation maximisation: Peel & McLachlan (2000), Robust mixture modelling using the t
    # distribution, section 4, doi 10.1023/A:1008981510081
    centre, spread = np.median(rows, axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    standard = (rows - centre) / spread
    belongs, weight = _first_guess(standard, k, rng), np.ones((k, len(rows)))
    before = -np.inf
    for _ in range(60):
        components = [
            _fitted(standard, share, by, df, independent)
            for share, by in zip(belongs, weight, strict=True)
        ]
        shares = np.maximum(belongs.mean(axis=1), 1e-12)
        shares /= shares.sum()
        square = np.array([one.square_distance(standard) for one in components])
        pairs = zip(components, square, strict=True)
        parts = np.array([one.log_density_at(apart) for one, apart in pairs])
        parts += np.log(shares)[:, None]
        total = logsumexp(parts, axis=0)
        belongs = np.exp(parts - total)
        # rows count less, the further out they are
        weight = (df + standard.shape[1]) / (df + square)
        now = float(total.sum())
        if now - before < 1e-3 * len(rows):
            break
        before = now
    log_likelihood = now - len(rows) * float(np.log(spread).sum())
    placed = tuple(
        Elliptical(centre + spread * one.centre, spread[:, None] * one.factor, df)
        for one in components
    )
    return Clusters(placed, shares), log_likelihood


def _first_guess(standard: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Each row with the nearest of k rows far apart, 0 or 1, shape (k, n): k-means++."""
    # Arthur & Vassilvitskii (2007), the advantages of careful seeding
    centres = [standard[rng.integers(len(standard))]]
    distance = [((standard - centres[0]) ** 2).sum(axis=1)]
    for _ in range(k - 1):
        nearest = np.min(distance, axis=0)
        total = nearest.sum()
        chosen = rng.choice(len(standard), p=nearest / total if total > 0 else None)
        centres.append(standard[chosen])
        distance.append(((standard - centres[-1]) ** 2).sum(axis=1))
    return np.eye(k)[np.argmin(distance, axis=0)].T


def _fitted(
    standard: np.ndarray, share: np.ndarray, weight: np.ndarray, df: float, independent: float
) -> Elliptical:
    """Component of the rows that belong to it, shape (n,), each with the weight of its distance."""
    counted = share * weight
    mean = counted @ standard / max(counted.sum(), 1e-300)
    apart = standard - mean
    n_rows = max(float(share.sum()), 1e-300)
    covariance = (counted[:, None] * apart).T @ apart / n_rows
    covariance = shrunk_covariance(covariance, max(n_rows * independent, 1.0))
    # copies of one row have no spread
    covariance += 1e-6**2 * np.eye(len(mean))
    return Elliptical(mean, np.linalg.cholesky(covariance), df)
