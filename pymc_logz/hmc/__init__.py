"""Hamiltonian Monte Carlo with many chains at once; `pymc_logz.sample_hmc` is what users call."""
