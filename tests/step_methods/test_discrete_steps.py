"""`HAIS` and `SimulatedTempering` in ``pm.sample`` on a model with whole numbers."""

import logging

import numpy as np
import pymc as pm
import pytest
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz import energies

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
STEPS = (lz.HAIS, lz.SimulatedTempering)


def mixed() -> pm.Model:
    """A switch, three labels that are independent given the rest, and a normal."""
    with pm.Model() as model:
        switch = pm.Bernoulli("switch", 0.3)
        label = pm.Categorical("label", [0.2, 0.3, 0.5], shape=3)
        mean = pm.Normal("mean", 0, 2)
        pm.Normal("y", mean + switch + label, 1.0, observed=[0.3, 1.9, 2.2])
    return model


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_log_z_of_a_count(step: type) -> None:
    """Catches draws that lose their type on the way through a step method."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    energy = energies.thinned_poisson()
    settings = {"draws": 400, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
    with energy.model:
        draws = pm.sample(step=step(), compute_convergence_checks=False, **settings)
    models.assert_log_z(lz.evidence(draws), energy.log_z, within=0.05)
    n = draws["posterior"]["n"].to_numpy()
    assert n.dtype.kind == "i"
    assert energy.sample_posterior is not None
    exact = energy.sample_posterior(np.random.default_rng(1), 20_000)["n"]
    assert abs(n.mean() - exact.mean()) < 5 * exact.std() / np.sqrt(n.size / 8)


@pytest.mark.slow
def test_all_routes_agree_on_a_mixed_model() -> None:
    """Catches a route whose moves, or whose sums, are of another model than the others'."""
    model = mixed()
    quiet = {"random_seed": 1, "progressbar": False}
    summed = lz.sample_hais(model=model, sum_out=True, **quiet)
    moved = lz.sample_hais(model=model, **quiet)
    tempered = lz.sample_tempered(model=model, draws=300, chains=2, **quiet)
    assert "summed_out" in summed["evidence"].attrs
    assert "summed_out" not in moved["evidence"].attrs
    one, *others = (models.log_z_of(tree) for tree in (summed, moved, tempered))
    for other in others:
        assert one[2] == other[2] == "ok"
        assert abs(one[0] - other[0]) < 4 * np.hypot(one[1], other[1])
    means = [tree["posterior"]["label"].mean(("chain", "draw")) for tree in (summed, moved)]
    np.testing.assert_allclose(*means, atol=0.15)
