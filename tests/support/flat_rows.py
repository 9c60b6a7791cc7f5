"""Rows of a flat model by the names of PyMC."""

import numpy as np

from pymc_logz.models.flat import FlatModel


def named_values(flat: FlatModel, row: np.ndarray) -> dict[str, np.ndarray]:
    """Value variables of one row by name, as ``Model.compile_logp()`` takes them."""
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in flat.shapes])
    parts = np.split(row, ends[:-1])
    return {
        name: part.reshape(shape)
        for name, part, shape in zip(flat.value_names, parts, flat.shapes, strict=True)
    }
