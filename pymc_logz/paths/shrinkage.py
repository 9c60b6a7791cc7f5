"""Correlations from few rows, drawn towards none at all: the rules, each with what it knows.

`noise_share` reads the noise of the correlations off the draws, and takes no more than is best:
right for many draws that were made to be fitted, where correlations are worth keeping. A population
on its way along a path is a few hundred rows, some of them copies and all of them weighted, from
which nobody can read noise: `shrunk_correlation` and `shrunk_covariances` go by the effective
number of rows alone. The draws of a chart may be fewer than its dimensions: `shrunk_to_variances`
goes all the way to independence there, where the others would stay singular or nearly so.
"""

import numpy as np

LEAST_VARIANCE = 1e-6
"""Floor of a variance, in units of the scale that rows were whitened by."""
RIDGE = 1e-12
"""Share of the mean variance added to each one, so that a factor exists."""


def noise_share(standard: np.ndarray, correlation: np.ndarray) -> float:
    """Share of the identity that brings the correlation matrix closest to the true one.

    The estimated variance of the correlations over the sum of their squares, if draws are
    independent. ``standard`` are standardised draws (n, d). 0 keeps the correlations, 1 drops them.

    References
    ----------
    Schaefer & Strimmer (2005), doi 10.2202/1544-6115.1175, target D; Ledoit & Wolf (2004).
    """
    n, d = standard.shape
    if d == 1:
        return 0.0
    square = standard**2
    noise = (square.T @ square / n - correlation**2) / n
    off_diagonal = ~np.eye(d, dtype=bool)
    signal = (correlation[off_diagonal] ** 2).sum()
    return float(np.clip(noise[off_diagonal].sum() / signal, 0.0, 1.0)) if signal > 0 else 1.0


def worth_its_cost(correlation: np.ndarray, n: float, most: float) -> float:
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


def shrunk_covariances(covariance: np.ndarray, n_effective: float) -> np.ndarray:
    """Covariances with a share ``d / (d + n_effective)`` of their variances alone.

    The rule of `shrunk_correlation`, for many matrices at once whose variances are kept.
    """
    d = covariance.shape[-1]
    kept = n_effective / (n_effective + d)
    variance = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), LEAST_VARIANCE)
    return kept * covariance + (1 - kept) * variance[:, :, None] * np.eye(d)


def shrunk_to_variances(covariance: np.ndarray, n: int) -> np.ndarray:
    """Covariance with a share ``(d + 1) / n`` of its variances alone: all of them up to d + 1 rows.

    Few draws tell of variances better than of correlations.
    """
    d = len(covariance)
    share = min(1.0, (d + 1) / n)
    covariance = (1 - share) * covariance + share * np.diag(np.diag(covariance))
    return covariance + RIDGE * max(np.trace(covariance) / d, RIDGE) * np.eye(d)
