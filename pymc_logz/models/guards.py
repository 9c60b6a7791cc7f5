"""Refuses models whose log Z is undefined or out of reach, naming the variable and the remedy."""

import numpy as np
import pymc as pm
from pymc.data import MinibatchOp
from pymc.distributions.continuous import FlatRV, HalfFlatRV
from pymc.distributions.multivariate import CARRV, ICARRV
from pymc.distributions.simulator import SimulatorRV
from pymc.distributions.transforms import Interval
from pymc.logprob.transforms import ChainedTransform, CircularTransform, Transform
from pymc.pytensorf import rvs_in_graph
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.graph.traversal import ancestors
from pytensor.sparse import SparseTensorType

from pymc_logz.errors import (
    DiscreteVariableError,
    ImproperPriorError,
    ModelError,
    known_potentials,
    warn,
)
from pymc_logz.models.discrete import TIED, discrete_names
from pymc_logz.models.exact import is_exact
from pymc_logz.models.rows import is_discrete

ONE_TURN = Interval(-np.pi, np.pi)
"""Transform of angles in the copy of a model whose values of them wrap around."""


def check_model(model: pm.Model, *, integers: bool = False, fixed: bool = False) -> None:
    """Raise a `ModelError` if log Z of the model is undefined or cannot be computed.

    It may have ``integers`` among its free variables, or be ``fixed``, and have none.
    """
    if not (model.free_RVs or fixed):
        raise ModelError(
            "the model has no free variables, so there is nothing to integrate over, and log Z is "
            "the log likelihood: pymc_logz.evidence(model)"
        )
    _check_variables(model)
    if not integers:
        refuse_discrete(model)
    for rv in model.free_RVs:
        _check_prior(model, rv)
    for rv in model.observed_RVs:
        _check_likelihood(model, rv)
    stochastic = rvs_in_graph(model.logp())
    if stochastic:
        names = sorted({var.name or str(var.owner.op) for var in stochastic})
        raise ModelError(
            f"the log density of this model is random (it draws {names}), so log Z is not defined "
            "by it; replace the random part by free variables"
        )
    names = [potential.name for potential in model.potentials if not is_exact(potential)]
    if names and model not in known_potentials:
        known_potentials.add(model)
        warn(
            f"the model has potentials {names}: they count as part of the target, so log Z is that "
            "of prior x likelihood x potentials, and is a marginal likelihood only if each "
            "potential is a normalised likelihood term"
        )


def _check_variables(model: pm.Model) -> None:
    if not model.observed_RVs and not model.potentials:
        raise ModelError(
            "the model has no observed variable and no potential, so its log Z is 0 by "
            "definition; pass data with observed= or add a pm.Potential"
        )
    lost = [rv.name for rv in model.free_RVs if rv.name in ("chain", "draw")]
    if lost:
        raise ModelError(
            f"free variables {lost} have the names of dimensions of every result, which would lose "
            "them (as that of pm.sample does); give them other names"
        )
    tied = [
        rv.name
        for rv in model.free_RVs
        if is_discrete(rv)
        and getattr(rv.owner.op, "ndim_supp", 0) > 0
        and not isinstance(rv.owner.op, TIED)
    ]
    if tied:
        raise DiscreteVariableError(
            f"the discrete free variables {tied} have a joint distribution whose possible values "
            "are not known, so they can be neither moved nor summed out. Give each entry its own "
            "prior, and write their joint distribution as a potential: a Markov chain as one "
            "pm.Categorical with a prior that is the same for all states, and its moves as "
            "pm.Potential('moves', pm.math.log(n_states * move[state[:-1], state[1:]])). Or write "
            "a loop over one pm.Categorical for each step. lz.evidence sums out both, sample_hais "
            "moves them"
        )


def refuse_discrete(model: pm.Model) -> None:
    """Raise a `DiscreteVariableError` if a free variable is discrete."""
    names, observed = discrete_names(model), {rv.name for rv in model.observed_RVs}
    # missing data are another matter than a prior
    movers = "pymc_logz.sample_hais and sample_tempered move them"
    if any(map(is_exact, model.potentials)):
        movers += ", once exact observations have a tolerance (pymc_logz.relax)"
    missing = [name for name in names if f"{name.removesuffix('_unobserved')}_observed" in observed]
    if missing:
        raise DiscreteVariableError(
            f"free variables {missing} are discrete: they are missing entries of observed data, "
            "which PyMC imputes; leave these entries out of the data, which changes nothing in log "
            "Z where the entries of the data are independent given the other variables. For log Z "
            f"alone {movers}"
        )
    if names:
        raise DiscreteVariableError(
            f"free variables {names} are discrete, but this needs a density of continuous "
            f"variables only: sum them out (pm.Mixture, for instance). For log Z alone {movers}"
        )


def _check_prior(model: pm.Model, rv: "pm.Distribution") -> None:
    op = rv.owner.op
    if isinstance(op, FlatRV | HalfFlatRV | ICARRV):
        raise ImproperPriorError(
            f"the prior of {rv.name!r} is {type(op).__name__.removesuffix('RV')}, which does not "
            "integrate to one, so log Z is undefined; give it a proper prior, such as a wide "
            "pm.Normal or pm.HalfNormal"
        )
    if isinstance(op, CARRV) and any(
        isinstance(one.type, SparseTensorType) for one in ancestors([rv.owner.inputs[3]])
    ):
        raise ModelError(
            f"W of {rv.name!r} is a sparse matrix, and PyMC's density of pm.CAR takes no batch of "
            "rows with one; give W.toarray()"
        )
    if is_circular(model.rvs_to_transforms[rv]):
        raise ImproperPriorError(
            f"{rv.name!r} lives on a circle: PyMC lets its unconstrained value wrap around, so the "
            "prior has infinite mass there; pass default_transform=pm.distributions.transforms."
            "Interval(-np.pi, np.pi), or model the angle through two normal coordinates"
        )


def is_circular(transform: Transform | None) -> bool:
    """Whether a transform lets values wrap around a circle."""
    if isinstance(transform, ChainedTransform):
        return any(is_circular(part) for part in transform.transform_list)
    return isinstance(transform, CircularTransform)


def _check_likelihood(model: pm.Model, rv: "pm.Distribution") -> None:
    if isinstance(rv.owner.op, SimulatorRV):
        raise ModelError(
            f"{rv.name!r} is a pm.Simulator: its log density is a distance to a fresh simulation, "
            "without a gradient; use pm.sample_smc, or write the simulator's noise as free "
            "variables"
        )
    ops = [var.owner_op for var in ancestors([rv, model.rvs_to_values[rv]])]
    if any(isinstance(op, MinibatchOp | MinibatchRandomVariable) for op in ops):
        raise ModelError(
            f"{rv.name!r} uses a minibatch or total_size, so its likelihood is an estimate that "
            "changes from call to call; observe the full data set and drop total_size"
        )
