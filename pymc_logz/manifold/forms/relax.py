"""A model with exact observations as one with a narrow likelihood."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.model.fgraph import ModelPotential, model_from_fgraph, model_observed_rv
from pymc.pytensorf import toposort_replace

from pymc_logz.errors import ModelError
from pymc_logz.models.exact import exact_observations, graph_of, is_exact


def relax(model: pm.Model, tolerance: float | Mapping[str, Any]) -> pm.Model:
    """A model with a likelihood of given width in place of each exact observation.

    Each entry of an exact observation becomes an observed normal variable around the output, with
    ``tolerance`` for its standard deviation: approximate Bayesian computation with a normalised
    Gaussian kernel. Its log Z goes to that of the exact model as the tolerance goes to zero, and
    its posterior too; any sampler can take it, the less easily the smaller the tolerance.

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
        If a tolerance is not positive, or missing.

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
    names = [observation.name for observation in exact_observations(model)]
    if not names:
        raise ModelError("the model has no exact observation (lz.ExactObservation) to relax")
    widths = _checked_widths(tolerance, names)
    fgraph = graph_of(model)
    replacements = []
    for node in fgraph.toposort():
        if not (isinstance(node.op, ModelPotential) and is_exact(node.inputs[0])):
            continue
        output, observed = node.inputs[0].owner.inputs
        kernel = pm.Normal.dist(mu=output, sigma=widths[node.op.name], shape=output.shape)
        value = observed.astype(kernel.dtype)
        new = model_observed_rv(kernel, value, node.op.name, *node.op.dims)
        replacements.append((node.outputs[0], new))
    toposort_replace(fgraph, replacements)
    return model_from_fgraph(fgraph, mutate_fgraph=True)


def _checked_widths(
    tolerance: float | Mapping[str, Any], names: Sequence[str]
) -> dict[str, np.ndarray]:
    if not isinstance(tolerance, Mapping):
        tolerance = dict.fromkeys(names, tolerance)
    missing = [name for name in names if name not in tolerance]
    if missing:
        raise ValueError(f"tolerance has no number for the exact observations {missing}")
    widths = {name: np.asarray(tolerance[name], dtype=float) for name in names}
    for name, width in widths.items():
        if not np.all(np.isfinite(width) & (width > 0)):
            raise ValueError(f"tolerance of {name!r} is {width}, but must be positive and finite")
    return widths
