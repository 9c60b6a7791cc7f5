"""What results and messages call the variables of a model, and the data that it has."""

from typing import Any

import numpy as np
import pymc as pm
from pymc.backends.arviz import coords_and_dims_for_inferencedata, find_constants, find_observations

from pymc_logz.models.flat import FlatModel, constrain


def describe_row(flat: FlatModel, row: np.ndarray) -> str:
    """Parameter values of one row on their natural scale, for messages."""
    values = constrain(flat, row[None])
    free = {var.name for var in flat.model.free_RVs}
    with np.printoptions(precision=4, threshold=6):
        return ", ".join(f"{name}={value[0]}" for name, value in values.items() if name in free)


def variable_of(flat: FlatModel, column: int) -> str:
    """Name of the free variable that a column of a row belongs to."""
    return flat.owners[column]


def model_labels(model: pm.Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """Coordinates and dimension names of a model's variables."""
    return coords_and_dims_for_inferencedata(model)


def n_data(flat: FlatModel) -> int:
    """How many numbers were observed."""
    return sum(np.size(data) for data in model_data(flat)[0].values())


def model_data(flat: FlatModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """Observed data and constant data of a model by name."""
    observed = {**find_observations(flat.model), **(flat.observed or {})}
    return observed, find_constants(flat.model)
