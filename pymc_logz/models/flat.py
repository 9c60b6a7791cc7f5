"""From a PyMC model to flat rows in the unconstrained space, and back to named variables."""

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.distributions.transforms import ZeroSumTransform
from pymc.pytensorf import replace_vars_in_graphs, rewrite_pregrad
from pytensor.graph.basic import Constant
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable
from scipy.special import log_expit

from pymc_logz.errors import ModelError
from pymc_logz.graphs.functions import Kept, cheaply_compiled, wider
from pymc_logz.graphs.host_calls import calls_host, with_host_calls
from pymc_logz.models.cache import DataInputs, KeptForModel, kept_for, with_data_inputs
from pymc_logz.models.discrete import sites_of
from pymc_logz.models.exact import REMEDY, exact_observations
from pymc_logz.models.guards import ONE_TURN, check_model, refuse_discrete
from pymc_logz.models.known_priors import log_constant_of_fields
from pymc_logz.models.prior import PriorDraws, transformed
from pymc_logz.models.rows import (
    at_symbolic_row,
    columns_of,
    data_variable,
    joined,
    starting_point,
    symbolic_data,
    with_places,
)
from pymc_logz.paths.geometric import AnnealingPath, DrawRows, Entries, Site
from pymc_logz.paths.mixture import mixture_path

if TYPE_CHECKING:
    from pymc_logz.discrete.summing import InPieces


@dataclass(frozen=True)
class FlatModel:
    """A PyMC model as two log densities of a flat row; what has no word here is as of its path."""

    model: pm.Model
    shapes: Mapping[str, tuple[int, ...]]
    """Shape of each value variable by name, in the order of a row."""
    point: TensorVariable
    log_prior: TensorVariable
    """Log prior of the row, Jacobians of the transforms included."""
    log_ratio: TensorVariable
    """Log likelihood plus potentials of the row."""
    observed: Mapping[str, np.ndarray] | None = None
    """Data that stand in for the model's own, by name of the observed variable."""
    data: TensorVariable | None = None
    sites: tuple[Site, ...] = ()
    entries: Entries | None = None
    inputs: tuple[TensorVariable, ...] = ()
    """Symbolic data that all rows share: inputs of whatever is compiled from the densities."""
    values: tuple[np.ndarray, ...] = ()
    """What they were when the model was made flat."""
    kept: Kept = field(default_factory=Kept)
    summed: "InPieces | None" = None
    """Discrete variables that were summed out, and are no part of a row, if so."""

    @property
    def n_dims(self) -> int:
        """d, the length of a row."""
        return sum(map(math.prod, self.shapes.values()))

    @property
    def columns_by_name(self) -> dict[str, np.ndarray]:
        """Columns of a row that each value variable takes, in its shape."""
        return columns_of(self.shapes)

    @property
    def owners(self) -> tuple[str, ...]:
        """Name of the free variable that each entry of a row belongs to."""
        variable = {var.name: str(rv.name) for rv, var in self.model.rvs_to_values.items()}
        columns = self.columns_by_name.items()
        return tuple(variable[value] for value, own in columns for _ in range(own.size))

    @cached_property
    def calls_host(self) -> bool:
        """Whether its density has a black box, which is a call of Python for each row."""
        return calls_host([self.log_prior, self.log_ratio])

    @property
    def bends(self) -> np.ndarray:
        """Whether each entry of a row has a transform that is not linear, shape (d,)."""
        ways = {str(rv.name): way for rv, way in self.model.rvs_to_transforms.items()}
        return np.array([not isinstance(ways[one], ZeroSumTransform | None) for one in self.owners])

    def log_turns(self, rows: np.ndarray) -> np.ndarray:
        """Log Jacobian, of rows (..., d), that PyMC's own values of angles of `ONE_TURN` lack."""
        turned = {rv.name for rv, of in self.model.rvs_to_transforms.items() if of is ONE_TURN}
        angles = rows[..., [owner in turned for owner in self.owners]]
        return np.sum(np.log(2 * np.pi) + log_expit(angles) + log_expit(-angles), axis=-1)

    @property
    def continuous(self) -> np.ndarray:
        """Columns of a row that are not discrete."""
        return np.delete(np.arange(self.n_dims), [site.column for site in self.sites])


def flatten_model(
    model: pm.Model,
    observed: Mapping[str, np.ndarray] | None = None,
    data: Iterable[str] = (),
    *,
    integers: bool = False,
) -> FlatModel:
    """Flat log prior and log ratio of a model, once it is checked that its log Z is defined.

    ``observed`` stand in for the model's own data; of ``data`` each row brings its own.
    """
    # graphs are made once for a model that stays as it is, whose data are inputs of them
    if not integers:
        refuse_discrete(model)
    kept = kept_for(model)
    stand_ins = {name: np.asarray(value) for name, value in (observed or {}).items()}
    shapes = tuple((name, value.shape) for name, value in stand_ins.items())
    names = tuple(data)
    key = ("flat", shapes, names)
    flat, containers = kept.get(key, lambda: _flat_graph(model, stand_ins, names, kept))
    values = (*containers.values(), *stand_ins.values())
    return replace(flat, observed=observed, values=values)


def _flat_graph(
    model: pm.Model,
    stand_ins: Mapping[str, np.ndarray],
    data: Sequence[str],
    kept: KeptForModel,
) -> tuple[FlatModel, DataInputs]:
    """A model made flat, and the containers of data whose inputs come first."""
    if names := [observation.name for observation in exact_observations(model)]:
        raise ModelError(f"the model has exact observations {names}: {REMEDY}")
    check_model(model, integers=True)
    constant = log_constant_of_fields(model, observed=True)
    start = starting_point(model)
    shapes = {var.name: start[var.name].shape for var in model.value_vars}
    if not any(value.size for value in start.values()):
        raise ModelError(
            f"the free variables have no entries (their shapes are {shapes}), so there is nothing "
            "to integrate over, and log Z is the log likelihood: model.point_logps()"
        )
    opened = with_places(model, [*stand_ins, *data])
    vector, parts = symbolic_data(model, data)
    given = {
        name: pt.tensor(dtype=data_variable(opened, name).type.dtype, shape=value.shape)
        for name, value in stand_ins.items()
    }
    replaced = {data_variable(opened, name): new for name, new in (parts | given).items()}
    log_ratio = opened.datalogp - constant if constant else opened.datalogp
    densities = clone_replace(wider([opened.varlogp, log_ratio]), replaced, rebuild_strict=False)
    kept.bake_in(var for var in graph_inputs(densities) if isinstance(var, Constant))
    point, densities = at_symbolic_row(model, list(map(rewrite_pregrad, densities)))
    # PyTensor keeps 0.5 in single precision, and of a fair coin alone the density is then, too
    densities = [density.astype(point.dtype) for density in densities]
    densities = with_host_calls(densities, {point: joined(start, model.value_vars, point.dtype)})
    (log_prior, log_ratio), containers = with_data_inputs(densities, kept)
    flat = FlatModel(
        model,
        shapes,
        point,
        log_prior,
        log_ratio,
        data=vector if data else None,
        sites=sites_of(model, columns_of(shapes).values(), kept),
        inputs=(*containers.inputs, *given.values()),
    )
    return flat, containers


def model_path(flat: FlatModel, prior: DrawRows) -> AnnealingPath:
    """Path from the prior to prior times likelihood times potentials."""
    return AnnealingPath(
        flat.point,
        flat.log_prior,
        flat.log_ratio,
        n_dims=flat.n_dims,
        sample_reference=prior,
        data=flat.data,
        parameters=flat.inputs,
        values=flat.values,
        sites=flat.sites,
        entries=flat.entries,
        kept=flat.kept,
    )


def open_path(flat: FlatModel, prior: PriorDraws) -> AnnealingPath:
    """Path from the prior, opened for mixtures in its place where all variables are continuous."""
    path = model_path(flat, prior)
    return path if flat.sites else mixture_path(path)


def constrain(
    flat: FlatModel, rows: np.ndarray, wanted: Iterable[str] | None = None
) -> dict[str, np.ndarray]:
    """Variables of rows (..., d) on their natural scale, by name: all, or those that are wanted."""
    model, shape = flat.model, rows.shape[:-1]
    rows = rows.reshape(math.prod(shape), rows.shape[-1])
    if flat.summed is not None:
        # the same rows have the same discrete values, whoever asks
        seed = zlib.crc32(np.ascontiguousarray(rows).tobytes())
        rows = flat.summed.filled(rows, np.random.default_rng(seed))
    if wanted is None:
        wanted = [var.name for var in (*model.free_RVs, *model.deterministics)]
    names = tuple(sorted(wanted))

    def make() -> tuple[list[str], Callable[[np.ndarray], list[np.ndarray]]]:
        outputs = [var for var in model.unobserved_value_vars if var.name in names]
        return [var.name for var in outputs], function_of_rows(model, outputs)

    found, values_of = kept_for(model).get(("constrain", names), make)
    values = zip(found, values_of(rows), strict=True)
    return {name: value.reshape(*shape, *value.shape[1:]) for name, value in values}


def function_of_rows(
    model: pm.Model, outputs: Iterable[Any]
) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Function from unconstrained rows (n, d) to n values of graphs of value variables."""
    row, tensors = at_symbolic_row(model, list(outputs))
    function = _function_of_batches([row], tensors, kept_for(model))

    def values_of(rows: np.ndarray) -> list[np.ndarray]:
        values = function(np.asarray(rows, dtype=row.dtype))
        return [
            # what depends on data alone is not batched
            np.asarray(value)
            if value.ndim > tensor.ndim
            else np.broadcast_to(value, (len(rows), *value.shape))
            for value, tensor in zip(values, tensors, strict=True)
        ]

    return values_of


def _function_of_batches(
    inputs: Sequence[Any], outputs: Sequence[Any], kept: KeptForModel
) -> Callable[..., list[np.ndarray]]:
    """Function from values of inputs, n of each, to those of graphs, with a model's data as is."""
    outputs, data = with_data_inputs(with_host_calls(outputs, {}), kept)
    # nameless: a name such as "1|group" looks like a dtype to PyTensor
    batches = [pt.tensor(dtype=one.dtype, shape=(None, *one.type.shape)) for one in inputs]
    batched = vectorize_graph(outputs, dict(zip(inputs, batches, strict=True)))
    function = cheaply_compiled([*batches, *data.inputs], batched)
    return lambda *values: function(*values, *data.values())


def unconstrain(flat: FlatModel, posterior: xr.Dataset) -> np.ndarray:
    """Unconstrained rows (chains * draws, d) of draws of all free variables, in their shapes."""
    rows = unconstrained(flat.model, stacked(posterior, [rv.name for rv in flat.model.free_RVs]))
    return rows if flat.summed is None else rows[:, flat.summed.plan.whole.continuous]


def stacked(posterior: xr.Dataset, names: Iterable[Any]) -> dict[str, np.ndarray]:
    """Draws of variables, one chain after the other, shape (chains * draws, ...), by name."""
    arrays = {str(name): posterior[name].transpose("chain", "draw", ...) for name in names}
    return {
        name: one.to_numpy().reshape(math.prod(one.shape[:2]), *one.shape[2:])
        for name, one in arrays.items()
    }


def unconstrained(model: pm.Model, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """Rows (n, d) of draws (n, ...) of all free variables by name, in their shapes."""
    kept = kept_for(model)

    def make() -> Callable[..., list[np.ndarray]]:
        given = {rv: rv.type(name=f"{rv.name}_given") for rv in model.free_RVs}
        outputs = replace_vars_in_graphs(transformed(model), given)
        return _function_of_batches([*given.values()], outputs, kept)

    values = [draws[rv.name].astype(rv.dtype) for rv in model.free_RVs]
    with np.errstate(divide="ignore", invalid="ignore"):  # draws on a boundary
        parts = kept.get("unconstrain", make)(*values)
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1, dtype=float)
