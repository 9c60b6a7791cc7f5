"""Normalised log density of points under a model whose log Z is known: log p(x) = -E(x) - log Z."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.arguments import numbers_of
from pymc_logz.models.context import ForeignModel, model_from, written_as
from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import flatten_model, stacked, unconstrained
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.proposals import natural_density
from pymc_logz.models.rows import check_order, natural_shapes
from pymc_logz.trees.chains import check_stored_density
from pymc_logz.trees.comparison import evidence_of
from pymc_logz.trees.doubts import noted
from pymc_logz.trees.kinds import PER_DATUM
from pymc_logz.trees.layout import estimate_of, evidence_of_rows, make_tree, totals_of_rows
from pymc_logz.trees.posterior import check_same_model

if TYPE_CHECKING:
    import pymc as pm


@written_as("log_density(idata, model, points)")
def log_density(
    idata: xr.DataTree,
    model: "pm.Model | ForeignModel | None" = None,
    points: Any = None,
    *,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Normalised log density of points, with the error of log Z.

    An analysis model (a product of experts, a Boltzmann machine) scores data x themselves: its free
    variable is x, and its density ``exp(-E(x)) / Z``. This gives ``log p(x) = -E(x) - log Z`` for
    each of many points, in the layout of `marginal_log_likelihood`, which does the same for
    generative models; so both go into one table. For a model of parameters it is the posterior
    density.

    Parameters
    ----------
    idata
        DataTree with log Z of the model in its group ``evidence``; the recommended entry is used.
    model
        The model of that tree, or energy made of bits; None takes the one on the context stack.
    points
        The points, on the natural scale: a dict from each free variable to an array of shape (n,
        ...); for a model with one free variable that array alone. Of a restricted Boltzmann machine
        the visible units are enough: hidden ones are summed out. A DataArray's first dimension, and
        its coordinates, are those of the result.
    compile_kwargs
        As in `sample_hais`.

    Returns
    -------
    xarray.DataTree
        Group ``evidence``, dimensions ``estimator`` and that of the points: ``log_z`` is log p(x)
        in nats, ``mcse`` and ``status`` those of log Z. Points without density have -inf. Its
        attributes hold ``mean_log_density``; ``mean_mcse``, the error that log Z brings to it;
        ``mean_standard_error``, that of so few points, which comes on top; and ``sum_log_z``,
        ``sum_mcse`` and ``sum_bias`` as `marginal_log_likelihood` has them.

    Raises
    ------
    ModelError
        If log Z of the model is undefined.
    ValueError
        If the tree has no log Z, is of another model or of other data, points do not fit the
        model, or some are NaN.

    See Also
    --------
    marginal_log_likelihood : of models with latent variables.

    Notes
    -----
    All points share one log Z, so they share its error, which does not average out.

    References
    ----------
    Sohl-Dickstein & Culpepper (2012), section 3.2, arXiv 1205.1925.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_logz as lz
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0, 1, shape=2)
    ...     y = pm.Normal("y", x, 1, observed=[0.5, 0.5])
    >>> tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    >>> lz.log_density(tree, model, np.zeros((3, 2)))["evidence"]["log_z"].shape
    (1, 3)
    """
    entry = evidence_of(idata, "idata")
    if isinstance(model, ForeignModel):
        _check_same_energy(idata, model)
        left_out = set(model.summable).difference(points if isinstance(points, Mapping) else ())
        shapes = {name: one for name, one in model.shapes.items() if name not in left_out}
        dim, coords, arrays = _points(points, shapes)
        log_p, mass_error, spent = model.log_density(arrays), 0.0, {}
    else:
        model = model_from(model, "log_density(idata, model, points)")
        check_same_model(idata, model, compile_kwargs)
        flat = flatten_model(model)
        dim, coords, arrays = _points(points, natural_shapes(model), model)
        density = RowDensity(flat, compile_kwargs)
        _, log_p = natural_density(density, unconstrained(model, arrays))
        # log Z is that of a prior of mass one, which transforms may take a part of: by which part
        # is told by draws that are the same in every call
        log_mass, mass_error = PriorDraws(model, needed=False).log_mass()
        log_p -= log_mass
        spent = {
            "backend": density.compiled.backend,
            "row_evaluations": density.n_evaluated,
        }
    log_p -= float(entry["log_z"])
    log_z_error = float(np.hypot(entry["mcse"], mass_error))
    n = len(log_p)
    attrs = {
        **spent,
        **totals_of_rows(log_p, n * log_z_error, 0.5 * n * log_z_error**2),
        **noted([], idata["evidence"].to_dataset().attrs),
    }
    one = replace(estimate_of(entry), mcse=log_z_error)
    estimates = [replace(one, log_z=float(value)) for value in log_p]
    groups = {"evidence": evidence_of_rows(estimates, dim, coords, attrs)}
    return make_tree(groups, {"method": "log_density", **attrs}, PER_DATUM)


def _check_same_energy(idata: xr.DataTree, energy: ForeignModel) -> None:
    """A ValueError if the draws of a tree, where it has some, are not of this energy."""
    if "posterior" not in idata.children:
        return
    draws = idata["posterior"].to_dataset()
    values = stacked(draws, [name for name in energy.shapes if name in draws])
    found = {name: one.shape[1:] for name, one in values.items()}
    if found != energy.shapes:
        raise ValueError(
            f"idata is of another model: its draws have shapes {found}, and the variables of "
            f"{energy.name} {energy.shapes}"
        )
    own = energy.log_density(values).reshape(draws.sizes["chain"], -1)
    check_stored_density(idata, own, np.zeros_like(own), lambda: own)


def _points(
    points: Any, shapes: Mapping[str, tuple[int, ...]], model: "pm.Model | None" = None
) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """Dimension and coordinates of the points, and arrays (n, ...) by name of the variable."""
    if not isinstance(points, Mapping):
        if len(shapes) > 1 or points is None:
            raise ValueError(
                f"points must be a dict with an array for each free variable: {list(shapes)}"
            )
        points = dict.fromkeys(shapes, points)
    if set(points) != set(shapes):
        raise ValueError(
            f"points has {sorted(points)}, but must have each free variable: {sorted(shapes)}"
        )
    arrays = {name: numbers_of(values) for name, values in points.items()}
    n = max((array.shape[0] for array in arrays.values() if array.ndim), default=0)
    for name, array in arrays.items():
        if array.shape != (n, *shapes[name]) or not n:
            shape = ", ".join(map(str, ("n", *shapes[name])))
            raise ValueError(
                f"points of {name!r} have shape {array.shape}, but must have ({shape}), with n > 0 "
                "the same for all: a leading axis of points, then the variable's shape"
            )
        if model is not None:
            check_order(model, name, points[name], f"points of {name!r}", "points")
        if np.isnan(array).any():
            n_bad = int(np.isnan(array).reshape(n, -1).any(axis=1).sum())
            raise ValueError(f"points of {name!r} have NaN in {n_bad} of {n}: leave these out")
    first = next(iter(points.values()))
    if isinstance(first, xr.DataArray):
        dim = str(first.dims[0])
        return dim, {dim: first[dim].values} if dim in first.coords else {}, arrays
    return "data_row", {}, arrays
