"""Whitened patches: for training, validation and testing, each from photographs of its own.

Or, as it was before and still is where results are kept that were measured at great cost, training
and test patches from different strips of the same two photographs.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_sample_images

SIDE, N_DIMS = 16, 36
N_TRAINING, N_VALIDATION, N_TEST = 10_000, 1000, 100
PHOTOGRAPHS = {
    "training": ("astronaut", "china", "flower", "grass", "motorcycle", "rocket"),
    "validation": ("brick", "coffee"),
    "test": ("camera", "chelsea", "gravel"),
}
"""Which come with scikit-image and scikit-learn; each gives as many patches as the others."""
EVERY, WIDTH = 80, 24
"""In strips, test patches come from 24 columns in every 80."""
CONTRAST = 0.1
"""Least standard deviation of log intensities: less is sky, or out of focus."""
DARKEST = 1 / 255
"""Added to intensities before their logarithm is taken."""


@dataclass(frozen=True)
class Patches:
    """Whitened patches, and the way back to pixels."""

    training: np.ndarray
    """Shape (n, 36)."""
    validation: np.ndarray
    """Shape (1000, 36): sizes and settings are chosen on these. None of strips."""
    test: np.ndarray
    """Shape (100, 36)."""
    whiten: np.ndarray
    """Rows that pixels are multiplied with, shape (36, 256): filters of pixels are F @ whiten."""
    colour: np.ndarray
    """Pixels of a whitened patch, shape (256, 36): bases of pixels are colour @ Phi."""


def photograph(name: str) -> np.ndarray:
    """A photograph by its name, in 256 levels, with colours or grey."""
    if name in ("china", "flower"):
        return load_sample_images().images[("china", "flower").index(name)]
    # here, so that strips do without
    from skimage import data

    return data.stereo_motorcycle()[0] if name == "motorcycle" else getattr(data, name)()


def log_intensity(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Log intensities of a photograph, whose 256 levels are smoothed by half a level."""
    coded = (image + rng.uniform(-0.5, 0.5, image.shape)).clip(0) / 255
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    if linear.ndim == 3:
        linear = linear @ np.array([0.2126, 0.7152, 0.0722])
    return np.log(linear + DARKEST)


def cut(
    photographs: list[np.ndarray], n: int, test: bool | None, rng: np.random.Generator
) -> np.ndarray:
    """Patches (n, 256) with mean zero: anywhere, or within strips, or outside of them."""
    found = []
    while len(found) < n:
        if test is None:
            photograph = photographs[len(found) % len(photographs)]
        else:
            photograph = photographs[rng.integers(len(photographs))]
        top, left = (rng.integers(size - SIDE + 1) for size in photograph.shape)
        ends = np.array([left, left + SIDE - 1])
        inside = ends % EVERY < WIDTH
        if test is None or (inside.all() if test else not inside.any()):
            patch = photograph[top : top + SIDE, left : left + SIDE].ravel()
            if patch.std() >= CONTRAST:
                found.append(patch - patch.mean())
    return np.array(found)


def patches(n_training: int = N_TRAINING, strips: bool = False) -> Patches:
    """All patches, projected onto leading principal components with variance 1 in training.

    Of different photographs, or of different strips of two.
    """
    rng = np.random.default_rng(1205)
    if strips:
        two = [log_intensity(photograph(name), rng) for name in ("china", "flower")]
        training, test = (
            cut(two, n, testing, rng) for n, testing in ((n_training, False), (N_TEST, True))
        )
        return whitened(training, training[:0], test)
    sizes = {"training": n_training, "validation": N_VALIDATION, "test": N_TEST}
    return whitened(
        *(
            cut([log_intensity(photograph(name), rng) for name in names], sizes[part], None, rng)
            for part, names in PHOTOGRAPHS.items()
        )
    )


def whitened(training: np.ndarray, validation: np.ndarray, test: np.ndarray) -> Patches:
    """Patches of pixels, projected as those for training say."""
    mean = training.mean(axis=0)
    variance, directions = np.linalg.eigh(np.cov(training.T))
    variance, directions = variance[::-1][:N_DIMS], directions[:, ::-1][:, :N_DIMS]
    whiten = (directions / np.sqrt(variance)).T
    return Patches(
        *((part - mean) @ whiten.T for part in (training, validation, test)),
        whiten,
        directions * np.sqrt(variance),
    )
