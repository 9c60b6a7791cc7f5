"""Simplified graphs are worth the same, gradients too, and really are simpler."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors, applys_between
from pytensor.scalar.basic import Log, Log1p
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum
from support.checks import make_rng

from pymc_logz.graphs.gradients import gradients_of
from pymc_logz.graphs.simplify import BranchlessSoftplus, simplify
from pymc_logz.models.flat import flatten_model

LOGITS = np.array([-800.0, -300.0, -36.5, -20.0, -1.0, 0.0, 2.0, 17.9, 33.0, 40.0, 700.0])
Y = np.array([0, 1, 1, 0, 1, 0, 1, 0, 0, 1, 0])


def binary_model(use_logit: bool) -> pm.Model:
    """Logits a and b of unequal signs and sizes."""
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 2, shape=2)
        logit = slope[0] + slope[1] * LOGITS / 100
        if use_logit:
            pm.Bernoulli("y", logit_p=logit, observed=Y)
        else:
            pm.Bernoulli("y", p=pm.math.invlogit(logit), observed=Y)
    return model


def operations(outputs: list, inputs: list) -> list[str]:
    return [str(node.op) for node in applys_between(inputs, outputs)]


@pytest.mark.parametrize("use_logit", [True, False])
def test_binary_likelihood_needs_one_softplus(use_logit: bool) -> None:
    """Catches a rewrite that PyTensor's own graphs do not match any more."""
    flat = flatten_model(binary_model(use_logit))
    [simple] = simplify([flat.log_ratio])
    names = operations([simple], [flat.point])
    assert sum("oftplus" in name for name in names) == 1
    [gradient] = gradients_of([simple], flat.point)
    assert np.all([name != "All" for name in operations([gradient], [flat.point])])


@pytest.mark.parametrize("use_logit", [True, False])
@pytest.mark.parametrize("mode", ["JAX", "FAST_COMPILE"])
def test_simplified_values_and_gradients_are_the_same(use_logit: bool, mode: str) -> None:
    """Catches a branch taken for the other one, or precision lost far out."""
    if mode == "JAX":
        pytest.importorskip("jax", reason="needs the jax extra")
    flat = flatten_model(binary_model(use_logit))
    [simple] = simplify([flat.log_ratio])
    value = pytensor.function(
        [flat.point],
        [simple, *gradients_of([simple], flat.point)],
        mode=mode,
        on_unused_input="ignore",
    )
    rng = make_rng("simplify")
    for _ in range(5):
        a, b = rng.normal(0.3, 2, size=2)
        logit = a + b * LOGITS / 100
        exact = -np.logaddexp(0, np.where(Y, -logit, logit)).sum()
        residual = Y - np.exp(-np.logaddexp(0, -logit))
        got, gradient = value(np.array([a, b]))
        np.testing.assert_allclose(got, exact, rtol=1e-10)
        slopes = [residual.sum(), (residual * LOGITS / 100).sum()]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-9, atol=1e-9)


def test_softplus_keeps_its_relative_accuracy() -> None:
    """Catches a form that rounds small values to zero, whose logarithm would be -inf."""
    x = pt.vector("x", dtype="float64")
    [simple] = simplify([pt.softplus(x)])
    assert type(simple.owner.op.scalar_op) is BranchlessSoftplus
    exact = np.logaddexp(0, LOGITS)
    for mode in ("FAST_COMPILE", "JAX"):
        if mode == "JAX":
            pytest.importorskip("jax", reason="needs the jax extra")
        got, slope = pytensor.function([x], [simple, pt.grad(simple.sum(), x)], mode=mode)(LOGITS)
        np.testing.assert_allclose(got, exact, rtol=1e-13)
        np.testing.assert_allclose(slope, np.exp(-np.logaddexp(0, -LOGITS)), rtol=1e-12)


def test_switch_of_two_functions_stays() -> None:
    """Catches branches merged that differ in more than one input, or in their function."""
    x, c = pt.vector("x", dtype="float64"), pt.vector("c", dtype="bool")
    values, chosen = np.array([0.3, 1.2, 2.5]), np.array([True, False, True])
    for graph in (
        pt.switch(c, pt.exp(x), pt.log(x)),
        pt.switch(c, x**2, x**3),
        pt.switch(c, x * 3, (x + 1) * 2),
        pt.switch(c, pt.exp(x), pt.exp(2 * x + 1)),
        pt.switch(c, pt.exp(x[0]), pt.exp(x)),
    ):
        [simple] = simplify([graph])
        one, other = (
            pytensor.function([x, c], g, mode="FAST_COMPILE")(values, chosen)
            for g in (graph, simple)
        )
        np.testing.assert_allclose(one, other, rtol=1e-14)


def change_points(n_changes: int) -> tuple[list, Any]:
    """Log density of counts of years whose rate changes once or twice, and what it depends on."""
    years, counts = np.arange(40), np.arange(40) % 7
    changes, rates = pt.vector("change", dtype="int64"), pt.vector("rate", dtype="float64")
    rate = rates[0]
    for i in range(n_changes):
        rate = pt.switch(years <= changes[i], rate, rates[i + 1])
    return [changes, rates], pm.logp(pm.Poisson.dist(rate), counts).sum()


@pytest.mark.parametrize("n_changes", [1, 2])
def test_logarithm_of_few_rates(n_changes: int) -> None:
    """Catches a logarithm for each year, a branch for the other, and a gradient of no branch."""
    inputs, total = change_points(n_changes)
    [simple] = simplify([total])
    logs = [
        node.outputs[0].type.shape
        for node in applys_between(inputs, [simple])
        if isinstance(node.op, Elemwise) and type(node.op.scalar_op) in (Log, Log1p)
    ]
    assert logs
    assert all(np.prod(shape) == 1 for shape in logs)
    [again] = simplify([simple])
    outputs = [[one, pt.grad(one, inputs[1])] for one in (total, simple, again)]
    functions = [pytensor.function(inputs, one, mode="FAST_COMPILE") for one in outputs]
    rates = np.array([0.3, 4.0, 1.5])[: n_changes + 1]
    for changes in ([5, 20], [39, 39], [20, 5], [0, 39]):
        first, *others = (one(np.array(changes[:n_changes]), rates) for one in functions)
        for other in others:
            np.testing.assert_allclose(other[0], first[0], rtol=1e-13)
            np.testing.assert_allclose(other[1], first[1], rtol=1e-12)


def test_what_nothing_chooses_has_no_gradient() -> None:
    """Catches exp of a branch that overflows where nothing chooses it: its gradient is 0 * inf."""
    x, years = pt.vector("x", dtype="float64"), np.arange(10)
    total = pt.exp(pt.switch(years <= 20, x[0], x[1])).sum()
    [simple] = simplify([total])
    slope = pytensor.function([x], pt.grad(simple, x), mode="FAST_COMPILE")
    np.testing.assert_allclose(slope(np.array([1.0, 800.0])), [10 * np.e, 0.0])


def test_check_of_other_probabilities_stays() -> None:
    """Catches a parameter check dropped where it can fail."""
    with pm.Model() as model:
        p = pm.Normal("p", 0.5, 1)
        pm.Bernoulli("y", p=p, observed=Y)
    flat = flatten_model(model)
    [simple] = simplify([flat.log_ratio])
    value = pytensor.function([flat.point], simple, mode="FAST_COMPILE")
    assert [value(np.array([p])) for p in (-0.5, 1.5)] == [-np.inf, -np.inf]
    assert np.isfinite(value(np.array([0.5])))


@pytest.mark.parametrize("y", [[0, 1, 1], [0, 3, 1]], ids=["possible", "impossible"])
def test_impossible_data_are_asked_for_once(y: list[int]) -> None:
    """Catches a question about data in the loop over rows, and one that is never asked."""
    with pm.Model() as model:
        mean = pm.Normal("mean", shape=3)
        pm.Bernoulli("y", logit_p=mean, observed=pm.Data("data", np.array(y)))
    flat = flatten_model(model)
    [simple] = simplify([flat.log_ratio], flat.inputs)
    row = np.array([0.3, -1.0, 2.0])
    function = pytensor.function([flat.point, *flat.inputs], simple, mode="FAST_COMPILE")
    expected = model.compile_logp(vars=model.observed_RVs, mode="FAST_COMPILE")({"mean": row})
    assert function(row, *flat.values) == pytest.approx(expected)
    [total] = [node for node in applys_between([], [simple]) if isinstance(node.op, Sum)]
    assert flat.inputs[0] in ancestors([total.inputs[0]])
    masks = [var for var in ancestors([total.inputs[0]]) if isinstance(var, Constant)]
    assert not any(np.any(np.isneginf(var.data)) for var in masks)


def test_a_mask_that_repeats_a_value_stays() -> None:
    """Catches a sum over fewer entries than before."""
    data, value = pt.tensor("data", shape=(3,), dtype="int64"), pt.tensor("value", shape=(1,))
    total = pt.switch(data > 5, -np.inf, value).sum()
    [simple] = simplify([total], [data])
    function = pytensor.function([data, value], simple, mode="FAST_COMPILE")
    assert function(np.array([1, 2, 3]), np.array([2.0])) == 6.0


def test_powers_keep_their_gradients() -> None:
    """Catches special forms of powers, which have no gradient."""
    x = pt.vector("x", shape=(2,))
    [simple] = simplify([(x**4 + x**-3).sum()])
    value = np.array([2.0, -1.0])
    gradient = pytensor.function([x], pt.grad(simple, x), mode="FAST_COMPILE")(value)
    np.testing.assert_allclose(gradient, 4 * value**3 - 3 * value**-4)


def test_logits_that_are_products_have_branches_of_unequal_lengths() -> None:
    """Catches `-(a b)` beside `a b`, of which logits of item responses consist."""
    with pm.Model() as model:
        ability, slope = pm.Normal("ability", 0, 1, shape=3), pm.Normal("slope", 0, 1, shape=2)
        y = np.array([[0, 1], [1, 1], [0, 0]])
        pm.Bernoulli("y", logit_p=slope * (ability[:, None] - 0.3), observed=y)
    flat = flatten_model(model)
    [simple] = simplify([flat.log_ratio])
    point = make_rng(5).normal(size=5)
    logit = point[3:] * (point[:3, None] - 0.3)
    value = float(simple.eval({flat.point: point}))
    np.testing.assert_allclose(value, (y * logit - np.logaddexp(0, logit)).sum(), rtol=1e-12)


SHAPES = [
    (pm.Gamma, {"beta": 1.3}, 1.0),
    (pm.InverseGamma, {"beta": 0.7}, -1.0),
    (pm.Weibull, {"beta": 1.0}, 1.0),
    (pm.Beta, {"beta": 2.0}, 1.0),
]


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize(
    ("distribution", "other", "sign"), SHAPES, ids=[one[0].__name__ for one in SHAPES]
)
def test_a_shape_that_is_next_to_zero_is_not_lost_in_one(
    distribution: Any, other: dict[str, float], sign: float, size: int | None
) -> None:
    """Catches a density that is level where it falls by ``a x``, and one that is another elsewhere.

    By rounding, log Z of counts of which all rates may vanish was infinite, or 0.2 nats low.
    """
    with pm.Model() as model:
        log_shape = pm.Normal("log_shape")
        distribution("x", pt.exp(log_shape), **other, shape=size)
    before = model.logp(sum=False)[1]
    [after] = simplify([before])
    both = pytensor.function(model.value_vars, [before, after], mode="FAST_COMPILE")
    rng = make_rng("shapes")
    for _ in range(20):
        np.testing.assert_allclose(*both(rng.normal(), rng.normal(0, 2, size)), rtol=1e-8)
    # the log of a shape of -40, and x far out on the side where x times the shape is small
    heights = [np.ravel(both(-40.0, np.full(size or (), sign * -x))[1])[0] for x in (1e19, 2e19)]
    assert heights[0] - heights[1] == pytest.approx(np.exp(-40.0) * 1e19, rel=1e-6)
