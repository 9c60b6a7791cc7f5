"""Whitened patches of scikit-learn's two photographs, training and test from different strips."""

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_sample_images

SIDE, N_DIMS = 16, 36
N_TRAINING, N_TEST = 10_000, 100
EVERY, WIDTH = 80, 24
"""Test patches come from a strip of 24 columns in every 80."""
CONTRAST = 0.1
"""Least standard deviation of log intensities: less is sky, or out of focus."""
DARKEST = 1 / 255
"""Added to intensities before their logarithm is taken."""


@dataclass(frozen=True)
class Patches:
    """Whitened patches, and the way back to pixels."""

    training: np.ndarray
    """Shape (n, 36)."""
    test: np.ndarray
    """Shape (100, 36)."""
    whiten: np.ndarray
    """Rows that pixels are multiplied with, shape (36, 256): filters of pixels are F @ whiten."""
    colour: np.ndarray
    """Pixels of a whitened patch, shape (256, 36): bases of pixels are colour @ Phi."""


def log_photographs(rng: np.random.Generator) -> list[np.ndarray]:
    """Log intensities of the photographs, whose 256 grey levels are smoothed by half a level."""
    found = []
    for image in load_sample_images().images:
        coded = (image + rng.uniform(-0.5, 0.5, image.shape)).clip(0) / 255
        linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
        found.append(np.log(linear @ np.array([0.2126, 0.7152, 0.0722]) + DARKEST))
    return found


def cut(photographs: list[np.ndarray], n: int, test: bool, rng: np.random.Generator) -> np.ndarray:
    """Patches (n, 256) within the strips for testing, or outside of them, each with mean zero."""
    found = []
    while len(found) < n:
        photograph = photographs[rng.integers(len(photographs))]
        top, left = (rng.integers(size - SIDE + 1) for size in photograph.shape)
        ends = np.array([left, left + SIDE - 1])
        inside = ends % EVERY < WIDTH
        if inside.all() if test else not inside.any():
            patch = photograph[top : top + SIDE, left : left + SIDE].ravel()
            if patch.std() >= CONTRAST:
                found.append(patch - patch.mean())
    return np.array(found)


def patches(n_training: int = N_TRAINING) -> Patches:
    """Training and test patches, projected onto leading principal components of unit variance."""
    rng = np.random.default_rng(1205)
    photographs = log_photographs(rng)
    training = cut(photographs, n_training, False, rng)
    test = cut(photographs, N_TEST, True, rng)
    mean = training.mean(axis=0)
    variance, directions = np.linalg.eigh(np.cov(training.T))
    variance, directions = variance[::-1][:N_DIMS], directions[:, ::-1][:, :N_DIMS]
    whiten = (directions / np.sqrt(variance)).T
    return Patches(
        (training - mean) @ whiten.T,
        (test - mean) @ whiten.T,
        whiten,
        directions * np.sqrt(variance),
    )
