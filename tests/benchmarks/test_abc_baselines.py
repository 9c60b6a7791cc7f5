"""What the benchmarks compare with is right: ABC samplers against quadrature and closed forms."""

import numpy as np
import pytest
from likelihood_free import samplers
from likelihood_free.simulators import DOUBT, PAPER, Simulator
from scipy import stats

OBSERVED, EPSILON, SD = np.array([3.0]), 0.4, 0.5
CHAINS = 2000
GRID = np.linspace(-9, 9, 20_001)


def curved(u, noise):
    """One output of one input: skewed."""
    return np.exp(0.6 * u) + SD * noise


def ball_posterior():
    """Exact mean and second moment of the input with a uniform ball, and log Z, by quadrature."""
    centre = curved(GRID, 0.0)
    ends = (OBSERVED + EPSILON - centre) / SD, (OBSERVED - EPSILON - centre) / SD
    density = stats.norm.pdf(GRID) * (stats.norm.cdf(ends[0]) - stats.norm.cdf(ends[1]))
    z = np.trapezoid(density, GRID)
    moments = [np.trapezoid(GRID**k * density, GRID) / z for k in (1, 2)]
    return np.array(moments), np.log(z / (2 * EPSILON))


def z_scores(draws, moments):
    """Distance from exact moments of independent draws (n,), in standard errors."""
    powers = np.stack([draws, draws**2], axis=1)
    return (powers.mean(axis=0) - moments) / (powers.std(axis=0) / np.sqrt(len(draws)))


def start_within_reach():
    """One point, many times: all chains have to leave it."""
    u = np.full((CHAINS, 1), 1.4)
    return u, (OBSERVED - curved(u, 0.0)) / SD


def last(draws):
    """Last draw of each chain."""
    return draws.u[:, -1, 0]


def by_mcmc(rng, epsilon=EPSILON, **settings):
    kernel = samplers.ball(OBSERVED, epsilon)
    return samplers.abc_mcmc(curved, kernel, start_within_reach(), 1, 150, 1.5, rng, **settings)


def by_slice(rng, epsilon=EPSILON):
    kernel = samplers.ball(OBSERVED, epsilon)
    return samplers.elliptical_slice(curved, kernel, start_within_reach(), 1, 60, rng)


def test_rejection_has_the_posterior_and_the_evidence_of_the_ball(rng):
    u, distances = samplers.rejection(curved, OBSERVED, 1, 1, 50_000, rng)
    moments, log_z = ball_posterior()
    assert np.all(np.abs(z_scores(u[distances < EPSILON, 0], moments)) < 4)
    estimate, error = samplers.rejection_log_z(distances, EPSILON, 1)
    assert 0 < error < 0.03
    assert abs(estimate - log_z) < 4 * error
    estimate, bound = samplers.rejection_log_z(distances, 1e-9, 1)
    assert np.isnan(estimate)
    assert bound > log_z


@pytest.mark.parametrize("sampler", [by_mcmc, by_slice])
def test_chains_have_the_posterior_of_the_ball(sampler, rng):
    moments, _ = ball_posterior()
    assert np.all(np.abs(z_scores(last(sampler(rng)), moments)) < 4)
    # the same check sees a wrong kernel
    assert np.any(np.abs(z_scores(last(sampler(rng, epsilon=2 * EPSILON)), moments)) > 5)


def test_a_forgotten_prior_is_seen(rng):
    moments, _ = ball_posterior()
    draws = by_mcmc(rng, log_prior=lambda u: np.zeros(len(u)))
    assert np.any(np.abs(z_scores(last(draws), moments)) > 5)


def test_elliptical_slice_has_the_closed_form_of_a_linear_simulator(rng):
    """A Gaussian kernel: all is normal. Broken: a simulator without its noise."""
    a = np.array([[1.0, 0.3], [-0.5, 1.0], [0.2, -0.8]])
    observed, epsilon, sd = np.array([0.8, -0.4, 1.1]), 0.3, 0.5
    precision = np.eye(2) + a.T @ a / (sd**2 + epsilon**2)
    cov = np.linalg.inv(precision)
    mean = cov @ a.T @ observed / (sd**2 + epsilon**2)
    kernel = samplers.gaussian(observed, epsilon)

    def moments_off(noise_scale):
        start = np.zeros((CHAINS, 2)), np.zeros((CHAINS, 3))
        draws = samplers.elliptical_slice(
            lambda u, noise: u @ a.T + noise_scale * noise, kernel, start, 1, 40, rng
        ).u[:, -1]
        off = [z_scores(draws[:, i], [mean[i], cov[i, i] + mean[i] ** 2]) for i in range(2)]
        products = draws[:, 0] * draws[:, 1]
        cross = products.mean() - (cov[0, 1] + mean[0] * mean[1])
        return np.abs([*off[0], *off[1], cross / (products.std() / np.sqrt(CHAINS))])

    assert np.all(moments_off(sd) < 4)
    assert np.any(moments_off(0.0) > 5)


@pytest.mark.parametrize("kernel", [samplers.ball, samplers.gaussian])
def test_kernels_are_normalised(kernel, rng):
    """Mean over a wide box of what integrates to one."""
    observed, half = np.array([0.3, -1.0, 2.0]), 3.0
    density = np.exp(kernel(observed, 0.6)(observed + rng.uniform(-half, half, (200_000, 3))))
    values = density * (2 * half) ** 3
    assert abs(values.mean() - 1) < 4 * values.std() / np.sqrt(len(values))


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
