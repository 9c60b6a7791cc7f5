"""Whole numbers that are summed out: what is independent, exact sums, and what is left alone."""

import logging
from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from arviz_base import dict_to_dataset
from scipy import stats
from scipy.special import logsumexp
from support import pymc_models as models
from support.checks import assert_detects
from support.integer_targets import check_counts
from support.label_models import CASES, INDEPENDENT, X, groups, vector

import pymc_logz as lz
from pymc_logz.discrete import summing
from pymc_logz.discrete.independence import SEVERAL, Tracer
from pymc_logz.models.flat import FlatModel, constrain, flatten_model
from pymc_logz.models.preparation import NotSummed, summed_out, with_entries
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.geometric import most_values

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:the model has potentials"),
]
EACH = pytest.mark.parametrize("name", CASES)


def fresh(body: Callable[[], None]) -> FlatModel:
    """A model with its whole numbers."""
    with pm.Model() as model:
        body()
    return flatten_model(model, integers=True)


flat_of = cache(fresh)  # one model for all tests, with what is compiled for it


def values_of(flat: FlatModel) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Function from a row to both log densities."""
    inputs, outputs = [flat.point, *flat.inputs], [flat.log_prior, flat.log_ratio]
    function = flat.kept.get(
        "values of a row", lambda: pytensor.function(inputs, outputs, mode="FAST_COMPILE")
    )
    return lambda row: function(row, *flat.values)


@EACH
def test_sums_are_those_over_all_values(name: str) -> None:
    """Catches entries that are taken for independent and are not, and a value that is left out."""
    body, shape = CASES[name]
    whole = flat_of(body)
    summed = summed_out(whole)
    assert isinstance(summed, FlatModel)
    assert summed.summed is not None
    assert summed.summed.plan.shape == shape
    of_whole, of_sum = values_of(whole), values_of(summed)
    row = PriorDraws(whole.model)(np.random.default_rng(1), 1)[0]
    terms = []
    for values in product(*(range(site.lower, site.upper + 1) for site in whole.sites)):
        row[[site.column for site in whole.sites]] = values
        terms.append(of_whole(row))
    prior, ratio = np.array(terms, dtype=float).T
    found = of_sum(row[whole.continuous])
    assert found[0] == pytest.approx(logsumexp(prior), abs=1e-9)
    assert sum(found) == pytest.approx(logsumexp(prior + ratio), abs=1e-9)


@pytest.mark.parametrize("name", ["both", pytest.param("steps", marks=pytest.mark.slow), "vector"])
def test_whole_numbers_are_drawn_again(name: str) -> None:
    """Catches draws of another law than that given the continuous variables, or given others."""
    whole = flat_of(CASES[name][0])
    summed = summed_out(whole)
    assert isinstance(summed, FlatModel)
    row, columns = np.full(whole.n_dims, 0.7), [site.column for site in whole.sites]
    draws = constrain(summed, np.tile(row[whole.continuous], (1_500, 1)))
    names = dict.fromkeys(whole.owners[column] for column in columns)
    joint = np.column_stack([draws[name].reshape(1_500, -1) for name in names])
    assert all(draws[name].dtype.kind == "i" for name in names)
    points = np.array(list(product(*(range(site.lower, site.upper + 1) for site in whole.sites))))
    counts, of_whole = (joint[:, None] == points).all(axis=2).sum(axis=0), values_of(whole)

    def check(at: float) -> None:
        rows = np.full((len(points), whole.n_dims), at)
        rows[:, columns] = points
        log_p = np.array([float(sum(of_whole(row))) for row in rows])
        probability = np.exp(log_p - logsumexp(log_p))
        check_counts(counts, probability)
        assert counts[probability == 0].sum() == 0

    check(0.7)
    assert_detects(check, 0.4)


def test_gradients_past_impossible_values() -> None:
    """Catches a gradient that is NaN where a chain has moves of probability zero."""
    summed = summed_out(flat_of(vector))
    assert isinstance(summed, FlatModel)
    total = summed.log_prior + summed.log_ratio
    function = pytensor.function(
        [summed.point, *summed.inputs], [total, pt.grad(total, summed.point)], mode="FAST_COMPILE"
    )
    row, step = np.array([0.3, -0.5, 0.8]), 1e-5 * np.eye(3)
    by_difference = [(function(row + one)[0] - function(row - one)[0]) / 2e-5 for one in step]
    np.testing.assert_allclose(function(row)[1], by_difference, rtol=1e-6)


def hidden_chain(y: np.ndarray) -> pm.Model:
    """States that stay with probability 0.8, and a mean of each."""
    move = pt.as_tensor([[0.8, 0.2], [0.2, 0.8]])
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0)
        state = pm.Categorical("state", np.ones(2) / 2, shape=y.size)
        pm.Potential("moves", pt.log(2 * move[state[:-1], state[1:]]).sum())
        pm.Normal("y", pt.switch(state, mean, 0.0), 1.0, observed=y)
    return model


@pytest.mark.slow
def test_log_z_of_a_hidden_chain() -> None:
    """Catches a chain that is not summed out by `sample_hais`; the mean by quadrature."""
    y = np.array([0.1, -0.4, 2.2, 1.9, 2.8, 0.3, 2.0, -0.2])
    grid = np.linspace(-16, 16, 2001)
    density = np.stack([stats.norm.pdf(y[:, None], 0 * grid), stats.norm.pdf(y[:, None], grid)])
    forward = 0.5 * density[:, 0]
    for t in range(1, y.size):
        forward = (0.8 * forward + 0.2 * forward[::-1]) * density[:, t]
    mass = forward.sum(axis=0) * stats.norm.pdf(grid, 0, 2)
    exact = float(np.log(mass.sum() * (grid[1] - grid[0])))
    tree = models.quick(hidden_chain(y), sum_out=True)
    models.assert_log_z(tree, exact, within=0.1)
    assert tree["evidence"].attrs["summed_out"] == "['state'] two values at a time"


@EACH
def test_independent_entries_are_in_pieces(name: str) -> None:
    """Catches pieces that are not those of their entry, and densities that are not the whole."""
    body, (_, _, n_alone) = CASES[name]
    n_alone = INDEPENDENT.get(name, n_alone)
    whole = flat_of(body)
    apart = with_entries(whole)
    if n_alone < 2:
        assert apart is whole
        return
    assert apart.entries is not None
    assert len(apart.entries.sites) == n_alone
    of_whole, k = values_of(whole), most_values(apart.entries.sites)
    function = pytensor.function(
        [apart.point, *apart.inputs],
        [apart.log_prior, apart.log_ratio, *apart.entries.reference, *apart.entries.ratio],
        mode="FAST_COMPILE",
    )
    rng = np.random.default_rng(2)
    for row in PriorDraws(whole.model)(rng, 5):
        exact = np.array(of_whole(row), dtype=float)
        before = function(row, *apart.values)
        np.testing.assert_allclose(before[:2], exact, rtol=1e-9)
        for i, site in enumerate(apart.entries.sites):
            row[site.column] = rng.integers(site.lower, site.upper + 1)
            chosen = [int(row[one.column]) - one.lower for one in apart.entries.sites]
            found = [
                rest + pieces.reshape(k, n_alone)[chosen, np.arange(n_alone)].sum()
                for rest, pieces in (before[2:4], before[4:])
            ]
            np.testing.assert_allclose(found, np.array(of_whole(row), dtype=float), rtol=1e-9)
            assert i < n_alone


def test_new_indices_are_followed_anew() -> None:
    """Catches owners of entries that were read from data of before."""
    with pm.Model() as model:
        group = pm.Data("group", np.array([0, 0, 1, 1]))
        mean, label = pm.Normal("mean"), pm.Bernoulli("label", 0.3, shape=2)
        pm.Normal("y", mean * label[group], 1.0, observed=X)
    row = np.array([0.7])
    for indices in ([0, 0, 1, 1], [1, 0, 1, 0]):
        pm.set_data({"group": indices}, model=model)
        summed = summed_out(flatten_model(model, integers=True))
        assert isinstance(summed, FlatModel)
        exact = stats.norm.logpdf(0.7)
        for i in (0, 1):
            own = X[np.array(indices) == i]
            terms = [stats.norm.logpdf(own, 0.7 * k).sum() for k in (0, 1)]
            exact += logsumexp(terms, b=[0.7, 0.3])
        assert sum(values_of(summed)(row)) == pytest.approx(exact, abs=1e-9)
        apart = with_entries(flatten_model(model, integers=True))
        assert apart.entries is not None
        whole = values_of(flatten_model(model, integers=True))
        at_row = np.array([0.7, 1.0, 0.0])
        assert sum(values_of(apart)(at_row)) == pytest.approx(sum(whole(at_row)))


LEFT = {
    "endless": (
        lambda: pm.Normal(
            "y", pm.Normal("a") + pm.NegativeBinomial("k", 300, 0.2), 1, observed=1.0
        ),
        "end",
    ),
    "too_many": (
        lambda: pm.Normal(
            "y", pm.Normal("a") * pm.Bernoulli("k", 0.5, shape=13).sum(), 1, observed=1.0
        ),
        "depend on each other, and have 8,192 combinations",
    ),
    "endless_alone": (lambda: pm.Normal("y", pm.Poisson("k", 3), 1, observed=1.0), "end"),
    "nothing_else": (
        lambda: pm.Normal("y", pm.Bernoulli("k", 0.5), 1, observed=1.0),
        "no continuous variable",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_summed_is_left(name: str) -> None:
    """Catches a sum that is not all of it, and an error without a remedy."""
    body, reason = LEFT[name]
    whole = flat_of(body)  # type: ignore[arg-type]
    found = summed_out(whole)
    assert isinstance(found, NotSummed)
    assert reason in found.reason
    if "sum_out=True" in found.reason:
        return
    with pytest.raises(lz.DiscreteVariableError, match=r"\['k'\] are not summed out.*sample_hais"):
        lz.sample_hais(model=whole.model, sum_out=True, progressbar=False)


def test_pieces_that_do_not_add_up_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positive control: a graph that is read wrongly is found by its values."""
    gathered = summing._gathered

    def halved(*args: object) -> summing.Owned:
        found = gathered(*args)
        return found._replace(of_entry=found.of_entry * 0.5)

    monkeypatch.setattr(summing, "_gathered", halved)
    found = summed_out(fresh(groups))
    assert isinstance(found, NotSummed)
    assert "do not add up" in found.reason


def test_owners_are_followed_through_a_graph() -> None:
    """Catches an operation that mixes elements and is taken for one that does not."""
    z, a = pt.lvector("z"), pt.dvector("a")
    at = {z: np.array([0, 1, 0]), a: np.array([1.0, 2.0])}
    taken = z[np.array([2, 2, 0])]
    of_one = [a[z], pt.exp(z)[1:], (z[:, None] * a).sum(axis=1), taken, pt.stack([z[1]])]
    apart = [*of_one, z[1:] * z[:-1], a[z[:2]].sum()]
    mixed = [z.sum(), pt.cumsum(z), pt.sort(z), a[z].sum(), pt.dot(z, z)]
    tracer = Tracer([*apart, *mixed], at)
    owners = tracer.owners({z: np.arange(3)})
    single = [[0, 1, 2], [1, 2], [0, 1, 2], [2, 2, 0], [1]]
    expected = [*(np.stack([one, one], axis=-1) for one in single), [[0, 1], [1, 2]], [0, 1]]
    for found, right in zip(owners, expected, strict=False):
        np.testing.assert_array_equal(found, right)
    assert all(np.any(found == SEVERAL) for found in owners[len(apart) :])


@cache
def enumerated() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, labels, and the log density of each pair, of `groups`."""
    whole = flat_of(groups)
    of_whole, grid = values_of(whole), np.linspace(-6, 6, 241)
    labels = np.array(list(product((0, 1), repeat=2)))
    rows = np.zeros((grid.size, len(labels), whole.n_dims))
    rows[..., whole.continuous] = grid[:, None, None]
    rows[..., [site.column for site in whole.sites]] = labels
    return grid, labels, np.apply_along_axis(lambda row: float(sum(of_whole(row))), 2, rows)


@pytest.mark.usefixtures("no_look_from_prior")
def test_evidence_sums_out_and_says_so() -> None:
    """Catches a model of which evidence moves labels that it could sum out; by enumeration."""
    grid, labels, log_p = enumerated()
    log_z = float(logsumexp(log_p) + np.log(grid[1] - grid[0]))
    tree = lz.evidence(flat_of(groups).model, chains=2, random_seed=1, progressbar=False)
    models.assert_log_z(tree, log_z, within=0.05)
    assert tree["evidence"].attrs["summed_out"] == "['label'] one value at a time"
    assert "summed out" in tree["evidence"].attrs["reason"]
    assert tree["evidence"]["estimator"].values.tolist() == ["hais", "importance"]
    exact = np.exp(log_p - logsumexp(log_p)).sum(axis=0) @ labels
    label = tree["posterior"]["label"].to_numpy().reshape(-1, 2)
    assert label.dtype.kind == "i"
    assert np.all((label.mean(axis=0) - exact) ** 2 < 50 * exact * (1 - exact) / len(label))


def test_names_in_messages_are_those_of_the_model(caplog: pytest.LogCaptureFixture) -> None:
    """Catches a name in other letters than the model's, and numbers that move without a word."""
    with pm.Model() as model:
        pm.Binomial("y", n=pm.Poisson("N_all", 5.0), p=0.5, observed=2)
    with caplog.at_level(logging.INFO, logger="pymc.pymc_logz"):
        tree = lz.evidence(model, chains=2, random_seed=1, progressbar=False)
    assert "The discrete variables ['N_all'] are not summed out: the values" in caplog.text
    assert "moved: ['N_all']" in tree["evidence"].attrs["reason"]


def test_a_bridge_sums_out() -> None:
    """Catches a bridge that refuses what it can sum, or compares it with another density."""
    grid, labels, log_p = enumerated()
    step, rng = grid[1] - grid[0], np.random.default_rng(1)
    drawn = rng.choice(log_p.size, 1_000, p=np.exp(log_p - logsumexp(log_p)).ravel())
    mean = grid[drawn // len(labels)] + step * rng.uniform(-0.5, 0.5, 1_000)
    label = labels[drawn % len(labels)]
    draws = {"mean": mean.reshape(2, 500), "label": label.reshape(2, 500, 2)}
    posterior = xr.DataTree.from_dict({"posterior": dict_to_dataset(draws)})
    tree = lz.bridge_sampling(posterior, flat_of(groups).model, random_seed=1, progressbar=False)
    models.assert_log_z(tree, float(logsumexp(log_p) + np.log(step)), within=0.05)
    assert tree["evidence"].attrs["summed_out"] == "['label'] one value at a time"
