"""Each guard rail names the variable and the remedy; what is supported gives the exact log Z."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from pytensor.sparse import as_sparse
from scipy import stats
from scipy.sparse import csr_matrix
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz.models.flat import flatten_model

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:PyTensor could not link to a BLAS",
        "ignore:Calling a RandomVariable without an explicit rng:DeprecationWarning",
        "ignore:RandomVariable Ops will stop hiding the rng:DeprecationWarning",
        "ignore:Input has data type int64:FutureWarning",
        "ignore:total_size not provided:UserWarning",
    ),
    pytest.mark.usefixtures("no_look_in_this_file"),
]
# no pilot and no JAX: cheap wherever JAX cannot be used
SMALL = {
    "betas": 20,
    "kernel": lz.kernels.Hamiltonian(step_size=0.5, scale=1.0),
    "compile_kwargs": {"mode": "FAST_COMPILE"},
}
OF_DRAWS = ("chain", "draw")
NEIGHBOURS = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def built(body: Callable[[], object]) -> pm.Model:
    """Model whose variables `body` makes."""
    with pm.Model() as model:
        body()
    return model


def observed(mu: object, y: object = 0.5) -> None:
    """The likelihood of most models here."""
    pm.Normal("y", mu, 1, observed=y)


def minibatch(**kwargs: object) -> None:
    """Likelihood of a batch of the data."""
    batch = pm.Minibatch(np.arange(10.0), batch_size=3)
    pm.Normal("y", pm.Normal("x"), 1, observed=batch, **kwargs)


REFUSED = {
    "flat": (lambda: observed(pm.Flat("x")), lz.ImproperPriorError, ["'x'", "Flat", "pm.Normal"]),
    "half_flat": (
        lambda: observed(pm.HalfFlat("x")),
        lz.ImproperPriorError,
        ["'x'", "HalfFlat", "pm.HalfNormal"],
    ),
    "icar": (
        lambda: observed(pm.ICAR("field", W=NEIGHBOURS), np.zeros(3)),
        lz.ImproperPriorError,
        ["'field'", "ICAR", "proper prior"],
    ),
    "total_size": (
        lambda: pm.Normal("y", pm.Normal("x"), 1, observed=[0.0, 1.0], total_size=10),
        lz.ModelError,
        ["'y'", "total_size", "full data set"],
    ),
    "minibatch": (minibatch, lz.ModelError, ["'y'", "minibatch", "full data set"]),
    "minibatch_total_size": (lambda: minibatch(total_size=10), lz.ModelError, ["'y'", "minibatch"]),
    "simulator": (
        lambda: pm.Simulator(
            "s", lambda rng, x, size: rng.normal(x, 1, size), pm.Normal("x"), observed=np.zeros(3)
        ),
        lz.ModelError,
        ["'s'", "pm.Simulator", "pm.sample_smc"],
    ),
    "nothing_observed": (lambda: pm.Normal("x"), lz.ModelError, ["observed=", "pm.Potential"]),
    "no_entries": (
        lambda: observed(pm.Normal("x", shape=0).sum()),
        lz.ModelError,
        ["no entries", "(0,)", "log likelihood"],
    ),
    "lost": (lambda: observed(pm.Normal("draw")), lz.ModelError, ["['draw']", "other names"]),
    "nothing_free": (
        lambda: pm.Normal("y", 0, 1, observed=1.0),
        lz.ModelError,
        ["no free variables"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_without_a_log_z_are_refused_at_once(name: str) -> None:
    """Would catch a guard that is gone: a number would come back for a model that has no log Z."""
    body, error, parts = REFUSED[name]
    model = built(body)
    with pytest.raises(error) as caught:
        flatten_model(model)
    for part in parts:
        assert part in str(caught.value)
    with pytest.raises(error):
        models.quick(model)


def test_an_angle_has_one_turn() -> None:
    """Would catch a circle that is refused, or counted many times, and data of before."""
    with pm.Model(coords={"place": ["a", "b"]}) as model:
        where = pm.Data("where", [2.9, -2.8], dims="place")
        angle = pm.VonMises("angle", 0, 2)
        turned = pm.Deterministic("turned", angle + 1)
        pm.VonMises("y", turned - 1, 4, observed=where, dims="place")

    grid = np.linspace(-np.pi, np.pi, 20_001)[:-1]
    cheap = {"compile_kwargs": {"mode": "FAST_COMPILE"}, "cores": 1, "progressbar": False}

    def sampled() -> xr.DataTree:
        with model:
            return pm.sample(250, tune=100, chains=2, random_seed=1, nuts_sampler="pymc", **cheap)

    def exact_draws() -> xr.DataTree:
        rng, share = np.random.default_rng(1), density / density.sum()
        angle = rng.choice(grid, (2, 250), p=share) + rng.uniform(0, 1e-4, (2, 250))
        return xr.DataTree.from_dict(
            {"posterior": xr.Dataset({"angle": (OF_DRAWS, angle), "turned": (OF_DRAWS, angle + 1)})}
        )

    for data, draw in (([2.9, -2.8], exact_draws), ([0.3, 0.5], sampled)):
        pm.set_data({"where": data}, model=model)
        density = stats.vonmises.pdf(grid, 2)
        density = density * stats.vonmises.pdf(np.array(data)[:, None], 4, loc=grid).prod(axis=0)
        drawn = draw()
        bridged = lz.evidence(drawn, model, random_seed=1, progressbar=False)
        for found in (models.quick(model), bridged):
            models.assert_log_z(found, float(np.log(density.mean() * 2 * np.pi)))
            assert np.abs(found["posterior"]["angle"]).max() < np.pi
            assert set(found["posterior"].data_vars) == {"angle", "turned"}
    with pm.Model() as other:
        turned = pm.Deterministic("turned", pm.VonMises("angle", 0.5, 1) + 1)
        pm.VonMises("y", turned - 1, 4, observed=data)
    with pytest.raises(ValueError, match="is not the model's"):
        lz.bridge_sampling(drawn, other, progressbar=False)
    small = {"draws": 100, "walkers": 16, "betas": 4, "chains": 2, "random_seed": 1}
    assert lz.sample_tempered(model=model, **small, **cheap)["evidence"].attrs


def test_an_angle_beside_initial_values() -> None:
    """Would catch PyMC's NotImplementedError for a copy, or initial values that are lost."""
    with pm.Model() as model:
        x = pm.Normal("x", pm.VonMises("angle", 0, 2), initval=0.5)
        pm.Normal("y", x, 1, observed=1.0)
    assert models.quick(model)["evidence"].attrs
    assert model.rvs_to_initial_values[x] == 0.5


def test_a_step_for_a_circle_runs_with_the_remedy_of_its_message() -> None:
    """Would catch a remedy that does not work: the message for VonMises names this transform."""
    with pm.Model() as model:
        pm.Normal("y", pm.VonMises("angle", 0, 1), 1, observed=0.5)
    words = ["'angle'", "circle", "default_transform", "Interval(-np.pi, np.pi)"]
    with model, pytest.raises(lz.ImproperPriorError) as caught:
        lz.HAIS()
    assert all(word in str(caught.value) for word in words)
    transform = pm.distributions.transforms.Interval(-np.pi, np.pi)
    with pm.Model():
        angle = pm.VonMises("angle", 0, 1, default_transform=transform)
        pm.Normal("y", angle, 1, observed=0.5)
        lz.HAIS(pilot_tune=8)


def test_custom_prior_without_random_is_refused() -> None:
    """Would catch a bare NotImplementedError from PyMC, or a run that starts from `initval`."""
    model = built(lambda: observed(pm.CustomDist("x", logp=lambda v: -0.5 * v**2)))
    with pytest.raises(lz.ImproperPriorError, match=r"'x' cannot be drawn from.*") as caught:
        models.quick(model)
    assert "give pm.CustomDist a random=" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unnormalised_custom_prior_is_refused() -> None:
    """Would catch a log Z that is off by the constant that a user's log density leaves out."""

    def random(mean: float, rng: np.random.Generator, size: object = None) -> np.ndarray:
        return rng.normal(mean, 1, size=size)

    model = built(
        lambda: observed(
            pm.CustomDist("x", 0.0, logp=lambda v, m: -0.5 * (v - m) ** 2, random=random)
        )
    )
    with pytest.raises(lz.ImproperPriorError, match=r"'x' integrates to exp\((0\.[89]|1\.0)"):
        models.quick(model)


@pytest.mark.filterwarnings("ignore:Method .* is not implemented for sparse")
def test_a_sparse_matrix_of_neighbours_is_refused() -> None:
    """Would catch a TypeError about dot products, which names no variable and no remedy."""
    weights = as_sparse(csr_matrix(NEIGHBOURS))
    model = built(
        lambda: observed(pm.CAR("field", np.zeros(3), weights, 0.5, 1.0, shape=3), np.zeros(3))
    )
    with pytest.raises(lz.ModelError, match=r"'field' is a sparse .* give W\.toarray"):
        models.quick(model)


def test_infinite_likelihood_is_refused() -> None:
    """Would catch an unbounded potential that ends as a status, or as a large log Z."""
    model = built(lambda: pm.Potential("spike", pt.switch(pt.gt(pm.Normal("x"), 0.0), np.inf, 0.0)))
    with (
        pytest.warns(lz.EvidenceWarning, match="spike"),
        pytest.raises(
            lz.ModelError, match=r"infinite, by a pole or by rounding, at x=0?\.?\d"
        ) as caught,
    ):
        models.quick(model)
    assert "bound it" in str(caught.value)


def test_a_likelihood_that_rounds_to_infinity_is_refused() -> None:
    """Would catch a hurdle that ends in NaN: below 1e-16 it is infinite, at 3% of the prior."""
    with pm.Model() as model:
        pm.HurdlePoisson("y", psi=0.7, mu=pt.exp(pm.Normal("log_mu", -20, 9)), observed=[1, 1, 0])
    with pytest.raises(lz.ModelError, match=r"by a pole or by rounding, at log_mu=-[345]"):
        models.quick(model)


@pytest.mark.filterwarnings("ignore:the log likelihood plus potentials was NaN")
@pytest.mark.filterwarnings("ignore:invalid value encountered in multiply:RuntimeWarning")
def test_likelihood_that_is_nan_somewhere_warns_with_the_values() -> None:
    """Would catch NaN read as anything but likelihood zero, or a warning that names no values."""
    model = built(lambda: observed(pt.log(pm.Normal("x")), 0.0))
    with pytest.warns(lz.EvidenceWarning, match=r"NaN at \d+ of \d+ prior draws, such as x=-\d"):
        tree = models.quick(model, draws=1000)
    x = np.linspace(1e-6, 12, 200_001)
    density = stats.norm.pdf(x) * stats.norm.pdf(np.log(x))
    models.assert_log_z(tree, np.log(np.trapezoid(density, x)))


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (lambda: observed(pt.log(-pm.HalfNormal("x"))), r"x=\d.*log density of y.* is nan"),
        (
            lambda: pm.Exponential("y", pm.HalfNormal("x", shape=2), observed=[1.0, -1.0]),
            r"x=\[.*log density of y\[1\]=-1.0 is -inf",
        ),
        (
            lambda: observed(pm.Normal("x") + 0 * pm.Potential("p", pt.log([1.0, 0.0]))[0]),
            r"x=.*log density of p\[1\] is -inf",
        ),
        (
            lambda: pm.Poisson("y", pm.Gamma("x", 1, 1) + pm.Bernoulli("z", 0.5), observed=-1),
            r"z=.*log density of y=-1 is -inf",
        ),
    ],
    ids=["nan", "minus_infinity", "potential", "summed out"],
)
@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_likelihood_without_support_is_refused_with_values(body: object, value: str) -> None:
    """Would catch a run on a likelihood that is nowhere finite, which has no log Z to report."""
    with pytest.raises(
        lz.ModelError, match=rf"zero or NaN at all of [\d,]+ prior draws \(for example {value}"
    ):
        models.quick(built(body), **SMALL)


def test_potentials_warn_once_a_model() -> None:
    """Would catch a warning at each call, or one that only the first model ever gets."""
    for model in (models.with_potential(), models.with_potential()):
        with pytest.warns(lz.EvidenceWarning, match="'pull'"):
            flatten_model(model)
        flatten_model(model)
    flatten_model(lz.energies.two_gaussians(2).model)  # whose exact log Z counts them in


# --- supported ---------------------------------------------------------------------------------


def test_missing_data_are_integrated_out() -> None:
    """Would catch an imputed value that is left at its start, or counted as likelihood."""
    seen = np.delete(models.Y, [0, 3])
    exact = stats.multivariate_normal.logpdf(seen, cov=np.eye(6) + 1)
    models.assert_log_z(models.quick(models.missing_data()), exact)


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_potentials_are_part_of_the_target() -> None:
    """Would catch a potential that is left out, or counted on the reference's side."""
    precision = np.array([[2.0, 0.0], [0.0, 2.0]]) + 2 * np.array([[1, -1], [-1, 1]])
    y = np.array([0.3, 1.0])
    shift = 0.5 * y @ np.linalg.solve(precision, y) - 0.5 * y @ y
    exact = shift - np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1]
    models.assert_log_z(models.quick(models.with_potential()), exact)


def test_new_data_are_used_by_the_next_run() -> None:
    """Would catch data frozen at the first call: set_data must change the second answer."""
    with pm.Model() as model:
        y = pm.Data("data", [0.1])
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=y, shape=y.shape)
    for data in (np.array([0.1]), np.array([3.0, 2.0])):
        pm.set_data({"data": data}, model=model)
        exact = stats.multivariate_normal.logpdf(data, cov=np.eye(len(data)) + 1)
        tree = models.quick(model)
        models.assert_log_z(tree, exact)
        np.testing.assert_array_equal(tree["observed_data"]["y"], data)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_normal_means_of_any_shape(shape: tuple[int, ...]) -> None:
    """Would catch rows unpacked in the wrong order or shape: each element has its own datum."""
    y = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
    model = built(lambda: pm.Normal("y", pm.Normal("mu", 0, 1, shape=shape), 1, observed=y))
    tree = models.quick(model, **(SMALL if len(shape) > 1 else {}))
    models.assert_log_z(tree, stats.norm.logpdf(y, 0, np.sqrt(2)).sum())
    assert tree["posterior"]["mu"].shape == (2, 256, *shape)


def test_matrices_run_on_jax() -> None:
    """Would catch a matrix of parameters that costs a minute of NUMBA compilation."""
    pytest.importorskip("jax")
    y = np.linspace(-1, 1, 6).reshape(2, 3)
    model = built(lambda: pm.Normal("y", pm.Normal("mu", 0, 1, shape=(2, 3)), 1, observed=y))
    tree = models.quick(model, compile_kwargs={"mode": "JAX"})
    models.assert_log_z(tree, stats.norm.logpdf(y, 0, np.sqrt(2)).sum())
    assert tree["evidence"].attrs["backend"] == "jax"


def test_dirichlet_against_its_conjugate_form() -> None:
    """Would catch a Jacobian of the simplex transform that is lost or counted twice."""
    counts, alpha = np.array([3, 0, 2]), np.array([1.0, 2.0, 0.5])
    model = built(
        lambda: pm.Categorical("y", pm.Dirichlet("p", alpha), observed=np.repeat(range(3), counts))
    )
    exact = stats.dirichlet_multinomial.logpmf(counts, alpha, 5)
    exact -= stats.multinomial.logpmf(counts, 5, counts / 5)
    exact += (counts[counts > 0] * np.log(counts[counts > 0] / 5)).sum()
    models.assert_log_z(models.quick(model), exact)


@pytest.mark.slow
def test_lkj_against_plain_monte_carlo() -> None:
    """Would catch a log Z shifted by the prior of a Cholesky factor or by its Jacobian."""
    model = models.lkj()
    tree = models.quick(model)
    chol = pm.draw(model["chol"], draws=4000, random_seed=1, mode="FAST_COMPILE")
    expanded = np.zeros((len(chol), 2, 2))
    expanded[:, [0, 1, 1], [0, 0, 1]] = chol
    whitened = np.linalg.solve(expanded, models.PAIRS.T)
    log_det = np.log(chol[:, 0] * chol[:, 2])
    log_like = -0.5 * (whitened**2).sum(axis=(1, 2)) - 6 * (log_det + np.log(2 * np.pi))
    plain = lz.estimators.importance_log_z(log_like)
    log_z, mcse, status = models.log_z_of(tree)
    assert status == "ok"
    assert abs(log_z - plain.log_z) < 4 * np.hypot(mcse, plain.mcse)


def test_coordinates_and_dims_reach_the_result() -> None:
    """Would catch labels that are lost on the way, or values in another order than the labels."""
    tree = models.quick(models.hierarchical())
    effect = tree["posterior"]["effect"]
    assert effect.dims == ("chain", "draw", "group")
    assert list(effect["group"].to_numpy()) == ["a", "b", "c"]
    assert tree["weighted_posterior"]["effect"].dims == effect.dims
    assert models.log_z_of(tree)[2] == "ok"


def test_variables_of_size_zero() -> None:
    """Would catch a crash for an empty variable, which a model over optional terms may have."""
    model = models.normal_normal().copy()
    with model:
        pm.Normal("none", shape=0)
    models.assert_log_z(models.quick(model), stats.norm.logpdf(0.7, 0, np.sqrt(2)))


def test_a_prior_is_checked_again_when_its_data_change() -> None:
    """Would catch a verdict on a model that outlives a change of its data."""

    def log_density(x: Any, shift: Any) -> Any:
        return pm.logp(pm.Normal.dist(0, 1), x) + shift

    def draw(shift: Any, rng: Any = None, size: Any = None) -> Any:
        return rng.normal(0, 1, size=size)

    with pm.Model() as model:
        shift = pm.Data("shift", 0.0)
        x = pm.CustomDist("x", shift, logp=log_density, random=draw)
        pm.Normal("y", x, 1, observed=[0.3, 0.5])
    draws = np.random.default_rng(1).normal(0.27, 0.58, size=(2, 200))
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (OF_DRAWS, draws)})})
    lz.bridge_sampling(tree, model, random_seed=1, progressbar=False)
    model.set_data("shift", 2.0)
    with pytest.raises(lz.ImproperPriorError, match="'x' integrates to"):
        lz.bridge_sampling(tree, model, random_seed=1, progressbar=False)
