"""Targets made of bits: Boltzmann machines, block Gibbs sampling, and reverse annealing (RAISE).

Their public names are in `pymc_logz.energies`, `pymc_logz.kernels` and `pymc_logz`, where they load
when they are first asked for.
"""
