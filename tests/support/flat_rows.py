"""Rows of a flat model by the names of PyMC."""

import numpy as np

from pymc_logz.models.flat import FlatModel


def named_values(flat: FlatModel, row: np.ndarray) -> dict[str, np.ndarray]:
    """Value variables of one row by name, as ``Model.compile_logp()`` takes them."""
    return {name: row[columns] for name, columns in flat.columns_by_name.items()}
