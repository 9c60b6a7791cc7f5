"""The normalising constant of PyMC models: log Z with an error bar that can be trusted."""

from importlib.metadata import version

from pymc_logz.choosing import evidence
from pymc_logz.errors import (
    DiscreteVariableError,
    EvidenceWarning,
    ImproperPriorError,
    ModelError,
    PilotError,
)
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.hais.per_datum import log_likelihood
from pymc_logz.hais.sampling import sample_hais, sandwich
from pymc_logz.kernels import Hamiltonian, Langevin, RandomWalk, Slice
from pymc_logz.manifold.forms.generator import generator_form
from pymc_logz.manifold.forms.likelihood import likelihood_form
from pymc_logz.manifold.forms.relax import relax
from pymc_logz.models.exact import ExactObservation
from pymc_logz.plots.evidence import plot_evidence
from pymc_logz.plots.overlap import plot_overlap
from pymc_logz.plots.path import plot_path
from pymc_logz.plots.sandwich import plot_sandwich
from pymc_logz.plots.sensitivity import plot_sensitivity
from pymc_logz.plots.tempering import plot_tempering
from pymc_logz.plots.thermo import plot_thermo
from pymc_logz.plots.weights import plot_weights
from pymc_logz.posterior.bridging import bridge_sampling
from pymc_logz.posterior.sensitivity import evidence_sensitivity
from pymc_logz.step_methods import HAIS, ConstrainedHMC, PartialMomentumHMC, SimulatedTempering
from pymc_logz.tempered.sampling import sample_tempered
from pymc_logz.tempered.tracking import LogZTracker
from pymc_logz.trees.comparison import bayes_factor, compare_evidence, model_weights

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
