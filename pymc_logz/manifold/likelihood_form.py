"""A simulator as an ordinary model, where its noise is tied so simply that a likelihood exists."""

from collections.abc import Iterator, Mapping

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.fgraph import ModelFreeRV, ModelPotential, model_from_fgraph, model_observed_rv
from pymc.pytensorf import toposort_replace
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from pymc_logz.errors import ModelError
from pymc_logz.graphs.functions import function_for
from pymc_logz.manifold.algebra import RELATIVE_ROUNDING, is_analytic
from pymc_logz.manifold.generator import without_recurrence
from pymc_logz.manifold.generator_form import graph_of
from pymc_logz.models.context import check_is_model
from pymc_logz.models.exact import exact_observations, is_exact
from pymc_logz.models.guards import check_model


def likelihood_form(model: pm.Model) -> pm.Model:
    """A model of the same posterior and log Z, with likelihoods in place of exact observations.

    It exists where each exact observation has a noise variable of its own that enters entry by
    entry as ``mean + scale * noise``, ``mean`` and ``scale`` being functions of the other
    variables: then the output given those is a variable of the noise's family, and no noise is left
    to sample. A loop whose states are all observed is such a case, with the observed values of
    earlier steps in place of the simulated ones. This is the inverse of `generator_form`.

    Parameters
    ----------
    model
        Model with exact observations.

    Returns
    -------
    pm.Model
        A new model, in which exact observations are observed variables and their noise is gone; any
        sampler can take it. The old one is not changed.

    Raises
    ------
    ModelError
        If there is no exact observation, or no noise variable of that kind was found for one.
        Without such a variable the likelihood is an integral; use `ConstrainedHMC` and
        `bridge_sampling`.
    DiscreteVariableError
        If a free variable is discrete.

    See Also
    --------
    generator_form : the inverse.

    Notes
    -----
    If several variables could be the noise, the one declared last is used, unless ``noise=`` of
    `ExactObservation` names another. Of a loop, what is drawn from the observed variables (as
    ``pm.sample_prior_predictive`` does) is one step ahead of the data, not a simulation. Initial
    values are not kept.

    References
    ----------
    Graham & Storkey (2017), appendix C, arXiv 1605.07826.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as simulator:
            v, n = pm.Normal("v"), pm.Normal("n")
            lz.ExactObservation("y", v**2 + 0.5 * n, observed=2.0)
        lz.sample_hais(model=lz.likelihood_form(simulator), random_seed=1)
    """
    check_is_model(model, "likelihood_form(model)")
    if not exact_observations(model):
        raise ModelError("the model has no exact observation (lz.ExactObservation) to convert")
    check_model(model)
    noises = _noises(model)
    fgraph = graph_of(model)
    nodes = fgraph.toposort()
    free = {node.op.name: node for node in nodes if isinstance(node.op, ModelFreeRV)}
    exact = [n for n in nodes if isinstance(n.op, ModelPotential) and is_exact(n.inputs[0])]
    outputs = without_recurrence([node.inputs[0] for node in exact])
    replacements = []
    for node, output in zip(exact, outputs, strict=True):
        noise, value = free[noises[node.op.name]], node.inputs[0].owner.inputs[1]
        mean, scale = _mean_and_scale(output, noise.outputs[0], value)
        # PyMC has the density of such an expression, whatever the family of the noise
        new = mean + scale * noise.inputs[0]
        likelihood = model_observed_rv(new, value.astype(new.dtype), node.op.name, *node.op.dims)
        replacements.append((node.outputs[0], likelihood))
    toposort_replace(fgraph, replacements)
    for name in noises.values():
        fgraph.remove_output(fgraph.outputs.index(free[name].outputs[0]))
    return model_from_fgraph(fgraph, mutate_fgraph=True)


def _noises(model: pm.Model) -> dict[str, str]:
    """Name of the noise variable of each exact observation, by name."""
    observations = exact_observations(model)
    outputs = dict(zip(observations, without_recurrence(observations), strict=True))
    try:
        drawn = pm.draw(model.free_RVs, draws=32, random_seed=1)
    except NotImplementedError as error:
        raise ModelError(f"a free variable cannot be drawn from its prior: {error}") from error
    draws = dict(zip((rv.name for rv in model.free_RVs), drawn, strict=True))
    terms = [*model.basic_RVs, *model.deterministics, *model.potentials]
    found: dict[str, str] = {}
    for observation, output in outputs.items():
        in_use: list[str] = []
        for rv in _candidates(model, observation, output, draws):
            users = [
                term.name
                for term in terms
                if term not in (rv, observation) and rv in ancestors([outputs.get(term, term)])
            ]
            if not users:
                found[observation.name] = rv.name
                break
            in_use.append(f"{rv.name!r} is needed by {users} too")
        else:
            remedy = (
                f" ({'; '.join(in_use)}: leave that out of the model first)"
                if in_use
                else ". If there is none, the likelihood is an integral: use lz.ConstrainedHMC and "
                "lz.bridge_sampling"
            )
            raise ModelError(
                f"no noise variable of the exact observation {observation.name!r} was found: one "
                "of the shape of the output, without a transform, that nothing else uses, and that "
                "enters each entry as mean + scale * noise in operations known to be smooth"
                f"{remedy}"
            )
    return found


def _candidates(
    model: pm.Model, observation: Variable, output: Variable, draws: Mapping[str, np.ndarray]
) -> Iterator[Variable]:
    """Free variables that can be the noise of an exact observation, the last declared first."""
    if not is_analytic(model.free_RVs, [output]):
        return
    reached, declared = set(ancestors([output])), observation.owner.op.noise
    value = observation.owner.inputs[1]
    shape = tuple(value.shape.eval(mode="FAST_COMPILE"))
    for rv in reversed(model.free_RVs):
        if (
            rv in reached
            and (not declared or rv.name in declared)
            and draws[rv.name].shape[1:] == shape
            and model.rvs_to_transforms[rv] is None
            and _is_affine(model, output, value, rv, draws)
        ):
            yield rv


def _mean_and_scale(
    output: Variable, noise: Variable, value: Variable
) -> tuple[Variable, Variable]:
    """What an output is without noise, and what a unit of noise adds to each entry."""
    slope = pt.grad(output.sum(), noise)
    # of the shape of the data, so that nothing is left of the noise
    zero = {noise: pt.zeros_like(value, dtype=noise.dtype)}
    mean, scale = graph_replace([output, slope], zero, strict=False)
    return mean, scale


def _is_affine(
    model: pm.Model,
    output: Variable,
    value: Variable,
    noise: Variable,
    draws: Mapping[str, np.ndarray],
) -> bool:
    """Whether each entry of an output is affine in its own entry of the noise, and in no other."""
    n_draws, n_finite = len(draws[str(noise.name)]), 0
    function = function_for(
        model.free_RVs,
        [output, *_mean_and_scale(output, noise, value)],
        mode="FAST_COMPILE",
        on_unused_input="ignore",
    )

    def deviates(values: dict[str, np.ndarray], factor: float) -> bool | None:
        """Whether the output is not mean + scale * noise; None if it is not finite."""
        changed = factor * values[noise.name]
        actual, mean, scale = function(*{**values, noise.name: changed}.values())
        if not np.all(np.isfinite(actual) & np.isfinite(mean)):
            return None
        if not np.all(np.isfinite(scale) & (scale != 0.0)):
            return True
        error = np.abs(actual - (mean + scale * changed))
        # in units of what the noise adds, not of the output, which may be small, or large beside it
        bound = 1e-9 * np.abs(scale) * np.maximum(1.0, np.abs(changed))
        return bool(np.any(error > bound + RELATIVE_ROUNDING * np.abs(actual)))

    with np.errstate(all="ignore"):
        for i in range(n_draws):
            values = {rv.name: draws[rv.name][i] for rv in model.free_RVs}
            # taken by several factors, the root of a square shows itself
            checks = [deviates(values, factor) for factor in (1.0, -1.0, 10.0)]
            if any(check is None for check in checks):
                continue
            if any(checks):
                return False
            n_finite += 1
            if n_finite == 4:
                return True
    raise ModelError(
        f"an exact observation's output is finite at {n_finite} of {n_draws} prior draws, too few "
        f"to tell how the noise {noise.name!r} enters; narrow the priors"
    )
