"""A tree with log Z of its own, handed over with a model: whether that is the model it is of."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy import stats

import pymc_logz as lz

pytestmark = pytest.mark.usefixtures("no_look_in_this_file")

SETTINGS = {"random_seed": 1, "progressbar": False, "cores": 1, "chains": 2}


def of_potential(y: float, constant: float = 0.0) -> pm.Model:
    """Log Z is that of one normal datum, shifted; nothing of it is in a group of data."""
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2)
        pm.Potential("of y", -0.5 * (y - b) ** 2 + constant)
    return model


FROM_PRIOR = {"reference": "prior", **SETTINGS}
WALKERS = {"draws": 60, "walkers": 16, "betas": 4, **FROM_PRIOR}
RUNS = {
    "hais": lambda model: lz.sample_hais(300, model=model, betas=60, **FROM_PRIOR),
    "rts": lambda model: lz.sample_tempered(model=model, **WALKERS),
    "importance": lambda model: lz.importance_sampling(stats.norm(0.8, 1.2), model, random_seed=1),
}


@pytest.mark.filterwarnings("ignore:the model has potentials", "ignore:all walkers together")
@pytest.mark.parametrize("method", RUNS)
def test_a_run_of_another_density_is_refused(method: str) -> None:
    """Would catch log Z of one model that is given out as that of another."""
    tree = RUNS[method](of_potential(1.0))
    same = lz.evidence(tree, of_potential(1.0), random_seed=1)["evidence"].to_dataset()
    exact = stats.norm(0, np.sqrt(5)).logpdf(1.0) + 0.5 * np.log(2 * np.pi)
    assert abs(same["log_z"][0] - exact) < 5 * same["mcse"][0]
    second = "importance_student" if method == "importance" else "importance"
    assert list(same["estimator"].values) == [method, second]
    near = lz.log_density(tree, of_potential(1.0), np.array([0.8]))["evidence"]["log_z"]
    assert float(near[0, 0]) == pytest.approx(stats.norm(0.8, np.sqrt(0.8)).logpdf(0.8), abs=0.3)
    for other in (of_potential(5.0), of_potential(1.0, 0.5)):
        with pytest.raises(ValueError, match=r"is not the model's.*differ by"):
            lz.evidence(tree, other, random_seed=1)
        with pytest.raises(ValueError, match=r"is not the model's.*differ by"):
            lz.log_density(tree, other, np.array([0.8]))


@pytest.mark.filterwarnings("ignore:all walkers together")
def test_sums_of_a_run_of_another_prior_are_refused() -> None:
    """Would catch 3 nats with status ok: of a run without draws any model of its data was taken."""

    def of_width(width: float) -> pm.Model:
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("lp", 0, width), 1, observed=[1.0, 2.0, 0.5])
        return model

    tree = lz.sample_tempered(model=of_width(2.0), keep="sums", **WALKERS)
    assert "posterior" not in tree.children
    assert lz.evidence(tree, of_width(2.0), random_seed=1)["evidence"]["status"][0] == "ok"
    for call in (lz.evidence, lambda *of: lz.log_density(*of, np.array([0.8]))):
        call(tree, of_width(2.0))
        with pytest.raises(ValueError, match=r"is not the model's.*differ by"):
            call(tree, of_width(50.0))


def test_a_sum_over_another_density_is_refused() -> None:
    """Would catch a model of discrete variables alone whose table has changed."""

    def of_odds(odds: list[float]) -> pm.Model:
        with pm.Model() as model:
            pm.Bernoulli("y", pt.constant(odds)[pm.Bernoulli("k", 0.3)], observed=1)
        return model

    tree = lz.sample_hais(model=of_odds([0.2, 0.6]), random_seed=1, progressbar=False)
    assert float(lz.evidence(tree, of_odds([0.2, 0.6]))["evidence"]["log_z"][0]) == pytest.approx(
        np.log(0.7 * 0.2 + 0.3 * 0.6)
    )
    with pytest.raises(ValueError, match="is not the model's"):
        lz.evidence(tree, of_odds([0.2, 0.9]))


class Noisy(Op):
    """A log density that is computed with noise, as that of a particle filter."""

    rng = np.random.default_rng(1)

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [pt.as_tensor(x)], [pt.dscalar()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = np.asarray(-0.5 * (1.0 - inputs[0]) ** 2 + self.rng.normal(0, 0.2))


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_noise_is_not_another_density() -> None:
    """Would catch a run of a noisy likelihood that is refused with its own model."""
    with pm.Model() as model:
        pm.Potential("noisy", Noisy()(pm.Normal("b", 0, 2)))
    tree = lz.sample_hais(model=model, **SETTINGS)
    found = lz.evidence(tree, model, random_seed=1)["evidence"].to_dataset()
    exact = stats.norm(0, np.sqrt(5)).logpdf(1.0) + 0.5 * np.log(2 * np.pi)
    assert abs(found["log_z"][0] - exact) < 0.1


def test_a_variable_without_entries_is_no_obstacle() -> None:
    """Catches draws of shape (chains, draws, 0) that cannot be put in rows."""
    with pm.Model() as model:
        pm.Normal("empty", 0, 1, shape=0)
        pm.Normal("y", pm.Normal("b", 0, 2), 1, observed=1.0)
    tree = lz.sample_hais(128, model=model, **SETTINGS)
    assert list(lz.evidence(tree, model)["evidence"]["status"].values) == ["ok", "ok"]
