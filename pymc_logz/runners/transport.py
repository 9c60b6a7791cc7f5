"""Affine maps that carry rows from one beta to the next, so that moves have less to make up for."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pymc_logz.paths.shrinkage import LEAST_VARIANCE, shrunk_covariances
from pymc_logz.weights import normalise

CLIPPED = 4.0
"""Rows count as at most so many standard deviations away: tails must not rule moments."""


class Maps(NamedTuple):
    """m maps, each of rows at one beta to rows at the next: ``x @ matrix.T + shift``."""

    beta_before: np.ndarray
    """The betas that the rows come from, shape (m,)."""
    beta: np.ndarray
    """The betas that they are carried to, shape (m,)."""
    matrix: np.ndarray
    """Shape (m, d, d), or (m, d) for a factor of each dimension."""
    shift: np.ndarray
    """Shape (m, d)."""
    log_volume: np.ndarray
    """Log of the absolute determinants, shape (m,)."""


def still_maps(betas: np.ndarray, n_dims: int, dense: bool) -> Maps:
    """The m maps between m + 1 betas that leave rows where they are."""
    m = len(betas) - 1
    one = np.eye(n_dims) if dense else np.ones(n_dims)
    return Maps(
        betas[:-1],
        betas[1:],
        np.tile(one, (m, 1, 1) if dense else (m, 1)),
        np.zeros((m, n_dims)),
        np.zeros(m),
    )


class Normals(NamedTuple):
    """Normal distributions that stand for the rows at m betas."""

    mean: np.ndarray
    """Shape (m, d)."""
    root: np.ndarray
    """A root of the *inverse* covariance, ``root @ root.T``: shape (m, d, d), or (m, d)."""


@dataclass(frozen=True)
class Transport:
    """Means and covariances of the rows along the path, and the maps between them.

    Between two stages inverse covariance, and inverse covariance times mean, are linear in beta.
    Where reference and likelihood are normal that is exact, the maps carry rows from one
    distribution to the next exactly, and all weights are equal.

    References
    ----------
    Vaikuntanathan & Jarzynski (2011), Escorted free energy simulations, doi 10.1063/1.3544679;
    Arbel, Matthews & Doucet (2021), Annealed flow transport Monte Carlo, eq. 7, arXiv 2102.07501.
    Weights are exact whatever the maps are.
    """

    betas: np.ndarray
    """The S + 1 stages, from 0 to 1."""
    precision: np.ndarray
    """Inverse covariances, shape (S + 1, d, d), or (S + 1, d) where dimensions are taken alone."""
    pull: np.ndarray
    """Inverse covariance times mean, shape (S + 1, d)."""

    @classmethod
    def from_moments(
        cls, betas: np.ndarray, mean: np.ndarray, covariance: np.ndarray
    ) -> "Transport":
        """From means (S + 1, d) and covariances (S + 1, d, d), or variances (S + 1, d)."""
        dense = covariance.ndim == 3
        precision = np.linalg.inv(covariance) if dense else 1.0 / covariance
        return cls(betas, precision, _times(precision, mean))

    @property
    def dense(self) -> bool:
        """Whether dimensions are mixed."""
        return self.precision.ndim == 3

    def normals(self, betas: np.ndarray) -> Normals:
        """The normals that stand for the rows at some betas."""
        last = self.betas.size - 2
        below = np.clip(np.searchsorted(self.betas, betas, side="right") - 1, 0, last)
        share = (betas - self.betas[below]) / (self.betas[below + 1] - self.betas[below])

        def between(values: np.ndarray) -> np.ndarray:
            weight = share.reshape(-1, *[1] * (values.ndim - 1))
            return (1 - weight) * values[below] + weight * values[below + 1]

        precision, pull = between(self.precision), between(self.pull)
        if self.dense:
            return Normals(
                np.linalg.solve(precision, pull[:, :, None])[:, :, 0],
                np.linalg.cholesky(precision),
            )
        return Normals(pull / precision, np.sqrt(precision))

    def maps(self, betas: np.ndarray) -> Maps:
        """The m maps between m + 1 betas that follow each other, upwards or downwards."""
        mean, root = self.normals(betas)
        if self.dense:
            # x -> mean' + root'^-T root^T (x - mean)
            matrix = np.linalg.solve(root[1:].swapaxes(1, 2), root[:-1].swapaxes(1, 2))
            log_root = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        else:
            matrix = root[:-1] / root[1:]
            log_root = np.log(root).sum(axis=1)
        shift = mean[1:] - _times(matrix, mean[:-1])
        return Maps(betas[:-1], betas[1:], matrix, shift, log_root[:-1] - log_root[1:])


class Watcher:
    """Moments of weighted rows along a ladder, relative to the normals that a transport has there.

    Parameters
    ----------
    transport
        Maps that the rows follow.
    betas
        The ladder, shape (K + 1,).
    """

    def __init__(self, transport: Transport, betas: np.ndarray) -> None:
        self.transport, self.betas = transport, betas
        n_dims = transport.pull.shape[1]
        self.first = np.zeros((betas.size - 1, n_dims))
        self.second = np.zeros((betas.size - 1, *transport.precision.shape[1:]))

    def add(self, part: slice, log_weight: np.ndarray, position: np.ndarray) -> None:
        """Count rows (m, n, d) at a part of the betas, weighted by (m, n) log weights."""
        mean, root = self.transport.normals(self.betas[part])
        centred = position - mean[:, None]
        white = centred @ root if self.transport.dense else centred * root[:, None]
        white = np.clip(np.nan_to_num(white), -CLIPPED, CLIPPED)
        weight = normalise(log_weight, axis=1)[:, :, None]
        self.first[part] = (weight * white).sum(axis=1)
        self.second[part] = _second_moments(white, weight, self.transport.dense)

    def corrected(self, coordinate: np.ndarray, effective: float) -> Transport:
        """The transport with the moments that were seen near each stage.

        Parameters
        ----------
        coordinate
            Where the betas lie between the stages, shape (K + 1,).
        effective
            Independent rows that the moments of a stage are worth, for shrinkage.
        """
        stages = np.arange(self.transport.betas.size)
        near = np.maximum(1.0 - np.abs(coordinate[:-1] - stages[:, None]), 0.0)
        # the target's rows are seen up to the beta before the last one
        near[-1] += near.sum(axis=1)[-1] == 0
        near /= near.sum(axis=1, keepdims=True)
        mean = near @ self.first
        second = np.tensordot(near, self.second, 1)
        here = self.transport.normals(self.transport.betas)
        if self.transport.dense:
            covariance = second - mean[:, :, None] * mean[:, None, :]
            covariance = shrunk_covariances(covariance, effective)
            back = np.linalg.inv(here.root)
            new_mean = here.mean + (mean[:, None] @ back)[:, 0]
            new_covariance = back.swapaxes(1, 2) @ covariance @ back
        else:
            covariance = np.maximum(second - mean**2, LEAST_VARIANCE)
            new_mean = here.mean + mean / here.root
            new_covariance = covariance / here.root**2
        return Transport.from_moments(self.transport.betas, new_mean, new_covariance)


def population_moments(position: np.ndarray, dense: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean (d,) and covariance (d, d), or variances (d,), of rows (n, d), tails cut short."""
    middle = np.median(position, axis=0)
    low, high = np.quantile(position, [0.1587, 0.8413], axis=0)
    scale = np.where(high > low, 0.5 * (high - low), 1.0)
    white = np.clip((position - middle) / scale, -CLIPPED, CLIPPED)
    mean = white.mean(axis=0)
    white = white - mean
    if dense:
        covariance = shrunk_covariances((white.T @ white / len(white))[None], float(len(white)))[0]
        return middle + scale * mean, covariance * np.outer(scale, scale)
    variance = np.maximum((white**2).mean(axis=0), LEAST_VARIANCE)
    return middle + scale * mean, variance * scale**2


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return (matrix @ vector[:, :, None])[:, :, 0] if matrix.ndim == 3 else matrix * vector


def _second_moments(white: np.ndarray, weight: np.ndarray, dense: bool) -> np.ndarray:
    if dense:
        return (weight * white).swapaxes(1, 2) @ white
    return (weight * white**2).sum(axis=1)
