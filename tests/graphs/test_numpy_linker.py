"""Graphs computed by NumPy calls: the same numbers as PyTensor's own, and where it is chosen."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.conditional.op import ifelse

import pymc_logz as lz
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


def test_loops_do_not_suit():
    x = pt.dvector("x")
    assert suits_numpy([pt.exp(x).sum()])
    total = pt.constant(0.0, dtype="float64")
    looped = pytensor.scan(lambda now, before: now + before, x, total, return_updates=False)
    assert not suits_numpy([looped])


def test_without_jax_a_small_model_is_not_compiled(monkeypatch):
    """Would catch a minute of NUMBA for a second's work."""
    monkeypatch.setattr("pymc_logz.graphs.compiling.find_spec", lambda name: None)
    with pm.Model() as model:
        pm.Binomial("y", n=100, p=pm.Beta("p", 1, 1), observed=50)
    tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    entry = tree["evidence"].isel(estimator=0)
    assert tree["evidence"].attrs["backend"] == "numpy"
    assert abs(entry["log_z"].item() + np.log(101)) < 4 * entry["mcse"].item() + 1e-3


def test_a_large_step_is_compiled(monkeypatch):
    """Would catch a long run whose operations are never fused."""
    monkeypatch.setattr("pymc_logz.graphs.compiling.find_spec", lambda name: None)
    monkeypatch.setattr("pymc_logz.graphs.compiling.bytes_computed", lambda *_: 2**30)
    asked = []

    class Stop(Exception):
        pass

    def compiled(graph, choice):
        asked.append(choice.mode)
        raise Stop

    monkeypatch.setattr("pymc_logz.graphs.compiling._compiled", compiled)
    with pm.Model() as model:
        pm.Binomial("y", n=100, p=pm.Beta("p", 1, 1), observed=50)
    with pytest.raises(Stop):
        lz.sample_hais(model=model, random_seed=1, progressbar=False)
    assert asked == [None]
