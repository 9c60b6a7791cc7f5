"""Runs of every kind that can be killed and gone on with, and whether two of them are the same."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from arviz_base import from_dict as dict_to_datatree

import pymc_logz as lz
from pymc_logz.per_datum import likelihood as per_datum

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


def tempered(reference: str = "prior", **options: Any) -> xr.DataTree:
    """Walkers on levels that a pilot places."""
    given: dict[str, Any] = {"walkers": 16, "betas": 6, "tune": 16, "reference": reference}
    return lz.sample_tempered(96, 2, model=model(), **given, **SHORT, **options)


def tempered_from_learned(**options: Any) -> xr.DataTree:
    """As by default: the levels lead from a reference that is learned."""
    return tempered("learned", **options)


def learned(**options: Any) -> xr.DataTree:
    """Along a path from a reference that is learned, which evens out a funnel here."""
    return lz.sample_hais(32, 2, model=model(), kernel="langevin", **SHORT, **options)


def blended(**options: Any) -> xr.DataTree:
    """As by default: rows of a blend, without a path, so that there is no chain to stop."""
    return lz.sample_hais(32, 2, model=model(), **SHORT, **options)


METHODS: dict[str, Callable[..., xr.DataTree]] = {
    "annealed": annealed,
    "learned": learned,
    "both_ways": both_ways,
    "tempered": tempered,
    "tempered_from_learned": tempered_from_learned,
}
"""Runs by name."""


def of_rows(**options: Any) -> xr.DataTree:
    """Batches of data rows."""
    with pm.Model() as one_datum:
        z = pm.Normal("z", 0, 1)
        pm.Normal("y", z, 0.5, observed=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(per_datum, "ROWS_PER_BATCH", 128)
        data = {"y": np.linspace(-2, 2, 32)}
        return lz.marginal_log_likelihood(one_datum, data, 32, betas=64, **SHORT, **options)


def of_models(**options: Any) -> xr.DataTree:
    """Two models, one after the other."""
    models = {}
    for name, a in (("narrow", 20.0), ("flat", 1.0)):
        with pm.Model() as models[name]:
            pm.Binomial("y", n=20, p=pm.Beta("p", a, a), observed=14)
    given = {"draws": 32, "chains": 2, "betas": 64, **SHORT, **options}
    return xr.DataTree.from_dict(dict(lz.evidence_of_models(models, **given)))


def of_bridge(**options: Any) -> xr.DataTree:
    """Repetitions of a bridge."""
    options.pop("cores", None)
    with pm.Model() as coin:
        pm.Binomial("y", n=20, p=pm.Beta("p", 1, 1), observed=14)
    draws = {"p": np.random.default_rng(1).beta(15, 7, size=(4, 500))}
    given = {"repetitions": 8, "draws": 4096, **SHORT, **options}
    return lz.bridge_sampling(dict_to_datatree({"posterior": draws}), coin, **given)


OTHERS: dict[str, Callable[..., xr.DataTree]] = {
    "of_rows": of_rows,
    "of_models": of_models,
    "of_bridge": of_bridge,
}
"""Further runs that are kept, whose units are not chains."""


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
