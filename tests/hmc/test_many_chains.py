"""Many chains at once: exact posteriors, the tuning rule, what nested R-hat sees, and the door."""

import re
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from support.checks import assert_detects, check_means, check_same_law, make_rng

import pymc_logz as lz
from pymc_logz.hmc import Chains, after_move, scale_of_chains
from pymc_logz.hmc.mixing import nested_rhat, plain_nested_rhat

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
D = 5
_factor = make_rng("tutorial").standard_normal((D, D))
LIKELIHOOD = _factor @ _factor.T + 0.5 * np.eye(D)
SEEN = np.array([3.0, -1.0, 0.5, 8.0, -4.0])
PRIOR_SD = 10.0
QUICK: dict[str, Any] = {"progressbar": False, "compile_kwargs": {"mode": "FAST_COMPILE"}}
"""For models of which each is run once: compiling them takes longer than their run."""
COVARIANCE = np.linalg.inv(np.linalg.inv(LIKELIHOOD) + np.eye(D) / PRIOR_SD**2)
MEAN = COVARIANCE @ np.linalg.solve(LIKELIHOOD, SEEN)


@pytest.fixture(scope="module")
def gaussian() -> pm.Model:
    """The five correlated dimensions of the tutorial."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, PRIOR_SD, shape=D)
        pm.MvNormal("y", x, LIKELIHOOD, observed=SEEN)
    return model


@pytest.fixture(scope="module")
def run(gaussian: pm.Model) -> xr.DataTree:
    """320 chains of the tutorial's Gaussian."""
    return lz.sample_hmc(50, 320, model=gaussian, random_seed=1, progressbar=False)


def test_the_tutorials_gaussian(run: xr.DataTree) -> None:
    """Catches a wrong mean or covariance in any dimension, as chains tell their own error."""
    whitened = np.linalg.solve(
        np.linalg.cholesky(COVARIANCE), (run["posterior"]["x"].values - MEAN)[..., None]
    )[..., 0]

    def check(z: np.ndarray) -> None:
        moments = {f"mean {i}": z[:, :, i].mean(axis=1) for i in range(D)}
        for i in range(D):
            for j in range(i + 1):
                product = (z[:, :, i] * z[:, :, j]).mean(axis=1) - float(i == j)
                moments[f"covariance {i}, {j}"] = product
        check_means(moments)

    check(whitened)
    assert_detects(check, 1.1 * whitened)
    assert_detects(check, whitened + 0.1)


def test_skewed_and_bounded() -> None:
    """Catches a Jacobian left out: a Gamma and a Beta posterior, by the last draw of each chain."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0)
        share = pm.Beta("share", 0.5, 3.0)
        pm.Poisson("n", rate, observed=[0, 1, 1])
        pm.Binomial("k", 4, share, observed=1)
    tree = lz.sample_hmc(10, 512, model=model, random_seed=2, tune=60, **QUICK)
    last = tree["posterior"].isel(draw=-1)
    rng = make_rng("exact")
    exact = {
        "rate": stats.gamma.rvs(4.0, scale=1 / 4.0, size=4096, random_state=rng),
        "share": stats.beta.rvs(1.5, 6.0, size=4096, random_state=rng),
    }

    def check(draws: dict[str, np.ndarray]) -> None:
        check_same_law({name: (draws[name], exact[name]) for name in exact})

    found = {name: last[name].values for name in exact}
    check(found)
    assert_detects(check, {name: 1.4 * value for name, value in found.items()})


@pytest.mark.parametrize("refreshment", [0.2, pytest.param(1.0, marks=pytest.mark.slow)])
def test_partial_refreshment(gaussian: pm.Model, refreshment: float) -> None:
    """Catches a momentum that is not carried from move to move, or not turned round."""
    tree = lz.sample_hmc(
        100,
        64,
        model=gaussian,
        n_steps=1,
        refreshment=refreshment,
        random_seed=3,
        progressbar=False,
    )
    z = (tree["posterior"]["x"].values - MEAN) / np.sqrt(np.diag(COVARIANCE))
    check_means({f"mean {i}": z[:, :, i].mean(axis=1) for i in range(D)})


def test_a_run_is_the_same_again(gaussian: pm.Model, run: xr.DataTree) -> None:
    again = lz.sample_hmc(50, 320, model=gaussian, random_seed=1, progressbar=False)
    xr.testing.assert_equal(again["posterior"].to_dataset(), run["posterior"].to_dataset())


def test_the_tree(run: xr.DataTree) -> None:
    """Catches labels, groups or attributes that are lost, and draws that a bridge refuses."""
    stats_of_run = run["sample_stats"]
    assert dict(run["posterior"].sizes) == {"chain": 320, "draw": 50, "x_dim_0": D}
    assert set(stats_of_run.data_vars) == {"lp", "acceptance_rate", "diverging"}
    assert np.bincount(run["posterior"]["superchain"].values).tolist() == [20] * 16
    assert 0.9 < stats_of_run.attrs["rhat_nested"] < 1.01
    assert stats_of_run.attrs["run_row_gradients"] == 50 * 512 * 8  # two portions of 256 rows
    assert abs(float(stats_of_run["acceptance_rate"].mean()) - 0.8) < 0.1
    assert "y" in run["observed_data"]


def test_a_bridge_takes_the_draws(gaussian: pm.Model, run: xr.DataTree) -> None:
    entry = lz.bridge_sampling(run, gaussian, random_seed=1, progressbar=False)["evidence"]
    first = entry.to_dataset().isel(estimator=0)
    exact = stats.multivariate_normal.logpdf(SEEN, np.zeros(D), LIKELIHOOD + 100 * np.eye(D))
    assert first["status"] == "ok"
    assert abs(float(first["log_z"]) - exact) < 4 * float(first["mcse"])


def test_step_size_follows_the_moving_average() -> None:
    """Catches a rule that goes the wrong way, or jumps with a single move."""
    step_size, average = after_move(1.0, 0.8, 1.0, 0.8)
    assert (step_size, average) == (pytest.approx(1.02), pytest.approx(0.82))
    step_size, average = after_move(step_size, average, 0.0, 0.8)
    assert (step_size, average) == (pytest.approx(1.02 * 0.98), pytest.approx(0.738))
    step_size, average = after_move(step_size, average, 1.0, 0.8)  # the average is still below
    assert step_size == pytest.approx(1.02 * 0.98**2)
    assert after_move(2.99, 1.0, 1.0, 0.8)[0] == 3.0


def test_scales_come_from_the_chains() -> None:
    rows = make_rng("scales").standard_normal((4000, 2)) * [1.0, 50.0]
    np.testing.assert_allclose(scale_of_chains(rows, np.ones(2)), [1.0, 50.0], rtol=0.1)
    dense = scale_of_chains(rows @ [[1.0, 0.0], [0.02, 1.0]], np.eye(2))
    np.testing.assert_allclose(dense @ dense.T, [[2.0, 50.0], [50.0, 2500.0]], rtol=0.15)
    few = scale_of_chains(rows[:8], np.diag([2.0, 2.0]))
    assert few[0, 1] == few[1, 0] == 0.0


@pytest.mark.filterwarnings("ignore:nested R-hat")
def test_settings_given_are_not_tuned(gaussian: pm.Model) -> None:
    tree = lz.sample_hmc(
        2, 64, model=gaussian, step_size=0.3, scale=0.5, tune=10, random_seed=1, progressbar=False
    )
    assert tree["sample_stats"].attrs["step_size"] == 0.3


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_chains_start_in_narrow_modes_too_and_do_not_mix() -> None:
    """Catches chains that start where particles from the prior end: none is in this mode.

    And nested R-hat of superchains mixed up: no chain crosses from mode to mode.
    """
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3, shape=5)
        narrow, wide = pm.Normal.dist(-1.5, 0.2), pm.Normal.dist(1.5, 0.7)
        both = [np.log(0.3) + pm.logp(narrow, x).sum(), np.log(0.7) + pm.logp(wide, x).sum()]
        pm.Potential("modes", pm.math.logaddexp(*both))
    with pytest.warns(lz.EvidenceWarning, match="nested R-hat"):
        tree = lz.sample_hmc(20, 256, model=model, superchains=64, tune=40, random_seed=1, **QUICK)
    positive = (tree["posterior"]["x"].mean("x_dim_0") > 0).mean("draw")
    assert set(positive.values) == {0.0, 1.0}
    assert tree["sample_stats"].attrs["rhat_nested"] > 1.3
    mixed_up = make_rng("mixed up").permutation(tree["posterior"]["superchain"].values)
    assert nested_rhat(tree["posterior"].to_dataset(), ["x"], mixed_up) < 1.2
    first = tree["posterior"]["x"].isel(x_dim_0=0).mean("draw") < 0
    prior = [0.3 * stats.norm.pdf(-1.5, 0, np.hypot(3, 0.2)) ** 5]
    prior += [0.7 * stats.norm.pdf(1.5, 0, np.hypot(3, 0.7)) ** 5]
    share = prior[0] / sum(prior)
    assert abs(float(first.mean()) - share) < 4 * np.sqrt(share * (1 - share) / 64)


def test_nested_rhat_of_independent_draws() -> None:
    draws = make_rng("nested").standard_normal((64, 50))
    posterior = xr.Dataset({"x": (("chain", "draw"), draws)})
    members = np.repeat(np.arange(8), 8)
    assert nested_rhat(posterior, ["x"], members) < 1.01
    shifted = posterior + xr.DataArray(members % 2, dims="chain")
    assert nested_rhat(shifted, ["x"], members) > 1.1


def test_nested_rhat_of_chains_of_one_draw(gaussian: pm.Model) -> None:
    """Catches the R-hat of 1 that chains too short for ranks had, wherever they were."""
    draws = make_rng("one draw").standard_normal((320, 3))
    members = np.repeat(np.arange(16), 20)
    for n in (1, 2, 3):
        posterior = xr.Dataset({"x": (("chain", "draw"), draws[:, :n])})
        assert 1.0 < nested_rhat(posterior, ["x"], members) < 1.08
        apart = posterior + 2.0 * xr.DataArray(members % 2, dims="chain")
        assert nested_rhat(apart, ["x"], members) > 1.2
    four = draws[:, :, None]
    ranked = nested_rhat(xr.Dataset({"x": (("chain", "draw"), np.tile(draws, 4))}), ["x"], members)
    plain = plain_nested_rhat(np.tile(four, (1, 4, 1)), members)
    np.testing.assert_allclose(plain, ranked, atol=0.01)
    tree = lz.sample_hmc(1, 64, model=gaussian, tune=20, random_seed=1, progressbar=False)
    assert 1.0 < tree["sample_stats"].attrs["rhat_nested"] < 1.35


def test_divergences_are_counted(gaussian: pm.Model) -> None:
    """Catches a step that is far too long for the posterior, in draws that a bridge then takes."""
    with pytest.warns(lz.EvidenceWarning) as told:
        tree = lz.sample_hmc(
            20, 64, model=gaussian, step_size=50.0, tune=2, random_seed=1, progressbar=False
        )
    assert any("trajectories diverged" in str(one.message) for one in told)
    assert float(tree["sample_stats"]["diverging"].mean()) > 0.9


def test_an_interrupt_keeps_the_draws(gaussian: pm.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    move = Chains.move

    def interrupted(self: Chains, *args: float) -> np.ndarray:
        made.append(1)
        if len(made) == 2 + 10 + 7:
            raise KeyboardInterrupt
        return move(self, *args)

    monkeypatch.setattr(Chains, "move", interrupted)
    with pytest.warns(lz.EvidenceWarning, match="6 of 50 draws"):
        tree = lz.sample_hmc(50, 64, model=gaussian, tune=10, random_seed=2, progressbar=False)
    assert tree["posterior"].sizes["draw"] == 6


WRONG = [
    ({"draws": 0}, ["draws=0"]),
    ({"chains": 100}, ["chains=100", "superchains=16", "96"]),
    ({"chains": 1}, ["chains=1", "superchains=16", "such as 16"]),
    ({"superchains": 1}, ["superchains=1", "at least 2"]),
    ({"n_steps": 65}, ["n_steps=65", "64"]),
    ({"refreshment": 1.5}, ["refreshment=1.5"]),
    ({"target_accept": 1.0}, ["target_accept=1.0"]),
    ({"jitter": 1.0}, ["jitter=1.0"]),
    ({"step_size": -1.0}, ["step_size=-1.0"]),
    ({"scale": [1.0, 2.0]}, ["scale has 2 entries"]),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_the_door(gaussian: pm.Model, arguments: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ValueError, match=".*".join(map(re.escape, words))):
        lz.sample_hmc(model=gaussian, progressbar=False, **arguments)  # type: ignore[arg-type]


def test_a_model_in_the_place_of_draws(gaussian: pm.Model) -> None:
    """Would catch a message that says what is wrong, and not how the call is written."""
    with pytest.raises(TypeError, match=r"sample_hmc\(model=model\)"):
        lz.sample_hmc(gaussian)  # type: ignore[arg-type]
