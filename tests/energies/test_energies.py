"""Each exact log Z against an independent computation, the PyMC form, and the exact draws."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import vectorize_graph
from scipy import integrate, stats
from scipy.special import logsumexp
from support.energies_in_closed_form import (
    CLOSED_FORMS,
    ENERGIES,
    FILTERS,
    ONE_DIMENSIONAL,
    group_data,
    regression_data,
)

from pymc_logz import energies
from pymc_logz.energies import Energy
from pymc_logz.energies.one_integral import log_trapezoid, sample_density

FAST = "FAST_COMPILE"
MAX_Z = 4.5  # about one false alarm in 1,000 runs of this file


def draw(name: str, n: int, seed: int = 11) -> dict[str, np.ndarray]:
    sample = ENERGIES[name].sample_posterior
    assert sample is not None
    return sample(np.random.default_rng(seed), n)


def to_values(energy: Energy, draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Value variables (unconstrained) of draws on the natural scale, by the model's transforms."""
    values = {}
    for rv in energy.model.free_RVs:
        rows, transform = draws[rv.name], energy.model.rvs_to_transforms[rv]
        if transform is not None:
            forward = transform.forward(pt.constant(rows), *rv.owner.inputs)
            rows = pm.compile([], forward, mode=FAST)()
        values[energy.model.rvs_to_values[rv].name] = rows
    return values


def call_by_row(function: Callable[..., np.ndarray], values: dict[str, np.ndarray]) -> np.ndarray:
    n = len(next(iter(values.values())))
    return np.array([function({k: np.asarray(v[i]) for k, v in values.items()}) for i in range(n)])


def z_scores(samples: np.ndarray, expected: float | np.ndarray) -> np.ndarray:
    """Distance of column means from their expectation in standard errors."""
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return np.asarray((samples.mean(axis=0) - expected) / error)


def posterior_mean(name: str, g: Callable[[np.ndarray], np.ndarray]) -> float:
    """Integral of g times the unnormalised posterior of a one-dimensional model."""
    lower, upper, points = ONE_DIMENSIONAL[name]

    def integrand(x: float) -> float:
        at = np.array([x])
        return float((g(at) * np.exp(CLOSED_FORMS[name](at)))[0])

    ends = [lower, *points, upper]
    pieces = [integrate.quad(integrand, *ends[i : i + 2], limit=200) for i in range(len(ends) - 1)]
    return float(sum(value for value, _ in pieces))


def grid(nodes: np.ndarray) -> np.ndarray:
    """All pairs of nodes, shape (len(nodes)**2, 2)."""
    return np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize("name", list(ONE_DIMENSIONAL))
def test_log_z_one_dimension(name: str) -> None:
    """Adaptive quadrature of the density. Catches a wrong constant, such as a lost binomial one."""
    expected = np.log(posterior_mean(name, np.ones_like))
    assert ENERGIES[name].log_z == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("name", ["two_gaussians", "gaussian_shells"])
def test_log_z_box(name: str) -> None:
    """Riemann sum over the box. Catches a lost dimension factor, weight, or mass at the walls."""
    half_width, spacing = {"two_gaussians": (2, 0.02), "gaussian_shells": (6, 0.015)}[name]
    x = grid(np.arange(-half_width + spacing / 2, half_width, spacing))
    expected = logsumexp(CLOSED_FORMS[name](x)) + 2 * np.log(spacing)
    assert ENERGIES[name].log_z == pytest.approx(expected, abs=3e-8)


def test_log_z_ridge() -> None:
    """Gauss-Legendre product rule. Catches digamma arguments that are off by one."""
    nodes, weights = np.polynomial.legendre.leggauss(300)
    p = grid((nodes + 1) / 2)
    log_weights = np.log(np.outer(weights, weights).ravel() / 4)
    expected = logsumexp(log_weights + CLOSED_FORMS["ridge"](p[:, 0], p[:, 1]))
    assert ENERGIES["ridge"].log_z == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["linear_regression", "radiata_pine"])
def test_log_z_regression(name: str) -> None:
    """Multivariate Student-t of the data. Catches a slip in the update or a lost determinant."""
    design, y, mean, precision, shape = regression_data(name)
    rate = 180_000 if name == "radiata_pine" else 1.0
    scale = rate / shape * (np.eye(len(y)) + design / precision @ design.T)
    expected = stats.multivariate_t.logpdf(y, design @ mean, scale, df=2 * shape)
    assert ENERGIES[name].log_z == pytest.approx(expected, abs=1e-8)


def test_log_z_hierarchical() -> None:
    """Adaptive quadrature over tau of a 20-d normal density. Catches a slip in completing the
    square, and a range or number of nodes that is too small."""
    y, sigma = group_data()

    def integrand(tau: float) -> float:
        covariance = np.diag(sigma**2 + tau**2) + 100.0
        log_y = stats.multivariate_normal.logpdf(y, np.zeros(20), covariance)
        return float(np.exp(log_y + 38) * stats.halfnorm.pdf(tau, scale=5))

    parts = [
        integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in ((0, 2), (2, 9))
    ]
    assert ENERGIES["hierarchical_normal"].log_z == pytest.approx(
        np.log(sum(parts)) - 38, abs=1e-10
    )


@pytest.mark.parametrize("name", ["laplace_experts", "student_t_experts"])
def test_log_z_experts(name: str) -> None:
    """Importance sampling from a heavy-tailed law, so that weights are bounded. Catches the sign
    of the log determinant and a slip in the one-dimensional integrals."""
    proposal = stats.multivariate_t(np.zeros(3), np.linalg.inv(FILTERS.T @ FILTERS), df=1)
    x = proposal.rvs(200_000, random_state=5)
    weights = np.exp(CLOSED_FORMS[name](x) - proposal.logpdf(x) - ENERGIES[name].log_z)
    assert weights.std() / np.sqrt(len(x)) < 0.01
    assert abs(z_scores(weights, 1.0)) < MAX_Z


@pytest.mark.parametrize(
    ("covariate", "version", "published"),
    [
        ("density", "friel_wyse", -310.1283),
        ("adjusted", "friel_wyse", -301.7046),
        ("density", "bugs", -310.5073),
        ("adjusted", "bugs", -301.6502),
    ],
)
def test_radiata_pine_published(covariate: str, version: str, published: float) -> None:
    """Published values. Catches any wrong number among the 42 rows, or the wrong specimen 9."""
    energy = energies.radiata_pine(covariate, version)  # type: ignore[arg-type]
    assert energy.log_z == pytest.approx(published, abs=5e-5)


def test_radiata_pine_bayes_factor() -> None:
    """The published Bayes factor. Catches a sign, or the two covariates exchanged."""
    log_z = {c: energies.radiata_pine(c).log_z for c in ("adjusted", "density")}
    assert np.exp(log_z["adjusted"] - log_z["density"]) == pytest.approx(4553.65, abs=0.01)


@pytest.mark.parametrize(
    ("d", "published"), [(2, -1.75), (5, -5.67), (10, -14.59), (20, -36.09), (30, -60.13)]
)
def test_gaussian_shells_published(d: int, published: float) -> None:
    """Table 2 of the MultiNest paper. Catches a wrong area of the sphere in high dimension."""
    assert energies.gaussian_shells(d).log_z == pytest.approx(published, abs=0.006)


def test_known_values() -> None:
    """Values known in closed form for the default arguments."""
    assert energies.beta_bernoulli().log_z == pytest.approx(-71.398962, abs=1e-6)
    assert energies.two_gaussians().log_z == pytest.approx(-20 * np.log(4), abs=1e-12)
    harmonic = sum(1 / k for k in range(51, 102))
    assert ENERGIES["ridge"].log_z == pytest.approx(np.log(harmonic / 101), abs=1e-12)
    both_cauchy = energies.student_location((6.0,), 1.0, 1.0).log_z
    assert both_cauchy == pytest.approx(stats.cauchy.logpdf(6, scale=2), abs=1e-12)


@pytest.mark.parametrize("name", list(ENERGIES))
def test_model_is_closed_form(name: str) -> None:
    """PyMC's density at posterior draws. Catches a swapped parameter (rate for scale, sd for
    precision), single precision, and a potential that leaves part of the reference in place."""
    energy, draws = ENERGIES[name], draw(name, 5)
    assert set(draws) == {rv.name for rv in energy.model.free_RVs}
    logp = energy.model.compile_logp(jacobian=False, mode=FAST)
    actual = call_by_row(logp, to_values(energy, draws))
    np.testing.assert_allclose(actual, CLOSED_FORMS[name](**draws), rtol=1e-11, atol=1e-11)


@cache
def gradient(name: str) -> Callable[..., np.ndarray]:
    """Compiled gradient of the log density in the unconstrained space, for rows of values."""
    model = ENERGIES[name].model
    rows = {
        var: pt.tensor(var.name, dtype=var.dtype, shape=(None, *var.type.shape))
        for var in model.value_vars
    }
    by_row = vectorize_graph(model.dlogp(), rows)
    function: Callable[..., np.ndarray] = pm.compile(list(rows.values()), by_row, mode=FAST)
    return function


def stein_z_scores(name: str, stretch: float = 1.0) -> np.ndarray:
    """Z-scores of E[s_i] = 0, of E[(u_i - c_i) s_i] = -1 and of the sum of the latter over i.

    With s the gradient of the log density at u these hold for exact draws u in the unconstrained
    space (integrate by parts); `stretch` moves the draws away from their mean c and breaks them.
    """
    energy = ENERGIES[name]
    values = to_values(energy, draw(name, 1_200))
    centres = {k: v.mean(axis=0) for k, v in values.items()}
    values = {k: centres[k] + stretch * (v - centres[k]) for k, v in values.items()}
    score = gradient(name)(**values)
    names = [v.name for v in energy.model.value_vars]
    centred = np.column_stack([values[k] - centres[k] for k in names])
    products = centred * score
    sums = z_scores(products.sum(axis=1), -products.shape[1])
    return np.concatenate([z_scores(score, 0.0), z_scores(products, -1.0), sums[None]])


SMOOTH = [name for name in ENERGIES if name != "hierarchical_normal"]


@pytest.mark.parametrize("name", SMOOTH)
def test_draws_obey_stein(name: str) -> None:
    """Catches draws with a wrong location, scale or correlation, and on a wrong scale."""
    assert np.max(np.abs(stein_z_scores(name))) < MAX_Z


@pytest.mark.parametrize("name", SMOOTH)
def test_stein_has_power(name: str) -> None:
    """Positive control: draws stretched by a quarter must not pass."""
    assert np.max(np.abs(stein_z_scores(name, stretch=1.25))) > MAX_Z


@pytest.mark.parametrize("name", list(ONE_DIMENSIONAL))
def test_draws_moments_one_dimension(name: str) -> None:
    """Bounded moments against quadrature. Catches wrong weights of modes, which Stein does not."""
    (x,) = draw(name, 20_000).values()
    total = posterior_mean(name, np.ones_like)
    for g in (lambda v: np.tanh(2 * (v - 4)), np.tanh, lambda v: np.tanh(v / 8) ** 2):
        assert abs(z_scores(g(x), posterior_mean(name, g) / total)) < MAX_Z


def test_draws_hierarchical() -> None:
    """Means and variances of tau, mu and theta from normal conditioning and quadrature over tau.
    Catches a wrong conditional law. (Stein has infinite variance here: E[1 / tau**2] diverges.)"""
    y, sigma = group_data()
    nodes = np.linspace(0, 12, 1_201)[1:]
    log_tau, means, seconds = [], [], []
    for tau in nodes:  # joint prior covariance of (mu, theta), then given y = theta + noise
        prior = np.full((21, 21), 100.0) + np.diag(np.r_[0.0, np.full(20, tau**2)])
        noisy = prior[1:, 1:] + np.diag(sigma**2)
        gain = np.linalg.solve(noisy, prior[1:]).T
        means.append(np.r_[tau, gain @ y])
        variance = np.diag(prior) - np.einsum("ij,ji->i", gain, prior[1:])
        seconds.append(np.r_[0.0, variance] + means[-1] ** 2)
        log_y = stats.multivariate_normal.logpdf(y, np.zeros(20), noisy)
        log_tau.append(log_y + stats.halfnorm.logpdf(tau, scale=5))
    weights = np.exp(np.array(log_tau) - logsumexp(log_tau))
    draws = draw("hierarchical_normal", 20_000)
    columns = np.column_stack([draws["tau"], draws["mu"], draws["theta"]])
    assert np.max(np.abs(z_scores(columns, weights @ np.array(means)))) < MAX_Z
    assert np.max(np.abs(z_scores(columns**2, weights @ np.array(seconds)))) < MAX_Z


@pytest.mark.parametrize(("name", "share"), [("two_gaussians", 0.1), ("gaussian_shells", 0.75)])
def test_draws_mode_weights(name: str, share: float) -> None:
    """Share of the right-hand mode. Catches exchanged or equal weights."""
    right = draw(name, 4_000)["x"][:, 0] > 0
    assert abs(z_scores(right.astype(float), share)) < MAX_Z


def test_quadrature_tools() -> None:
    """A normal integral, draws with its moments, and an integrand that cannot settle."""

    def log_f(x: np.ndarray) -> np.ndarray:
        return -((x - 1) ** 2) / 8

    assert log_trapezoid(log_f, -30, 30) == pytest.approx(np.log(8 * np.pi) / 2, abs=1e-12)
    x = sample_density(np.random.default_rng(2), 20_000, log_f, -30, 30)
    assert np.max(np.abs(z_scores(np.column_stack([x, (x - 1) ** 2]), np.array([1, 4])))) < MAX_Z
    with pytest.raises(ArithmeticError, match="max_doublings=3"):
        log_trapezoid(lambda x: -1e6 * np.abs(x - 0.1234), -1, 1, max_doublings=3)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: energies.beta_bernoulli(5, 6), "successes=6"),
        (lambda: energies.ridge(5, 0), "y=0"),
        (lambda: energies.gaussian_shells(1), "d=1"),
        (lambda: energies.laplace_experts(np.ones((2, 3))), "rank"),
        (lambda: energies.laplace_experts(np.ones((2, 2))), "rank"),
        (lambda: energies.student_t_experts(FILTERS, np.full(3, 0.5)), "above 0.5"),
        (lambda: energies.radiata_pine("height"), "covariate='height'"),  # type: ignore[arg-type]
        (lambda: energies.radiata_pine_data("old"), "version='old'"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments(build: Callable[[], Energy], message: str) -> None:
    """A wrong argument raises at once, and the message names it."""
    with pytest.raises(ValueError, match=message):
        build()
