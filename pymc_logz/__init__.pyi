"""Public names, as editors and type checkers see them; at run time they load when first used."""

from pymc_logz import energies as energies, estimators as estimators, kernels as kernels
from pymc_logz.bits.sampling import raise_log_likelihood as raise_log_likelihood
from pymc_logz.choosing.evidence import evidence as evidence
from pymc_logz.citations import cite as cite
from pymc_logz.errors import (
    CheckpointError as CheckpointError,
    DiscreteVariableError as DiscreteVariableError,
    EvidenceWarning as EvidenceWarning,
    ImproperPriorError as ImproperPriorError,
    ModelError as ModelError,
    PilotError as PilotError,
    WorkersLostError as WorkersLostError,
)
from pymc_logz.hais.sampling import sample_hais as sample_hais, sandwich as sandwich
from pymc_logz.hmc import sample_hmc as sample_hmc
from pymc_logz.long_runs.resume import extend as extend, resume as resume
from pymc_logz.long_runs.several_models import evidence_of_models as evidence_of_models
from pymc_logz.manifold.abc_chains import abc_mcmc as abc_mcmc, abc_slice as abc_slice
from pymc_logz.manifold.generator_form import (
    ExactObservation as ExactObservation,
    generator_form as generator_form,
    relax as relax,
)
from pymc_logz.manifold.likelihood_form import likelihood_form as likelihood_form
from pymc_logz.manifold.simulator import abc_rejection as abc_rejection
from pymc_logz.manifold.step_method import ConstrainedHMC as ConstrainedHMC
from pymc_logz.per_datum.likelihood import marginal_log_likelihood as marginal_log_likelihood
from pymc_logz.per_datum.tracking import LogZTracker as LogZTracker
from pymc_logz.plots.annealed import plot_path as plot_path, plot_weights as plot_weights
from pymc_logz.plots.compared import (
    plot_evidence as plot_evidence,
    plot_sandwich as plot_sandwich,
    plot_sensitivity as plot_sensitivity,
)
from pymc_logz.plots.tempered import (
    plot_overlap as plot_overlap,
    plot_tempering as plot_tempering,
    plot_thermo as plot_thermo,
)
from pymc_logz.posterior.bridging import bridge_sampling as bridge_sampling
from pymc_logz.posterior.log_density import log_density as log_density
from pymc_logz.posterior.own_proposal import importance_sampling as importance_sampling
from pymc_logz.step_methods import (
    HAIS as HAIS,
    PartialMomentumHMC as PartialMomentumHMC,
    SimulatedTempering as SimulatedTempering,
)
from pymc_logz.tempered.sampling import sample_tempered as sample_tempered
from pymc_logz.trees.comparison import (
    bayes_factor as bayes_factor,
    compare_evidence as compare_evidence,
    model_weights as model_weights,
)
from pymc_logz.workflow import evidence_sensitivity as evidence_sensitivity

__version__: str
