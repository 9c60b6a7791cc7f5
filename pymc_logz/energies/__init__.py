"""Models with an exact log Z, for tests, doctests and the gallery.

Each returns an `Energy`: the PyMC model, its log Z in nats, and a function that draws from the
exact posterior. Those of bits return a `BinaryEnergy` instead, which is no PyMC model, and which
`pymc_logz.sample_hais` and `pymc_logz.sample_tempered` take as ``model``; `base_log_odds` fits what
annealing starts from to data, and `moment_averaged` makes machines for it to lead through.
`radiata_pine_data` and `random_filters` give the inputs of three of the others, and
`gaussian_rbm_log_z` and `two_gaussians_log_z` give log Z of another two alone.
"""

from typing import TYPE_CHECKING

from pymc_logz.energies.base import Energy
from pymc_logz.energies.conjugate import (
    beta_bernoulli,
    coal_mining,
    labelled_mixture,
    poisson_gamma,
    skewed_bimodal,
    thinned_poisson,
)
from pymc_logz.energies.experts import (
    gaussian_rbm,
    gaussian_rbm_log_z,
    laplace_experts,
    random_filters,
    student_t_experts,
)
from pymc_logz.energies.images import bilinear_generative, linear_generative, mean_covariance_rbm
from pymc_logz.energies.multimodal import gaussian_shells, ridge, two_gaussians, two_gaussians_log_z
from pymc_logz.energies.one_integral import hierarchical_normal, student_location
from pymc_logz.energies.regression import linear_regression, radiata_pine, radiata_pine_data
from pymc_logz.wings import lazily

if TYPE_CHECKING:
    from pymc_logz.bits.energies import BernoulliRBM, BinaryEnergy
    from pymc_logz.bits.machines import (
        base_log_odds,
        bernoulli_rbm,
        boltzmann_machine,
        ising_torus,
        moment_averaged,
    )

MACHINES = "base_log_odds", "bernoulli_rbm", "boltzmann_machine", "ising_torus", "moment_averaged"
OF_BITS = {
    **dict.fromkeys(("BernoulliRBM", "BinaryEnergy"), "bits.energies"),
    **dict.fromkeys(MACHINES, "bits.machines"),
}
"""Public names of `pymc_logz.bits`, and where they are."""
__getattr__ = lazily(__name__, OF_BITS)
__all__ = [
    "BernoulliRBM",
    "BinaryEnergy",
    "Energy",
    "base_log_odds",
    "bernoulli_rbm",
    "beta_bernoulli",
    "bilinear_generative",
    "boltzmann_machine",
    "coal_mining",
    "gaussian_rbm",
    "gaussian_rbm_log_z",
    "gaussian_shells",
    "hierarchical_normal",
    "ising_torus",
    "labelled_mixture",
    "laplace_experts",
    "linear_generative",
    "linear_regression",
    "mean_covariance_rbm",
    "moment_averaged",
    "poisson_gamma",
    "radiata_pine",
    "radiata_pine_data",
    "random_filters",
    "ridge",
    "skewed_bimodal",
    "student_location",
    "student_t_experts",
    "thinned_poisson",
    "two_gaussians",
    "two_gaussians_log_z",
]


def __dir__() -> list[str]:
    return __all__
