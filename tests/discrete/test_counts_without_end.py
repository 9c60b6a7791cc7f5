"""Counts without an end: those that nothing depends on, and others as far as the prior goes."""

import re
from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import logsumexp
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz.models.flat import FlatModel, constrain, flatten_model
from pymc_logz.models.preparation import summed_out

pytestmark = pytest.mark.filterwarnings("ignore:the model has potentials")
X = np.array([1.8, -0.4, 0.9, 2.2])


def summed(body: Callable[[], None]) -> FlatModel:
    """A model without its counts."""
    with pm.Model() as model:
        body()
    found = summed_out(flatten_model(model, integers=True))
    assert isinstance(found, FlatModel)
    return found


def log_densities(flat: FlatModel, row: list[float]) -> list[np.ndarray]:
    """Log prior and log ratio of a row."""
    inputs, outputs = [flat.point, *flat.inputs], [flat.log_prior, flat.log_ratio]
    return pytensor.function(inputs, outputs, mode="FAST_COMPILE")(row, *flat.values)


def route_of(flat: FlatModel) -> str:
    """How its counts were summed."""
    assert flat.summed is not None
    return flat.summed.plan.route


def missing_counts_left_out() -> None:
    """Labels, and one count that was seen."""
    mean, label = pm.Normal("mean"), pm.Bernoulli("label", 0.3, shape=4)
    pm.Normal("y", mean + label, 1.0, observed=X)
    pm.NegativeBinomial("one", mu=pt.exp(mean), alpha=2.0, observed=[3])


def missing_counts() -> None:
    """Counts without end that nothing depends on, one of which decides another; and labels."""
    mean, label = pm.Normal("mean"), pm.Bernoulli("label", 0.3, shape=4)
    pm.Normal("y", mean + label, 1.0, observed=X)
    count = pm.Poisson("count", pt.exp(mean) + label[:2], shape=2)
    pm.Binomial("part", n=count, p=0.5, shape=2)
    seen = np.ma.masked_less([-1, 3], 0)
    with pytest.warns(pm.exceptions.ImputationWarning):
        pm.NegativeBinomial("seen", mu=pt.exp(mean), alpha=2.0, observed=seen)


def counts_that_matter() -> None:
    """The same, of which something depends on the first."""
    missing_counts()
    pm.Potential("more", -pm.modelcontext(None)["count"].sum())


def test_what_nothing_depends_on_needs_no_values() -> None:
    """Catches missing counts that are moved one by one, and draws that are not given the rest."""
    found, right = summed(missing_counts), summed(missing_counts_left_out)
    both = (log_densities(flat, [0.4]) for flat in (found, right))
    np.testing.assert_allclose(*both, rtol=1e-12)
    assert "['count', 'part', 'seen_unobserved'] to one" in route_of(found)
    draws = constrain(found, np.full((4_000, 1), 0.4))
    rate = np.exp(0.4) + draws["label"][:, :2]
    of_count = draws["count"] - rate
    of_part = draws["part"] - 0.5 * draws["count"]
    of_seen = draws["seen_unobserved"] - np.exp(0.4)
    for off in (of_count, of_part, of_count * (draws["label"][:, :2] - 0.5), of_seen):
        assert np.all(np.abs(off.mean(axis=0)) < 5 * off.std(axis=0) / np.sqrt(len(off)))
    assert np.all(draws["part"] <= draws["count"])
    route = route_of(summed(counts_that_matter))
    assert "['label', 'count'] two values at a time" in route
    assert "['part', 'seen_unobserved'] to one" in route
    assert "values of ['count'] up to" in route


def counted_twice() -> pm.Model:
    """Animals at two sites, of which each count sees some."""
    with pm.Model() as model:
        seen = pm.Beta("seen", 3, 3)
        animals = pm.Poisson("animals", pm.Data("mean", 4.0), shape=2)
        pm.Binomial("y", animals[:, None], seen, observed=[[2, 3], [1, 0]])
    return model


def test_counts_without_an_end_are_summed_to_where_the_prior_has_none() -> None:
    """Catches a sum that ends too early, its end where the data of a prior are others, a doubt."""
    model, y = counted_twice(), np.array([[2, 3], [1, 0]])
    n, p = np.arange(200)[:, None, None], np.linspace(1e-6, 1 - 1e-6, 2001)[:, None, None, None]
    for mean in (4.0, 9.0):
        pm.set_data({"mean": mean}, model=model)
        terms = stats.poisson.logpmf(n, mean) + stats.binom.logpmf(y, n, p).sum(-1, keepdims=True)
        at_p = logsumexp(terms, axis=1).sum(axis=(1, 2)) + stats.beta.logpdf(p.ravel(), 3, 3)
        exact = float(logsumexp(at_p) + np.log(p[1, 0, 0, 0] - p[0, 0, 0, 0]))
        tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
        models.assert_log_z(tree, exact, within=0.05)
        route = tree["evidence"].attrs["summed_out"]
        assert re.fullmatch(
            r"\['animals'\] one value at a time; values of \['animals'\] up to \d+", route
        )
        assert int(route.split()[-1]) > 4 * mean


def test_a_sum_that_ends_within_the_posterior_is_doubted() -> None:
    """Catches values that no draw of the prior comes near, and the data ask for."""
    with pm.Model() as model:
        count = pm.Poisson("count", pt.exp(pm.Normal("log_mean", 0, 0.3)))
        pm.Normal("y", count, 0.2, observed=40.0)
    with pytest.warns(lz.EvidenceWarning, match="near the last ones that were summed"):
        tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    assert tree["evidence"]["status"].item() == "missed_mode"
