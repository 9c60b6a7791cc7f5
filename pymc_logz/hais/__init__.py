"""Hamiltonian annealed importance sampling."""
