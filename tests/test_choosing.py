"""`evidence` with nothing else: what it chooses, what it says about it, and its second opinion."""

import logging
import re
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.choosing import second_opinion
from pymc_logz.trees.kinds import MANIFOLD_BRIDGED, kind_of

SETTINGS = {"random_seed": 1, "progressbar": False, "cores": 1, "chains": 2}


@pytest.fixture(scope="module")
def energy() -> energies.Energy:
    """A heavy-tailed posterior in one dimension."""
    return energies.student_location()


@pytest.fixture(scope="module")
def annealed(energy: energies.Energy) -> xr.DataTree:
    """What `evidence` makes of a model."""
    return lz.evidence(energy.model, **SETTINGS)


def test_a_model_is_annealed_and_checked(annealed: xr.DataTree, energy: energies.Energy) -> None:
    """Would catch a choice that is not reported, and a second estimate of another target."""
    group = annealed["evidence"].to_dataset()
    assert list(group["estimator"].values) == ["hais", "importance"]
    assert group.attrs["chosen"] == "hais"
    assert "no posterior" in group.attrs["reason"]
    for i in range(2):
        entry = group.isel(estimator=i)
        assert abs(float(entry["log_z"]) - energy.log_z) < 4 * float(entry["mcse"]) < 0.3
    assert {"weighted_posterior", "annealing"} <= set(annealed.children)


def test_an_energy_of_bits_is_annealed() -> None:
    """Catches an energy that is refused where `sample_hais` takes it."""
    torus = energies.ising_torus((4, 4), coupling=0.3)
    tree = lz.evidence(torus, **SETTINGS)
    models.assert_log_z(tree, torus.log_z)
    assert tree["evidence"].attrs["chosen"] == "hais"
    with pytest.raises(TypeError, match="idata is a BinaryEnergy: write evidence"):
        lz.evidence(torus, energies.beta_bernoulli().model)


@pytest.mark.usefixtures("no_look_from_prior")
def test_a_posterior_with_its_model_is_bridged(
    energy: energies.Energy, caplog: pytest.LogCaptureFixture
) -> None:
    """Would catch keywords that do not reach the bridge, and a model's context that is ignored."""
    tree = models.exact_draws(energy, np.random.default_rng(4), 500, 4)
    with caplog.at_level(logging.INFO, logger="pymc.pymc_logz"):
        found = lz.evidence(tree, energy.model, random_seed=2, draws=700)
    said = [record.message for record in caplog.records if record.message.startswith("log Z")]
    assert len(said) == 1, "one sentence of result for one call"
    assert re.fullmatch(r"log Z \S+ ± \S+ \(ok\), \S+ s; bridge of 4 x 500 draws", said[0])
    assert found["evidence"].attrs["reason"].startswith("a posterior was given with its model")
    models.assert_log_z(found, energy.log_z)
    assert found["evidence"].attrs["n_proposal"] == 700
    direct = lz.bridge_sampling(tree, energy.model, random_seed=2, draws=700)
    assert models.log_z_of(found) == models.log_z_of(direct)
    with energy.model:
        alone = lz.evidence(tree, random_seed=2, draws=700, cross_check=False)
    assert list(alone["evidence"]["estimator"].values) == ["bridge"]
    assert models.log_z_of(alone) == models.log_z_of(direct)
    assert "evidence" not in tree.children


def test_a_run_with_weights_keeps_its_own_estimate(
    annealed: xr.DataTree, energy: energies.Energy
) -> None:
    """Would catch a bridge from resampled draws where better weights exist."""
    plain = lz.evidence(annealed)
    assert list(plain["evidence"]["estimator"].values) == ["hais"]
    checked = lz.evidence(annealed, energy.model)
    assert list(checked["evidence"]["estimator"].values) == ["hais", "importance"]
    assert models.log_z_of(checked) == models.log_z_of(plain) == models.log_z_of(annealed)
    alone = lz.evidence(annealed, energy.model, cross_check=False)
    xr.testing.assert_equal(alone["evidence"].to_dataset(), plain["evidence"].to_dataset())


def test_doubts_of_a_run_stay_when_it_is_read_again(energy: energies.Energy) -> None:
    """Would catch a status that is made of the weights alone: `ok` where the run had a doubt."""
    tree = lz.sample_hais(model=energy.model, draws=64, **SETTINGS)
    group = tree["evidence"].to_dataset()
    group["status"] = ("estimator", ["missed_mode"])
    reasons = {"doubts": "there is another one", "error_factor": 1.15, "reference_mcse": 0.3}
    group = group.assign_attrs(reasons)
    tree["evidence"] = xr.DataTree(group)
    xr.testing.assert_identical(lz.evidence(tree)["evidence"].to_dataset(), group)
    part = tree.copy()
    rows = tree["weighted_posterior"].to_dataset().isel(chain=[0])
    part["weighted_posterior"] = xr.DataTree(rows)
    with pytest.warns(lz.EvidenceWarning, match="there is another one"):
        found = lz.evidence(part)["evidence"].to_dataset().squeeze("estimator")
    assert found["status"] == "missed_mode"
    assert found.attrs["doubts"] == "there is another one"
    own = lz.estimators.importance_log_z(rows["log_weight"].to_numpy())
    assert float(found["log_z"]) == own.log_z
    assert float(found["mcse"]) == pytest.approx(np.hypot(1.15 * own.mcse, 0.3))


def test_estimates_that_disagree_are_reported(
    annealed: xr.DataTree, energy: energies.Energy
) -> None:
    """Would catch a check that cannot fail: weights of another model."""
    changed, apart = annealed.copy(deep=True), r"disagree by \+(2|1\.9)"
    changed["weighted_posterior"]["log_weight"] = changed["weighted_posterior"]["log_weight"] + 2
    with pytest.warns(lz.EvidenceWarning, match=rf"hais.* and .*importance.* {apart}"):
        found = lz.evidence(changed, energy.model, random_seed=1)
    assert list(found["evidence"]["status"].values) == ["disagrees", "ok"]
    other = models.quick(energy.model)
    with pytest.warns(lz.EvidenceWarning, match=rf"'b' has status 'disagrees' .*{apart}"):
        factor = lz.bayes_factor(other, found)
    assert (factor.attrs["status_a"], factor.attrs["status_b"]) == ("ok", "disagrees")
    with pytest.warns(lz.EvidenceWarning, match=rf"'x' has status 'disagrees' .*{apart}"):
        table = lz.compare_evidence({"x": found, "y": other})
    assert table.loc["x", "status"] == "disagrees"


def test_a_second_opinion_that_cannot_be_had_is_said(
    annealed: xr.DataTree, energy: energies.Energy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch a run that is lost because its check failed."""

    def refuses(*_: Any) -> None:
        raise lz.ModelError("infinite there")

    monkeypatch.setattr(second_opinion, "importance", refuses)
    with pytest.warns(lz.EvidenceWarning, match="no second estimate to check 'hais'"):
        found = lz.evidence(annealed, energy.model)
    assert list(found["evidence"]["estimator"].values) == ["hais"]


def test_arguments_that_do_not_apply(annealed: xr.DataTree, energy: energies.Energy) -> None:
    """Would catch an argument that is dropped in silence."""
    with pytest.raises(ValueError, match="applies to a tempered run"):
        lz.evidence(energy.model, methods="all")
    with pytest.raises(TypeError, match=r"'draws'.*not a DataTree with a log Z"):
        lz.evidence(annealed, draws=10)
    posterior = models.exact_draws(energy, np.random.default_rng(4), 50, 2)
    with pytest.raises(ValueError, match=r"no model was given: write evidence\(idata, model\)"):
        lz.evidence(posterior)
    with pytest.raises(ValueError, match=r"did you pass idata\.posterior\?"):
        lz.evidence(posterior["posterior"], energy.model)
    predictive = xr.DataTree.from_dict({"prior": xr.Dataset(), "prior_predictive": xr.Dataset()})
    with pytest.raises(ValueError, match=r"idata has no group 'posterior'.*prior_predictive"):
        lz.evidence(predictive, energy.model)


def test_the_model_is_that_of_the_context(annealed: xr.DataTree, energy: energies.Energy) -> None:
    """Would catch a call that needs the model said twice, as that of `sample_hais` does not."""
    with energy.model:
        assert models.log_z_of(lz.evidence(**SETTINGS)) == models.log_z_of(annealed)


@pytest.mark.filterwarnings("ignore:The number of samples is too small")
def test_exact_observations_are_sampled_on_their_level_set() -> None:
    """Would catch a model without a likelihood that is annealed, or refused."""
    with pm.Model() as model:
        u = pm.Normal("u", shape=3)
        lz.ExactObservation("y", u[0] + 2 * u[1] + np.float64(0.5) * u[2], 1.5)
    settings = {"draws": 300, "tune": 200, "chains": 2, "cores": 1, "progressbar": False}
    found = lz.evidence(model, random_seed=1, compute_convergence_checks=False, **settings)
    variance = 1 + 4 + 0.25
    exact = -0.5 * (1.5**2 / variance + np.log(2 * np.pi * variance))
    models.assert_log_z(found, exact)
    assert found["evidence"].attrs["chosen"] == "manifold_bridge"
    # no entry of u is a noise variable of its own, so there is no likelihood to check against
    assert list(found["evidence"]["estimator"].values) == ["manifold_bridge"]


@pytest.mark.filterwarnings("ignore:The number of samples is too small")
def test_simulator_with_a_likelihood_is_checked_by_it() -> None:
    with pm.Model() as model:
        # an initial value once made the second opinion fail, and with it the first
        v, n = pm.Normal("v", shape=2, initval=[0.1, 0.2]), pm.Normal("n")
        lz.ExactObservation("y", v[0] + 2 * v[1] + np.float64(0.5) * n, 1.5)
    settings = {"draws": 300, "tune": 200, "chains": 2, "cores": 1, "progressbar": False}
    found = lz.evidence(model, random_seed=1, compute_convergence_checks=False, **settings)
    group = found["evidence"].to_dataset()
    assert list(group["estimator"].values) == ["manifold_bridge", "importance"]
    variance = 1 + 4 + 0.25
    exact = -0.5 * (1.5**2 / variance + np.log(2 * np.pi * variance))
    assert np.all(np.abs(group["log_z"] - exact) < 4 * group["mcse"] + 1e-6)
    assert kind_of(found) == MANIFOLD_BRIDGED
    alone = lz.evidence(found.drop_nodes("evidence"), model, cross_check=False, random_seed=1)
    assert list(alone["evidence"]["estimator"].values) == ["manifold_bridge"]


@pytest.mark.usefixtures("no_look_from_prior")
def test_a_second_opinion_knows_of_a_restricted_prior() -> None:
    """Would catch a right log Z that is accused by one under the prior that is not restricted."""
    with pm.Model() as model:
        pm.Normal("mu", 0, 3, shape=2, transform=models.ordered, initval=[-1.0, 1.0])
        pm.Normal("y", model["mu"], 1, observed=np.array([[-1.0, 1.5]] * 5))
    with pytest.warns(lz.EvidenceWarning, match="restricted to them"):
        found = lz.sample_hais(model=model, draws=128, betas=60, **SETTINGS)
    again = lz.evidence(found, model, random_seed=1)
    group = again["evidence"].to_dataset()
    assert list(group["estimator"].values) == ["hais", "importance"]
    assert list(group["status"].values) == ["ok", "ok"]
    assert abs(float(group["log_z"].diff("estimator")[0])) < 4 * np.hypot(*group["mcse"].values)
    assert group.attrs["prior_finite_share"] < 0.6
    del found["evidence"].attrs["prior_finite_share"]  # as of step methods
    with pytest.warns(lz.EvidenceWarning, match="restricted to them"):
        lz.evidence(found, model, random_seed=1)


@pytest.mark.usefixtures("no_look_from_prior")
def test_a_tempered_run_without_its_evidence_has_it_again() -> None:
    """Would catch levels that are there and not used, and RTS of swaps."""
    small = {"draws": 40, "walkers": 16, "betas": [0.0, 0.3, 1.0], **SETTINGS}
    for exchange, name in (("gibbs", "rts"), ("swap", "mbar")):
        tree = lz.sample_tempered(model=models.normal_normal(), exchange=exchange, **small)
        again = lz.evidence(tree.drop_nodes("evidence"))
        assert list(again["evidence"]["estimator"].values) == [name]
        assert models.log_z_of(again)[0] == pytest.approx(models.log_z_of(tree)[0], abs=1e-6)


def test_draws_of_other_data_are_refused(annealed: xr.DataTree, energy: energies.Energy) -> None:
    """Would catch chains that are blamed for data that have changed, and log Z of these data."""
    tree = annealed.copy(deep=True)
    name = next(iter(tree["observed_data"].data_vars))
    tree["observed_data"][name] = tree["observed_data"][name] + 0.5
    with pytest.raises(ValueError, match="made with other data"):
        lz.evidence(tree, energy.model)


@pytest.mark.parametrize("status", second_opinion.OF_TARGET)
def test_a_second_estimate_shares_doubts_about_the_target(
    annealed: xr.DataTree, energy: energies.Energy, status: str
) -> None:
    """Catches a number that is clean because it is the second one."""
    tree = annealed.copy(deep=True)
    group = tree["evidence"].to_dataset().isel(estimator=[0])
    group["status"] = ("estimator", [status])
    tree["evidence"] = xr.DataTree(group.assign_attrs(doubts="as it was"))
    found = lz.evidence(tree, energy.model, random_seed=1)["evidence"].to_dataset()
    assert list(found["estimator"].values) == ["hais", "importance"]
    assert list(found["status"].values) == [status, status]


@pytest.mark.slow
def test_neither_estimate_of_an_infinite_z_is_clean() -> None:
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        pm.Normal("y", 0, scale, observed=np.zeros(3))
    with pytest.warns(lz.EvidenceWarning):
        group = lz.evidence(model, random_seed=0, progressbar=False)["evidence"].to_dataset()
    assert "ok" not in group["status"].values


@pytest.mark.usefixtures("no_look_from_prior")
def test_a_point_null_is_exact_and_can_be_compared() -> None:
    """Would catch a null hypothesis that is refused, or a bad model that costs the others."""
    with pm.Model() as any_coin:
        pm.Binomial("y", 100, pm.Beta("p", 1, 1), observed=60)
    null = pm.do(any_coin, {"p": 0.5})
    short = {"draws": 1000, "betas": 40, "reference": "prior", **SETTINGS}
    trees = lz.evidence_of_models({"any": any_coin, "null": null}, **short)
    found = trees["null"]["evidence"].to_dataset().isel(estimator=0)
    assert (found["estimator"].item(), found["status"].item()) == ("exact", "ok")
    assert float(found["mcse"]) == 0.0
    assert float(found["log_z"]) == pytest.approx(stats.binom.logpmf(60, 100, 0.5), abs=1e-9)
    assert "no free variables" in trees["null"]["evidence"].attrs["reason"]
    table = lz.compare_evidence(trees)
    exact = stats.binom.logpmf(60, 100, 0.5) + np.log(101)
    assert -table.loc["any", "log_bayes_factor"] == pytest.approx(exact, abs=0.05)
    with pm.Model() as impossible:
        pm.Binomial("y", 10, 0.5, observed=11)
    with pytest.warns(lz.EvidenceWarning):
        tree = lz.evidence(impossible, progressbar=False)
    assert tree["evidence"]["status"].item() == "no_support"


def test_a_model_without_a_log_z_is_told_before_others_run(monkeypatch) -> None:
    """Would catch a comparison that runs for an hour before it looks at the last model."""
    with pm.Model() as good:  # an angle alone is refused, and sampled over one turn
        pm.Normal("y", pm.VonMises("x", 0, 1), 1, observed=1.0)
    with pm.Model() as bad:
        pm.Normal("y", pm.Flat("x"), 1, observed=1.0)
    ran: list[object] = []
    monkeypatch.setattr("pymc_logz.long_runs.several_models.evidence", ran.append)
    with pytest.raises(lz.ImproperPriorError, match="Flat") as caught:
        lz.evidence_of_models({"good": good, "bad": bad}, progressbar=False)
    assert any("'bad'" in note for note in caught.value.__notes__)
    with pytest.raises(ValueError, match="models is empty"):
        lz.evidence_of_models({})
    assert not ran
