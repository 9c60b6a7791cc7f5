"""Runs of every kind that can be killed and gone on with, and whether two of them are the same."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

import pymc_logz as lz

N_GROUPS = 4
SHORT: dict[str, Any] = {"progressbar": False, "random_seed": 7}


@cache
def model() -> pm.Model:
    """Groups with a common mean, of which log Z takes more than two temperatures."""
    data = np.random.default_rng(5).normal(1.0, 1.0, size=(N_GROUPS, 6))
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 3.0)
        spread = pm.HalfNormal("spread", 1.0)
        groups = pm.Normal("groups", mean, spread, shape=N_GROUPS)
        pm.Normal("y", groups[:, None], 1.0, observed=data)
    return model


def annealed(**options: Any) -> xr.DataTree:
    """From the prior, along temperatures that a pilot tunes."""
    betas = np.linspace(0, 1, 97) ** 4
    return lz.sample_hais(64, 2, model=model(), betas=betas, tune=8, **SHORT, **options)


def both_ways(**options: Any) -> xr.DataTree:
    """The same, and back."""
    given = {"betas": np.linspace(0, 1, 49) ** 4, "tune": 8, "direction": "both"}
    return lz.sample_hais(64, 2, model=model(), **given, **SHORT, **options)


def tempered(**options: Any) -> xr.DataTree:
    """Walkers on levels that a pilot places."""
    return lz.sample_tempered(
        96, 2, walkers=16, model=model(), betas=6, tune=16, **SHORT, **options
    )


METHODS: dict[str, Callable[..., xr.DataTree]] = {
    "annealed": annealed,
    "both_ways": both_ways,
    "tempered": tempered,
}
"""Runs by name."""


def numbers_of(tree: xr.DataTree) -> dict[str, np.ndarray]:
    """All arrays of a tree, by group and name."""
    return {
        f"{group}/{name}": tree[group][name].to_numpy()
        for group in tree.groups
        for name in tree[group].data_vars
    }


def differing(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> list[str]:
    """Names of what is not the same bit by bit."""
    if one.keys() != two.keys():
        return sorted(one.keys() ^ two.keys())
    return [name for name in one if not _same(one[name], two[name])]


def _same(one: np.ndarray, two: np.ndarray) -> bool:
    if one.dtype.kind not in "biuf":
        return bool(np.array_equal(one, two))
    return one.shape == two.shape and one.tobytes() == two.tobytes()
