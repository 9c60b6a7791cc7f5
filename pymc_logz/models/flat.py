"""From a PyMC model to flat rows in the unconstrained space, and back to named variables."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pymc.backends.arviz import coords_and_dims_for_inferencedata, find_constants, find_observations
from pymc.pytensorf import join_nonshared_inputs, replace_vars_in_graphs, rewrite_pregrad
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.variable import TensorVariable

from pymc_logz.errors import ModelError
from pymc_logz.graphs.compiling import compile_kwargs_for
from pymc_logz.models.data_rows import SymbolicData
from pymc_logz.models.exact import refuse_exact
from pymc_logz.models.guards import check_model
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.geometric import AnnealingPath

MAX_TRIES = 1000


@dataclass(frozen=True)
class FlatModel:
    """A PyMC model seen as two log densities of a flat row of unconstrained values."""

    model: pm.Model
    value_names: tuple[str, ...]
    """Names of the value variables, in the order of a row."""
    shapes: tuple[tuple[int, ...], ...]
    """Shape of each value variable."""
    point: TensorVariable
    """Symbolic row, shape (d,)."""
    log_prior: TensorVariable
    """Log prior of the row, Jacobians of the transforms included."""
    log_ratio: TensorVariable
    """Log likelihood plus potentials of the row."""
    observed: Mapping[str, np.ndarray] | None = None
    """Data that stand in for the model's own, by name of the observed variable."""
    data: TensorVariable | None = None
    """Symbolic data that differ from row to row, shape (D,), if there are any."""

    @property
    def n_dims(self) -> int:
        """d, the length of a row."""
        return int(sum(np.prod(shape, dtype=int) for shape in self.shapes))

    def named_values(self, row: np.ndarray) -> dict[str, np.ndarray]:
        """Value variables of one row by name, as ``Model.compile_logp()`` takes them."""
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in self.shapes])
        parts = np.split(row, ends[:-1])
        return {
            name: part.reshape(shape)
            for name, part, shape in zip(self.value_names, parts, self.shapes, strict=True)
        }


def flatten_model(
    model: pm.Model,
    observed: Mapping[str, np.ndarray] | None = None,
    data: SymbolicData | None = None,
) -> FlatModel:
    """Flat log prior and log ratio of a model, after checking that its log Z is defined.

    Parameters
    ----------
    model
        Any PyMC model with continuous free variables, proper priors, and something observed.
    observed
        Data to condition on in place of the model's own, by name of the observed variable.
    data
        Data that are to be an input in place of the model's own.

    Returns
    -------
    FlatModel

    Raises
    ------
    ModelError
        With the variable's name and the remedy, if log Z is undefined or out of reach.
    """
    refuse_exact(model)
    check_model(model)
    start = model.initial_point(0)
    stand_ins = {
        model.rvs_to_values[model[name]]: pt.constant(value)
        for name, value in (observed or {}).items()
    }
    stand_ins |= {} if data is None else data.places
    densities = [model.varlogp, model.datalogp]
    densities = clone_replace(densities, stand_ins, rebuild_strict=False)
    densities = [rewrite_pregrad(density) for density in densities]
    densities = [pt.as_tensor(density, allow_xtensor_conversion=True) for density in densities]
    densities, joined = join_nonshared_inputs(start, densities, model.value_vars)
    shapes = tuple(start[var.name].shape for var in model.value_vars)
    n_dims = int(sum(np.prod(shape, dtype=int) for shape in shapes))
    point = pt.tensor("row", dtype=joined.dtype, shape=(n_dims,))
    densities = clone_replace(densities, {joined: point}, rebuild_strict=False)
    log_prior, log_ratio = with_constant_data(densities)
    names = tuple(var.name for var in model.value_vars)
    return FlatModel(
        model, names, shapes, point, log_prior, log_ratio, observed, data and data.vector
    )


def with_constant_data(outputs: Iterable[Variable]) -> list[Any]:
    """Replace data and dimension lengths by their present values, which makes shapes static."""
    shared = {
        var: pt.constant(var.get_value(borrow=True), name=var.name)
        for var in graph_inputs(outputs)
        if isinstance(var, SharedVariable) and not isinstance(var.type, RandomType)
    }
    return clone_replace(list(outputs), shared, rebuild_strict=False)


def model_path(
    flat: FlatModel, reference: PriorDraws | Elliptical, batching: str = "auto"
) -> AnnealingPath:
    """Path from a normalised reference to prior times likelihood times potentials."""
    if isinstance(reference, Elliptical):
        log_reference = reference.log_density(flat.point)
        log_ratio = flat.log_prior + flat.log_ratio - log_reference
    else:
        log_reference, log_ratio = flat.log_prior, flat.log_ratio
    return AnnealingPath(
        flat.point,
        log_reference,
        log_ratio,
        n_dims=flat.n_dims,
        sample_reference=reference,
        how=batching,
        data=flat.data,
    )


def constrain(flat: FlatModel, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Free variables and deterministics of rows on their natural scale, by name.

    Parameters
    ----------
    flat
        The model.
    rows
        Unconstrained values, shape (n, d).

    Returns
    -------
    dict
        Arrays of shape (n, *shape of the variable).
    """
    model = flat.model
    return constrainer(flat, [var.name for var in (*model.free_RVs, *model.deterministics)])(rows)


def constrainer(
    flat: FlatModel, wanted: Iterable[str]
) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Function from rows (n, d) to variables of these names; see `constrain`."""
    model, wanted = flat.model, set(wanted)
    outputs = [var for var in model.unobserved_value_vars if var.name in wanted]
    names = [var.name for var in outputs]
    outputs = [pt.as_tensor(var, allow_xtensor_conversion=True) for var in outputs]
    outputs, joined = join_nonshared_inputs(model.initial_point(0), outputs, model.value_vars)
    outputs = with_constant_data(outputs)
    batch = pt.matrix("rows", dtype=joined.dtype, shape=(None, flat.n_dims))
    batched = vectorize_graph(outputs, {joined: batch})
    kwargs = compile_kwargs_for("FAST_COMPILE", {"on_unused_input": "ignore"})
    function = pytensor.function([batch], batched, **kwargs)

    def values_of(rows: np.ndarray) -> dict[str, np.ndarray]:
        values = function(rows.astype(joined.dtype))
        return {
            # a deterministic of data alone is not batched
            name: np.asarray(value)
            if value.ndim > output.ndim
            else np.broadcast_to(value, (len(rows), *value.shape))
            for name, value, output in zip(names, values, outputs, strict=True)
        }

    return values_of


def unconstrain(flat: FlatModel, posterior: xr.Dataset) -> np.ndarray:
    """Unconstrained rows of draws on their natural scale; the inverse of `constrain`.

    Parameters
    ----------
    flat
        The model.
    posterior
        Free variables of the model with dimensions chain and draw.

    Returns
    -------
    np.ndarray
        Shape (chains * draws, d).

    Raises
    ------
    ValueError
        If a free variable is missing or has another shape than in the model.
    """
    inputs, outputs, values = [], [], []
    shapes = dict(zip(flat.value_names, flat.shapes, strict=True))
    model = flat.model
    for rv in model.free_RVs:
        if rv.name not in posterior:
            raise ValueError(
                f"the draws have no variable {rv.name!r} (they have {sorted(map(str, posterior))}"
                "): they are of another model"
            )
        array = posterior[rv.name].transpose("chain", "draw", ...).to_numpy()
        values.append(array.reshape(-1, *array.shape[2:]).astype(rv.dtype))
        given = rv.type(name=f"{rv.name}_given")
        transform = model.rvs_to_transforms[rv]
        inputs.append(given)
        outputs.append(given if transform is None else transform.forward(given, *rv.owner.inputs))
    outputs = replace_vars_in_graphs(outputs, dict(zip(model.free_RVs, inputs, strict=True)))
    # nameless: a name such as "1|group" looks like a dtype to PyTensor
    batches = [pt.tensor(dtype=v.dtype, shape=(None, *v.type.shape)) for v in inputs]
    batched = vectorize_graph(with_constant_data(outputs), dict(zip(inputs, batches, strict=True)))
    kwargs = compile_kwargs_for("FAST_COMPILE", {"on_unused_input": "ignore"})
    parts = pytensor.function(batches, batched, **kwargs)(*values)
    for rv, part in zip(model.free_RVs, parts, strict=True):
        shape = shapes[model.rvs_to_values[rv].name]
        if part.shape[1:] != shape:
            raise ValueError(
                f"the draws of {rv.name!r} give unconstrained shape {part.shape[1:]}, but the "
                f"model has {shape}: they are of another model"
            )
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def describe_row(flat: FlatModel, row: np.ndarray) -> str:
    """Parameter values of one row on their natural scale, for messages."""
    values = constrain(flat, row[None])
    free = {var.name for var in flat.model.free_RVs}
    with np.printoptions(precision=4, threshold=6):
        return ", ".join(f"{name}={value[0]}" for name, value in values.items() if name in free)


def variable_of(flat: FlatModel, column: int) -> str:
    """Name of the free variable that a column of a row belongs to."""
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in flat.shapes])
    value = flat.value_names[int(np.searchsorted(ends, column, side="right"))]
    names = {var.name: rv.name for rv, var in flat.model.rvs_to_values.items()}
    return str(names[value])


def model_labels(model: pm.Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """Coordinates and dimension names of a model's variables."""
    return coords_and_dims_for_inferencedata(model)


def model_data(flat: FlatModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """Observed data and constant data of a model by name."""
    observed = {**find_observations(flat.model), **(flat.observed or {})}
    return observed, find_constants(flat.model)


def simulate(flat: FlatModel, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """One draw of the prior, as an unconstrained row (1, d), and data simulated from it."""
    model = flat.model
    if model.potentials:
        names = [potential.name for potential in model.potentials]
        raise ModelError(f"data cannot be simulated from a model with potentials ({names})")
    free = [rv.name for rv in model.free_RVs]
    observed = [rv.name for rv in model.observed_RVs]
    for _ in range(MAX_TRIES):
        draws = pm.draw(
            [model[name] for name in free + observed],
            mode="FAST_COMPILE",
            random_seed=int(rng.integers(2**31)),
        )
        values = {name: np.asarray(draw) for name, draw in zip(free + observed, draws, strict=True)}
        arrays = {n: (("chain", "draw", *_dims(n, values[n])), values[n][None, None]) for n in free}
        row = unconstrain(flat, xr.Dataset(arrays))
        if np.all(np.isfinite(row)):
            return row, {name: values[name] for name in observed}
    raise ModelError(f"none of {MAX_TRIES} prior draws fits the transforms of this model")


def _dims(name: str, value: np.ndarray) -> list[str]:
    return [f"{name}_dim_{i}" for i in range(value.ndim)]
