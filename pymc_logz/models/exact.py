"""Outputs of a simulator that are observed exactly, as components of a PyMC model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.fgraph import fgraph_from_model
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op

from pymc_logz.errors import ModelError

REMEDY = (
    "an exact observation has no density that this sampler could use; run "
    "pm.sample(step=pymc_logz.ConstrainedHMC()), or pymc_logz.relax(model, tolerance) for a model "
    "that any sampler can take"
)


class ExactlyEqual(Op):
    """Marks that an output equals what was observed, entry by entry.

    It stands in the model as a potential, so it goes wherever the model's graph goes. Its value
    would be a delta function: whoever evaluates, differentiates or converts it does not know what
    it means, and gets an error. ``noise`` names free variables of which each entry reaches one
    entry of the output only.
    """

    __props__ = ("noise",)

    def __init__(self, noise: tuple[str, ...] = ()) -> None:
        self.noise = noise

    def make_node(self, output: Any, observed: Any) -> Apply:
        """Node for an output and what it equals, of one shape."""
        output, observed = pt.as_tensor(output), pt.as_tensor(observed)
        return Apply(self, [output, observed], [output.type()])

    def do_constant_folding(self, fgraph: Any, node: Any) -> bool:
        """Never, since it has no value."""
        return False

    def infer_shape(self, node: Any, shapes: Sequence[Any]) -> list[Any]:
        """Shape of the output."""
        return [shapes[0]]

    def perform(self, *_: Any) -> Any:
        """Raise: there is no value, and no gradient."""
        raise ModelError(REMEDY)

    pullback = pushforward = perform

    def __str__(self) -> str:
        """Name and remedy: some backends put only this into their error."""
        return f"ExactlyEqual ({REMEDY})"


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
    restricted to the inputs that give ``observed``. It may stand beside ordinary priors,
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
        Free variables (or their names) of which each entry reaches one entry of ``output`` only, so
        that the cost of a step is linear in their number. None finds them where that is safe.
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
    ``model.to_graphviz()``. A sampler that does not know it stops with an error. Like any
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
    sizes = list(zip(output.type.shape, observed.type.shape, strict=False))
    clash = any(None not in pair and pair[0] != pair[1] for pair in sizes)
    if output.ndim != observed.ndim or clash:
        raise ModelError(
            f"observed of {name!r} has shape {observed.type.shape}, but output has "
            f"{output.type.shape}; they must be equal"
        )
    return observed.astype(output.dtype)


def exact_observations(model: pm.Model) -> list[Variable]:
    """Components of a model that came from `ExactObservation`, in order."""
    return [potential for potential in model.potentials if is_exact(potential)]


def is_exact(potential: Variable) -> bool:
    """Whether a potential came from `ExactObservation`."""
    return isinstance(potential.owner_op, ExactlyEqual)


def graph_of(model: pm.Model) -> FunctionGraph:
    """A copy of a model as one graph, to be changed into a new model, without initial values."""
    initial_values = dict(model.rvs_to_initial_values)
    try:
        model.rvs_to_initial_values.update(dict.fromkeys(initial_values))
        return fgraph_from_model(model)[0]
    finally:
        model.rvs_to_initial_values.update(initial_values)
