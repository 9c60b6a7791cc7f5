"""Targets made of bits: Boltzmann machines, block Gibbs sampling, and reverse annealing (RAISE)."""
