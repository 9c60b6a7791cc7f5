"""`sample_hais` and `sample_tempered` on models with whole numbers, against exact values."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.energies import Energy
from pymc_logz.kernels import Compose, Gibbs, Hamiltonian, IntegerWalk, RandomWalk
from pymc_logz.kernels.compose import sums_out

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.usefixtures("no_look_in_this_file"),
]
ENERGIES = {
    "coal_mining": lambda: energies.coal_mining(energies.conjugate.COAL_MINING[20:60]),
    "coal_mining of all years": energies.coal_mining,
    "labelled_mixture": energies.labelled_mixture,
    "thinned_poisson": energies.thinned_poisson,
}
EACH = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * ("coal" in name)) for name in ENERGIES],
)


@cache
def energy_of(name: str) -> Energy:
    """One of the energies; its model is compiled once."""
    return ENERGIES[name]()


@cache
def run_of(name: str) -> xr.DataTree:
    """A run whose whole numbers move."""
    return lz.sample_hais(
        model=energy_of(name).model, sum_out=False, random_seed=2, progressbar=False
    )


@EACH
def test_log_z_is_exact(name: str) -> None:
    """Catches any bias of the moves of whole numbers, or of their weights; default settings."""
    models.assert_log_z(run_of(name), energy_of(name).log_z, within=0.05)


@pytest.mark.parametrize(
    "name",
    [
        # whole numbers alone are tempered below
        pytest.param(name, marks=[pytest.mark.slow] * (name != "labelled_mixture"))
        for name in ENERGIES
    ],
)
def test_tempered_log_z_is_exact(name: str) -> None:
    """Catches moves whose beta is not that of their walker."""
    settings = {"draws": 200, "chains": 2} if name.startswith("coal_mining") else {}
    model = energy_of(name).model
    tree = lz.sample_tempered(
        model=model, sum_out=False, random_seed=1, progressbar=False, **settings
    )
    models.assert_log_z(tree, energy_of(name).log_z, within=0.2 if settings else 0.05)


@pytest.mark.parametrize(
    "name", [pytest.param("coal_mining", marks=pytest.mark.slow), "thinned_poisson"]
)
def test_draws_are_those_of_the_posterior(name: str) -> None:
    """Catches whole numbers that come back as floats, and draws of another law."""
    tree, energy = run_of(name), energy_of(name)
    assert energy.sample_posterior is not None
    exact = energy.sample_posterior(np.random.default_rng(1), 50_000)
    log_weight = tree["weighted_posterior"]["log_weight"].to_numpy().ravel()
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    ess = 1 / (weight**2).sum()
    for var, reference in exact.items():
        assert tree["posterior"][var].dtype.kind == reference.dtype.kind
        draws = tree["weighted_posterior"][var].to_numpy().ravel()
        error = reference.std() / np.sqrt(ess)
        assert abs(weight @ draws - reference.mean()) < 4.5 * error, var


@pytest.mark.parametrize("mode", ["FAST_COMPILE", pytest.param("NUMBA", marks=pytest.mark.slow)])
def test_another_backend_makes_the_same_chain(mode: str) -> None:
    """Catches a whole number that one backend rounds to another value."""
    energy = energy_of("thinned_poisson")
    settings = {"random_seed": 2, "progressbar": False, "compile_kwargs": {"mode": mode}}
    other = lz.sample_hais(model=energy.model, sum_out=False, **settings)
    xr.testing.assert_allclose(
        other["weighted_posterior"].to_dataset(),
        run_of("thinned_poisson")["weighted_posterior"].to_dataset(),
    )


def test_kernels_of_the_users_choice() -> None:
    """Catches a kernel that moves the variables of another one."""
    energy = energy_of("labelled_mixture")
    kernel = Compose({"label": IntegerWalk(n_tries=1), "mean": RandomWalk()})
    tree = models.quick(energy.model, kernel=kernel, chains=4, betas=200)
    models.assert_log_z(tree, energy.log_z, within=0.15)
    settings = tree.attrs["settings"]
    assert "IntegerWalk" in settings
    assert "RandomWalk" in settings


def test_both_directions_meet() -> None:
    """Catches a step that is not its own reversal: labels, then means, then labels again."""
    energy = energy_of("labelled_mixture")
    tree = models.quick(
        energy.model, direction="both", betas=200, kernel=Compose({"label": Gibbs()})
    )
    log_z = tree["evidence"]["log_z"].sel({"estimator": "hais"}).item()
    above = tree["evidence"]["log_z"].sel({"estimator": "hais_reverse"}).item()
    mcse = float(np.hypot(*tree["evidence"]["mcse"].to_numpy()[:2]))
    assert abs(log_z - energy.log_z) < 0.3
    assert abs(above - log_z) < 5 * mcse + 0.2


def thinned_counts() -> pm.Model:
    """Counts of three kinds with a known sum, of which a part is seen."""
    with pm.Model() as model:
        k = pm.Multinomial("k", 9, [0.2, 0.3, 0.5])
        pm.Binomial("y", n=k, p=np.array([0.5, 0.3, 0.4]), observed=[2, 0, 1])
    return model


def test_counts_with_a_fixed_sum() -> None:
    """Catches counts that hardly move, and a sum over values that cannot be."""
    p, seen, y = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.3, 0.4]), [2, 0, 1]
    states = [(a, b, 9 - a - b) for a in range(10) for b in range(10 - a)]
    log_z = np.log(
        sum(stats.multinomial.pmf(k, 9, p) * stats.binom.pmf(y, k, seen).prod() for k in states)
    )
    model = thinned_counts()
    tree = lz.sample_hais(model=model, sum_out=False, random_seed=1, progressbar=False)
    models.assert_log_z(tree, float(log_z), within=0.05)
    assert (tree["posterior"]["k"].sum("k_dim_0") == 9).all()
    exact = lz.evidence(model, random_seed=1, progressbar=False)
    assert float(exact["evidence"]["log_z"][0]) == pytest.approx(log_z, abs=1e-6)
    assert (exact["posterior"]["k"].sum("k_dim_0") == 9).all()


@pytest.mark.filterwarnings("ignore:the model has potentials")
@pytest.mark.parametrize("coupled", [True, False], ids=["one by one", "at once"])
def test_probabilities_in_single_precision(coupled: bool) -> None:
    """Catches a density of 0.5 alone, which PyTensor keeps in 32 bits, in a loop of 64."""
    with pm.Model() as model:
        coin = pm.Bernoulli("coin", 0.5, shape=4)
        pm.Potential("field", 0.3 * coin.sum() ** 2 if coupled else (0.3 * coin).sum())
    heads = np.arange(5)
    fields = 0.3 * heads**2 if coupled else 0.3 * heads
    log_z = float(np.log(stats.binom.pmf(heads, 4, 0.5) @ np.exp(fields)))
    models.assert_log_z(models.quick(model, sum_out=False, chains=4), log_z, within=0.1)


def switched_block() -> tuple[pm.Model, float]:
    """Eight coefficients that are all in a regression or none of them, and its log Z."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(100, 8))
    y = 0.2 * x @ rng.normal(size=8) + rng.normal(size=100)
    with pm.Model() as model:
        slope, is_in = pm.Normal("slope", 0, 1, shape=8), pm.Bernoulli("is_in", 0.5)
        pm.Normal("y", is_in * (x @ slope), 1, observed=y)
    covariances = np.eye(100), np.eye(100) + x @ x.T
    without, within = (stats.multivariate_normal.logpdf(y, cov=one) for one in covariances)
    return model, float(np.logaddexp(without, within) + np.log(0.5))


def test_a_switch_is_summed_out_by_default() -> None:
    """Catches a switch that moves: no row had the coefficients in, 0.3 nats too low with `ok`."""
    model, log_z = switched_block()
    tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    models.assert_log_z(tree, log_z, within=0.05)
    assert set(np.unique(tree["posterior"]["is_in"])) == {0, 1}


def test_what_a_kernel_is_given_for_moves() -> None:
    """Catches a kernel of discrete variables that is refused since they are summed out."""
    free = Hamiltonian(), RandomWalk(scale=None), Compose({"slope": Hamiltonian()})
    assert [sums_out(None, kernel) for kernel in free] == [None] * 3
    bound = Gibbs(), Compose({"is_in": Gibbs()}), RandomWalk(step_size=1.0, scale=(7.0, 7.0))
    assert [sums_out(None, kernel) for kernel in bound] == [False] * 3
    assert sums_out(True, Gibbs()) is True


def test_discrete_variables_alone_are_tempered() -> None:
    """Catches a refusal of a model of which nothing is left once it is summed."""
    tree = lz.sample_tempered(
        model=thinned_counts(), draws=200, chains=2, random_seed=1, progressbar=False
    )
    assert (tree["posterior"]["k"].sum("k_dim_0") == 9).all()


def frozen_spins(n: int = 12, coupling: float = 2.0) -> pm.Model:
    """Spins that only turn round together once the coupling has set in."""
    with pm.Model() as model:
        spin = 2 * pm.Bernoulli("spin", 0.5, shape=n) - 1
        pm.Potential("field", 0.3 * spin.sum())
        pm.Potential("coupling", coupling * (spin[1:] * spin[:-1]).sum())
    return model


@pytest.mark.filterwarnings("ignore:the model has potentials")
@pytest.mark.filterwarnings("ignore:hais has status")
@pytest.mark.filterwarnings("ignore:particles hardly move")
def test_rows_that_lag_are_not_ok() -> None:
    """Catches `ok` where whole numbers hardly moved along a path of two temperatures."""
    tree = models.quick(frozen_spins(), betas=3, kernel=Compose({"spin": IntegerWalk(n_tries=1)}))
    assert models.log_z_of(tree)[2] != "ok"


@pytest.mark.slow
@EACH
def test_intervals_cover(name: str) -> None:
    """Catches errors that are too small: 200 replicates of a default run each."""
    from support.checks import check_coverage

    energy = energy_of(name)
    covered = []
    for seed in range(200):
        settings = {"random_seed": 1000 + seed, "progressbar": False}
        tree = lz.sample_hais(model=energy.model, sum_out=False, **settings)
        log_z, mcse, _ = models.log_z_of(tree)
        covered.append(abs(log_z - energy.log_z) < 1.96 * mcse)
    check_coverage(np.array(covered))
