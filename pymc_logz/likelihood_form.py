"""A simulator as an ordinary model, where its noise is tied so simply that a likelihood exists."""

from collections.abc import Sequence

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.model.fgraph import (
    ModelFreeRV,
    ModelPotential,
    fgraph_from_model,
    model_from_fgraph,
    model_observed_rv,
)
from pymc.pytensorf import toposort_replace
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from pymc_logz.constraints import exact_observations, is_exact
from pymc_logz.errors import ModelError
from pymc_logz.manifold.autoregressive import without_recurrence
from pymc_logz.manifold.structure import is_analytic

N_CHECKS = 4
RELATIVE_ERROR = 1e-9


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
        If there is no exact observation, or one has no noise of that kind: its likelihood is then
        an integral, which `ConstrainedHMC` and `bridge_sampling` do.

    References
    ----------
    Graham & Storkey (2017), appendix C, arXiv 1605.07826.

    Examples
    --------
    .. code-block:: python

        lz.sample_hais(model=lz.likelihood_form(simulator))
    """
    noises = _noises(model)
    fgraph, _ = fgraph_from_model(model)
    nodes = fgraph.toposort()
    free = {node.op.name: node for node in nodes if isinstance(node.op, ModelFreeRV)}
    exact = [n for n in nodes if isinstance(n.op, ModelPotential) and is_exact(n.inputs[0])]
    outputs, observed = zip(*(node.inputs[0].owner.inputs for node in exact), strict=True)
    replacements = []
    for node, output, value in zip(
        exact, without_recurrence(outputs, observed), observed, strict=True
    ):
        noise = free[noises[node.op.name]]
        mean, scale = _mean_and_scale(output, noise.outputs[0], value)
        # PyMC has the density of such an expression, whatever the family of the noise
        new = mean + scale * noise.inputs[0]
        likelihood = model_observed_rv(new, value.astype(new.dtype), node.op.name, *node.op.dims)
        replacements.append((node.outputs[0], likelihood))
    toposort_replace(fgraph, replacements)
    for name in noises.values():
        _remove(fgraph, free[name].outputs[0])
    return model_from_fgraph(fgraph, mutate_fgraph=True)


def _noises(model: pm.Model) -> dict[str, str]:
    """Name of the noise variable of each exact observation, by name."""
    observations = exact_observations(model)
    if not observations:
        raise ModelError("the model has no exact observation (lz.ExactObservation) to turn round")
    parts = [observation.owner.inputs for observation in observations]
    outputs = without_recurrence(*zip(*parts, strict=True))
    draws = pm.draw(model.free_RVs, draws=N_CHECKS, random_seed=1)
    found: dict[str, str] = {}
    for observation, output in zip(observations, outputs, strict=True):
        value = observation.owner.inputs[1]
        declared = observation.owner.op.noise
        candidates = [
            rv
            for rv, values in zip(reversed(model.free_RVs), reversed(draws), strict=True)
            if rv.name not in found.values()
            and (not declared or rv.name in declared)
            and model.rvs_to_transforms[rv] is None
            and values.shape[1:] == tuple(value.shape.eval())
            and rv in ancestors([output])
        ]
        affine = (rv for rv in candidates if _is_affine(model, output, value, rv, draws))
        noise = next(affine, None)
        if noise is None:
            raise ModelError(
                f"the exact observation {observation.name!r} has no noise variable of its own that "
                "enters each entry as mean + scale * noise, so its likelihood is an integral; use "
                "lz.ConstrainedHMC and lz.bridge_sampling"
            )
        found[observation.name] = noise.name
    return found


def _mean_and_scale(
    output: Variable, noise: Variable, value: Variable
) -> tuple[Variable, Variable]:
    """What an output is without noise, and what a unit of noise adds to each entry."""
    # of the shape of the data, so that nothing is left of the noise
    mean, with_one = (
        graph_replace([output], {noise: constant(value, dtype=noise.dtype)}, strict=False)[0]
        for constant in (pt.zeros_like, pt.ones_like)
    )
    return mean, with_one - mean


def _is_affine(
    model: pm.Model,
    output: Variable,
    value: Variable,
    noise: Variable,
    draws: Sequence[np.ndarray],
) -> bool:
    """Whether each entry of an output is affine in its own entry of the noise, and in no other.

    An analytic function that is zero at random points is zero everywhere.
    """
    if not is_analytic(model.free_RVs, [output]):
        return False
    mean, scale = _mean_and_scale(output, noise, value)
    function = pytensor.function(
        model.free_RVs,
        [output, mean + scale * noise, scale],
        mode="FAST_COMPILE",
        on_unused_input="ignore",
    )
    n_checked = 0
    with np.errstate(all="ignore"):
        for values in zip(*draws, strict=True):
            actual, affine, size = function(*values)
            if not np.all(np.isfinite(actual)):
                continue
            n_checked += 1
            if actual.shape != affine.shape or np.any(size == 0):
                return False
            if not np.allclose(actual, affine, rtol=RELATIVE_ERROR, atol=RELATIVE_ERROR):
                return False
    return n_checked > 0


def _remove(fgraph: FunctionGraph, noise: Variable) -> None:
    """Take a noise variable out of a model's graph."""
    if len(fgraph.clients[noise]) > 1:
        raise ModelError(
            f"other variables depend on the noise variable {noise.name!r}, so it cannot be left "
            "out; leave those out of the model first"
        )
    fgraph.remove_output(fgraph.outputs.index(noise), reason="likelihood_form")
