"""ConstrainedHMC inside pm.sample: exact posterior moments, and what PyMC expects of a step."""

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from support.checks import check_means
from support.level_sets import nearly_singular, parabola, two_branches
from support.step_chains import QUIET, assert_state_round_trip, batch_means, same, walk

import pymc_logz as lz
from pymc_logz.manifold import step_method as module
from pymc_logz.manifold.generator_form import ExactObservation
from pymc_logz.manifold.step_method import ConstrainedHMC

pytestmark = [
    # threads of JAX, alive since some test before, make fork warn
    pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

NUMPY = {"mode": "FAST_COMPILE"}
MATRIX = np.cos(np.outer(np.arange(1, 7), np.arange(1, 4)))
DATA = np.sin(np.arange(1, 7))
COVARIANCE = np.linalg.inv(np.eye(3) + MATRIX.T @ MATRIX / 0.25)
MEAN = COVARIANCE @ MATRIX.T @ DATA / 0.25


def linear() -> pm.Model:
    """Linear-Gaussian generator."""
    with pm.Model() as model:
        v, n = pm.Normal("v", shape=3), pm.Normal("n", shape=6)
        ExactObservation("y", pt.dot(MATRIX, v) + np.float64(0.5) * n, DATA)
    return model


def curve(case, output) -> pm.Model:
    """Model of a `Curve`."""
    with pm.Model() as model:
        u = pm.Normal("u", shape=2)
        ExactObservation("y", output(u), case)
    return model


@pytest.fixture(scope="module")
def linear_step():
    """Step method on the linear generator, compiled by JAX."""
    model = linear()
    with model:
        return model, ConstrainedHMC()


def test_linear_generator_has_its_posterior(linear_step):
    model, step = linear_step
    draws = walk(step, model, draws=3000, tune=200)
    check_means({f"v{i}": batch_means(draws["v"][:, i] - MEAN[i]) for i in range(3)})
    centred = draws["v"] - MEAN
    for i in range(3):
        check_means({f"var {i}": batch_means(centred[:, i] ** 2)}, COVARIANCE[i, i])
    check_means({"covariance": batch_means(centred[:, 0] * centred[:, 1])}, COVARIANCE[0, 1])
    outputs = draws["v"] @ MATRIX.T + 0.5 * draws["n"]
    assert np.abs(outputs - DATA).max() < 1e-8


CURVES = {
    "two modes": (
        parabola(),
        2.0,
        lambda u: u[0] ** 2 + np.float64(0.5) * u[1],
        {"path_length": 6.0, "step_size": 0.3},
    ),
    "disconnected": (two_branches(), 1.0, lambda u: u[1] ** 2 - u[0] ** 2, {}),
    "nearly singular": (nearly_singular(), 0.05, lambda u: u[0] * u[1], {}),
}


# branches that do not meet are the other side of the parabola's two modes
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "disconnected")) for n in CURVES]
)
def test_curves_have_their_posterior(name):
    case, observed, output, settings = CURVES[name]
    # few of its trajectories cross between the modes
    n_draws = 8000 if name == "two modes" else 3000
    model = curve(observed, output)
    with model:
        step = ConstrainedHMC(**settings)
    u = walk(step, model, draws=n_draws, tune=300)["u"]
    functions = {
        "first": lambda u: u[:, 0] ** 2,
        "first, bounded": lambda u: np.exp(-(u[:, 0] ** 2)),
        "second": lambda u: np.tanh(u[:, 1]) ** 2,
    }
    for key, function in functions.items():
        check_means({key: batch_means(function(u))}, case.mean(function))
    if name == "two modes":
        # catches a chain that cannot cross
        assert 0.01 < np.mean(u[:, 0] > 0) < 0.99


def test_circle_has_a_uniform_angle():
    with pm.Model() as model:
        u = pm.Normal("u", shape=2)
        ExactObservation("y", (u**2).sum(), 3.0)
        step = ConstrainedHMC()
    draws = walk(step, model, draws=5000, tune=300)["u"]
    np.testing.assert_allclose((draws**2).sum(axis=1), 3.0, atol=1e-7)
    angle = np.arctan2(draws[:, 1], draws[:, 0])
    # catches a direction of travel that is preferred: each harmonic of a uniform angle is zero
    for k in (1, 2, 3):
        check_means({f"cos {k}": batch_means(np.cos(k * angle))})
        check_means({f"sin {k}": batch_means(np.sin(k * angle))})


def test_two_curved_constraints_have_their_posterior():
    """Noise whose size depends on an input, so that the determinant matters: by quadrature."""
    with pm.Model() as model:
        v, n = pm.Normal("v", shape=2), pm.Normal("n", shape=2)
        size = np.float64(0.4) * pt.exp(np.float64(0.3) * v[0])
        outputs = [
            v[0] ** 2 + v[1] + np.float64(0.7) * n[0],
            v[0] * v[1] + pt.sin(v[1]) + size * n[1],
        ]
        ExactObservation("y", pt.stack(outputs), [1.0, 0.3])
        step = ConstrainedHMC()
    draws = walk(step, model, draws=6000, tune=300)["v"]
    grid = np.linspace(-5, 5, 801)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    sd = 0.4 * np.exp(0.3 * a)
    log_density = -0.5 * (a**2 + b**2 + ((1.0 - a**2 - b) / 0.7) ** 2)
    log_density += -0.5 * ((0.3 - a * b - np.sin(b)) / sd) ** 2 - np.log(sd)
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    functions = {
        "first": lambda a, b: a,
        "second": lambda a, b: b,
        "first squared": lambda a, b: a**2,
        "product": lambda a, b: a * b,
        "tail": lambda a, b: np.tanh(b) ** 3,
    }
    for name, function in functions.items():
        exact = float((weights * function(a, b)).sum())
        check_means({name: batch_means(function(*draws.T))}, exact)


def test_likelihood_and_transform_beside_it():
    """Scale s ~ HalfNormal, output s n = 1, and a Poisson count of s: checked by quadrature."""
    with pm.Model() as model:
        s, n = pm.HalfNormal("s"), pm.Normal("n")
        ExactObservation("y", s * n, 1.0)
        pm.Poisson("count", s, observed=2)
        step = ConstrainedHMC()
    draws = walk(step, model, draws=5000, tune=300)
    grid = np.linspace(0.05, 8, 100_001)
    density = np.exp(-0.5 * grid**2 - 0.5 / grid**2 - grid) * grid**2 / grid
    density /= density.sum()
    s = np.exp(draws["s_log__"])
    check_means({"s": batch_means(s)}, density @ grid)
    check_means({"s squared": batch_means(s**2)}, density @ grid**2)


def test_in_pm_sample(linear_step):
    model, step = linear_step
    with model:
        tree = pm.sample(30, tune=20, chains=2, cores=1, step=step, random_seed=3, **QUIET)
        again = pm.sample(30, tune=20, chains=2, cores=1, step=step, random_seed=3, **QUIET)
    assert same(tree, again)
    stats = tree["sample_stats"]
    # chains have starts of their own
    assert np.all(np.abs(np.diff(tree["posterior"]["v"][:, 0], axis=0)) > 0)
    for name in ("acceptance_rate", "energy_error", "n_steps", "n_iterations", "residual", "lp"):
        assert np.all(np.isfinite(stats[name])), name
    assert float(stats["residual"].max()) <= 1.0
    for name in ("not_converged", "not_reversible", "not_finite", "diverging"):
        assert stats[name].dtype == bool


@pytest.mark.slow
def test_draws_are_the_same_for_any_cores(linear_step):
    model, step = linear_step
    with model:
        trees = [
            pm.sample(10, tune=5, chains=2, cores=cores, step=step, random_seed=3, **QUIET)
            for cores in (1, 2)
        ]
    np.testing.assert_allclose(trees[0]["posterior"]["v"], trees[1]["posterior"]["v"], rtol=1e-9)


def test_state_and_pickle():
    model = linear()
    with model:
        step = ConstrainedHMC(compile_kwargs=NUMPY)
    other = cloudpickle.loads(cloudpickle.dumps(step))
    assert_state_round_trip(step, other, model)


def test_transitions_made_ahead_change_nothing(linear_step, monkeypatch):
    """Would catch a draw lost or made twice between two calls, or by a restored state."""
    model, step = linear_step
    together = walk(step, model, 40, tune=5)
    for n in (7, 1):
        monkeypatch.setattr(module, "MAX_TRANSITIONS", n)
        for name, values in walk(step, model, 40, tune=5).items():
            np.testing.assert_allclose(values, together[name], rtol=1e-7)
    # the state is taken after 70 draws, with some transitions waiting
    monkeypatch.setattr(module, "MAX_TRANSITIONS", 16)
    assert_state_round_trip(step, step, model, tune=0)
    step.setup_chain(np.random.default_rng(1), 0, 100)
    step.step(model.initial_point(0))
    assert len(step.sampling_state.waiting) == 15


def test_backends_give_the_same_chain(linear_step):
    model, step = linear_step
    with model:
        in_numpy = ConstrainedHMC(compile_kwargs=NUMPY)
    ours, theirs = (walk(each, model, 20, tune=20)["v"] for each in (step, in_numpy))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_initial_values_on_the_set_are_kept():
    model = linear()
    v = np.array([0.1, -0.2, 0.3])
    start = {"v": v, "n": (DATA - MATRIX @ v) / 0.5}
    with model:
        step = ConstrainedHMC(compile_kwargs=NUMPY)
        step.setup_chain(np.random.default_rng(1), 0, 10)
        position = step._start(start)
    np.testing.assert_allclose(position * step.source.model.scale, np.r_[v, start["n"]])


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"path_length": 0.0}, "path_length"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"n_inner": 0}, "n_inner"),
        ({"max_steps": 0.5}, "max_steps"),
        ({"target_accept": 1.0}, "target_accept"),
        ({"target_accept": 0.9, "step_size": 0.1}, "target_accept=0.9 .* leave out one"),
        ({"step_size": -0.1}, "step_size"),
        ({"jitter": 1.0}, "jitter"),
        ({"scale": [1.0, 2.0]}, "scale"),
    ],
)
def test_settings_are_checked(kwargs, message):
    with linear(), pytest.raises(ValueError, match=message):
        ConstrainedHMC(compile_kwargs=NUMPY, **kwargs)


def test_it_moves_the_whole_model_alone():
    model = linear()
    with model:
        with pytest.raises(ValueError, match="whole model"):
            ConstrainedHMC([model["v"]], compile_kwargs=NUMPY)
        step = ConstrainedHMC(compile_kwargs=NUMPY)
    step.setup_chain(np.random.default_rng(1), 0, 10)
    point, _ = step.step(model.initial_point(0))
    with pytest.raises(RuntimeError, match="another step method moved 'v'"):
        step.step({**point, "v": point["v"] + 1.0})


def test_discrete_variables_are_refused_with_what_helps() -> None:
    """Would catch remedies that refuse exact observations."""
    with pm.Model():
        lz.ExactObservation("y", pm.Normal("a") + pm.Poisson("k", 3), observed=2.0)
        with pytest.raises(lz.DiscreteVariableError, match="relax"):
            lz.ConstrainedHMC()
