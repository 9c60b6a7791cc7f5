"""The example's simulator is the paper's, and its evidence is what the likelihood gives."""

import numpy as np
import pytest
from support.scripts import load

import pymc_logz as lz
from pymc_logz.manifold.missed_modes import find_start
from pymc_logz.manifold.model import make_constrained_model
from pymc_logz.models.rows import joined


@pytest.fixture(scope="module")
def example():
    """The script as a module."""
    return load("examples/constrained/lotka_volterra.py")


def test_data_are_those_of_the_paper(example):
    data = example.simulated_data()
    assert data.shape == (50, 2)
    np.testing.assert_allclose(data[-1], [50.09121415, 126.38003397], atol=1e-8)


@pytest.mark.slow
def test_simulator_gives_its_data_for_the_true_inputs(example):
    model = make_constrained_model(example.simulator(example.simulated_data()))
    noise = np.random.RandomState(1234).normal(size=(50, 2))
    values = {"z_log__": np.log(example.RATES), "noise": noise}
    true = joined(values, model.model.value_vars, "float64") / model.scale
    assert float(np.abs(np.asarray(model.system.constraint(true))).max()) < 1e-10
    # four rates reach all outputs, each noise one
    assert model.structure is not None
    assert model.structure.common.size == 4
    # a start of one's own is found from prior draws, of which few stay finite in the loop
    start = find_start(model, np.random.default_rng(1))
    assert model.system.residual(np.asarray(model.system.constraint(start))) <= 1.0


@pytest.mark.parametrize("interaction", [True, False])
def test_likelihood_is_found(example, interaction):
    data = example.simulated_data()
    found = lz.likelihood_form(example.simulator(data, interaction))
    by_hand = example.with_likelihood(data, interaction)
    functions = [model.compile_logp(mode="FAST_COMPILE") for model in (found, by_hand)]
    for level in (-1.0, -4.0):
        point = {"z_log__": np.linspace(level, level - 2.0, 4 if interaction else 2)}
        ours, theirs = (float(function(point)) for function in functions)
        assert ours == pytest.approx(theirs, rel=1e-10)


@pytest.mark.slow
def test_evidence_is_what_the_likelihood_gives(example):
    data = example.simulated_data()
    tree = example.fit(example.simulator(data))
    check = lz.sample_hais(model=example.with_likelihood(data), random_seed=1, progressbar=False)
    ours, theirs = (one["evidence"].to_dataset().isel(estimator=0) for one in (tree, check))
    error = np.hypot(float(ours["mcse"]), float(theirs["mcse"]))
    assert error < 0.05
    assert abs(float(ours["log_z"]) - float(theirs["log_z"])) < 4 * error
    table = example.summary({"interaction": tree}, {"interaction": check})
    assert table.loc["interaction", "status"] == "ok"
    example.draw(data, tree, table)
    again = lz.bridge_sampling(tree, example.simulator(data), random_seed=2)
    assert abs(float(again["evidence"]["log_z"][0]) - float(ours["log_z"])) < 6 * error
