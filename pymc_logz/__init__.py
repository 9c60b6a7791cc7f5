"""The normalising constant of PyMC models: log Z with an error bar that can be trusted."""

from importlib.metadata import version

from pymc_logz.choosing import evidence
from pymc_logz.comparison import bayes_factor, compare_evidence, model_weights
from pymc_logz.constraints import ExactObservation, relax
from pymc_logz.errors import (
    DiscreteVariableError,
    EvidenceWarning,
    ImproperPriorError,
    ModelError,
    PilotError,
)
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.forms.generator import generator_form
from pymc_logz.forms.likelihood import likelihood_form
from pymc_logz.kernels import Hamiltonian, Langevin, RandomWalk, Slice
from pymc_logz.per_datum import log_likelihood
from pymc_logz.plots import plot_evidence, plot_path, plot_sandwich, plot_sensitivity, plot_weights
from pymc_logz.posterior.bridging import bridge_sampling
from pymc_logz.posterior.sensitivity import evidence_sensitivity
from pymc_logz.sampling import sample_hais, sandwich
from pymc_logz.step_methods import HAIS, ConstrainedHMC, PartialMomentumHMC, SimulatedTempering
from pymc_logz.tempered.plots import plot_overlap, plot_tempering, plot_thermo
from pymc_logz.tempered.sampling import sample_tempered
from pymc_logz.tempered.tracking import LogZTracker

__version__ = version("pymc-logz")

__all__ = [
    "HAIS",
    "ConstrainedHMC",
    "DiscreteVariableError",
    "EvidenceWarning",
    "ExactObservation",
    "Hamiltonian",
    "ImproperPriorError",
    "Langevin",
    "LogZEstimate",
    "LogZTracker",
    "ModelError",
    "PartialMomentumHMC",
    "PilotError",
    "RandomWalk",
    "SimulatedTempering",
    "Slice",
    "bayes_factor",
    "bridge_sampling",
    "compare_evidence",
    "evidence",
    "evidence_sensitivity",
    "generator_form",
    "importance_log_z",
    "likelihood_form",
    "log_likelihood",
    "model_weights",
    "plot_evidence",
    "plot_overlap",
    "plot_path",
    "plot_sandwich",
    "plot_sensitivity",
    "plot_tempering",
    "plot_thermo",
    "plot_weights",
    "relax",
    "sample_hais",
    "sample_tempered",
    "sandwich",
]
