"""The variables of a model that a step method moves: which, their order, scales and values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.util import get_value_vars_from_user_vars

from pymc_logz.arguments import check_positive
from pymc_logz.errors import DiscreteVariableError, ModelError


def continuous_vars(vars: Any, model: pm.Model) -> list[Any]:
    """Value variables in the order of the model, whatever the order asked for."""
    chosen = (
        model.continuous_value_vars if vars is None else get_value_vars_from_user_vars(vars, model)
    )
    names = {value: rv.name for rv, value in model.rvs_to_values.items()}
    discrete = [names[var] for var in chosen if not np.issubdtype(var.dtype, np.floating)]
    if discrete:
        raise DiscreteVariableError(
            f"variables {discrete} are discrete, but this step method moves continuous ones; leave "
            "them out of vars, and pm.sample gives them a step method of their own"
        )
    if not chosen:
        raise DiscreteVariableError("the model has no continuous variable to move")
    return [var for var in model.value_vars if var in chosen]


def number_of_entries(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Entries of the variables to move, of which there has to be one."""
    n_dims = sum(int(np.prod(shape)) for shape in shapes.values())
    if not n_dims:
        raise ModelError(f"vars have no entries to move: their shapes are {dict(shapes)}")
    return n_dims


def checked_scale(scale: float | Sequence[float], n_dims: int) -> np.ndarray:
    """Length scales of all dimensions, shape (d,)."""
    values = np.asarray(scale, dtype=float)
    if values.ndim > 1 or values.size not in (1, n_dims):
        raise ValueError(
            f"scale has shape {values.shape}; give one number, or {n_dims}, one for each "
            "unconstrained dimension of the variables"
        )
    check_positive(scale=scale)
    return np.broadcast_to(values, n_dims).copy()


def check_whole_model(vars: Any, model: pm.Model) -> None:
    """Raise unless ``vars`` is None or all free variables of the model."""
    if vars is None:
        return
    missing = set(model.value_vars) - set(get_value_vars_from_user_vars(vars, model))
    if missing:
        names = sorted(rv.name for rv, value in model.rvs_to_values.items() if value in missing)
        raise ValueError(
            f"vars leaves out {names}, but this step moves the whole model; omit vars, or use "
            "PartialMomentumHMC for some of the variables"
        )


def values_of_row(
    row: np.ndarray,
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    point: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Value variables of one flat row of the whole model, of the types that ``point`` has."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return {
        name: part.reshape(shape).astype(point[name].dtype)
        for name, part, shape in zip(names, np.split(row, ends[:-1]), shapes, strict=True)
    }
