"""Markov kernels: frozen settings that turn a point, a beta and noise into the next point."""

from pymc_logz.kernels.hamiltonian import Hamiltonian

__all__ = ["Hamiltonian"]
