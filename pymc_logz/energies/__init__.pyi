"""Energies, as editors and type checkers see them; those of bits are elsewhere."""

from pymc_logz.bits.energies import BernoulliRBM as BernoulliRBM, BinaryEnergy as BinaryEnergy
from pymc_logz.bits.machines import (
    base_log_odds as base_log_odds,
    bernoulli_rbm as bernoulli_rbm,
    boltzmann_machine as boltzmann_machine,
    ising_torus as ising_torus,
    moment_averaged as moment_averaged,
)
from pymc_logz.energies.base import Energy as Energy
from pymc_logz.energies.conjugate import (
    beta_bernoulli as beta_bernoulli,
    coal_mining as coal_mining,
    labelled_mixture as labelled_mixture,
    poisson_gamma as poisson_gamma,
    skewed_bimodal as skewed_bimodal,
    thinned_poisson as thinned_poisson,
)
from pymc_logz.energies.experts import (
    gaussian_rbm as gaussian_rbm,
    gaussian_rbm_log_z as gaussian_rbm_log_z,
    laplace_experts as laplace_experts,
    random_filters as random_filters,
    student_t_experts as student_t_experts,
)
from pymc_logz.energies.images import (
    bilinear_generative as bilinear_generative,
    linear_generative as linear_generative,
    mean_covariance_rbm as mean_covariance_rbm,
)
from pymc_logz.energies.multimodal import (
    gaussian_shells as gaussian_shells,
    ridge as ridge,
    two_gaussians as two_gaussians,
    two_gaussians_log_z as two_gaussians_log_z,
)
from pymc_logz.energies.one_integral import (
    hierarchical_normal as hierarchical_normal,
    student_location as student_location,
)
from pymc_logz.energies.regression import (
    linear_regression as linear_regression,
    radiata_pine as radiata_pine,
    radiata_pine_data as radiata_pine_data,
)
