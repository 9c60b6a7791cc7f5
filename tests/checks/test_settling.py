"""Rows that do not keep up with the path: told from where they end, and from nothing else."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytest
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.kernels import Kernel, Langevin, RandomWalk

pytestmark = [
    pytest.mark.filterwarnings("ignore:the model has potentials"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
]
SLOW = Langevin(step_size=0.2, scale=1.0)


@cache
def experts() -> energies.Energy:
    """Ill-conditioned: wide directions that small steps explore too slowly."""
    return energies.student_t_experts(energies.random_filters(1, 8), np.linspace(3, 5, 8))


@pytest.mark.parametrize(
    ("kernel", "betas", "seed"),
    # seeds whose weights look good: others are few or have a heavy tail, and are told by that
    [(SLOW, 200, 12), (RandomWalk(step_size=0.25, scale=1.0), 800, 18)],
    ids=["small steps", "random walk"],
)
def test_rows_that_lag_are_told(kernel: Kernel, betas: int, seed: int) -> None:
    """Would catch `ok` on a log Z that is 9 errors off, as it was."""
    with pytest.warns(lz.EvidenceWarning, match="'lagging_rows'"):
        tree = models.quick(experts().model, kernel=kernel, betas=betas, chains=4, random_seed=seed)
    assert models.log_z_of(tree)[2] == "lagging_rows"
    assert "stretched" in tree["evidence"].attrs["doubts"]


def cut_off() -> pm.Model:
    """An edge of the likelihood at 0.3, where Stein's identity does not hold."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        pm.Uniform("y", x[0], 5.0, observed=0.3)
        pm.Normal("z", x[1], 1.0, observed=1.0)
    return model


def heavy() -> pm.Model:
    """Tails without a mean."""
    with pm.Model() as model:
        x = pm.Cauchy("x", 0, 1, shape=2)
        pm.StudentT("y", nu=2, mu=x, sigma=1.0, observed=[1.0, 5.0])
    return model


def funnel() -> pm.Model:
    """A scale over four orders of magnitude."""
    with pm.Model() as model:
        v = pm.Normal("v", 0, 2)
        x = pm.Normal("x", 0, pm.math.exp(v), shape=3)
        pm.Normal("y", x, 1.0, observed=[0.1, -0.2, 0.3])
    return model


@pytest.mark.filterwarnings("ignore:hais has status 'high_khat'")
@pytest.mark.parametrize(
    ("model", "settings"), [(cut_off, {"betas": 200}), (heavy, {}), (funnel, {})]
)
def test_edges_tails_and_funnels_are_not_accused(
    model: Callable[[], pm.Model], settings: dict[str, Any]
) -> None:
    """Would catch an identity that is taken to hold where the density has an edge."""
    given = {"model": model(), "progressbar": False, "cores": 1, **settings}
    for seed in range(2):
        tree = lz.sample_hais(random_seed=seed, **given)
        assert models.log_z_of(tree)[2] != "lagging_rows"
