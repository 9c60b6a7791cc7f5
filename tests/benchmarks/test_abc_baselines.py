"""What the benchmarks simulate is right: data, likelihoods, and closed forms."""

import numpy as np
import pytest
from likelihood_free.simulators import DOUBT, PAPER, Simulator
from scipy import stats


@pytest.mark.parametrize("prey_only", [False, True])
@pytest.mark.parametrize("setting", [PAPER, DOUBT])
def test_simulator_gives_its_data_for_the_inputs_that_made_them(setting, prey_only):
    simulator = Simulator(setting, prey_only=prey_only)
    output = simulator.output(*simulator.true_inputs(3))
    np.testing.assert_allclose(output, np.tile(simulator.observed, (3, 1)), rtol=1e-12)


def test_data_are_those_of_the_paper():
    assert PAPER.states.shape == (50, 2)
    np.testing.assert_allclose(PAPER.states[-1], [50.09121415, 126.38003397], atol=1e-8)
    prey = Simulator(prey_only=True).observed
    np.testing.assert_array_equal(prey, PAPER.states[[4, 9, 14, 19, 24, 29, 34, 39, 44, 49], 0])


@pytest.mark.parametrize("setting", [PAPER, DOUBT])
def test_likelihood_is_the_law_of_the_output(setting):
    """Without interaction the output is linear in the noise: its covariance is that of a matrix."""
    simulator = Simulator(setting, interaction=False, prey_only=True)
    u = np.array([[0.3 - 2.0, -0.5]])
    rows = np.tile(u, (simulator.n_noise + 1, 1))
    outputs = simulator.output(rows, np.eye(simulator.n_noise + 1, simulator.n_noise, k=-1))
    matrix = outputs[1:] - outputs[0]
    law = stats.multivariate_normal(outputs[0], matrix.T @ matrix)
    model = simulator.with_likelihood()
    logp = model.compile_logp(vars=model.observed_RVs, mode="FAST_COMPILE")
    found = logp({"z_log__": u[0] + simulator.prior_mean})
    assert found == pytest.approx(law.logpdf(simulator.observed), rel=1e-6)


@pytest.mark.parametrize("prey_only", [False, True])
@pytest.mark.parametrize("setting", [PAPER, DOUBT])
def test_density_of_all_states_is_that_of_the_noise(setting, prey_only):
    """The prior that hidden populations have for form must cancel."""
    model = Simulator(setting, prey_only=prey_only).with_likelihood()
    log_rates = np.log(setting.truth)
    point = model.initial_point() | {"z_log__": log_rates}
    prior = stats.norm(setting.prior_mean, 1.0).logpdf(log_rates).sum()
    noise = stats.norm.logpdf(setting.noise).sum()
    found = model.compile_logp(mode="FAST_COMPILE")(point)
    assert found == pytest.approx(prior + noise, rel=1e-6)
