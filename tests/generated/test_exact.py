"""The exact log Z of generated models, by another way: PyMC's own density, or closed forms."""

from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.pytensorf import join_nonshared_inputs
from pytensor.graph.replace import vectorize_graph
from scipy import stats
from support.checks import make_rng

from generated import FAMILIES, chains, generate, hierarchies, regressions, scales
from generated.quadrature import box_log_integral, pieces

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")


def by_rows(model: pm.Model, outputs=None):
    """PyMC's log density, or other outputs, of rows of its flat vector; interpreted."""
    start = model.initial_point()
    joined, flat = join_nonshared_inputs(start, outputs or [model.logp()], model.value_vars)
    rows = pt.matrix("rows")
    mode = "FAST_COMPILE"
    return pm.compile([rows], vectorize_graph(joined, {flat: rows}), mode=mode)


def on_a_grid(model: pm.Model, dims: int, reach: float = 9.0) -> float:
    """Log of the integral of PyMC's density over one or two variables of the flat vector."""
    density = by_rows(model)

    def log_f(*t):
        full = np.broadcast_arrays(*t)
        rows = np.stack([np.sinh(one).ravel() for one in full], axis=1)
        [values] = density(rows)
        return values.reshape(full[0].shape) + sum(np.log(np.cosh(one)) for one in t)

    return box_log_integral(log_f, *[(-reach, reach)] * dims, nodes={1: 2000, 2: 160}[dims])[0]


SMALL = [
    "gamma_poisson",
    "beta_binomial",
    "dirichlet_multinomial",
    "normal_in_bounds",
    "ordered_means",
    "change_in_counts",
    "normal_mixture",
    "two_far_modes",
    "sign_modes",
    "squares",
    "exchangeable_means",
    "spike_and_slab_regression",
    "quadratic_potential",
    "gamma_potential",
    "half_spaces",
    "robust_regression",
    "rotated_noise",
    "rotated_student",
    "experts",
    "heavy_effects",
    "double_wells",
    "shells",
    "rings",
    "waves",
    "larger_of_two",
    "growth",
    "banana",
]
"""Families that have members with one or two dimensions."""


SLOW = {
    "sign_modes",
    "exchangeable_means",
    "spike_and_slab_regression",
    "robust_regression",
    "dirichlet_multinomial",
    "change_in_counts",
    "shells",
}
"""Whose density takes seconds for so many rows, interpreted."""


DEAR = {
    "concentrations",
    "counts_with_effects",
    "errors_in_variables",
    "far_data",
    "few_items",
    "few_outliers",
    "few_trials",
    "heavy_tailed_groups",
    "horseshoe",
    "inefficiencies",
    "jumping_level",
    "lasso_of_contrasts",
    "latent_exponentials",
    "local_level",
    "noisy_process",
    "one_factor",
    "proportions",
    "robust_regression",
    "seen_through",
    "separated",
    "smooth_curve",
    "three_levels",
    "two_decays",
}
"""Whose exact log Z takes more than half a second."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SMALL]
)
def test_grid(name: str) -> None:
    """Would catch a closed form or a constant of a potential that is not that of the model."""
    case = next(one for one in (generate(name, k) for k in range(100)) if one.dims <= 2)
    found = on_a_grid(case.build(), case.dims)
    if name == "ordered_means":
        found += np.log(2)  # PyMC's density of two in order has half of the mass
    # quotients of heavy tails and a prior are cut off at the end of the grid
    assert found == pytest.approx(case.log_z, abs=1e-3 + case.accuracy)


def given_scales(model: pm.Model, scale_names: set[str], point: np.ndarray) -> float:
    """Log density of the data given the scales at a point, from PyMC's gradients alone.

    What is not a scale is normal given the scales, so that Laplace's method is exact.
    """
    is_scale = np.concatenate(
        [
            np.full(np.size(model.initial_point()[v.name]), v.name in scale_names)
            for v in model.value_vars
        ]
    )
    logp = model.logp()
    start = model.initial_point()
    own = [v for v in model.value_vars if v.name in scale_names]
    prior = pt.add(*[one.sum() for one in model.logp(vars=_variables(model, own), sum=False)])
    [total, scale_prior], flat = join_nonshared_inputs(start, [logp, prior], model.value_vars)
    outputs = [total, scale_prior, pt.grad(total, flat)]
    function = pm.compile([flat], outputs, mode="FAST_COMPILE")
    base = np.zeros(is_scale.size)
    base[is_scale] = point
    where = np.flatnonzero(~is_scale)
    value, log_prior, gradient = function(base)
    columns = [function(base + np.eye(base.size)[j])[2][where] - gradient[where] for j in where]
    precision = -np.stack(columns, axis=1)
    own_gradient = gradient[where]
    solved = np.linalg.solve(precision, own_gradient)
    log_det = np.linalg.slogdet(precision)[1]
    top = value + 0.5 * own_gradient @ solved
    return float(top + 0.5 * where.size * np.log(2 * np.pi) - 0.5 * log_det - log_prior)


def _variables(model: pm.Model, values: list) -> list:
    return [model.values_to_rvs[value] for value in values]


def proper_case(name: str):
    """The first model all of whose scales are standard deviations with a log transform."""
    for seed in range(100):
        case = generate(name, seed)
        model = case.build()
        names = {v.name for v in model.value_vars}
        own = {n for n in names if n.endswith("_log__")}
        if own and not any("precision" in n or "variance" in n or "interval" in n for n in names):
            return case, model, own
    raise AssertionError(name)


def test_two_levels_given_scales() -> None:
    """Would catch a wrong closed form of groups of unequal sizes."""
    _, model, names = proper_case("two_levels")
    group, data = model["group"].get_value(), model["data"].get_value()
    groups = [data[group == k] for k in range(group.max() + 1)]
    for s, t in [(-1.0, 0.3), (0.7, -0.5)]:
        ours = hierarchies.one_way_log_density(groups, 5.0, np.exp(s), np.exp(t))
        found = given_scales(model, names, np.array([s, t]))
        assert found == pytest.approx(float(ours), abs=1e-6)


def test_three_levels_given_scales() -> None:
    """Would catch a wrong eigenvalue or sum of squares of the nested design."""
    _, model, names = proper_case("three_levels")
    for point in [np.array([-1.0, 0.3, 0.1]), np.array([0.5, -1.0, -0.4])]:
        ours = hierarchies.nested_log_density(model["data"].get_value(), 5.0, *np.exp(2 * point))
        assert given_scales(model, names, point) == pytest.approx(float(ours), abs=1e-6)


def test_schools_given_the_spread() -> None:
    """Would catch a noise that is not the known one."""
    _, model, names = proper_case("schools")
    variances = [np.exp(2 * 0.8) + sd**2 for sd in model["sd"].get_value()]
    ours = hierarchies.shifted_log_density(model["data"].get_value(), variances, 10.0)
    found = given_scales(model, names, np.array([0.8]))
    assert found == pytest.approx(float(ours), abs=1e-6)


def test_funnel_given_its_scale() -> None:
    """Would catch a variance taken for a standard deviation."""
    case = generate("funnel", 0)
    model = case.build()
    y, v = model["data"].get_value(), -0.7
    ours = stats.norm.logpdf(y, 0, np.hypot(case.about["sd"], np.exp(v / 2))).sum()
    assert given_scales(model, {"v"}, np.array([v])) == pytest.approx(ours, abs=1e-6)


def test_errors_in_variables_given_slope_and_scales() -> None:
    """Would catch a wrong marginal of both measurements."""
    case, model, names = proper_case("errors_in_variables")
    w, y = model["seen"].get_value(), model["data"].get_value()
    point = np.array([1.3, -0.2, 0.4])  # b, then the scales, in the order of the model
    values = (1.3, np.exp(-0.4), np.exp(0.8))
    ours = hierarchies.measured_log_density(w, y, case.about["sd_w"], 3.0, *values)
    found = given_scales(model, names | {"b"}, point)
    assert found == pytest.approx(float(ours), abs=1e-6)


@pytest.mark.parametrize("name", ["linear_regression", "vague_regression", "wide_regression"])
def test_regressions_given_the_noise(name: str) -> None:
    """Would catch a wrong closed form of the coefficients."""
    for seed in range(100):
        case = generate(name, seed)
        if "Half" in str(case.about["noise"]) or "Gamma" in str(case.about["noise"]):
            break
    model = case.build()
    noise = next(v for v in model.value_vars if v.name.startswith("sigma"))
    design, y = model["design"].get_value(), model["data"].get_value()
    sds = model["sds"].get_value()
    # all three ways to write it are powers of the standard deviation
    power = {"sigma_log__": 1, "sigma_precision_log__": -2, "sigma_variance_log__": 2}[noise.name]
    ours = regressions.regression_log_density(y, design, sds, np.exp(0.3))
    found = given_scales(model, {noise.name}, np.array([0.3 * power]))
    assert found == pytest.approx(float(ours), rel=1e-8, abs=1e-5)


@pytest.mark.parametrize(("centred", "seed"), [(True, 12), (False, 0)])
def test_a_process_given_its_height_and_the_noise(centred: bool, seed: int) -> None:
    """Would catch another matrix than the model's, and a height that is taken twice."""
    case = generate("noisy_process", seed)
    assert case.about["centred"] is centred
    assert "Half" in case.about["noise"]
    model = case.build()
    names = [v.name for v in model.value_vars if v.name.endswith("_log__")]
    assert names == ["height_log__", "sigma_log__"]
    y, root = model["data"].get_value(), model["root"].get_value()
    height, sigma = np.exp([-0.4, 0.3])
    ours = regressions.regression_log_density(y, root, np.full(y.size, height), sigma)
    found = given_scales(model, set(names), np.array([-0.4, 0.3]))
    assert found == pytest.approx(float(ours), rel=1e-8, abs=1e-5)


BY_DRAWS = {
    "cauchy_location": 2,
    "product": 2,
    "separated": 2,
    "jumping_level": 5,
    "volatility": 10,
    "local_level": 7,
    "sinusoid": 3,
    "counts_with_effects": 6,
    "proportions": 6,
    "few_trials": 6,
    "horseshoe": 5,
    "one_factor": 7,
    "smooth_curve": 3,
    "switched_block": 3,
    "switched_noise": 6,
    "switched_scale": 6,
    "latent_exponentials": 7,
    "inefficiencies": 8,
    "few_outliers": 8,
    "heavy_tailed_groups": 7,
    "seen_through": 4,
    "pumps": 6,
    "few_items": 5,
    "two_lines": 6,
    "lasso_of_contrasts": 6,
}
"""Families without a closed form of few variables, and dimensions of their smallest members."""
NARROW = {"two_lines": [16], "pumps": [23], "lasso_of_contrasts": [2]}  # seeds of such priors
MANY = "few_outliers", "pumps", "lasso_of_contrasts"  # whose data few draws explain


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "volatility")) for n in BY_DRAWS]
)
def test_mean_likelihood_of_prior_draws(name: str) -> None:
    """Would catch a recursion or a quadrature that is not that of the model."""
    cases = (generate(name, k) for k in NARROW.get(name, range(100)))
    case = next(one for one in cases if one.dims == BY_DRAWS[name])
    model = case.build()
    y = model["y"]
    log_likelihood = pm.logp(y, model.rvs_to_values[y]).sum()
    rng = make_rng("prior draws", name)
    n = 100_000 if name in MANY else 5000
    found = pm.draw(log_likelihood, n, mode="FAST_COMPILE", random_seed=rng)
    weight = np.exp(found - case.log_z)
    error = weight.std() / np.sqrt(weight.size)
    assert error < 0.25
    assert abs(weight.mean() - 1) < 4 * error


def test_series_of_normal_steps() -> None:
    """Would catch a transfer matrix that is turned round, or weights that are used twice."""
    y = np.array([0.3, -1.2, 2.2, 2.0])
    rule = pieces(-30.0, 30.0, 1600)
    x = rule[0]
    between = stats.norm.logpdf(x, x[:, None], 0.7)
    seen = stats.norm.logpdf(y[:, None], x, 0.4)
    found = chains.series_log_integral(rule, stats.norm.logpdf(x, 0, 3), between, seen)
    exact = chains.filtered(y, 3.0, np.log(0.7), np.log(0.4))
    assert found == pytest.approx(float(exact), abs=1e-9)
    steps = np.cumsum(np.eye(4), axis=0) * [3.0, 0.7, 0.7, 0.7]
    covariance = steps @ steps.T + 0.16 * np.eye(4)
    closed = stats.multivariate_normal.logpdf(y, np.zeros(4), covariance)
    assert float(exact) == pytest.approx(closed, abs=1e-9)


def test_quadrature_in_closed_form() -> None:
    """Would catch a rule that lacks narrow peaks, several of them, or wide tails."""
    y = np.array([0.3, -1.2, 2.2])
    prior = scales.gamma_precision(2.0, 3.0)

    def log_f(t):
        return prior.log_density(t) + stats.norm.logpdf(y[:, None], 0, np.exp(t)).sum(0)

    exact = stats.multivariate_t.logpdf(y, np.zeros(3), 1.5 * np.eye(3), df=4)
    assert box_log_integral(log_f, prior.bounds)[0] == pytest.approx(exact, abs=1e-9)

    def peaks(x, y, z):
        log = partial(stats.norm.logpdf, scale=0.05)
        return np.logaddexp(log(x, -3), log(x, 4)) + log(y, 1) + stats.norm.logpdf(z, 0, 2)

    assert box_log_integral(peaks, *[(-25.0, 25.0)] * 3)[0] == pytest.approx(np.log(2), abs=1e-3)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in DEAR)) for name in FAMILIES]
)
def test_each_family_is_the_same_each_time(name: str) -> None:
    """Would catch a draw that depends on more than its seed, and dimensions that are not so."""
    first, second = generate(name, 3), generate(name, 3)
    assert (first.log_z, first.about, first.name) == (second.log_z, second.about, f"{name}-3")
    assert generate(name, 4).log_z != first.log_z
    assert first.accuracy < 5e-3
    values = [one.build().initial_point() for one in (first, second)]
    assert sum(np.size(value) for value in values[0].values()) == first.dims
    assert {k: np.shape(v) for k, v in values[0].items()} == {
        k: np.shape(v) for k, v in values[1].items()
    }


def test_families_are_many() -> None:
    """Would catch a family that got lost."""
    assert len(FAMILIES) >= 43


def test_ratio_given_what_divides() -> None:
    """Would catch a wrong law of the ratio: given the divisor the other is normal."""
    case = generate("ratio", 3)
    model = case.build()
    [observed] = model.observed_RVs
    y, sd = model.rvs_to_values[observed].eval(), case.about["sd"]

    def log_f(log_b):
        spread = np.hypot(np.exp(-log_b), sd / np.sqrt(y.size))
        own = stats.norm.logpdf(np.exp(log_b)) + log_b + np.log(2)
        return own + stats.norm.logpdf(y.mean(), 0, spread)

    seen = stats.norm.logpdf(y, y.mean(), sd).sum()
    seen -= stats.norm.logpdf(0, 0, sd / np.sqrt(y.size))
    found, _ = box_log_integral(log_f, (-30.0, 3.0))
    assert found + seen == pytest.approx(case.log_z, abs=1e-6)


def test_heritability_with_values_summed_out() -> None:
    """Would catch a wrong covariance of relatives, or a wrong constant, by one normal of all."""
    case = generate("heritability", 5)
    model, about = case.build(), case.about
    [observed] = model.observed_RVs
    y, n = model.rvs_to_values[observed].eval(), about["n"]
    family = np.arange(n) % about["families"]
    kin = 0.5 * np.eye(n) + 0.5 * (family[:, None] == family)
    spread = scales.half_cauchy if "Cauchy" in about["spread"] else scales.half_normal

    def log_f(odds, log_sd):
        h2, variance = np.broadcast_arrays(1 / (1 + np.exp(-odds)), np.exp(2 * log_sd))
        whole = h2[..., None, None] * kin + (1 - h2[..., None, None]) * np.eye(n)
        covariance = variance[..., None, None] * whole + 100.0
        solved = np.linalg.solve(covariance, np.tile(y[:, None], (*h2.shape, 1, 1)))[..., 0]
        log_p = -0.5 * ((y * solved).sum(-1) + np.linalg.slogdet(2 * np.pi * covariance)[1])
        prior = stats.beta(*about["shapes"]).logpdf(h2) + np.log(h2 * (1 - h2))
        return log_p + prior + spread(2.0).log_density(log_sd)

    found, _ = box_log_integral(log_f, (-25.0, 25.0), (-9.0, 9.0), nodes=100)
    assert found == pytest.approx(case.log_z, abs=2e-3)
