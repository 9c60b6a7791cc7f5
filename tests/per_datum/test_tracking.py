"""Log Z of a model that changes: right at each time, with errors that hold, and no lag."""

import copy
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from adversary.integrals import normal_log_z
from scipy import stats
from support.checks import assert_detects, check_coverage, check_means, make_rng

import pymc_logz as lz
from pymc_logz.energies import gaussian_rbm, gaussian_rbm_log_z
from pymc_logz.errors import EvidenceWarning, ModelError
from pymc_logz.per_datum import followed

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:the model has potentials"),
]
SMALL: dict[str, Any] = {
    "draws": 12,
    "walkers": 40,
    "alpha": 0.3,
    "betas": np.array([0.0, 0.3, 1.0]),
    "kernel": lz.kernels.Hamiltonian(step_size=0.8, scale=1.0),
    "tune": 16,
    "thin": 4,
    "random_seed": 1,
}


def normal_model(y: float = 0.7) -> pm.Model:
    """A normal mean whose one observation is to change."""
    with pm.Model() as model:
        value = pm.Data("value", np.float64(y))
        mu = pm.Normal("mu", np.float64(0), np.float64(1))
        pm.Normal("y", mu, np.float64(1), observed=value)
    return model


def exact_normal(y: Any) -> np.ndarray:
    return stats.norm.logpdf(y, 0, np.sqrt(2))


def make_small(**kwargs: Any) -> lz.LogZTracker:
    """A tracker of the simplest model."""
    return lz.LogZTracker(normal_model(), **{**SMALL, **kwargs})


@pytest.fixture(scope="module")
def small() -> lz.LogZTracker:
    return make_small()


def begun(tracker: lz.LogZTracker, data: dict[str, Any], *labels: object) -> lz.LogZTracker:
    """A copy of a tracker that was never updated, with fresh walkers, at data close to its own."""
    assert len(tracker.moments) == 1
    again = copy.copy(tracker)
    pm.set_data(data, model=again.model)
    again._block = again._block.given(np.concatenate([np.ravel(a) for a in data.values()]))
    again._begin(make_rng(*labels))
    return again


@pytest.fixture
def fresh(small: lz.LogZTracker) -> lz.LogZTracker:
    return begun(small, {"value": 0.7}, "fresh")


# --- a model that is being learned ------------------------------------------------------------

N_VISIBLE, N_HIDDEN, RATE = 5, 4, 0.03


def sufficient(v: np.ndarray, weight: np.ndarray, theta: dict[str, np.ndarray]) -> dict[str, Any]:
    """Mean derivative of log f by each parameter over weighted visible units (n, d)."""
    hidden = 1 / (1 + np.exp(-(theta["hidden_bias"] + v @ theta["weights"])))
    return {
        "weights": (v * weight[:, None]).T @ hidden,
        "visible_bias": weight @ (v - theta["visible_bias"]),
        "hidden_bias": weight @ hidden,
    }


def learn(tracker: lz.LogZTracker, n_updates: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact log Z at each time, and the mean log likelihood of the data, of gradient ascent."""
    rng = make_rng("learned")
    truth = (
        rng.normal(0, 1.5, (N_VISIBLE, N_HIDDEN)),
        rng.normal(0, 0.5, N_VISIBLE),
        rng.normal(-1, 0.5, N_HIDDEN),
    )
    v = gaussian_rbm(*truth).sample_posterior(rng, 500)["v"]
    even = np.full(len(v), 1 / len(v))
    theta = {name: value.copy() for name, value in tracker.data.items()}
    now, exact, fit = tracker.update(), [gaussian_rbm_log_z(**theta)], []
    exact.append(exact[0])
    for _ in range(n_updates):
        draws = now["tempered_posterior"].to_dataset()
        log_weight = draws["log_weight"].to_numpy().ravel()
        weight = np.exp(log_weight - np.logaddexp.reduce(log_weight))
        here = sufficient(draws["v"].to_numpy().reshape(-1, N_VISIBLE), weight, theta)
        there = sufficient(v, even, theta)
        theta = {name: theta[name] + RATE * (there[name] - here[name]) for name in theta}
        now = tracker.update(theta)
        exact.append(gaussian_rbm_log_z(**theta))
        unit = theta["hidden_bias"] + v @ theta["weights"]
        energy = ((v - theta["visible_bias"]) ** 2).sum(axis=1) / 2
        fit.append(float((np.logaddexp(0, unit).sum(axis=1) - energy).mean() - exact[-1]))
    return np.array(exact), np.array(fit)


@pytest.fixture(scope="module")
def machine() -> lz.LogZTracker:
    rng = make_rng("start")
    weights = rng.normal(0, 0.3, (N_VISIBLE, N_HIDDEN))
    model = gaussian_rbm(weights, np.zeros(N_VISIBLE), np.zeros(N_HIDDEN)).model
    with model:  # from the context stack, with a kernel that is chosen for it
        return lz.LogZTracker(level_prior="exp", random_seed=2)


def check_tracked(z: np.ndarray) -> None:
    """Fail unless errors are as large as they say: z-scores over time, which are dependent."""
    # as if a tenth of them were independent: each that many errors off, and their mean square
    check_means({"z": z[::10]})
    assert np.max(np.abs(z)) < 5
    assert 0.3 < np.sqrt(np.mean(z**2)) < 1.6


def test_log_z_of_a_model_that_is_learned(
    machine: lz.LogZTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches walkers left in the old model, a lag behind it, and errors that do not add up."""
    start = {name: value.copy() for name, value in machine.data.items()}
    tracker = begun(machine, start, "right")
    exact, fit = learn(tracker, 40)
    assert exact[-1] - exact[0] > 5
    assert fit[-1] > fit[0] + 1, "nothing was learned"
    group = tracker.tree["evidence"].to_dataset()
    assert np.all(group["status"] == "ok")
    for method in ("tracked", "rts"):
        entry = group.sel({"estimator": method})
        check_tracked(((entry["log_z"] - exact) / entry["mcse"]).to_numpy())
    ratio = group["mcse"].sel({"estimator": "tracked"}) / group["mcse"].sel({"estimator": "rts"})
    assert ratio[10:].max() < 0.75
    # log Z is not moved along with the model: the smoothed estimate lags
    monkeypatch.setattr(followed, "change_of_log_z", lambda *_: (0.0, 0.0, 1.0))
    tracker = begun(machine, start, "lagging")
    with pytest.warns(EvidenceWarning, match=r"tracked .* and rts .* disagree by"):
        exact, _ = learn(tracker, 40)
    lagging = tracker.tree["evidence"].to_dataset().sel({"estimator": "tracked"})
    assert "disagrees" in lagging["status"]
    assert float(((lagging["log_z"] - exact) / lagging["mcse"]).min()) < -5


# --- errors ------------------------------------------------------------------------------------


def replicate(tracker: lz.LogZTracker, i: int, ys: np.ndarray) -> np.ndarray:
    """Z-scores of the last moment by both methods, of fresh walkers that follow the data ys."""
    tracker = begun(tracker, {"value": ys[0]}, "replicate", i)
    for y in ys[1:]:
        tracker.update({"value": y})
    moment = tracker.moments[-1]
    errors = [moment.tracked.log_z, moment.alone.log_z] - exact_normal(ys[-1])
    return errors / [moment.tracked.mcse, moment.alone.mcse]


@pytest.mark.parametrize("n", [24, pytest.param(400, marks=pytest.mark.slow)])
def test_intervals_cover(small: lz.LogZTracker, n: int) -> None:
    """Catches errors for independent updates: walkers remember where they were."""
    ys = np.linspace(0.5, 1.4, 8)[: 5 if n < 100 else 8]
    z = np.array([replicate(small, i, ys) for i in range(n)])
    print(f"coverage {np.mean(np.abs(z) < 1.96, axis=0)}, sd {z.std(axis=0)}")
    for one in z.T:
        check_coverage(np.abs(one) < 1.96)
        if n > 100:
            assert_detects(check_coverage, np.abs(one) < 1.96 / 2)
            check_means({"z": one})


# --- results and arguments ---------------------------------------------------------------------


def test_the_tree_of_all_moments(fresh: lz.LogZTracker, tmp_path: Any) -> None:
    """Catches moments out of order, numbers of another method, and what no file can hold."""
    steps = [fresh.update({"value": y}) for y in (0.8, 0.9)]
    tree = fresh.tree
    group = tree["evidence"].to_dataset()
    assert dict(group.sizes) == {"estimator": 2, "time": 3}
    assert list(group["estimator"].to_numpy()) == ["tracked", "rts"]
    last = group.isel(time=-1)
    assert last["log_z"].item(0) == fresh.log_z
    assert last["mcse"].item(0) == fresh.mcse
    for name in ("log_z", "mcse", "status"):
        np.testing.assert_array_equal(last[name], steps[-1]["evidence"][name])
    assert group["log_z"].attrs["units"] == "nats"
    levels = tree["tracking"].to_dataset()
    assert levels["log_z"].dims == ("time", "stage")
    np.testing.assert_array_equal(levels["log_z"].isel(stage=-1), group["log_z"][0])
    np.testing.assert_array_equal(levels["mcse"].isel(stage=-1), group["mcse"][0])
    np.testing.assert_allclose(levels["occupancy"].sum("stage"), 1.0)
    np.testing.assert_array_equal(levels["step_size"], 0.8)
    tree.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    back = xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf").load()
    xr.testing.assert_equal(back["evidence"], tree["evidence"])


def test_draws_stand_for_the_present_model(small: lz.LogZTracker) -> None:
    """Catches draws of the model before, and weights of other draws."""
    errors = []
    for i in range(30):
        again = begun(small, {"value": 0.7}, "draws", i)
        draws = again.update({"value": 1.3 if i % 2 else 1.4})["tempered_posterior"].to_dataset()
        assert dict(draws["mu"].sizes) == {"chain": 1, "walker": 40, "draw": 3}
        weight = np.exp(draws["log_weight"] - draws["log_weight"].max())
        y = float(again.data["value"])
        errors.append(float((weight * (draws["mu"] - y / 2)).sum() / weight.sum()))
    check_means({"mu": np.array(errors)})
    assert np.std(errors) < 0.25, "the mean of another model would go unnoticed"


def test_data_may_be_set_beforehand(small: lz.LogZTracker) -> None:
    """Catches a call without data that goes on with the old model."""
    one = begun(small, {"value": 0.7}, "set")
    one.update({"value": 1.1})
    other = begun(small, {"value": 0.7}, "set")
    pm.set_data({"value": np.float64(1.1)}, model=other.model)
    other.update()
    assert other.log_z == one.log_z
    assert abs(other.log_z - exact_normal(1.1)) < 5 * other.mcse


def test_a_number_that_is_the_noise_of_a_vector() -> None:
    """Catches data of one entry that no longer broadcast once there is an axis of walkers."""
    y = np.array([0.4, 1.3, 2.0])
    with pm.Model() as model:
        log_noise = pm.Data("log_noise", 0.0)
        pm.Normal("y", pm.Normal("x", 0, 2), pm.math.exp(log_noise), observed=y)
    tracker = lz.LogZTracker(model, draws=16, walkers=40, random_seed=1, progressbar=False)
    tracker.update({"log_noise": -0.1})
    exact = normal_log_z(y, np.ones((3, 1)), np.array([2.0]), np.exp(-0.1))
    assert abs(tracker.log_z - exact) < 5 * tracker.mcse


def test_a_large_change_is_mentioned(fresh: lz.LogZTracker) -> None:
    """Catches a jump that is taken for a step."""
    with pytest.warns(EvidenceWarning, match="left .*% of the effective number.*smaller steps"):
        fresh.update({"value": 40.0})
    assert fresh.moments[-1].tracked.status == "low_weight_ess"


def test_what_a_jump_has_put_wrong_is_told_until_it_has_faded() -> None:
    """Catches an update after a jump that is wrong and ok, and one that stays doubtful for good."""
    tracker = make_small(walkers=200, draws=24)

    def update(i: int) -> str:
        found = tracker.update({"value": 4.0})["evidence"].to_dataset().isel(estimator=0)
        error = abs(float(found["log_z"]) - exact_normal(4.0)) / float(found["mcse"])
        assert found["status"] != "ok" or error < 4
        return str(found["status"].item())

    with pytest.warns(EvidenceWarning, match="smaller steps"):
        statuses = list(map(update, range(30)))
    assert "ok" not in statuses[:2]
    assert set(statuses[-5:]) == {"ok"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"other": 1.0}, r"data\['other'\] is not among what changes: \['value'\]"),
        ({"value": np.zeros(2)}, r"shape \(2,\), but had \(\)"),
        ({"value": np.nan}, "entries that are not finite"),
    ],
)
def test_wrong_data(fresh: lz.LogZTracker, data: dict, message: str) -> None:
    """Catches data that are taken, or half taken, though they do not fit."""
    with pytest.raises(ValueError, match=message):
        fresh.update(data)
    assert fresh.data["value"] == 0.7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0.0}, r"alpha=0.0 must lie in \(0, 1\]"),
        ({"alpha": 1.5}, r"alpha=1.5 must lie in \(0, 1\]: the weight of a new estimate"),
        ({"alpha": None}, r"alpha=None must lie in \(0, 1\]"),
        ({"walkers": 1}, "walkers=1 must be an integer of at least 2"),
        ({"draws": 1}, "draws=1"),
        ({"data": ["other"]}, r"\['other'\] must name pm.Data containers.*\['value'\]"),
        ({"data": []}, "must name pm.Data"),
    ],
)
def test_wrong_arguments(arguments: dict, message: str) -> None:
    """Catches an argument that is ignored."""
    with pytest.raises(ValueError, match=message):
        make_small(**arguments)


def test_data_of_a_prior_are_refused() -> None:
    """Catches walkers whose reference changes unnoticed."""
    with pm.Model() as model:
        scale = pm.Data("scale", 1.0)
        mu = pm.Normal("mu", 0, scale)
        pm.Normal("y", mu, 1, observed=0.3)
    with pytest.raises(ModelError, match="enters the prior") as caught:
        lz.LogZTracker(model, **SMALL)
    assert "data row" not in str(caught.value), "a tracker has none"


def test_data_with_labels_are_not_read_by_position() -> None:
    """Would catch entries that are put in each other's place."""
    with pm.Model(coords={"k": ["p", "q"]}) as model:
        w = pm.Data("w", np.zeros(2), dims="k")
        v = pm.Normal("v", 0, 1, dims="k")
        pm.Potential("energy", (w * v).sum())
    settings = {"walkers": 16, "betas": 3, "tune": 8, "random_seed": 1, "progressbar": False}
    tracker = lz.LogZTracker(model, **settings)
    value = xr.DataArray([0.1, 0.0], dims="k", coords={"k": ["p", "q"]})
    tracker.update({"w": value})
    with pytest.raises(ValueError, match=r"data\['w'\] has other labels along 'k'"):
        tracker.update({"w": value[::-1]})
