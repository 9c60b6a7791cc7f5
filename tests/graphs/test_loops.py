"""Loops of small steps: single steps by NumPy, several at once by JAX, and the same numbers."""

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_logz.graphs import loops
from pymc_logz.kernels.hamiltonian import Hamiltonian
from pymc_logz.paths.geometric import AnnealingPath
from pymc_logz.runners.anneal import Plan, anneal
from pymc_logz.runners.block import Block

N_DIMS = 3


def block_of(log_ratio=lambda point: -pt.exp(point).sum(), **given):
    point = pt.tensor("point", dtype="float64", shape=(N_DIMS,))
    path = AnnealingPath(
        point,
        -0.5 * (point**2).sum(),
        log_ratio(point),
        n_dims=N_DIMS,
        sample_reference=lambda rng, n: rng.standard_normal((n, N_DIMS)),
    )
    return Block(path, Hamiltonian(step_size=0.3, scale=1.0), n_rows=32, **given)


def test_small_steps_are_compiled_only_where_several_are_made_at_once(monkeypatch):
    """Would catch two seconds of imports and of XLA for a few moves, and a run without JAX."""
    pytest.importorskip("jax")
    block, rng = block_of(), np.random.default_rng(1)
    start = block.given_path.sample_reference(rng, 32)
    compiled = block.compiled
    assert compiled.backend == "numpy"
    assert "JAX does" in compiled.reason
    with monkeypatch.context() as patch:
        patch.setattr(loops, "compile_first", None)
        value = block.log_target(start)
    np.testing.assert_allclose(value, block_of(compile_kwargs={"mode": "JAX"}).log_target(start))
    assert compiled.of_steps(1) is compiled
    assert compiled.of_steps(8).backend == "jax"
    assert compiled.may_use_jax


def test_large_steps_and_modes_that_are_asked_for_are_compiled_at_once(monkeypatch):
    """Would catch a long wait for NumPy where there is much data, and a mode that is not taken."""
    pytest.importorskip("jax")
    assert block_of(compile_kwargs={"mode": "JAX"}).compiled.backend == "jax"

    def factors(point):
        matrix = pt.eye(N_DIMS) + pt.exp(point)[:, None] * pt.exp(point)
        return -pt.log(pt.diag(pt.linalg.cholesky(matrix))).sum()

    # one row after the other
    assert block_of(factors).compiled.backend == "jax"
    monkeypatch.setattr(loops, "bytes_computed", lambda *_: 2**24)
    assert block_of().compiled.backend == "jax"


@pytest.mark.parametrize("n_temperatures", [20, 100])
def test_runs_are_the_same_on_both(n_temperatures):
    """Would catch moves that NumPy and JAX make of other noise, or of other rows."""
    pytest.importorskip("jax")
    betas = np.linspace(0, 1, n_temperatures + 1)
    plan = Plan(betas, np.full_like(betas, 0.3), np.ones((len(betas), N_DIMS)))
    runs = []
    for given in ({}, {"compile_kwargs": {"mode": "JAX"}}):
        block, rng = block_of(**given), np.random.default_rng(2)
        start = block.given_path.sample_reference(rng, 40)
        runs.append(anneal(block, plan, start, rng))
    for name in ("position", "log_weight"):
        one, other = (getattr(run, name) for run in runs)
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
