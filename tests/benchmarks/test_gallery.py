"""The gallery of ordinary models: they build, their data stand still, exact values are exact."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytest
from gallery import MODELS, quadrature, series
from pymc.pytensorf import join_nonshared_inputs
from scipy import stats

from pymc_logz import energies

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
# parameters whose law given the others is normal, by model
NORMAL = {
    "quickstart": ["intercept", "slope"],
    "many_rows": ["beta"],
    "conjugate_regression": ["beta"],
    "spline": ["level", "weights"],
    "missing_covariates": ["x_unobserved"],
    "eight_schools_centred": ["mu", "theta"],
    "eight_schools": ["mu", "z"],
    "funnel": ["mu", "theta"],
    "radon": ["mean", "of_uranium", "of_floor", "z"],
    "random_walk": ["level"],
    "local_level": ["first", "steps"],
}
# of the parameters that are left, where the density is far from normal: a finer grid
STEPS = {"eight_schools_centred": 0.3, "eight_schools": 0.3, "funnel": 0.3}


def without_normal(model: pm.Model, names: list[str]) -> tuple[Callable, np.ndarray]:
    """Log density of what is left when the named parameters, normal given it, are integrated out.

    From PyMC's own density: that of a normal law is quadratic, so one Newton step from anywhere
    leads to its top, and differences of the gradient are its curvature, exactly.
    """
    [logp], vector = join_nonshared_inputs(model.initial_point(), [model.logp()], model.value_vars)
    function = pm.compile([vector], [logp, pm.pytensorf.gradient(logp, [vector])], trust_input=True)
    sizes = [np.size(model.initial_point()[value.name]) for value in model.value_vars]
    owner = np.repeat([rv.name for rv in model.free_RVs], sizes)
    inside = np.isin(owner, names)

    def log_f(u: np.ndarray) -> float:
        point = np.zeros(owner.size)
        point[~inside] = u
        start = function(point)[1][inside]
        moves = np.eye(owner.size)[inside]
        curvature = start - np.array([function(point + move)[1][inside] for move in moves])
        point[inside] = np.linalg.solve(curvature, start)
        _, log_det = np.linalg.slogdet(curvature)
        return float(function(point)[0]) + 0.5 * (start.size * np.log(2 * np.pi) - log_det)

    return log_f, np.zeros(owner.size - inside.sum())


@pytest.mark.parametrize("name", MODELS)
def test_models_build_and_have_a_density_and_a_prior(name: str) -> None:
    """Would catch a model that warns, that cannot be sampled from, or whose data change."""
    entry = MODELS[name]
    first, second = entry.build(), entry.build()
    assert entry.about.endswith(".")
    values = [
        model.compile_logp(mode="FAST_COMPILE")(model.initial_point()) for model in (first, second)
    ]
    assert np.isfinite(values[0])
    assert values[0] == values[1]
    for draw in pm.draw(first.free_RVs, draws=2, random_seed=1, mode="FAST_COMPILE"):
        assert np.all(np.isfinite(draw))


def test_there_are_enough_models() -> None:
    """Would catch a module that is no longer imported, and with it a part of the gallery."""
    assert len(MODELS) >= 22
    assert sum(entry.exact is not None for entry in MODELS.values()) >= 15
    assert set(NORMAL) <= set(MODELS)


def test_grid_finds_a_known_integral() -> None:
    """Would catch a wrong cell or a missing Jacobian: skewed and correlated, 1-d and 3-d."""
    for energy in (energies.poisson_gamma(), energies.radiata_pine("density")):
        assert quadrature.model_log_z(energy.model) == pytest.approx(energy.log_z, abs=1e-3)


def test_an_ordered_prior_has_mass_one() -> None:
    """Would catch the constant of all orders where those in order are meant."""
    with pm.Model() as model:
        ordered = pm.distributions.transforms.ordered
        pm.Normal("x", 0, 1, shape=2, transform=ordered, initval=np.array([-1.0, 1.0]))
    assert quadrature.model_log_z(model, n_ordered=2) == pytest.approx(0.0, abs=1e-3)


def test_grid_that_is_too_coarse_is_refused() -> None:
    """Would catch a number that depends on where the nodes fall."""
    with pytest.raises(ArithmeticError, match="too coarse"):
        quadrature.grid_log_z(lambda u: float(-(u @ u) / 2), np.zeros(2), step=3.0)


def test_normal_linear_density_is_that_of_the_responses(rng: np.random.Generator) -> None:
    """Would catch a determinant or a square that is off."""
    x, y, sds = rng.normal(size=(7, 3)), rng.normal(size=7), np.array([0.5, 2.0, 1.0])
    expected = stats.multivariate_normal(np.zeros(7), x * sds**2 @ x.T + 0.3**2 * np.eye(7))
    found = quadrature.NormalLinear(x, y).log_density(sds, 0.3)
    assert found == pytest.approx(expected.logpdf(y))


def test_filter_has_the_density_of_a_walk_seen_through_noise(rng: np.random.Generator) -> None:
    """Would catch a first level that moves before it is seen."""
    y, times = rng.normal(size=6), np.arange(6)
    covariance = 1.0 + 0.4**2 * np.minimum(times[:, None], times) + 0.7**2 * np.eye(6)
    expected = stats.multivariate_normal(np.zeros(6), covariance).logpdf(y)
    assert series.local_level_log_density(y, 1.0, 0.4, 0.7) == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", NORMAL)
def test_closed_forms_are_of_the_models_they_stand_with(name: str) -> None:
    """Would catch a prior or a parameter that differs between a model and its exact value."""
    entry = MODELS[name]
    found = quadrature.grid_log_z(
        *without_normal(entry.build(), NORMAL[name]), STEPS.get(name, quadrature.STEP)
    )
    assert found == pytest.approx(entry.exact(), abs=2e-3)
