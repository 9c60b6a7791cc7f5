"""The normalising constant of PyMC models: log Z with an error bar that can be trusted."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what editors and type checkers see; at run time names load when first used
    from pymc_logz import energies, estimators, kernels
    from pymc_logz.bits.sampling import raise_log_likelihood
    from pymc_logz.choosing.evidence import evidence
    from pymc_logz.citations import cite
    from pymc_logz.errors import (
        CheckpointError,
        DiscreteVariableError,
        EvidenceWarning,
        ImproperPriorError,
        ModelError,
        PilotError,
        WorkersLostError,
    )
    from pymc_logz.hais.sampling import sample_hais, sandwich
    from pymc_logz.hmc import sample_hmc
    from pymc_logz.long_runs.resume import extend, resume
    from pymc_logz.long_runs.several_models import evidence_of_models
    from pymc_logz.manifold.abc_chains import abc_mcmc, abc_slice
    from pymc_logz.manifold.generator_form import ExactObservation, generator_form, relax
    from pymc_logz.manifold.likelihood_form import likelihood_form
    from pymc_logz.manifold.simulator import abc_rejection
    from pymc_logz.manifold.step_method import ConstrainedHMC
    from pymc_logz.per_datum.likelihood import marginal_log_likelihood
    from pymc_logz.per_datum.tracking import LogZTracker
    from pymc_logz.plots.annealed import plot_path, plot_weights
    from pymc_logz.plots.compared import plot_evidence, plot_sandwich, plot_sensitivity
    from pymc_logz.plots.tempered import plot_overlap, plot_tempering, plot_thermo
    from pymc_logz.posterior.bridging import bridge_sampling
    from pymc_logz.posterior.log_density import log_density
    from pymc_logz.posterior.own_proposal import importance_sampling
    from pymc_logz.step_methods import HAIS, PartialMomentumHMC, SimulatedTempering
    from pymc_logz.tempered.sampling import sample_tempered
    from pymc_logz.trees.comparison import bayes_factor, compare_evidence, model_weights
    from pymc_logz.workflow import evidence_sensitivity

__all__ = [
    "HAIS",
    "CheckpointError",
    "ConstrainedHMC",
    "DiscreteVariableError",
    "EvidenceWarning",
    "ExactObservation",
    "ImproperPriorError",
    "LogZTracker",
    "ModelError",
    "PartialMomentumHMC",
    "PilotError",
    "SimulatedTempering",
    "WorkersLostError",
    "abc_mcmc",
    "abc_rejection",
    "abc_slice",
    "bayes_factor",
    "bridge_sampling",
    "cite",
    "compare_evidence",
    "energies",
    "estimators",
    "evidence",
    "evidence_of_models",
    "evidence_sensitivity",
    "extend",
    "generator_form",
    "importance_sampling",
    "kernels",
    "likelihood_form",
    "log_density",
    "marginal_log_likelihood",
    "model_weights",
    "plot_evidence",
    "plot_overlap",
    "plot_path",
    "plot_sandwich",
    "plot_sensitivity",
    "plot_tempering",
    "plot_thermo",
    "plot_weights",
    "raise_log_likelihood",
    "relax",
    "resume",
    "sample_hais",
    "sample_hmc",
    "sample_tempered",
    "sandwich",
]

_HOMES = {
    "bits.sampling": ("raise_log_likelihood",),
    "choosing.evidence": ("evidence",),
    "citations": ("cite",),
    "errors": tuple(name for name in __all__ if name.endswith(("Error", "Warning"))),
    "per_datum.likelihood": ("marginal_log_likelihood",),
    "hais.sampling": ("sample_hais", "sandwich"),
    "hmc": ("sample_hmc",),
    "long_runs.resume": ("extend", "resume"),
    "long_runs.several_models": ("evidence_of_models",),
    "manifold.abc_chains": ("abc_mcmc", "abc_slice"),
    "manifold.simulator": ("abc_rejection",),
    "manifold.generator_form": ("ExactObservation", "generator_form", "relax"),
    "manifold.likelihood_form": ("likelihood_form",),
    "plots.annealed": ("plot_path", "plot_weights"),
    "plots.compared": ("plot_evidence", "plot_sandwich", "plot_sensitivity"),
    "plots.tempered": ("plot_overlap", "plot_tempering", "plot_thermo"),
    "posterior.bridging": ("bridge_sampling",),
    "posterior.log_density": ("log_density",),
    "posterior.own_proposal": ("importance_sampling",),
    "workflow": ("evidence_sensitivity",),
    "manifold.step_method": ("ConstrainedHMC",),
    "step_methods": ("HAIS", "PartialMomentumHMC", "SimulatedTempering"),
    "tempered.sampling": ("sample_tempered",),
    "per_datum.tracking": ("LogZTracker",),
    "trees.comparison": ("bayes_factor", "compare_evidence", "model_weights"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_NEW_NAMES = {
    **{name: f"kernels.{name}" for name in ("Hamiltonian", "Langevin", "RandomWalk", "Slice")},
    **{name: f"estimators.{name}" for name in ("LogZEstimate", "importance_log_z")},
    "log_likelihood": "marginal_log_likelihood",
}
"""Names that version 0.1 had here, and where they are now."""


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first asked for (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            value: Any = version("pymc-logz")
        except PackageNotFoundError:  # a copy of the sources
            value = "unknown"
    elif name in _HOME_OF:
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    elif name in __all__:
        value = import_module(f"{__name__}.{name}")
    else:
        from difflib import get_close_matches

        close = get_close_matches(name, __all__)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        hint = f"; it is {__name__}.{_NEW_NAMES[name]} now" if name in _NEW_NAMES else hint
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
