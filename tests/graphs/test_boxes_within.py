"""Black boxes within other operations: inner graphs, rows of a Blockwise, entries, summed models.

What is promised of a black box holds there too: JAX runs the model, faults are named, inputs are
copied.
"""

from typing import ClassVar

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.gradient import DisconnectedType
from pytensor.graph.op import Op
from pytensor.scalar.basic import UnaryScalarOp, upgrade_to_float
from pytensor.tensor.elemwise import Elemwise
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from support.counted_ops import Counted

import pymc_logz as lz
from pymc_logz.graphs.gradients import columns_of_boxes
from pymc_logz.graphs.host_calls import calls_host, with_host_calls
from pymc_logz.graphs.numpy_linker import numpy_mode
from pymc_logz.models.density import lacks_gradient
from pymc_logz.models.flat import flatten_model

X = np.linspace(-1, 1, 10)
Y = 1 + 2 * X + 0.5 * np.random.default_rng(1).normal(size=10)
COV = 0.25 * np.eye(10) + 4 * (1 + np.outer(X, X))
TRUTH = multivariate_normal(np.zeros(10), COV).logpdf(Y)
FAST = {"random_seed": 1, "progressbar": False}
pytestmark = [
    pytest.mark.filterwarnings("ignore:the model has potentials"),
    pytest.mark.usefixtures("no_look_in_this_file"),
]


class Terms(Op):
    """Log likelihoods of data by a straight line, of a shape that is not declared."""

    itypes: ClassVar = [pt.dvector]
    otypes: ClassVar = [pt.dvector]

    def perform(self, node, inputs, outputs):
        outputs[0][0] = self.value(inputs[0])

    def value(self, t):
        return -0.5 * ((Y - t[0] - t[1] * X) / 0.5) ** 2 - np.log(0.5 * np.sqrt(2 * np.pi))


class Overwrites(Terms):
    """One that writes into its input."""

    def value(self, t):
        found = super().value(t)
        t[:] = 7
        return found


class Shortens(Terms):
    """One that loses a datum in a part of the prior."""

    def value(self, t):
        return super().value(t)[: 9 if t[0] > 1 else 10]


class Raises(Terms):
    """One that fails in a part of the prior."""

    def value(self, t):
        if t[0] > 1:
            raise ArithmeticError("the solver did not converge")
        return super().value(t)


class Unbounded(Terms):
    """One whose likelihood is infinite in a part of the prior."""

    def value(self, t):
        return super().value(t) + (np.inf if t[0] > 1 else 0)


class Slopes(Terms):
    """Gradient of the sum of the terms."""

    def value(self, t):
        residual = (Y - t[0] - t[1] * X) / 0.25
        return np.array([residual.sum(), (residual * X).sum()])


class Total(Terms):
    """The sum of the terms, with a gradient of its own."""

    otypes: ClassVar = [pt.dscalar]

    def value(self, t):
        return super().value(t).sum()

    def pullback(self, inputs, outputs, cotangents):
        return [cotangents[0] * Slopes()(inputs[0])]


def in_a_graph(op, t):
    x = pt.dvector()
    return OpFromGraph([x], [op(x)])(t)


def with_own_gradient(op, t):
    x = pt.dvector()
    total = OpFromGraph([x], [op(x).sum()], pullback=lambda i, o, c: [c[0] * Slopes()(i[0])])
    return total(t)


def in_rows(op, t):
    return pt.vectorize(op, "(n)->(m)")(t[None])[0]


def in_rows_of_graphs(op, t):
    return pt.vectorize(lambda row: in_a_graph(op, row), "(n)->(m)")(t[None])[0]


def in_a_loop(op, t):
    half = pytensor.scan(
        lambda i, t: op(t) * i, pt.constant([0.25, 0.75]), [None], [t], return_updates=False
    )
    return half.sum(axis=0)


def beside_a_coin(op, t):
    return op(t + 0 * pm.Bernoulli("coin", 0.5))


WAYS = [
    pytest.param(in_a_graph, marks=pytest.mark.slow),  # beside the one with a gradient
    with_own_gradient,
    in_rows,
    pytest.param(in_rows_of_graphs, marks=pytest.mark.slow),  # beside its two parts
    in_a_loop,
    beside_a_coin,
]


def model_of(way, op):
    with pm.Model() as model:
        pm.Potential("likelihood", way(op, pm.Normal("t", 0, 2, shape=2)).sum())
    return model


@pytest.mark.parametrize("way", WAYS)
def test_a_box_within_is_called_with_inputs_of_its_own(way):
    """Would catch JAX that gives up, and rows that a box has written into."""
    tree = lz.evidence(model_of(way, Overwrites()), **FAST)
    entry = tree["evidence"].isel(estimator=0)
    assert tree["evidence"].attrs["backend"] == "jax"
    assert ("run_row_gradients" in tree["evidence"].attrs) == (way is with_own_gradient)
    assert abs(entry["log_z"].item() - TRUTH) < 4 * entry["mcse"].item() + 1e-3


@pytest.mark.parametrize("way", WAYS)
def test_faults_within_are_named(way):
    with pytest.raises(ValueError, match=r"Shortens.*of shape \(9,\).*must have shape \(10\)"):
        lz.sample_hais(model=model_of(way, Shortens()), sum_out=True, **FAST)
    with pytest.raises(ArithmeticError) as raised:
        lz.sample_hais(model=model_of(way, Raises()), sum_out=True, **FAST)
    assert str(raised.value) == "the solver did not converge"
    assert raised.value.__notes__[0].startswith("raised by Raises, an Op of the model, at [array(")


def test_an_infinite_likelihood_beside_a_coin_is_named():
    with pytest.raises(lz.ModelError, match=r"infinite.* at t=\[.*coin="):
        lz.sample_hais(model=model_of(beside_a_coin, Unbounded()), sum_out=True, **FAST)


@pytest.mark.parametrize("way", [in_a_graph, in_rows, in_rows_of_graphs, in_a_loop])
def test_gradients_of_boxes_within(way):
    """Would catch a gradient that is lost, or said to be there where it is not."""

    def by_row(op, t):
        return way(op, t) if way is in_a_graph or way is in_a_loop else by_rows(op, t)

    def by_rows(op, t):
        return pt.vectorize(op, "(n)->()")(t[None])

    assert lacks_gradient(flatten_model(model_of(by_row, Total()))) is None
    flat = flatten_model(model_of(way, Terms()))
    assert "Terms" in lacks_gradient(flat)
    assert columns_of_boxes([flat.log_ratio], flat.point) == {0, 1}


def test_of_no_rows_no_shape_is_known_and_nothing_fails():
    rows = pt.matrix("rows", shape=(0, 2))
    [found] = with_host_calls([pt.vectorize(Terms(), "(n)->(m)")(rows)], {rows: np.zeros((0, 2))})
    assert calls_host([found])


class Tanh(UnaryScalarOp):
    """A function of numbers, known to Python alone."""

    def impl(self, x):
        return np.tanh(x)


class TanhWithSlope(Tanh):
    """The same with a gradient of its own."""

    def pullback(self, inputs, outputs, cotangents):
        return [cotangents[0] * (1 - outputs[0] ** 2)]


class NumpysTanh(Tanh):
    """The same for which PyTensor is told of NumPy's function."""

    nfunc_spec = ("tanh", 1, 1)


@pytest.mark.parametrize(
    ("kind", "lacks"),
    [pytest.param(Tanh, True, marks=pytest.mark.slow), (TanhWithSlope, False)],
)
def test_a_function_of_numbers(kind, lacks):
    """Would catch an error about a method of a class, where a random walk needs no gradient."""
    op = Elemwise(kind(upgrade_to_float, name="tanh"))
    with pm.Model() as model:
        t = pm.Normal("t", 0, 2, shape=2)
        pm.Normal("y", op(t[0]) + t[1] * X, 0.5, observed=Y)
    assert (lacks_gradient(flatten_model(model)) is not None) == lacks
    tree = lz.sample_hais(256, 2, model=model, **FAST)
    assert tree["evidence"].attrs["backend"] == "jax"
    assert ("run_row_gradients" in tree["evidence"].attrs) != lacks
    entry = tree["evidence"].isel(estimator=0)
    grid = np.linspace(-12, 12, 2001)
    normal = multivariate_normal(np.zeros(10), 0.25 * np.eye(10) + 4 * np.outer(X, X))
    log_p = norm(0, 2).logpdf(grid) + normal.logpdf(Y - np.tanh(grid)[:, None])
    exact = logsumexp(log_p) + np.log(grid[1] - grid[0])
    assert abs(entry["log_z"].item() - exact) < 4 * entry["mcse"].item()


def test_what_numpy_computes_is_no_black_box_and_may_lack_a_gradient():
    op = Elemwise(NumpysTanh(upgrade_to_float, name="tanh"))
    with pm.Model() as model:
        pm.Potential("likelihood", op(pm.Normal("t")))
    flat = flatten_model(model)
    assert not flat.calls_host
    assert lacks_gradient(flat) is not None


def test_a_function_of_numbers_may_lack_a_gradient():
    op = Elemwise(Tanh(upgrade_to_float, name="tanh"))
    with pm.Model() as model:
        pm.Potential("likelihood", op(pm.Normal("t")))
    flat = flatten_model(model)
    assert flat.calls_host
    assert lacks_gradient(flat) is not None


@pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning")
def test_a_gradient_of_open_shape_beside_a_constant():
    """Would catch constants among the inputs of a function that looks for shapes."""

    class Beside(Total):
        itypes: ClassVar = [pt.dvector, pt.dvector]

        def connection_pattern(self, node):
            return [[True], [False]]

        def pullback(self, inputs, outputs, cotangents):
            return [*super().pullback(inputs, outputs, cotangents), DisconnectedType()()]

    model = model_of(lambda op, t: op(t, pt.constant(X)), Beside())
    tree = lz.sample_hais(64, 1, model=model, betas=8, tune=8, **FAST)
    assert tree["evidence"].attrs["backend"] == "jax"


@pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning")
def test_deterministics_see_inputs_that_no_box_has_written_into():
    class Line(Overwrites):
        def value(self, t):
            line = t[0] + t[1] * X
            t[:] = 7
            return line

    with pm.Model() as model:
        t = pm.Normal("t", 0, 2, shape=2)
        before = pm.Deterministic("before", Line()(t))
        pm.Deterministic("after", t + 0.0)
        pm.Normal("y", before, 0.5, observed=Y)
    posterior = lz.sample_hais(64, 1, model=model, betas=8, tune=8, **FAST)["weighted_posterior"]
    np.testing.assert_allclose(posterior["after"], posterior["t"])


class Sum(Counted):
    """A sum of two inputs."""

    itypes: ClassVar = [pt.dscalar, pt.dvector]
    otypes: ClassVar = [pt.TensorType("float64", shape=(4,))]

    def perform(self, node, inputs, outputs):
        self.n_calls += 1
        outputs[0][0] = inputs[0] + inputs[1]


class SumWithSlope(Sum):
    """The same with a gradient of its own."""

    def pullback(self, inputs, outputs, cotangents):
        return [cotangents[0].sum(), cotangents[0]]


NUMBA = pytest.mark.slow, pytest.mark.filterwarnings("ignore:Numba will use object mode")


# each Op and each of the two backends once by default
@pytest.mark.parametrize(
    ("op", "mode"),
    [
        (SumWithSlope, "JAX"),
        (Sum, numpy_mode()),
        pytest.param(Sum, "JAX", marks=pytest.mark.slow),
        pytest.param(SumWithSlope, numpy_mode(), marks=pytest.mark.slow),
        *(pytest.param(op, "NUMBA", marks=NUMBA) for op in (Sum, SumWithSlope)),
    ],
)
def test_inputs_that_vary_along_axes_of_their_own(op, mode):
    """Would catch an input that counts as shared by all rows since it varies along one axis."""
    y = np.random.default_rng(3).normal(size=4)
    with pm.Model() as model:
        a, k = pm.Normal("a"), pm.Bernoulli("k", 0.3)
        pm.Normal("y", op()(a, pt.stack([k, 0, k, 0]).astype("float64")), observed=y)
    tree = lz.sample_hais(model=model, compile_kwargs={"mode": mode}, **FAST)
    means, cov = ([0, 0, 0, 0], [1, 0, 1, 0]), np.eye(4) + 1
    parts = [multivariate_normal(mean, cov).logpdf(y) for mean in means]
    truth = np.logaddexp(np.log(0.7) + parts[0], np.log(0.3) + parts[1])
    found = tree["evidence"].isel(estimator=0)
    assert abs(float(found["log_z"]) - truth) < 4 * float(found["mcse"])


def test_each_pair_of_two_axes_is_called_once():
    op = Sum()
    inputs = [pt.dscalar("a"), pt.tensor("b", shape=(4,), dtype="float64")]
    node = with_host_calls([op(*inputs)], {})[0].owner
    a, b, rows = np.arange(3.0), np.arange(8.0).reshape(2, 4), np.arange(5.0)
    [values] = node.op.called_for_rows(node, a[:, None], b[None])
    assert op.n_calls == 6
    np.testing.assert_array_equal(values, a[:, None, None] + b)
    node.op.called_for_rows(node, rows, b[:1])
    assert op.n_calls == 6 + 5
