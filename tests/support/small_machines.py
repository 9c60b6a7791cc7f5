"""Small binary energies, and sums over all of their states that know nothing of blocks."""

from itertools import product

import numpy as np
from scipy.special import logsumexp

from pymc_logz.energies import BinaryEnergy, bernoulli_rbm, boltzmann_machine, ising_torus


def waves(
    n_visible: int, n_hidden: int, *scales: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, and the biases of visible and hidden units, that are scaled."""
    i, j = np.arange(1, n_visible + 1), np.arange(1, n_hidden + 1)
    return 0.9 * np.sin(1 + np.outer(i, j)), scales[0] * np.cos(i), scales[1] * np.sin(j)


KNOWN = bernoulli_rbm(*waves(12, 8, 0.1, 0.2))
"""log Z is 14.37919794."""
WEIGHTS, VISIBLE, HIDDEN = waves(5, 4, 0.3, 0.4)
BASE = np.array([-1.0, -0.4, 0.1, 0.5, 0.9])
ROW = np.arange(7)
ALL_TO_ALL = np.triu(0.8 * np.cos(1 + np.outer(ROW, ROW) + ROW[:, None]), 1)
ALL_TO_ALL += ALL_TO_ALL.T
SPARSE = ALL_TO_ALL * (np.abs(np.subtract.outer(ROW, ROW)) <= 2)

MACHINES = {
    "rbm": bernoulli_rbm(WEIGHTS, VISIBLE, HIDDEN, BASE),
    "wide_rbm": bernoulli_rbm(WEIGHTS.T, HIDDEN, VISIBLE, BASE[:4]),
    "three_blocks": boltzmann_machine(SPARSE, 0.5 * np.sin(ROW)),
    "all_to_all": boltzmann_machine(ALL_TO_ALL, 0.5 * np.sin(ROW), 0.3 * np.cos(ROW)),
    "torus": ising_torus((3, 4), 0.35, 0.1),
    "checkerboard": ising_torus((4, 4), 0.4, -0.1),
}


def all_states(energy: BinaryEnergy) -> np.ndarray:
    """All rows of bits, shape (2**d, d)."""
    return np.array(list(product((0.0, 1.0), repeat=energy.n_sites)))


def log_densities(energy: BinaryEnergy, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """All rows, and their log density on the path, from the density by name and the base."""
    rows, base = all_states(energy), np.asarray(energy.path.values[2])
    log_reference = rows @ base - np.logaddexp(0, base).sum()
    return rows, beta * energy.log_density(energy.named(rows)) + (1 - beta) * log_reference


def expectations(energy: BinaryEnergy, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Exact means of all bits, and of all products of two, shape (d,) and (d, d)."""
    rows, log_density = log_densities(energy, beta)
    mass = np.exp(log_density - logsumexp(log_density))
    return mass @ rows, (rows * mass[:, None]).T @ rows
