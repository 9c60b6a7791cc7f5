"""Draws on one side of a symmetry: told, whether by sign or by order, and no others."""

from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from support.checks import make_rng

import pymc_logz as lz
from pymc_logz.checks.symmetry import symmetry_doubts
from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import flatten_model, unconstrain

N = 500
DATA = np.array([1.9, -2.2, 2.1, -1.8, 2.0])


@cache
def products(k: int = 3) -> pm.Model:
    """Only squares of the entries count, so that each sign is as good as the other."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=k)
        pm.Normal("y", (x**2).sum(), 0.5, observed=2.0)
    return model


@cache
def means(has_weights: bool = False) -> pm.Model:
    """Two means without names."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 3, shape=2)
        parts = [pm.Normal.dist(mean[i], 1.0) for i in range(2)]
        weight = pm.Dirichlet("weight", [2.0, 2.0]) if has_weights else [0.5, 0.5]
        pm.Mixture("y", weight, parts, observed=DATA)
    return model


def tree_of(name: str, values: np.ndarray) -> xr.DataTree:
    """Draws of four chains."""
    dims = ("chain", "draw", f"{name}_dim_0")
    posterior = xr.Dataset({name: (dims, values.reshape(4, -1, values.shape[-1]))})
    return xr.DataTree.from_dict({"posterior": posterior})


def status(tree: xr.DataTree, model: pm.Model) -> Any:
    evidence = lz.evidence(tree, model, random_seed=1, progressbar=False)["evidence"]
    return evidence["status"].to_numpy()[0], evidence.attrs.get("doubts", "")


def accepted(rows: np.ndarray, log_likelihood: np.ndarray) -> np.ndarray:
    """Draws of a posterior: rows of the prior, kept by their share of the largest likelihood."""
    share = log_likelihood - log_likelihood.max()
    keep = np.log(make_rng("accepted").uniform(size=len(rows))) < share
    assert keep.sum() >= 4 * N
    return rows[keep][: 4 * N]


def draws_of_products() -> np.ndarray:
    """Draws of the products."""
    rows = make_rng("products").standard_normal((50_000, 3))
    return accepted(rows, -2 * ((rows**2).sum(axis=1) - 2.0) ** 2)


def draws_of_means(has_weights: bool = False) -> np.ndarray:
    """Draws of the means, and of the first one's weight if it is free."""
    rng, n = make_rng("means"), 100_000
    mean, weight = 3 * rng.standard_normal((n, 2)), np.full(n, 0.5)
    if has_weights:
        weight = rng.beta(2.0, 2.0, n)
    first, second = (np.exp(-0.5 * (DATA[:, None] - mean[:, i]) ** 2) for i in (0, 1))
    log_likelihood = np.log(weight * first + (1 - weight) * second).sum(axis=0)
    return accepted(np.column_stack([mean, weight]), log_likelihood)


@pytest.mark.filterwarnings("ignore::pymc_logz.errors.EvidenceWarning")
def test_signs_and_order() -> None:
    """Catches draws made positive by abs, or put in order, whose log Z lacks log 2 and more."""
    signs = draws_of_products()
    found, why = status(tree_of("x", np.abs(signs)), products())
    assert found == "missed_mode"
    assert "sign" in why or "walked from the prior" in why
    assert "sign" not in status(tree_of("x", signs), products())[1]
    order = draws_of_means()[:, :2]
    found, why = status(tree_of("mean", np.sort(order, axis=1)), means())
    assert found == "missed_mode"
    assert "exchange of entries of mean" in why or "walked from the prior" in why
    assert "exchange" not in status(tree_of("mean", order), means())[1]


def test_weights_are_exchanged_with_their_means() -> None:
    """Catches half of Z where one group is called the first, and its weight is a simplex."""
    flat = flatten_model(means(has_weights=True))
    draws = draws_of_means(has_weights=True).reshape(4, N, 3)
    weights = np.stack([draws[..., 2], 1 - draws[..., 2]], axis=-1)
    dims = ("chain", "draw", "entry")
    posterior = xr.Dataset({"mean": (dims, draws[..., :2]), "weight": (dims, weights)})
    rows = unconstrain(flat, posterior).reshape(4 * N, -1)
    density = RowDensity(flat)
    assert symmetry_doubts(flat, density, rows) == []
    mean = flat.columns_by_name["mean"]
    [told] = symmetry_doubts(flat, density, rows[rows[:, mean[0]] < rows[:, mean[1]]])
    assert "exchange of entries of mean, weight" in told.reason


def test_no_symmetry_no_doubt() -> None:
    """Catches positive draws of a density that is not the same on the other side."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        pm.Normal("y", x, 0.1, observed=np.array([2.0, 1.0]))
    draws = np.array([2.0, 1.0]) / 1.01 + np.sqrt(1 / 101) * make_rng("plain").normal(
        size=(2000, 2)
    )
    found, why = status(tree_of("x", draws), model)
    assert found == "ok"
    assert "side" not in why
