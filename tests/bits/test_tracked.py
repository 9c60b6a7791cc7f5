"""Log Z of a machine of bits that learns, beside sums over all of its states."""

import copy
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from support.checks import assert_detects, check_coverage, check_means, make_rng
from support.small_machines import BASE, HIDDEN, VISIBLE, WEIGHTS, expectations, waves

import pymc_logz as lz
from pymc_logz.energies import BernoulliRBM, bernoulli_rbm, ising_torus
from pymc_logz.per_datum import followed

SMALL: dict[str, Any] = {
    "draws": 12,
    "walkers": 40,
    "alpha": 0.3,
    "betas": 6,
    "tune": 8,
    "thin": 4,
    "random_seed": 1,
}
START = bernoulli_rbm(WEIGHTS, VISIBLE, HIDDEN, BASE)
RATE = 0.4


def begun(tracker: lz.LogZTracker, machine: BernoulliRBM, *labels: object) -> lz.LogZTracker:
    """A copy of a tracker that was never updated, with fresh walkers, at another machine."""
    assert len(tracker.moments) == 1
    again = copy.copy(tracker)
    again._followed = again._followed.changed(parameters(machine))
    again._block = again._followed.moved(again._block)
    again._begin(make_rng(*labels))
    return again


def parameters(machine: BernoulliRBM) -> dict[str, np.ndarray]:
    """By name."""
    names = ("weights", "visible_bias", "hidden_bias")
    return {name: np.array(getattr(machine, name)) for name in names}


def exact(theta: dict[str, np.ndarray]) -> float:
    """Log Z of parameters, a sum over all states."""
    return bernoulli_rbm(**theta).log_z


@pytest.fixture(scope="module")
def small() -> lz.LogZTracker:
    return lz.LogZTracker(START, **SMALL)


@pytest.fixture
def fresh(small: lz.LogZTracker) -> lz.LogZTracker:
    return begun(small, START, "fresh")


# --- a machine that learns -----------------------------------------------------------------------


def gradient(theta: dict[str, np.ndarray], v: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    """Mean derivative of log f by each parameter over weighted visible units (n, M)."""
    hidden = expit(theta["hidden_bias"] + v @ theta["weights"])
    return {
        "weights": (v * weight[:, None]).T @ hidden,
        "visible_bias": weight @ v,
        "hidden_bias": weight @ hidden,
    }


@pytest.fixture(scope="module")
def learner() -> lz.LogZTracker:
    """A machine that has hardly begun, on levels for one that has learned."""
    rng = make_rng("start")
    start = bernoulli_rbm(rng.normal(0, 0.3, (10, 6)), np.zeros(10), np.zeros(6))
    return lz.LogZTracker(start, betas=12, level_prior="exp", draws=16, random_seed=2)


def learn(tracker: lz.LogZTracker, n_updates: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact log Z at each time, and the mean log likelihood of the data, of gradient ascent."""
    rng = make_rng("learned")
    weights, visible_bias, hidden_bias = waves(10, 6, 0.3, 0.4)
    truth = bernoulli_rbm(2 * weights, visible_bias + 1.0, hidden_bias)
    v = truth.sample(rng, 400)["visible"].astype(float)
    even = np.full(len(v), 1 / len(v))
    theta = parameters(tracker.model)
    now, log_z, fit = tracker.update(), [exact(theta)], []
    log_z.append(log_z[0])
    for _ in range(n_updates):
        draws = now["tempered_posterior"].to_dataset()
        log_weight = draws["log_weight"].to_numpy().ravel()
        weight = np.exp(log_weight - np.logaddexp.reduce(log_weight))
        visible = draws["visible"].to_numpy().reshape(-1, 10).astype(float)
        here, there = gradient(theta, visible, weight), gradient(theta, v, even)
        theta = {name: theta[name] + RATE * (there[name] - here[name]) for name in theta}
        now = tracker.update(theta)
        log_z.append(exact(theta))
        fit.append(float(tracker.model.log_visible(v).mean() - log_z[-1]))
    return np.array(log_z), np.array(fit)


def test_log_z_of_a_machine_that_learns(
    learner: lz.LogZTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches walkers or weights of an earlier machine, and a value that lags behind."""
    tracker = begun(learner, learner.model, "right")
    log_z, fit = learn(tracker, 60)
    assert fit[-1] > fit[0] + 0.3, "nothing was learned"
    assert np.ptp(log_z) > 1
    group = tracker.tree["evidence"].to_dataset()
    assert np.all(group["status"] == "ok")
    for method in ("tracked", "rts"):
        entry = group.sel({"estimator": method})
        z = ((entry["log_z"] - log_z) / entry["mcse"]).to_numpy()
        check_means({method: z[::10]})
        assert np.max(np.abs(z)) < 5
        assert 0.3 < np.sqrt(np.mean(z**2)) < 1.6
    # the estimate of each update alone is the noisier one
    mcse = group["mcse"]
    ratio = mcse.sel({"estimator": "tracked"}) / mcse.sel({"estimator": "rts"})
    assert float(ratio[10:].median()) < 0.8
    monkeypatch.setattr(followed, "change_of_log_z", lambda *_: (0.0, 0.0, 1.0))
    tracker = begun(learner, learner.model, "lagging")
    with pytest.warns(lz.EvidenceWarning, match=r"tracked .* and rts .* disagree by"):
        log_z, _ = learn(tracker, 60)
    lagging = tracker.tree["evidence"].to_dataset().sel({"estimator": "tracked"})
    assert "disagrees" in lagging["status"]
    assert float(np.abs((lagging["log_z"] - log_z) / lagging["mcse"]).max()) > 5


# --- errors and draws ---------------------------------------------------------------------------


def replicate(tracker: lz.LogZTracker, i: int) -> np.ndarray:
    """Z-scores of the last moment by both methods, of fresh walkers that follow growing weights."""
    tracker = begun(tracker, START, "replicate", i)
    for factor in np.linspace(1.05, 1.4, 8):
        tracker.update({"weights": factor * WEIGHTS})
    moment = tracker.moments[-1]
    errors = [moment.tracked.log_z, moment.alone.log_z] - np.array(exact(parameters(tracker.model)))
    return errors / [moment.tracked.mcse, moment.alone.mcse]


@pytest.mark.parametrize("n", [24, pytest.param(400, marks=pytest.mark.slow)])
def test_intervals_cover(small: lz.LogZTracker, n: int) -> None:
    """Catches errors for independent sweeps: walkers remember where they were."""
    z = np.array([replicate(small, i) for i in range(n)])
    print(f"coverage {np.mean(np.abs(z) < 1.96, axis=0)}, sd {z.std(axis=0)}")
    for one in z.T:
        check_coverage(np.abs(one) < 1.96)
        if n > 100:
            assert_detects(check_coverage, np.abs(one) < 1.96 / 2)
            check_means({"z": one})


def test_draws_stand_for_the_present_machine(small: lz.LogZTracker) -> None:
    """Catches draws of the machine before, weights of others, and layers that changed places."""
    after = START.at(-WEIGHTS, VISIBLE + 0.4, HIDDEN)
    mean, errors = expectations(after, 1.0)[0], []
    for i in range(30):
        again = begun(small, START, "draws", i)
        for share in (0.25, 0.5, 0.75):
            again.update({"weights": (1 - 2 * share) * WEIGHTS})
        draws = again.update(parameters(after))["tempered_posterior"].to_dataset()
        assert dict(draws["visible"].sizes) == {
            "chain": 1,
            "walker": 40,
            "draw": 3,
            "visible_dim_0": 5,
        }
        log_weight = draws["log_weight"].to_numpy()
        weight = np.exp(log_weight - log_weight.max())
        bits = np.concatenate([draws["visible"], draws["hidden"]], axis=-1)
        errors.append((weight[..., None] * bits).sum(axis=(0, 1, 2)) / weight.sum() - mean)
    check_means({str(i): column for i, column in enumerate(np.transpose(errors))})


def test_a_part_of_the_parameters(fresh: lz.LogZTracker) -> None:
    """Catches biases that are lost, or a base that moves, where weights alone are given."""
    fresh.update({"weights": 1.1 * WEIGHTS})
    np.testing.assert_array_equal(fresh.data["visible_bias"], VISIBLE)
    np.testing.assert_array_equal(fresh.model.base_bias, BASE)
    np.testing.assert_array_equal(fresh.data["weights"], 1.1 * WEIGHTS)
    # not the machine that the tracker was made of
    np.testing.assert_array_equal(START.weights, WEIGHTS)
    before = fresh.log_z, fresh.mcse
    fresh.update()
    assert abs(fresh.log_z - exact(fresh.data)) < 4 * fresh.mcse
    assert (fresh.log_z, fresh.mcse) != before


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"couplings": WEIGHTS}, r"data\['couplings'\] is not among what changes: \['weights'"),
        ({"weights": WEIGHTS.T}, r"shape \(4, 5\), but had \(5, 4\)"),
        ({"hidden_bias": np.full(4, np.nan)}, "entries that are not finite"),
    ],
)
def test_wrong_parameters(fresh: lz.LogZTracker, data: dict, message: str) -> None:
    """Catches parameters that are taken, or half taken, though they do not fit."""
    with pytest.raises(ValueError, match=message):
        fresh.update({"visible_bias": VISIBLE + 1, **data})
    np.testing.assert_array_equal(fresh.data["visible_bias"], VISIBLE)


def test_what_cannot_be_followed() -> None:
    """Catches an energy, a kernel or a name that is taken for another."""
    with pytest.raises(TypeError, match="'ising_torus', whose parameters have no names"):
        lz.LogZTracker(ising_torus((3, 4), 0.2), **SMALL)
    with pytest.raises(TypeError, match=r"is made of bits: leave it out, or give .*BlockGibbs"):
        lz.LogZTracker(START, **SMALL, kernel=lz.kernels.Hamiltonian())
    with pytest.raises(ValueError, match=r"data=\['bias'\] must name what changes"):
        lz.LogZTracker(START, ["bias"], **SMALL)
