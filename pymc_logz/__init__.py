"""The normalising constant of PyMC models: log Z with an error bar that can be trusted."""

from importlib.metadata import version

from pymc_logz.comparison import bayes_factor, compare_evidence
from pymc_logz.errors import (
    DiscreteVariableError,
    EvidenceWarning,
    ImproperPriorError,
    ModelError,
    PilotError,
)
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.kernels import Hamiltonian, Langevin, RandomWalk, Slice
from pymc_logz.per_datum import log_likelihood
from pymc_logz.plots import plot_evidence, plot_path, plot_sandwich, plot_weights
from pymc_logz.sampling import evidence, sample_hais, sandwich
from pymc_logz.step_methods import HAIS, PartialMomentumHMC, SimulatedTempering
from pymc_logz.tempered_sampling import sample_tempered

__version__ = version("pymc-logz")

__all__ = [
    "HAIS",
    "DiscreteVariableError",
    "EvidenceWarning",
    "Hamiltonian",
    "ImproperPriorError",
    "Langevin",
    "LogZEstimate",
    "ModelError",
    "PartialMomentumHMC",
    "PilotError",
    "RandomWalk",
    "SimulatedTempering",
    "Slice",
    "bayes_factor",
    "compare_evidence",
    "evidence",
    "importance_log_z",
    "log_likelihood",
    "plot_evidence",
    "plot_path",
    "plot_sandwich",
    "plot_weights",
    "sample_hais",
    "sample_tempered",
    "sandwich",
]
