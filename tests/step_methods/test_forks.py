"""Processes that `pm.sample` forks for chains: without a warning where nothing can hang."""

import os
import warnings

import numpy as np
import pymc as pm
import pytest

import pymc_logz as lz

pytest.importorskip("jax", reason="only JAX warns")
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),  # Python's, hidden
]


def test_chains_of_a_step_that_only_asks_are_forked_in_silence() -> None:
    """Would catch a warning of deadlocks that cannot be, and one that is lost for other forks."""
    with pm.Model() as simulator:
        v, n = pm.Normal("v"), pm.Normal("n")
        lz.ExactObservation("y", v + n, observed=2.0)
        step = lz.ConstrainedHMC()
    given = {"tune": 20, "chains": 2, "progressbar": False, "random_seed": 1}
    given |= {"compute_convergence_checks": False, "step": step, "model": simulator}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*fork.*", category=RuntimeWarning)
        two = pm.sample(20, cores=2, mp_ctx="fork", **given)
    one = pm.sample(20, cores=1, **given)
    np.testing.assert_array_equal(one["posterior"]["v"], two["posterior"]["v"])
    with pytest.warns(RuntimeWarning, match=r"os\.fork\(\) was called"):
        _fork()


def test_chains_of_pymc_are_forked_in_silence_after_a_call() -> None:
    """Would catch a warning of deadlocks after each of our calls, which frightens for nothing."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("y", x, observed=2.0)
    lz.sample_hais(64, 1, model=model, random_seed=1, progressbar=False)
    given = {"tune": 20, "chains": 2, "progressbar": False, "compute_convergence_checks": False}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*fork.*", category=RuntimeWarning)
        tree = pm.sample(20, cores=2, mp_ctx="fork", nuts_sampler="pymc", model=model, **given)
    assert dict(tree["posterior"].sizes) == {"chain": 2, "draw": 20}
    with pytest.warns(RuntimeWarning, match=r"os\.fork\(\) was called"):
        _fork()


def _fork() -> None:
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
