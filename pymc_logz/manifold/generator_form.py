"""Outputs that are observed exactly, and ordinary models whose data are such functions of noise."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.fgraph import (
    ModelObservedRV,
    ModelPotential,
    fgraph_from_model,
    model_free_rv,
    model_from_fgraph,
    model_observed_rv,
    model_potential,
)
from pymc.pytensorf import toposort_replace
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph

from pymc_logz.arguments import listed, numbers_of
from pymc_logz.errors import ModelError
from pymc_logz.models.context import check_is_model, without_initial_values
from pymc_logz.models.exact import ExactlyEqual, exact_observations, is_exact


def ExactObservation(  # a model component, named as PyMC names them
    name: str,
    output: Any,
    observed: Any,
    dims: str | Sequence[str] | None = None,
    noise: Any = None,
    *,
    model: pm.Model | None = None,
) -> Variable:
    """Component of a model: an output of its variables that equals what was observed, exactly.

    There is no likelihood and no tolerance. ``output`` is a differentiable expression of the free
    variables: what a simulator makes of its parameters and of its noise. The posterior is the prior
    restricted to the inputs that give ``observed``. It can be combined with ordinary priors,
    likelihoods and potentials.

    Parameters
    ----------
    name
        Name in the model.
    output
        PyTensor expression, with fewer entries than the model has unconstrained dimensions.
    observed
        Finite numbers of the shape of ``output``, or ``pm.Data`` with them.
    dims
        Names of its dimensions.
    noise
        Free variables (or their names) each entry of which affects only one entry of ``output``, so
        that the cost of a step is linear in their number. None detects them where that is safe.
    model
        PyMC model; None takes the one on the context stack.

    Returns
    -------
    pytensor.tensor.TensorVariable
        The component, one of ``model.potentials``.

    Raises
    ------
    ModelError
        If ``observed`` does not fit ``output``, is not finite, or either is discrete.

    See Also
    --------
    ConstrainedHMC : the sampler for it.
    likelihood_form, relax

    Notes
    -----
    It is kept by ``model.copy()``, ``pm.do`` and ``pm.observe``, and drawn by
    ``model.to_graphviz()``. A sampler that does not support it stops with an error. Like any
    potential, it is not part of what ``pm.sample_prior_predictive`` draws from.

    References
    ----------
    Graham & Storkey (2017), Asymptotically exact inference in differentiable generative models,
    sections 2 and 3, arXiv 1605.07826.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as model:
            v, n = pm.Normal("v"), pm.Normal("n")
            lz.ExactObservation("y", v**2 + 0.5 * n, observed=2.0)
            idata = pm.sample(step=lz.ConstrainedHMC())
    """
    model = pm.modelcontext(model)
    output = pt.as_tensor(output)
    observed = _checked_observed(name, output, observed)
    noise = [] if noise is None else noise
    parts = [noise] if isinstance(noise, str) or not isinstance(noise, Sequence) else noise
    names = tuple(part if isinstance(part, str) else str(part.name) for part in parts)
    constraint = ExactlyEqual(names)(output, observed)
    pm.Potential(name, constraint, model=model, dims=dims)
    return constraint


def _checked_observed(name: str, output: Variable, observed: Any) -> Variable:
    if not isinstance(observed, Variable):
        values = np.asarray(observed)
        if not (np.issubdtype(values.dtype, np.number) and np.all(np.isfinite(values))):
            raise ModelError(f"observed of {name!r} must hold finite numbers only: {observed!r}")
        observed = values.astype(float)
    observed = pt.as_tensor(observed)
    if not np.issubdtype(output.dtype, np.floating):
        raise ModelError(
            f"output of {name!r} has dtype {output.dtype}, but only a continuous output can be "
            "matched by moving along it"
        )
    check_shape(name, output, observed.type.shape)
    return observed.astype(output.dtype)


def check_shape(name: str, output: Variable, shape: tuple[int | None, ...]) -> None:
    """A ModelError if what was observed has another shape than the output, as far as is known."""
    sizes = list(zip(output.type.shape, shape, strict=False))
    clash = any(None not in pair and pair[0] != pair[1] for pair in sizes)
    if output.ndim != len(shape) or clash:
        raise ModelError(
            f"observed of {name!r} has shape {shape}, but output has {output.type.shape}; they "
            "must be equal"
        )


type Form = tuple[Callable[..., Variable], Callable[..., Variable]]
"""From parameters (as PyTensor has them) and ``shape`` to noise without a location or scale, and
from the noise and the parameters to the variable."""


def _location_scale(dist: Any, location: str, scale: str) -> Form:
    fixed = {location: np.float64(0.0), scale: np.float64(1.0)}
    return (
        lambda *given, shape: dist.dist(*given[:-2], **fixed, shape=shape),
        lambda n, *given: given[-2] + given[-1] * n,
    )


def _normal(*_: Any, shape: Any) -> Variable:
    return pm.Normal.dist(np.float64(0.0), np.float64(1.0), shape=shape)


def _exponential(noise: Variable) -> Variable:
    """Standard exponential variable from a standard normal one."""
    return -pt.log(0.5 * pt.erfc(noise / np.sqrt(2.0)))


FORMS: dict[Any, Form] = {
    pm.Normal: _location_scale(pm.Normal, "mu", "sigma"),
    pm.Laplace: _location_scale(pm.Laplace, "mu", "b"),
    pm.Logistic: _location_scale(pm.Logistic, "mu", "s"),
    pm.Cauchy: _location_scale(pm.Cauchy, "alpha", "beta"),
    pm.Gumbel: _location_scale(pm.Gumbel, "mu", "beta"),
    pm.StudentT: _location_scale(pm.StudentT, "mu", "sigma"),
    pm.LogNormal: (_normal, lambda n, mu, sigma: pt.exp(mu + sigma * n)),
    pm.Exponential: (_normal, lambda n, scale: scale * _exponential(n)),
    pm.Weibull: (_normal, lambda n, alpha, beta: beta * _exponential(n) ** (1.0 / alpha)),
    pm.Pareto: (_normal, lambda n, alpha, m: m * pt.exp(_exponential(n) / alpha)),
    pm.Uniform: (
        _normal,
        lambda n, lower, upper: lower + (upper - lower) * (0.5 * pt.erfc(-n / np.sqrt(2.0))),
    ),
}
"""Distributions with a differentiable form in terms of noise."""


def generator_form(model: pm.Model, var_names: Sequence[str] | None = None) -> pm.Model:
    """A model of the same posterior and log Z, with exact observations in place of a likelihood.

    Each observed variable ``y`` becomes an exact observation of the same name, of an output that is
    made of the variable's parameters and of noise ``y_noise``, a new free variable of the same
    shape: ``mu + sigma * y_noise`` for a normal one.

    Parameters
    ----------
    model
        Model whose observed variables are of a location-scale family (Normal, Laplace, Logistic,
        Cauchy, Gumbel, StudentT) or have an inverse distribution function (LogNormal, Exponential,
        Weibull, Pareto, Uniform).
    var_names
        Observed variables to convert; None takes all.

    Returns
    -------
    pm.Model
        A new model, for `ConstrainedHMC`; the old one is not changed.

    Raises
    ------
    ModelError
        If there is no such variable, one has another distribution, or others depend on it.

    See Also
    --------
    likelihood_form : the inverse.

    References
    ----------
    Graham & Storkey (2017), section 7 and appendix C, arXiv 1605.07826.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        model = lz.energies.radiata_pine().model
        with lz.generator_form(model):
            idata = pm.sample(step=lz.ConstrainedHMC())
    """
    check_is_model(model, "generator_form(model)")
    observed = [rv.name for rv in model.observed_RVs]
    chosen = observed if var_names is None else listed(var_names)
    unknown = [name for name in chosen if name not in observed]
    if unknown or not chosen:
        raise ModelError(
            f"var_names={unknown} are not observed variables of the model, which are {observed}"
            if unknown
            else "the model has no observed variable to convert"
        )
    fgraph = graph_of(model)
    replacements = []
    for node in fgraph.toposort():
        if not (isinstance(node.op, ModelObservedRV) and node.op.name in chosen):
            continue
        (rv, value), name, dims = node.inputs, node.op.name, node.op.dims
        # the output list of the graph is a client too
        if len(fgraph.clients[node.outputs[0]]) > 1:
            raise ModelError(
                f"other variables depend on the observed variable {name!r}, so it has no form of "
                "its own; write them in terms of its data"
            )
        noise_of, output_of = _form_of(rv, name)
        parameters = rv.owner.op.dist_params(rv.owner)
        noise = noise_of(*parameters, shape=value.shape)
        free = model_free_rv(noise, noise.type(name=f"{name}_noise"), None, f"{name}_noise", *dims)
        output = output_of(free, *parameters)
        exact = ExactlyEqual((f"{name}_noise",))(output, value.astype(output.dtype))
        replacements.append((node.outputs[0], model_potential(exact, name, *dims)))
    toposort_replace(fgraph, replacements)
    return model_from_fgraph(fgraph, mutate_fgraph=True)


def _form_of(rv: Variable, name: str) -> Form:
    for distribution, form in FORMS.items():
        if type(rv.owner_op) is distribution.rv_type:
            return form
    known = sorted(distribution.__name__ for distribution in FORMS)
    kind = "a deterministic" if rv.owner is None else type(rv.owner.op).__name__
    raise ModelError(
        f"the observed variable {name!r} is {kind}, which has no form in terms of noise here; "
        f"those of {', '.join(known)} have one. Leave it out with var_names="
    )


def relax(model: pm.Model, tolerance: float | Mapping[str, Any]) -> pm.Model:
    """A model in which each exact observation is replaced by a normal likelihood of given width.

    Each entry of an exact observation becomes an observed normal variable around the output, with
    ``tolerance`` for its standard deviation: approximate Bayesian computation with a normalised
    Gaussian kernel. Its log Z goes to that of the exact model as the tolerance goes to zero, and
    its posterior too; any sampler can take it, but sampling gets harder as the tolerance gets
    smaller.

    Parameters
    ----------
    model
        Model with exact observations.
    tolerance
        Standard deviation of the kernel, positive: one number, or numbers (of the shape of the
        output) by name of the exact observation.

    Returns
    -------
    pm.Model
        A new model, in which exact observations are observed variables; the old one is not changed.

    Raises
    ------
    ModelError
        If the model has no exact observation.
    ValueError
        If a tolerance is not positive, missing, of no such observation, or of another shape.

    See Also
    --------
    ExactObservation, abc_rejection

    Notes
    -----
    ABC is more often written with a uniform ball, a kernel that is constant within a distance and
    zero beyond; a sampler that follows gradients has nothing to follow there. A ball of radius
    r in m dimensions is about as strict as a Gaussian of standard deviation r / sqrt(m + 2).

    References
    ----------
    Graham & Storkey (2017), eq. 1 and 2, arXiv 1605.07826.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as simulator:
            v, n = pm.Normal("v"), pm.Normal("n")
            lz.ExactObservation("y", v**2 + 0.5 * n, observed=2.0)
        lz.sample_hais(model=lz.relax(simulator, 0.1), random_seed=1)
    """
    check_is_model(model, "relax(model, tolerance)")
    names = [observation.name for observation in exact_observations(model)]
    if not names:
        raise ModelError("the model has no exact observation (lz.ExactObservation) to relax")
    if not isinstance(tolerance, Mapping):
        tolerance = dict.fromkeys(names, tolerance)
    if set(tolerance) != set(names):
        raise ValueError(
            f"tolerance has numbers for {list(tolerance)}, but must have some for each of the "
            f"exact observations, {names}, and for no others"
        )
    fgraph = graph_of(model)
    replacements = []
    for node in fgraph.toposort():
        if not (isinstance(node.op, ModelPotential) and is_exact(node.inputs[0])):
            continue
        output, observed = node.inputs[0].owner.inputs
        width = _width(node.op.name, tolerance[node.op.name], observed.type.shape)
        kernel = pm.Normal.dist(mu=output, sigma=width, shape=output.shape)
        value = observed.astype(kernel.dtype)
        new = model_observed_rv(kernel, value, node.op.name, *node.op.dims)
        replacements.append((node.outputs[0], new))
    toposort_replace(fgraph, replacements)
    return model_from_fgraph(fgraph, mutate_fgraph=True)


def _width(name: str, given: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """A tolerance as numbers, checked: one, or one for each entry of an output."""
    width = numbers_of(given)
    if not np.all(np.isfinite(width) & (width > 0)):
        raise ValueError(f"tolerance of {name!r} is {given!r}, but must be positive and finite")
    pairs = list(zip(width.shape[::-1], shape[::-1], strict=False))
    if width.ndim > len(shape) or any(n != 1 and size not in (None, n) for n, size in pairs):
        raise ValueError(
            f"tolerance of {name!r} has shape {width.shape}, but its output has {shape}: give one "
            "number, or one for each entry"
        )
    return width


def graph_of(model: pm.Model) -> FunctionGraph:
    """A copy of a model as one graph, to be changed into a new model, without initial values."""
    return without_initial_values(model, fgraph_from_model)[0]
