"""Importance sampling from a user's proposal: exact answers for all its forms, and the door."""

import re
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import special, stats
from support.checks import assert_detects, check_coverage, make_rng
from support.pymc_models import normal_normal

import pymc_logz as lz

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
COUNTS = np.array([3, 5, 1])
HITS, TRIALS = 2, 9
# gamma and Poisson, beta and binomial: both conjugate, on scales that a transform bends
LOG_Z = float(
    special.gammaln(2.0 + COUNTS.sum())
    - special.gammaln(2.0)
    + 2.0 * np.log(1.5)
    - (2.0 + COUNTS.sum()) * np.log(1.5 + 3)
    - special.gammaln(COUNTS + 1).sum()
    + stats.betabinom.logpmf(HITS, TRIALS, 0.5, 2.0)
)


@pytest.fixture(scope="module")
def model() -> pm.Model:
    with pm.Model() as built:
        rate = pm.Gamma("rate", 2.0, 1.5)
        share = pm.Beta("share", 0.5, 2.0)
        pm.Poisson("n", rate, observed=COUNTS)
        pm.Binomial("k", TRIALS, share, observed=HITS)
    return built


def of_model() -> pm.Model:
    with pm.Model() as proposal:
        pm.LogNormal("rate", 0.8, 0.5)
        pm.Uniform("share", 0, 1)
    return proposal


def of_draws() -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = make_rng("draws")
    rate, share = stats.gamma(8, scale=0.4), stats.beta(1, 2)
    draws = {
        "rate": rate.rvs(size=4000, random_state=rng),
        "share": share.rvs(size=4000, random_state=rng),
    }
    return draws, rate.logpdf(draws["rate"]) + share.logpdf(draws["share"])


def as_dataset() -> tuple[xr.Dataset, np.ndarray]:
    draws, log_density = of_draws()
    arrays = {name: (("chain", "draw"), values.reshape(4, 1000)) for name, values in draws.items()}
    return xr.Dataset(arrays), log_density.reshape(4, 1000)


FORMS: dict[str, Any] = {
    "model": of_model,
    "distributions": lambda: {"rate": stats.gamma(8, scale=0.4), "share": stats.uniform(0, 1)},
    "draws": of_draws,
    "dataset": as_dataset,
}


@cache
def run_of(model: pm.Model, form: str) -> xr.DataTree:
    """A run from one of the forms."""
    return lz.importance_sampling(FORMS[form](), model, random_seed=1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("no_look_from_prior")
def test_exact_log_z(model: pm.Model, form: str) -> None:
    """Catches a Jacobian counted twice or not at all, and variables in another order."""
    tree = run_of(model, form)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    assert str(entry["status"].item()) == "ok"
    assert abs(float(entry["log_z"]) - LOG_Z) < 4 * float(entry["mcse"]) < 0.2
    posterior = tree["posterior"]
    assert dict(posterior.sizes) == {"chain": 1, "draw": 4000}
    n_effective = float(entry["weight_ess"])
    exact = stats.gamma(2.0 + COUNTS.sum(), scale=1 / 4.5)
    for moment, expected in (("mean", exact.mean()), ("std", exact.std())):
        found = float(getattr(posterior["rate"], moment)())
        assert abs(found - expected) < 5 * exact.std() / np.sqrt(n_effective)
    assert tree["weighted_posterior"]["log_weight"].shape == (1, 4000)


@pytest.mark.usefixtures("no_look_from_prior")
def test_coverage(model: pm.Model) -> None:
    """Catches an error that is not that of the estimate; a wrong density must be found out."""
    proposal = {"rate": stats.gamma(4, scale=0.8), "share": stats.beta(1, 3)}
    found = []
    for seed in range(40):
        tree = lz.importance_sampling(proposal, model, 400, random_seed=seed)
        entry = tree["evidence"].to_dataset().isel(estimator=0)
        found.append((float(entry["log_z"]) - LOG_Z, float(entry["mcse"])))
    error, mcse = np.array(found).T

    def check(shift: float) -> None:
        check_coverage(np.abs(error + shift) < 1.96 * mcse)

    check(0.0)
    assert_detects(check, 0.2)


@pytest.mark.usefixtures("no_look_from_prior")
def test_many_entries_and_whole_variables() -> None:
    """A matrix of independent entries, a vector with one distribution, a simplex."""
    seen = np.array([[0.3, -1.0], [2.0, 0.5]])
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=(2, 2))
        v = pm.Normal("v", 0, 1, shape=2)
        w = pm.Dirichlet("w", np.array([1.0, 2.0, 0.7]))
        pm.Normal("y", x, 0.8, observed=seen)
        pm.Normal("z", v, 1.0, observed=[1.0, -1.0])
        pm.Multinomial("c", 5, w, observed=[1, 3, 1])
    proposal = {
        "x": stats.norm(0.3, 1.2),
        "v": stats.multivariate_normal([0.5, -0.5], [[0.6, 0.1], [0.1, 0.6]]),
    }
    with pytest.raises(ValueError, match="no variable 'w'"):
        lz.importance_sampling(proposal, model)
    by_scipy = proposal | {
        "x": stats.matrix_normal(np.full((2, 2), 0.3), np.eye(2), 1.2 * np.eye(2)),
        "w": stats.dirichlet([2.0, 4.0, 2.0]),
    }
    with pm.Model() as whole:
        pm.Normal("x", 0.3, 1.2, shape=(2, 2))
        pm.MvNormal("v", [0.5, -0.5], [[0.6, 0.1], [0.1, 0.6]])
        pm.Dirichlet("w", np.array([2.0, 4.0, 2.0]))
    exact = (
        stats.norm(0, np.hypot(1, 0.8)).logpdf(seen).sum()
        + stats.norm(0, np.sqrt(2)).logpdf([1.0, -1.0]).sum()
        + stats.dirichlet_multinomial([1.0, 2.0, 0.7], 5).logpmf([1, 3, 1])
    )
    for source, n in ((whole, 20_000), (by_scipy, 4000)):
        tree = lz.importance_sampling(source, model, n, random_seed=2)
        entry = tree["evidence"].to_dataset().isel(estimator=0)
        assert str(entry["status"].item()) == "ok"
        assert abs(float(entry["log_z"]) - exact) < 4 * float(entry["mcse"]) < 0.2
        assert tree["posterior"]["w"].sizes["w_dim_0"] == 3
    with pytest.raises(ValueError, match=r"shape \(3,\).*variable, \(2, 2\)"):
        lz.importance_sampling(by_scipy | {"x": stats.multivariate_normal(np.zeros(3))}, model)


@pytest.mark.usefixtures("no_look_from_prior")
def test_one_variable_and_draws_outside_its_support() -> None:
    """Draws outside count as such: half of them must not raise log Z by log 2."""
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1.0)
        pm.Potential("flat", 0 * s)
    with pytest.warns(lz.EvidenceWarning, match="potentials"):
        tree = lz.importance_sampling(stats.norm(0, 1), model, random_seed=1)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    assert abs(float(entry["log_z"])) < 4 * float(entry["mcse"])
    assert float(tree["posterior"]["s"].min()) > 0


def test_a_poor_proposal_has_a_status(model: pm.Model) -> None:
    proposal = {"rate": stats.gamma(3, scale=0.02), "share": stats.beta(1, 3)}
    with pytest.warns(lz.EvidenceWarning, match="importance has status"):
        tree = lz.importance_sampling(proposal, model, random_seed=1)
    assert str(tree["evidence"]["status"].item()) != "ok"


CENTRE, SPREAD = np.array([0.5, -0.5, 0.0]), np.sqrt(0.5)


@pytest.fixture(scope="module")
def normal() -> pm.Model:
    """Posterior N(CENTRE, SPREAD**2 I)."""
    with pm.Model() as built:
        x = pm.Normal("x", 0, 1, shape=3)
        pm.Normal("y", x, 1, observed=2 * CENTRE)
    return built


def box(half: float) -> pm.Model:
    with pm.Model() as proposal:
        pm.Uniform("x", CENTRE - half, CENTRE + half, shape=3)
    return proposal


def draws_in_a_box() -> tuple[dict[str, np.ndarray], np.ndarray]:
    x = make_rng("box").uniform(CENTRE - 1, CENTRE + 1, size=(4000, 3))
    return {"x": x}, np.full(4000, -3 * np.log(2.0))


def in_order() -> pm.Model:
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as proposal:
        pm.Normal("x", [-0.5, 0, 0.5], 0.8, shape=3, transform=ordered, initval=[-1, 0, 1])
    return proposal


LACKING: dict[str, Any] = {
    "box": lambda: box(1.0),
    "large box": lambda: box(1.5),
    "draws": draws_in_a_box,
    "SciPy": lambda: stats.uniform(-1, 1.5),
    "in order": in_order,
}
"""Proposals without all of the support: log Z is 5 and more of its errors too low."""


@pytest.mark.filterwarnings("ignore:the transforms take only")
@pytest.mark.parametrize("form", LACKING)
def test_a_proposal_without_all_of_the_support_is_told(normal: pm.Model, form: str) -> None:
    """Catches half of Z with weights that are even, k-hat below zero, and the status ok."""
    exact = stats.norm(0, np.sqrt(2)).logpdf(2 * CENTRE).sum()
    with pytest.warns(lz.EvidenceWarning, match="posterior draws that moved on"):
        tree = lz.importance_sampling(LACKING[form](), normal, random_seed=1)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    assert str(entry["status"].item()) == "uncovered"
    assert float(entry["log_z"]) < exact - 4 * float(entry["mcse"])
    assert float(entry["khat"]) < 0.3


def status_where_covered(normal: pm.Model, seed: int) -> set[str]:
    """By draws of the very posterior, whose largest is beaten now and then, and by a wide box."""
    exact = stats.norm(CENTRE, SPREAD)
    x = exact.rvs(size=(4000, 3), random_state=make_rng("exact", seed))
    trees = (
        lz.importance_sampling(proposal, normal, random_seed=seed)
        for proposal in (({"x": x}, exact.logpdf(x).sum(axis=1)), box(2.6))
    )
    return {str(tree["evidence"]["status"].item()) for tree in trees}


def test_no_alarm_where_nothing_is_amiss(normal: pm.Model) -> None:
    """Catches a look from the prior that accuses draws of the very posterior."""
    assert status_where_covered(normal, 0) == {"ok"}


@pytest.mark.usefixtures("no_look_from_prior")
@pytest.mark.parametrize("seed", range(1, 6))
def test_no_alarm_where_the_support_is_covered(normal: pm.Model, seed: int) -> None:
    """Catches an alarm of draws that are better than all of the proposal's, as some always are."""
    assert status_where_covered(normal, seed) == {"ok"}


def test_a_mode_without_draws_is_told() -> None:
    """Catches half of Z, and a stray draw of a heavy tail that hides the mode that it is in."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3)
        pm.Normal("y", x**2, 4.0, observed=16.0)
    for proposal in (stats.norm(4, 0.6), stats.t(3, 4, 0.6)):
        with pytest.warns(lz.EvidenceWarning, match="missed_mode"):
            tree = lz.importance_sampling(proposal, model, random_seed=1)
        assert str(tree["evidence"]["status"].item()) == "missed_mode"
    tree = lz.importance_sampling(stats.norm(0, 4), model, random_seed=1)
    assert str(tree["evidence"]["status"].item()) == "ok"


def test_a_prior_that_transforms_take_a_part_of() -> None:
    """Catches a log Z that lacks the share: the convention of all methods is to renormalise."""
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2, transform=ordered, initval=[-1, 1])
        pm.Normal("y", x, 2.0, observed=[0.5, 0.5])
    # both orders are alike, so that half of the prior has half of Z
    exact = stats.norm(0, np.sqrt(5)).logpdf(0.5) * 2
    with pytest.warns(lz.EvidenceWarning, match="transforms take only"):
        tree = lz.importance_sampling(stats.norm(0.1, 1.1), model, random_seed=1)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    assert str(entry["status"].item()) == "ok"
    assert abs(float(entry["log_z"]) - exact) < 4 * float(entry["mcse"]) < 0.2
    assert tree["evidence"].attrs["prior_finite_share"] == pytest.approx(0.5, abs=0.03)


def test_few_draws(normal: pm.Model) -> None:
    tree = None
    with pytest.warns(lz.EvidenceWarning, match="few_rows"):
        tree = lz.importance_sampling(stats.norm(0, 1), normal, 2, random_seed=1)
    assert dict(tree["posterior"].sizes) == {"chain": 1, "draw": 2, "x_dim_0": 3}


@pytest.mark.usefixtures("no_look_from_prior")
def test_the_stored_log_z_is_what_evidence_gives(model: pm.Model) -> None:
    tree = run_of(model, "model")
    assert lz.evidence(tree)["evidence"]["log_z"].item() == tree["evidence"]["log_z"].item()
    assert len(lz.compare_evidence({"a": tree, "b": tree})) == 2


WRONG: list[tuple[Any, type[Exception], list[str]]] = [
    ("prior", TypeError, ["proposal='prior'", "pm.Model"]),
    ({"rate": 3.0, "share": 1.0}, TypeError, ["proposal['rate']=3.0", "scipy.stats"]),
    ({"other": stats.norm()}, ValueError, ["'other'", "rate"]),
    (({"rate": np.ones(5)}, np.zeros(5)), ValueError, ["no variable 'share'"]),
    (
        ({"rate": np.ones(5), "share": np.ones(4) / 2}, np.zeros(5)),
        ValueError,
        ["'share'", "(4,)", "(5,)"],
    ),
    (
        ({"rate": np.ones(5), "share": np.ones(5) / 2}, np.full(5, np.nan)),
        ValueError,
        ["not finite at 5 of its own 5"],
    ),
    (
        ({"rate": np.full(5, np.nan), "share": np.ones(5) / 2}, np.zeros(5)),
        ValueError,
        ["'rate'", "NaN"],
    ),
    (({"rate": np.ones(0), "share": np.ones(0)}, np.zeros(0)), ValueError, ["at least 2"]),
    (xr.DataTree(), TypeError, ["proposal is a DataTree", "pair (draws, log_density)"]),
    ({"rate": stats.poisson(3), "share": stats.uniform()}, TypeError, ["real numbers"]),
]


@pytest.mark.parametrize(("proposal", "kind", "words"), WRONG)
def test_the_door(model: pm.Model, proposal: Any, kind: type[Exception], words: list[str]) -> None:
    with pytest.raises(kind, match=".*".join(map(re.escape, words))):
        lz.importance_sampling(proposal, model)


def test_a_proposal_model_of_other_variables(model: pm.Model) -> None:
    with pm.Model() as other:
        pm.Normal("rate")
    with pytest.raises(ValueError, match="must be the same"):
        lz.importance_sampling(other, model)


@pytest.mark.parametrize("order", [("chain", "draw"), ("draw", "chain")])
@pytest.mark.usefixtures("no_look_from_prior")
def test_log_densities_with_labels_go_to_their_draws(order: tuple[str, str]) -> None:
    """Would catch a log density that is paired with other draws than it is of."""
    model = normal_normal()
    rng = np.random.default_rng(1)
    draws = xr.Dataset(
        {"mu": (("chain", "draw"), rng.normal(0.5, 0.8, size=(4, 500)))},
        coords={"chain": range(4), "draw": range(500)},
    )
    log_q = xr.apply_ufunc(stats.norm(0.5, 0.8).logpdf, draws["mu"])
    shuffled = log_q.isel(draw=rng.permutation(500), chain=[2, 0, 3, 1]).transpose(*order)
    given, again = (
        lz.importance_sampling((draws, one), model, random_seed=1)["evidence"]["log_z"].item()
        for one in (log_q, shuffled)
    )
    assert given == again


def test_a_number_of_draws_that_are_given_is_refused(normal: pm.Model) -> None:
    """Would catch an argument without effect."""
    pair = {"x": np.zeros(100)}, np.zeros(100)
    with pytest.raises(ValueError, match="draws=50 has no effect"):
        lz.importance_sampling(pair, normal, 50)
