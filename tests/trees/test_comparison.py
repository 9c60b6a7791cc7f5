"""Tables of several models: order, errors, probabilities, warnings."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_base import from_dict
from arviz_stats import weight_predictions
from scipy import stats
from scipy.special import expit
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz.trees.kinds import HAIS
from pymc_logz.trees.layout import evidence_dataset, make_tree

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
COLUMNS = [
    "rank",
    "log_bayes_factor",
    "probability",
    "log_bayes_factor_mcse",
    "log_z",
    "mcse",
    "weight_ess",
    "khat",
    "estimator",
    "status",
]
SMALL: Mapping[str, Any] = {
    "draws": 30,
    "betas": 4,
    "kernel": lz.kernels.Hamiltonian(step_size=0.2, scale=1.0),
}


def made(
    log_z: float, mcse: float = 0.01, status: str = "ok", y: Any = (1.0, 2.0), name: str = "y"
) -> xr.DataTree:
    """Tree with a given log Z and given data."""
    estimate = lz.estimators.LogZEstimate("hais", log_z, mcse, 500.0, 0.1, status)
    data = xr.Dataset({name: ("obs", np.asarray(y, dtype=float))})
    groups = {"evidence": evidence_dataset([estimate], {}), "observed_data": data}
    return make_tree(groups, {}, HAIS)


def three() -> dict[str, xr.DataTree]:
    """Three models, the best one in the middle."""
    return {"a": made(-12.0, 0.03), "b": made(-10.0, 0.04), "c": made(-11.0, 0.05)}


@pytest.fixture(scope="module")
def run() -> xr.DataTree:
    """A tiny real run."""
    return models.quick(models.normal_normal(), **SMALL)


# --- compare_evidence --------------------------------------------------------------------------


def test_table() -> None:
    """Would catch a wrong order, sign or error in the table: every number by hand."""
    table = lz.compare_evidence(three())
    assert list(table.columns) == COLUMNS
    assert list(table.index) == ["b", "c", "a"]
    assert list(table["rank"]) == [0, 1, 2]
    np.testing.assert_allclose(table["log_z"], [-10, -11, -12])
    np.testing.assert_allclose(table["log_bayes_factor"], [0, -1, -2])
    errors = [0.0, np.hypot(0.05, 0.04), np.hypot(0.03, 0.04)]
    np.testing.assert_allclose(table["log_bayes_factor_mcse"], errors)
    weights = np.exp([0, -1, -2])
    np.testing.assert_allclose(table["probability"], weights / weights.sum())
    assert set(table["estimator"]) == {"hais"}
    assert set(table["status"]) == {"ok"}
    for column in COLUMNS[1:8]:
        assert table[column].dtype == np.float64


@pytest.mark.parametrize("odds", [{"c": 1, "b": 1, "a": 20}, (20.0, 1.0, 1.0)])
def test_prior_odds(odds: Any) -> None:
    """Would catch odds that go to the wrong model: a sequence is in the order of the trees."""
    table = lz.compare_evidence(three(), prior_odds=odds)
    weights = np.array([1.0, np.exp(-1), 20 * np.exp(-2)])
    np.testing.assert_allclose(table["probability"], weights / weights.sum())
    np.testing.assert_allclose(table["log_bayes_factor"], [0, -1, -2])


def test_probabilities_of_far_models_do_not_overflow() -> None:
    """Would catch exponentials of log Z itself, which under- or overflow."""
    table = lz.compare_evidence({"a": made(-5000.0), "b": made(-4000.0), "c": made(4000.0)})
    np.testing.assert_allclose(table["probability"], [1, 0, 0])


def test_unusable_model_comes_last_with_a_warning() -> None:
    """Would catch a NaN that is ranked, or probabilities that leave the unknown model out."""
    trees = {"bad": made(np.nan, np.nan, "degenerate"), **three()}
    with pytest.warns(lz.EvidenceWarning, match="'bad' has.*handful of particles"):
        table = lz.compare_evidence(trees)
    assert list(table.index) == ["b", "c", "a", "bad"]
    assert table["probability"].isna().all()
    assert np.isnan(table.loc["bad", "log_bayes_factor"])


def test_close_models_warn() -> None:
    """Would catch an order that is presented as known although the error is as large."""
    trees = {"a": made(-10.0, 0.3), "b": made(-9.8, 0.3), "c": made(-9.9, 0.4)}
    with pytest.warns(lz.EvidenceWarning, match="'b' against 'c'.*order of the two") as caught:
        lz.compare_evidence(trees)
    assert "against 'a' is 0.2 ± 0.424" in str(caught.pop().message)
    assert len(caught) == 0, "one warning for all"


def test_models_as_good_as_equal_do_not_warn() -> None:
    """Would catch the advice to run longer where neither order would decide anything."""
    lz.compare_evidence({"a": made(-10.0, 0.013), "b": made(-9.995, 0.013)})
    tree = made(-10.0, 3.0)
    lz.bayes_factor(tree, tree)


def test_the_printed_table_shows_what_matters() -> None:
    """Would catch a Bayes factor or a probability that a narrow terminal leaves out."""
    with pd.option_context("display.width", 80, "display.max_columns", 0):
        printed = repr(lz.compare_evidence(three())).splitlines()[0]
    assert {"log_bayes_factor", "probability", "status"} <= set(printed.split())


def test_different_data_warn_whatever_their_names() -> None:
    """Would catch Bayes factors between different data sets, or a warning about a mere name."""
    lz.compare_evidence({"a": made(-10), "b": made(-9, name="z")})
    for other in ([1.0, 2.5], [1.0, 2.0, 3.0]):
        with pytest.warns(lz.EvidenceWarning, match="'a' and 'b' differ"):
            lz.compare_evidence({"a": made(-10), "b": made(-9, y=other)})


def test_warnings_point_to_the_caller() -> None:
    """Would catch a stack level that shows a line of the package instead of the user's own."""
    with pytest.warns(lz.EvidenceWarning) as caught:
        lz.compare_evidence({"a": made(-10.0, 0.3), "b": made(-9.8, 0.3, y=[0.0])})
    assert [warning.filename for warning in caught] == [__file__] * 2
    with pytest.warns(lz.EvidenceWarning) as caught:
        lz.bayes_factor(made(-10.0, 0.3), made(-9.8, 0.3, "high_khat", y=[0.0]))
    assert [warning.filename for warning in caught] == [__file__] * 3


def test_status_warning_of_a_table_points_to_the_caller() -> None:
    """Would catch the same for the warning about a status."""
    with pytest.warns(lz.EvidenceWarning) as caught:
        lz.compare_evidence({"a": made(-10.0, 0.1, "high_khat"), "b": made(-9.0)})
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    ("trees", "odds", "error", "parts"),
    [
        ({"a": made(-1)}, None, ValueError, ["at least two"]),
        ([made(-1), made(-2)], None, ValueError, ["dictionary"]),
        ({"a": made(-1), "b": 3.0}, None, TypeError, ["trees['b']", "float", "sample_hais"]),
        ({"a": made(-1), "b": xr.DataTree()}, None, ValueError, ["trees['b']", "evidence"]),
        (three(), {"a": 1, "b": 1}, ValueError, ["prior_odds", "['a', 'b', 'c']"]),
        (three(), [1, 2], ValueError, ["prior_odds=[1, 2]", "3 positive"]),
        (three(), "equal", ValueError, ["prior_odds='equal'", "3 positive", "None"]),
        (three(), [1, 2, 0], ValueError, ["prior_odds=[1, 2, 0]", "positive"]),
        (three(), [1, 2, np.inf], ValueError, ["prior_odds", "positive"]),
    ],
)
def test_wrong_arguments(trees: Any, odds: Any, error: type[Exception], parts: list[str]) -> None:
    """Would catch a wrong argument that gives a table, or an error that does not say which."""
    with pytest.raises(error) as caught:
        lz.compare_evidence(trees, prior_odds=odds)
    for part in parts:
        assert part in str(caught.value)


# --- bayes_factor ------------------------------------------------------------------------------


def test_bayes_factor() -> None:
    """Would catch a wrong sign or error: positive favours the first."""
    dataset = lz.bayes_factor(made(-10.0, 0.03), made(-12.0, 0.04), ci_prob=0.95)
    assert float(dataset["log_bayes_factor"]) == pytest.approx(2.0)
    assert float(dataset["mcse"]) == pytest.approx(0.05)
    assert float(dataset["bayes_factor"]) == pytest.approx(np.exp(2.0))
    interval = 2.0 + np.array([-1, 1]) * stats.norm.ppf(0.975) * 0.05
    np.testing.assert_allclose(dataset["interval"], interval)
    assert list(dataset["bound"].to_numpy()) == ["lower", "upper"]
    assert dataset.attrs["ci_prob"] == 0.95
    assert dataset["log_bayes_factor"].attrs["units"] == "nats"
    back = lz.bayes_factor(made(-12.0, 0.04), made(-10.0, 0.03), ci_prob=0.95)
    np.testing.assert_allclose(back["interval"], -interval[::-1])


def test_bayes_factor_warns() -> None:
    """Would catch the silent use of errors, states or data that cannot be compared."""
    with pytest.warns(lz.EvidenceWarning, match="order of the two is not known"):
        lz.bayes_factor(made(-10.0, 0.3), made(-10.2, 0.3))
    with pytest.warns(lz.EvidenceWarning, match="'b' has status 'low_weight_ess'"):
        lz.bayes_factor(made(-10.0), made(-12.0, 0.1, "low_weight_ess"))
    with pytest.warns(lz.EvidenceWarning, match="observed data of 'a' and 'b' differ"):
        found = lz.bayes_factor(made(-10.0), made(-12.0, y=[0.0]))
    assert found.attrs["status_a"] == found.attrs["status_b"] == "other data"


def test_the_table_says_whose_data_are_others() -> None:
    """Would catch an ``ok`` beside a probability that means nothing."""
    trees = {"a": made(-10.0), "b": made(-12.0, y=[0.0]), "c": made(-11.0)}
    for order in ("abc", "bac"):
        with pytest.warns(lz.EvidenceWarning, match="observed data of .* differ"):
            table = lz.compare_evidence({name: trees[name] for name in order})
        assert set(table["status"]) == {"other data"}, "nobody knows whose data are the right ones"


def test_the_same_data_as_other_numbers() -> None:
    """Catches `other data` between counts and the same numbers as floats, sorted by raw bytes."""
    counts, numbers = made(-10.0), made(-11.0)
    for tree, kind in ((counts, np.int64), (numbers, np.float64)):
        data = {name: ("i", np.array(one, kind)) for name, one in (("a", [1, 2]), ("b", [3, 4]))}
        tree["observed_data"] = xr.DataTree(xr.Dataset(data))
    table = lz.compare_evidence({"counts": counts, "numbers": numbers})
    assert set(table["status"]) == {"ok"}


def test_data_inside_a_potential_cannot_be_compared() -> None:
    """Would catch a claim that data differ where one model does not tell its data."""
    potential = made(-12.0)
    del potential["observed_data"]
    with pytest.warns(lz.EvidenceWarning, match="cannot be compared with those of 'b'") as caught:
        table = lz.compare_evidence({"a": made(-10.0), "b": potential})
    assert len(caught) == 1
    assert set(table["status"]) == {"ok"}


def test_bayes_factor_wrong_arguments() -> None:
    """Would catch a wrong argument that gives a number."""
    for ci_prob in (0, 1, 95, np.nan):
        with pytest.raises(ValueError, match=rf"ci_prob={ci_prob!r}.*between 0 and 1"):
            lz.bayes_factor(made(-1), made(-2), ci_prob=ci_prob)
    with pytest.raises(TypeError, match="b is of type float"):
        lz.bayes_factor(made(-1), -2.0)


# --- evidence ----------------------------------------------------------------------------------


def test_evidence_of_a_tree_is_computed_again(run: xr.DataTree) -> None:
    """Would catch an estimate that is copied, or an argument that is changed in place."""
    changed = run.copy(deep=True)
    changed["weighted_posterior"]["log_weight"] = run["weighted_posterior"]["log_weight"] + 2.0
    before = changed["evidence"].to_dataset().copy(deep=True)
    again = lz.evidence(changed)
    assert models.log_z_of(again)[0] == pytest.approx(models.log_z_of(run)[0] + 2.0)
    xr.testing.assert_identical(changed["evidence"].to_dataset(), before)
    xr.testing.assert_equal(lz.evidence(run)["evidence"].to_dataset(), run["evidence"].to_dataset())


def test_evidence_of_a_model_is_a_run(run: xr.DataTree) -> None:
    """Would catch keyword arguments that do not reach the run."""
    tree = models.quick(models.normal_normal(), **SMALL)
    again = lz.evidence(
        models.normal_normal(), **SMALL, chains=2, cores=1, random_seed=1, progressbar=False
    )
    xr.testing.assert_equal(again["weighted_posterior"], tree["weighted_posterior"])


def test_evidence_of_something_else() -> None:
    """Would catch an AttributeError where a sentence is due."""
    with pytest.raises(TypeError, match=r"is of type dict.*sample_hais"):
        lz.evidence({"a": 1})
    posterior = xr.DataTree.from_dict({"/posterior": xr.Dataset()})
    with pytest.raises(ValueError, match=r"no model was given: write evidence\(idata, model\)"):
        lz.evidence(posterior)
    with pytest.raises(TypeError, match=r"'draws'.*only when a model is given"):
        lz.evidence(made(-1), draws=10)


# --- model_weights ------------------------------------------------------------------------------


def predicting(log_z: float, value: float) -> xr.DataTree:
    """A tree with an evidence and with predictions that are all the same."""
    tree = made(log_z)
    group = from_dict({"posterior_predictive": {"y": np.full((2, 500, 3), value)}})
    tree["posterior_predictive"] = group["posterior_predictive"]
    return tree


def test_model_weights_average_predictions_in_arviz() -> None:
    """Would catch weights in the order of the ranks, which ArviZ would give to other models."""
    trees = {"a": predicting(-11.0, 1.0), "b": predicting(-10.0, 2.0)}
    weights = lz.model_weights(trees)
    assert list(weights.index) == ["a", "b"]
    np.testing.assert_allclose(weights, expit([-1.0, 1.0]))
    mixed = weight_predictions([trees[name] for name in weights.index], weights=weights)
    share = (mixed["posterior_predictive"]["y"] == 2.0).mean()
    assert float(share) == pytest.approx(weights["b"], abs=0.003)
    table = lz.compare_evidence(trees, prior_odds=[3, 1])
    pd.testing.assert_series_equal(
        lz.model_weights(table).sort_index(), lz.model_weights(trees, [3, 1]).sort_index()
    )


def test_model_weights_of_an_unknown_model_are_refused() -> None:
    """Would catch NaN weights, and prior odds that are dropped."""
    trees = {"a": made(-11.0), "b": made(np.nan, status="degenerate")}
    with (
        pytest.warns(lz.EvidenceWarning, match="degenerate"),
        pytest.raises(ValueError, match="no usable log Z"),
    ):
        lz.model_weights(trees)
    with pytest.raises(ValueError, match="prior_odds belong to"):
        lz.model_weights(lz.compare_evidence({"a": made(-1), "b": made(-9)}), [1, 2])
