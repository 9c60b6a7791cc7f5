"""From a PyMC model to flat densities, prior draws and named values, for many kinds of models."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy import stats
from support import pymc_models as models
from support.flat_rows import named_values
from support.prior_masses import check_prior_mass

import pymc_logz as lz
from pymc_logz.errors import ImproperPriorError
from pymc_logz.graphs.functions import compile_kwargs_for
from pymc_logz.models.context import describe_row
from pymc_logz.models.flat import FlatModel, constrain, flatten_model
from pymc_logz.models.prior import PriorDraws

pytestmark = [
    pytest.mark.usefixtures("no_look_in_this_file"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:Input has data type int64:FutureWarning"),
]
FAST = "FAST_COMPILE"
N_DRAWS = 2000
LOWEST_P = 1e-6  # of about 100 comparisons: one false alarm in 10,000 sets of seeds
KINDS = sorted(models.MODELS)


@dataclass
class Case:
    """A model with what the tests of this file need of it, made once."""

    flat: FlatModel
    prior: PriorDraws
    rows: np.ndarray
    values: dict[str, np.ndarray]


@cache
def case_of(kind: str) -> Case:
    """The case of a kind of model, from the cache after the first call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lz.EvidenceWarning)
        flat = flatten_model(models.MODELS[kind]())
    prior = PriorDraws(flat.model)
    rows = prior(np.random.default_rng(7), N_DRAWS)
    return Case(flat, prior, rows, constrain(flat, rows))


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """Each kind of model in turn."""
    return case_of(request.param)


def function_of_row(flat: FlatModel, output: Any) -> Callable[[np.ndarray], Any]:
    """Function of a row that has the data of the model."""
    inputs = [flat.point, *flat.inputs]
    kwargs = compile_kwargs_for(FAST, {"on_unused_input": "ignore"})
    function = pytensor.function(inputs, output, **kwargs)
    return lambda row: function(row, *flat.values)


def test_prior_plus_ratio_is_the_log_density_of_pymc(case: Case) -> None:
    """Would catch a term that is lost, counted twice, or evaluated at another variable's value."""
    flat = case.flat
    total = flat.log_prior + flat.log_ratio
    ours = function_of_row(flat, total)
    theirs = flat.model.compile_logp(mode=FAST)
    rng = np.random.default_rng(3)
    for row in np.concatenate([case.rows[:4], 0.7 * rng.standard_normal((4, flat.n_dims))]):
        # both sides differ in the order of sums only
        assert ours(row) == pytest.approx(theirs(named_values(flat, row)), rel=1e-10, abs=1e-10)


def test_log_ratio_alone_is_that_of_the_data(case: Case) -> None:
    """Would catch a Jacobian or a prior term on the side of the likelihood."""
    flat = case.flat
    ours = function_of_row(flat, flat.log_ratio)
    data_terms = [*flat.model.observed_RVs, *flat.model.potentials]
    theirs = flat.model.compile_logp(vars=data_terms, mode=FAST)
    for row in case.rows[:3]:
        assert ours(row) == pytest.approx(theirs(named_values(flat, row)), rel=1e-10, abs=1e-10)


def test_rows_are_draws_of_pymcs_prior(case: Case) -> None:
    """Would catch draws of another distribution than the prior: every element is compared.

    An extra ordered transform sorts exchangeable draws; the other draws of PyMC are as they are.
    """
    names = [rv.name for rv in case.flat.model.free_RVs]
    theirs = pm.draw(case.flat.model.free_RVs, draws=N_DRAWS, random_seed=5, mode=FAST)
    for name, expected in zip(names, theirs, strict=True):
        if name == "means":
            expected = np.sort(expected, axis=-1)
        ours = case.values[name].reshape(N_DRAWS, -1)
        expected = expected.reshape(N_DRAWS, -1)
        columns = [(ours[:, i], expected[:, i]) for i in range(ours.shape[1])]
        # sums see correlations between elements, which the elements alone do not
        columns.append((ours.sum(axis=1), expected.sum(axis=1)))
        if name == "weights":  # sums to one
            columns.pop()
        if name == "effect" and "mean" in names:  # sums to zero
            columns.pop()
        for x, y in columns:
            assert stats.ks_2samp(x, y).pvalue > LOWEST_P, name


def test_rows_are_draws_of_the_joint_prior() -> None:
    """Would catch parents and children drawn apart: the effects must scale with their own tau."""
    case = case_of("hierarchical")
    z = case.values["effect"] / case.values["tau"][:, None]
    assert stats.kstest(z.ravel(), "norm").pvalue > LOWEST_P
    share = case_of("dependent_bounds").values
    assert stats.kstest(share["share"] / share["upper"], "uniform").pvalue > LOWEST_P


def test_prior_draws_and_sample_prior_predictive_agree() -> None:
    """Would catch deterministics of `constrain` that are not those PyMC would record."""
    case = case_of("regression")
    with case.flat.model:
        tree = pm.sample_prior_predictive(
            N_DRAWS, var_names=["mu", "sigma"], random_seed=2, compile_kwargs={"mode": FAST}
        )
    for i in range(8):
        theirs = tree["prior"]["mu"].to_numpy()[0, :, i]
        assert stats.ks_2samp(case.values["mu"][:, i], theirs).pvalue > LOWEST_P


def test_initial_values_do_not_move_the_draws() -> None:
    """Would catch rows that start at `initval`: there they would be at 9 and 7."""
    values = case_of("awkward_start").values
    assert stats.kstest(values["mu"], "norm").pvalue > LOWEST_P
    assert stats.kstest(values["sigma"], "halfnorm").pvalue > LOWEST_P


def test_same_generator_same_draws() -> None:
    """Would catch draws that depend on anything but the generator handed in."""
    prior = case_of("lkj").prior
    first, second = (prior(np.random.default_rng(4), 5) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.any(first == prior(np.random.default_rng(5), 5))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_any_number_of_draws_of_a_truncated_prior(n: int) -> None:
    """Would catch SciPy's draws, whose shape is () where parameters have shape (1,)."""
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma")
        pm.Normal("y", pm.TruncatedNormal("x", 0, sigma, lower=0), 1, observed=0.5)
    prior = PriorDraws(model)
    assert prior.vectorized
    assert prior(np.random.default_rng(1), n).shape == (n, 2)


# --- what transforms restrict ------------------------------------------------------------------


def test_ordered_draws_are_exact_and_their_share_is_counted() -> None:
    """Would catch rejection that keeps or drops the wrong draws: 1 in 3! is sorted."""
    case = case_of("ordered_mixture")
    assert np.all(np.diff(case.values["means"], axis=1) > 0)
    error = np.sqrt(5 / 36 / case.prior.n_drawn)
    assert abs(case.prior.finite_fraction - 1 / 6) < 4 * error
    reference = np.sort(2 * np.random.default_rng(1).standard_normal((N_DRAWS, 3)), axis=1)
    for i in range(3):
        p = stats.ks_2samp(case.values["means"][:, i], reference[:, i]).pvalue
        assert p > LOWEST_P


@pytest.mark.filterwarnings("ignore:the transforms take only")
def test_order_does_not_change_an_exchangeable_log_z() -> None:
    """Would catch the missing factor 3! of a prior restricted to sorted values: log 6 = 1.8."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1, shape=3, transform=models.ordered)
        pm.Normal("y", mean.sum(), 1, observed=1.0)
    models.assert_log_z(models.quick(model), stats.norm.logpdf(1.0, 0, 2.0))


def test_restricted_prior_warns_and_is_renormalised() -> None:
    """Would catch a halved prior that is not renormalised: Z of a half normal is twice as large."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, transform=models.interval(0, None))
        pm.Normal("y", x, 1, observed=0.5)
    with pytest.warns(lz.EvidenceWarning, match=r"transforms take only (4|5)\d\.\d%"):
        tree = models.quick(model)
    grid = np.linspace(0, 12, 100_001)
    density = 2 * stats.norm.pdf(grid) * stats.norm.pdf(0.5, grid)
    models.assert_log_z(tree, np.log(np.trapezoid(density, grid)))


# --- the check of the prior's mass -------------------------------------------------------------


def wide_and_bounded() -> pm.Model:
    """Priors that a density estimate finds hard: tails, several modes, edges, a spike."""
    with pm.Model() as model:
        pm.Cauchy("cauchy", 0, 1)
        pm.HalfCauchy("half_cauchy", 3)
        pm.StudentT("student", nu=2, mu=100, sigma=0.01)
        pm.NormalMixture("modes", w=[0.3, 0.7], mu=[-3.0, 2.0], sigma=[1.0, 0.8])
        pm.Uniform("uniform", -1e3, 1e6)
        pm.Beta("edges", 0.5, 0.5)
        pm.InverseGamma("inverse", 1, 1)
        pm.LogNormal("log_normal", 0, 3)
        pm.Exponential("exponential", 1e-4)
        pm.TruncatedNormal("truncated", 0, 1, lower=1, upper=1.5)
        pm.Dirichlet("simplex", np.full(4, 0.5))
        pm.Normal("y", 0, 1, observed=0.0)
    return model


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]
)
def test_mass_of_difficult_priors_is_one(seed: int) -> None:
    """Would catch a check that refuses a proper prior, or that never has anything to say."""
    masses = check_prior_mass(wide_and_bounded(), np.random.default_rng(seed))
    assert len(masses) == 11
    for mass in masses:
        assert mass.looks[0].is_sharp, mass
        for look in mass.looks:
            assert abs(look.log_mass) < 0.1 + 5 * look.mcse, mass
        assert mass.log_expected == 0


def test_mass_of_separate_modes_is_one() -> None:
    """Would catch a proper mixture prior that is refused because its modes are narrow."""
    with pm.Model() as model:
        pm.NormalMixture("modes", w=[0.5, 0.5], mu=[-5.0, 5.0], sigma=0.2)
        pm.Normal("y", 0, 1, observed=0.0)
    check_prior_mass(model, np.random.default_rng(0))


@pytest.mark.slow
def test_mass_of_a_high_dimensional_prior_is_one_or_unknown() -> None:
    """Would catch a proper covariance prior that is refused under some seeds."""
    with pm.Model() as model:
        scale = pm.Exponential.dist(1.0)
        pm.LKJCholeskyCov("chol", n=6, eta=2.0, sd_dist=scale, compute_corr=False)
        pm.Normal("y", 0, 1, observed=0.0)
    check_prior_mass(model, np.random.default_rng(2))


def test_mass_check_passes_every_kind_of_model(case: Case) -> None:
    """Would catch a proper prior of any kind that is refused."""
    masses = check_prior_mass(case.flat.model, np.random.default_rng(1))
    assert [mass.name for mass in masses] == [rv.name for rv in case.flat.model.free_RVs]
    assert all(mass.verdict == "agrees" for mass in masses)


def test_mass_check_sees_a_constant() -> None:
    """Would catch a check with no power: a prior whose log density is off by 0.7 is refused."""

    def random(rng: np.random.Generator, size: object = None) -> np.ndarray:
        return rng.normal(size=size)

    with pm.Model() as model:
        pm.CustomDist("x", logp=lambda v: -0.5 * v**2 - 0.92 + 0.7, random=random)
        pm.Normal("y", 0, 1, observed=0.0)
    with pytest.raises(ImproperPriorError, match=r"'x' integrates to exp\(0\.[67]"):
        check_prior_mass(model, np.random.default_rng(1))


# --- names and shapes --------------------------------------------------------------------------


def test_constrain_gives_natural_values_in_model_order(case: Case) -> None:
    """Would catch a variable that is missing, transformed twice, or of another shape."""
    model = case.flat.model
    wanted = {var.name: var for var in (*model.free_RVs, *model.deterministics)}
    assert set(case.values) == set(wanted)
    evaluated = model.compile_fn(
        [var for var in model.unobserved_value_vars if var.name in wanted],
        inputs=model.value_vars,
        on_unused_input="ignore",
        mode=FAST,
    )
    for i in (0, 1, 17):
        expected = evaluated(named_values(case.flat, case.rows[i]))
        for (name, values), value in zip(case.values.items(), expected, strict=True):
            assert values.shape[0] == N_DRAWS
            np.testing.assert_allclose(values[i], value, rtol=1e-10, err_msg=name)


def test_deterministics_that_depend_on_nothing_are_repeated() -> None:
    """Would catch a constant deterministic that is not given one value a row."""
    model = models.normal_normal().copy()
    with model:
        pm.Deterministic("constant", pm.math.constant(np.arange(3.0)))
        pm.Deterministic("square", model["mu"] ** 2)
    values = constrain(flatten_model(model), np.array([[2.0], [3.0]]))
    np.testing.assert_array_equal(values["constant"], [[0, 1, 2], [0, 1, 2]])
    np.testing.assert_array_equal(values["square"], [4.0, 9.0])


def test_described_row_is_on_the_natural_scale() -> None:
    """Would catch messages that show unconstrained values, which nobody can read."""
    flat = case_of("dependent_bounds").flat
    row = np.array([np.log(2.0), 0.0])
    assert describe_row(flat, row) == "upper=2.0, share=1.0"


def test_named_values_split_a_row() -> None:
    """Would catch a split at the wrong places: a matrix is followed by a vector of length one."""
    flat = case_of("matrix").flat
    named = named_values(flat, np.arange(7.0))
    np.testing.assert_array_equal(named["weight"], np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(named["scale_log__"], [6.0])
    assert flat.n_dims == 7
