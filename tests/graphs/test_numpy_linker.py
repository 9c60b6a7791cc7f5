"""Graphs computed by NumPy calls: the same numbers as PyTensor's own, and where it is chosen."""

from importlib import import_module

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.conditional.op import ifelse

import pymc_logz as lz
from pymc_logz.graphs.batching import batch
from pymc_logz.graphs.numpy_linker import numpy_mode, suits_numpy

ROWS = np.random.default_rng(0).normal(size=(5, 3))


@pytest.mark.parametrize(
    "of",
    [
        lambda x: pt.softplus(x) + pt.log1mexp(-pt.exp(x)),
        lambda x: pt.clip(x, -0.5, 0.5),
        lambda x: pt.second(x, 2.0) + pt.gammaln(pt.exp(x)),
        lambda x: pt.switch(x > 0, x, x**2) + pt.sigmoid(x) + pt.erf(x),
        lambda x: pt.cast(pt.round(x), "int8") / 3,
        lambda x: ifelse(pt.gt(x.sum(), 0), x, -x),
        lambda x: pt.sort(x, axis=1) @ pt.eye(3),
        lambda x: pt.linalg.cholesky(x.T @ x + pt.eye(3)),
        lambda x: x.dimshuffle(1, "x", 0) + x[:, 1][:1].dimshuffle(),
        lambda x: pt.special.softmax(x, axis=1) + pt.logsumexp(x, axis=1, keepdims=True),
        lambda x: pt.special.xlogy(x > 0, x**2) + pt.diag(x[0]).sum(),
        lambda x: sum(x**n for n in range(-5, 10)),
    ],
)
def test_the_same_numbers(of):
    x = pt.tensor("x", dtype="float64", shape=(None, 3))
    outputs = [of(x), pt.grad(of(x).sum(), x)]
    found, wanted = (
        pytensor.function([x], outputs, mode=mode)(ROWS) for mode in (numpy_mode(), "FAST_COMPILE")
    )
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n", range(-6, 10))
def test_powers_are_not_computed_one_number_after_the_other(n):
    x = pt.dvector("x")
    graph = pytensor.function([x], [x**n, pt.grad((x**n).sum(), x)], mode=numpy_mode()).maker.fgraph
    assert all(suits_numpy([out]) for node in graph.apply_nodes for out in node.outputs)


def test_loops_do_not_suit():
    x = pt.dvector("x")
    assert suits_numpy([pt.exp(x).sum()])
    # a function with a graph of its own is none, for which NUMBA took ten seconds
    assert suits_numpy([pt.special.softmax(x, axis=0), pt.logsumexp(x)])
    total = pt.constant(0.0, dtype="float64")
    looped = pytensor.scan(lambda now, before: now + before, x, total, return_updates=False)
    assert not suits_numpy([looped])


@pytest.mark.parametrize(("n_bytes", "backend"), [(None, "numpy"), (2**30, "numba")])
def test_without_jax_models_of_large_steps_are_compiled(monkeypatch, n_bytes, backend):
    """Would catch a minute of NUMBA for a second's work, and a long run that is never compiled."""
    monkeypatch.setattr("pymc_logz.graphs.compiling.find_spec", lambda name: None)
    if n_bytes is not None:
        monkeypatch.setattr("pymc_logz.graphs.loops.bytes_computed", lambda *_: n_bytes)
    with pm.Model() as model:
        pm.Binomial("y", n=100, p=pm.Beta("p", 1, 1), observed=50)
    tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    entry = tree["evidence"].isel(estimator=0)
    assert tree["evidence"].attrs["backend"] == backend
    assert abs(entry["log_z"].item() + np.log(101)) < 4 * entry["mcse"].item() + 1e-3


@pytest.mark.parametrize("batching", ["vector", "row"])
def test_only_what_a_model_computes_is_compiled(batching):
    """Would catch half a minute of NUMBA for what moves rows about."""
    import_module("pytensor.xtensor")  # which adds a rewrite that takes models apart
    point, rows, scale = pt.dvector("point"), pt.dmatrix("rows"), pt.dscalar("scale")
    value = scale * pt.exp(point).sum()
    outputs = [value, pt.grad(value, point)]
    of_rows, _ = batch(point, outputs, 3, batching, parameters=[scale])

    def step(rows):
        values, slopes = of_rows(rows)
        return rows + pt.special.softmax(slopes, axis=1) * values[:, None]

    made = []

    def compiled(inputs, outputs):
        function = pytensor.function(inputs, outputs, mode="FAST_COMPILE")
        made.append(len(function.maker.fgraph.apply_nodes))
        return function

    assert suits_numpy([step(rows)], but_models=True)
    graph = step(step(rows))
    apart, whole = (
        pytensor.function([rows, scale], graph, mode=mode)
        for mode in (numpy_mode(compiled), "FAST_COMPILE")
    )
    assert len(made) == 1  # of both steps
    np.testing.assert_allclose(apart(ROWS, 0.1), whole(ROWS, 0.1), rtol=1e-12)
