"""scikit-learn's digits as large as those of the papers: 28 by 28 pixels, each distorted anew."""

import numpy as np
from scipy.ndimage import affine_transform
from sklearn.datasets import load_digits

SIDE, N_TRAINING = 28, 1500
"""Pixels a side, and how many of the 1,797 digits others are made of than those held out."""
TURN, SLANT, STRETCH, SHIFT = 0.12, 0.15, 0.1, 1.0
"""Standard deviations of angle, slant and log size; pixels that a digit may be off the middle."""


def distorted(image, rng):
    """One digit (8, 8), turned, slanted, stretched and shifted a little, grey, shape (28, 28)."""
    turn, slant = rng.normal(0, (TURN, SLANT))
    size = np.diag(np.exp(rng.normal(0, STRETCH, 2)) * 8 / 24)
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    back = size @ np.array([[1, 0], [slant, 1]]) @ rotation
    middle = (SIDE - 1) / 2 + rng.uniform(-SHIFT, SHIFT, 2)
    return affine_transform(image, back, 3.5 - back @ middle, (SIDE, SIDE), order=1)


def large_digits(n, rng):
    """Grey levels in [0, 1] of n digits for training and of one of each held out, (n, 784)."""
    images = rng.permutation(load_digits().images / 16)
    chosen = [*(images[i % N_TRAINING] for i in range(n)), *images[N_TRAINING:]]
    rows = np.array([distorted(image, rng).ravel() for image in chosen])
    return rows[:n], rows[n:]
