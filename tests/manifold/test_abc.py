"""ABC of a simulator with one rate: against quadrature, and broken variants that must be seen."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_logz as lz
from pymc_logz.errors import ModelError, PilotError
from pymc_logz.manifold.simulator import Simulator

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:abc_rejection has status"),
]
OBSERVED, EPSILON, SD, CHAINS = 3.0, 0.8, 1.0, 512
GRID = np.linspace(1e-6, 40.0, 400_001)


@pytest.fixture(scope="module")
def simulator() -> pm.Model:
    """A rate whose prior is normal on no scale, and noise; one output."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 2.0)
        noise = pm.Normal("noise", shape=1)
        lz.ExactObservation("y", rate + SD * noise, observed=[OBSERVED])
    return model


def of_ball(epsilon: float = EPSILON) -> tuple[np.ndarray, float]:
    """Exact mean and second moment of the rate, and log Z."""
    ends = [(OBSERVED + sign * epsilon - GRID) / SD for sign in (1, -1)]
    density = stats.gamma(2, scale=0.5).pdf(GRID) * (
        stats.norm.cdf(ends[0]) - stats.norm.cdf(ends[1])
    )
    z = np.trapezoid(density, GRID)
    moments = [np.trapezoid(GRID**k * density, GRID) / z for k in (1, 2)]
    return np.array(moments), float(np.log(z / (2 * epsilon)))


def z_scores(tree: xr.DataTree, chain: bool = True) -> np.ndarray:
    """Distance from exact moments of the last draw of each chain, or of all, in errors."""
    rate = tree["posterior"]["rate"].to_numpy()
    draws = rate[:, -1] if chain else rate.ravel()
    powers = np.stack([draws, draws**2], axis=1)
    return (powers.mean(axis=0) - of_ball()[0]) / (powers.std(axis=0) / np.sqrt(len(draws)))


def by_mcmc(model: pm.Model, epsilon: float = EPSILON) -> xr.DataTree:
    settings = {"draws": 1, "tune": 60, "chains": CHAINS, "step_size": 1.0}
    return lz.abc_mcmc(model, epsilon, ["rate"], start=one_point(), random_seed=1, **settings)


def by_slice(model: pm.Model, epsilon: float = EPSILON) -> xr.DataTree:
    settings = {"draws": 1, "tune": 40, "chains": CHAINS}
    return lz.abc_slice(model, epsilon, ["rate"], start=one_point(), random_seed=1, **settings)


def one_point() -> xr.Dataset:
    """A place that all chains have to leave."""
    return xr.Dataset(
        {"rate": (("chain", "draw"), [[4.0]]), "noise": (("chain", "draw", "n"), [[[-1.2]]])}
    )


SAMPLERS = [by_mcmc, by_slice]


def test_rejection(simulator: pm.Model) -> None:
    """Catches the volume of another ball, and a log Z that looks exact."""
    tree = lz.abc_rejection(simulator, EPSILON, 40_000, random_seed=1)
    assert np.all(np.abs(z_scores(tree, chain=False)) < 4)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    assert abs(float(entry["log_z"]) - of_ball()[1]) < 4 * float(entry["mcse"])
    assert 0 < float(entry["mcse"]) < 0.03
    assert entry["status"].item() == "tolerance"
    assert float(tree["sample_stats"]["distance"].max()) < EPSILON


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_chains(simulator: pm.Model, sampler: Callable[..., xr.DataTree]) -> None:
    tree = sampler(simulator)
    assert np.all(np.abs(z_scores(tree)) < 4)
    assert tree["posterior"]["rate"].shape == (CHAINS, 1)
    assert float(tree["sample_stats"]["distance"].max()) < EPSILON
    # the same check sees a wrong kernel
    assert np.any(np.abs(z_scores(sampler(simulator, 3 * EPSILON))) > 5)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_forgotten_prior_is_seen(
    simulator: pm.Model, sampler: Callable[..., xr.DataTree], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken: a walk without the ratio of priors, ellipses of a normal prior that is not there."""
    simulate = Simulator.simulate

    def flat(self: Simulator, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, spread = -0.27, 0.8  # of the log rate
        normal = -0.5 * ((rows - [mean, 0.0]) ** 2 / [spread**2, 1.0]).sum(axis=1)
        return simulate(self, rows)[0], np.zeros(len(rows)) if sampler is by_mcmc else normal

    monkeypatch.setattr(Simulator, "simulate", flat)
    monkeypatch.setattr(Simulator, "log_prior", lambda self, rows: np.zeros(len(rows)))
    assert np.any(np.abs(z_scores(sampler(simulator))) > 5)


def test_a_step_size_is_found_and_starts_too(simulator: pm.Model) -> None:
    tree = lz.abc_mcmc(simulator, 1.0, "rate", 5, tune=120, chains=64, random_seed=1)
    stats = tree["sample_stats"]
    assert stats.attrs["step_size"] >= 0.1
    assert 0 < float(stats["accepted"].mean()) < 1
    assert stats.attrs["n_simulations"] >= 64 * 125


def test_noise_must_not_depend_on_parameters() -> None:
    with pm.Model() as model:
        sd = pm.HalfNormal("sd")
        noise = pm.Normal("noise", 0, sd, shape=2)
        lz.ExactObservation("y", noise[:1] + noise[1:], observed=[1.0])
    with pytest.raises(ModelError, match="'noise' depends on \\['sd'\\]"):
        lz.abc_mcmc(model, 0.5, ["sd"])


def test_refusals(simulator: pm.Model) -> None:
    with pytest.raises(ValueError, match="epsilon=0"):
        lz.abc_rejection(simulator, 0)
    with pytest.raises(ValueError, match="var_names=\\['nothing'\\]"):
        lz.abc_slice(simulator, 1.0, ["nothing"])
    with pytest.raises(ModelError, match=r"draws=1000 came within epsilon=1e-09.*log Z is below"):
        lz.abc_rejection(simulator, 1e-9, 1000, random_seed=1)
    with pytest.raises(ValueError, match="no draw within"):
        lz.abc_slice(simulator, 1e-9, ["rate"], start=one_point())
    for start, message in (
        (one_point().drop_vars("noise"), r"start has no variable \['noise'\]"),
        (one_point().isel(n=[0, 0]), r"'noise' have shape \(2,\), but the model has \(1,\): start"),
    ):
        with pytest.raises(ValueError, match=message):
            lz.abc_mcmc(simulator, 1.0, ["rate"], start=start)
    with pm.Model() as plain:
        x = pm.Normal("x")
        pm.Normal("y", x, 1, observed=1.0)
    with pytest.raises(ModelError, match="no exact observation"):
        lz.abc_rejection(plain, 1.0)
    with pm.Model() as both:
        x = pm.Normal("x", shape=2)
        pm.Normal("other", x[0], 1, observed=1.0)
        lz.ExactObservation("y", x[:1] + x[1:], observed=[1.0])
    with pytest.raises(ModelError, match="'other'"):
        lz.abc_rejection(both, 1.0)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-10])
def test_small_distances_are_seen(simulator: pm.Model, epsilon: float) -> None:
    """Catches distances that round away beside a constant: below 1e-8 all counted as none."""
    rate = np.array([[2.5, 3.2]])
    on_it = {"rate": (("chain", "draw"), rate)}
    on_it["noise"] = (("chain", "draw", "n"), (OBSERVED - rate)[..., None] / SD)
    tree = lz.abc_slice(
        simulator, epsilon, ["rate"], 20, tune=5, chains=16, start=xr.Dataset(on_it), random_seed=1
    )
    posterior = tree["posterior"]
    apart = np.abs(posterior["rate"] + SD * posterior["noise"][..., 0] - OBSERVED).to_numpy()
    assert 0 < apart.max() < epsilon + 1e-14
    np.testing.assert_allclose(tree["sample_stats"]["distance"], apart, atol=1e-14)


def test_chains_that_stay_where_they_are_are_told(simulator: pm.Model) -> None:
    """Catches a posterior that is a few starting points many times over."""
    start = lz.abc_rejection(simulator, 0.01, 20_000, random_seed=1)
    with pytest.warns(lz.EvidenceWarning, match="of the chains never left where they started"):
        tree = lz.abc_mcmc(
            simulator, 0.01, ["rate"], 5, tune=5, chains=64, start=start, step_size=1.0
        )
    assert float(tree["sample_stats"]["accepted"].mean()) < 0.1


def test_a_model_on_the_context_stack(simulator: pm.Model) -> None:
    with simulator:
        tree = lz.abc_rejection(None, EPSILON, 2000, random_seed=1)
    assert tree["posterior"].sizes["draw"] > 100
    with pytest.raises(TypeError, match=r"model is missing: write abc_slice\(model, epsilon"):
        lz.abc_slice(None, EPSILON, ["rate"])
    with pytest.raises(ValueError, match=r"var_names=\[\] must name"):
        lz.abc_mcmc(simulator, EPSILON, None)


def test_no_start_is_said(simulator: pm.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    near = Simulator.near
    monkeypatch.setattr(Simulator, "near", lambda self, rng, *_: near(self, rng, 10_000))
    with pytest.raises(PilotError, match="none of 10000 prior draws"):
        lz.abc_mcmc(simulator, 1e-12, ["rate"], random_seed=1)
