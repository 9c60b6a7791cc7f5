"""Black boxes: what they compute, with and without a gradient, and what becomes of their faults."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.ops import wrap_py
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import _vectorize_node
from scipy.stats import multivariate_normal
from support.counted_ops import Counted

import pymc_logz as lz
from pymc_logz.graphs.gradients import columns_of_boxes, gradients_of
from pymc_logz.graphs.host_calls import HostCall, with_host_calls
from pymc_logz.graphs.numpy_linker import numpy_mode
from pymc_logz.models.density import lacks_gradient
from pymc_logz.models.flat import flatten_model
from pymc_logz.runners.moves import kernel_for, walkers_for

X = np.linspace(-1, 1, 10)
Y = 1 + 2 * X + 0.5 * np.random.default_rng(1).normal(size=10)
TRUTH = multivariate_normal(np.zeros(10), 0.25 * np.eye(10) + 4 * (1 + np.outer(X, X))).logpdf(Y)
FAST = {"random_seed": 1, "progressbar": False}


def log_likelihood(a, b):
    return -0.5 * np.sum(((Y - a - b * X) / 0.5) ** 2) - 10 * np.log(0.5 * np.sqrt(2 * np.pi))


class Line(Counted):
    """Log likelihood of a straight line."""

    def value(self, a, b):
        return log_likelihood(a, b)


class Slope(Line):
    """Gradient of the log likelihood, of a shape that is not declared."""

    otypes: ClassVar = [pt.dvector]

    def value(self, a, b):
        residual = (Y - a - b * X) / 0.25
        return [residual.sum(), (residual * X).sum()]


class LineWithSlope(Line):
    """The same with a gradient of its own."""

    def pullback(self, inputs, outputs, cotangents):
        return [cotangents[0] * Slope()(*inputs)]


class Raises(Line):
    """A solver that fails."""

    def value(self, a, b):
        raise ArithmeticError("the solver did not converge")


class IsNaN(Line):
    """A likelihood that is NaN in a part of the prior."""

    def value(self, a, b):
        return np.nan if a < -1 else log_likelihood(a, b)


class WrongShape(Line):
    """A likelihood of two numbers in place of one."""

    def value(self, a, b):
        return [0.0, 0.0]


class WrongType(Line):
    """A likelihood whose logarithm went through the complex numbers."""

    def value(self, a, b):
        return complex(log_likelihood(a, b))


class FirstHalf(Line):
    """The likelihood of some of the data."""

    def value(self, a, b):
        residual = (Y - a - b * X)[:5] / 0.5
        return -0.5 * np.sum(residual**2) - 5 * np.log(0.5 * np.sqrt(2 * np.pi))


def model_of(op):
    with pm.Model() as model:
        pm.Potential("likelihood", op(pm.Normal("t", 0, 2, shape=2)))
    return model


def near_truth(tree):
    entry = tree["evidence"].isel(estimator=0)
    return abs(entry["log_z"].item() - TRUTH) < 4 * entry["mcse"].item() + 1e-3


pytestmark = [
    pytest.mark.filterwarnings("ignore:the model has potentials"),
    pytest.mark.usefixtures("no_look_in_this_file"),
]


# the other backend is that of the next test
@pytest.mark.parametrize("mode", [None, pytest.param(numpy_mode(), marks=pytest.mark.slow)])
def test_a_black_box_works_by_default_and_says_how(mode, caplog):
    """Would catch a default kernel that follows gradients, or a box that JAX gives up for."""
    with caplog.at_level(logging.INFO, "pymc.pymc_logz"):
        tree = lz.evidence(
            model_of(Line()), compile_kwargs=None if mode is None else {"mode": mode}, **FAST
        )
    assert near_truth(tree)
    assert tree["evidence"].attrs["backend"] == ("jax" if mode is None else "numpy")
    said = [record.message for record in caplog.records if "random walk" in record.message]
    assert len(said) == 1


def test_without_jax_nothing_is_compiled_for_speed(monkeypatch):
    monkeypatch.setattr("pymc_logz.graphs.compiling.find_spec", lambda name: None)
    tree = lz.sample_hais(model=model_of(Line()), **FAST)
    assert near_truth(tree)
    assert tree["evidence"].attrs["backend"] == "numpy"
    assert "NUMBA" in tree["evidence"].attrs["backend_reason"]
    assert tree["evidence"].attrs["compile_time"] < 20


def test_a_gradient_of_its_own_is_followed():
    model = model_of(LineWithSlope())
    assert lacks_gradient(flatten_model(model)) is None
    assert lacks_gradient(flatten_model(model_of(Line()))) is not None
    tree = lz.sample_hais(model=model, **FAST)
    assert near_truth(tree)
    assert tree["evidence"].attrs["run_row_gradients"] > 0
    assert tree["evidence"].attrs["backend"] == "jax"


def test_reference_at_the_mode_steps_aside():
    assert near_truth(lz.sample_hais(model=model_of(Line()), reference="laplace", **FAST))


def test_a_function_of_an_open_shape():
    """Would catch shapes that are only asked of the type: most simulators do not declare them."""

    @wrap_py(itypes=[pt.dvector], otypes=[pt.dvector])
    def line(t):
        return t[0] + t[1] * X

    with pm.Model() as model:
        pm.Normal("y", line(pm.Normal("t", 0, 2, shape=2)), 0.5, observed=Y)
    tree = lz.sample_hais(model=model, **FAST)
    assert near_truth(tree)
    assert tree["evidence"].attrs["backend"] == "jax"


@pytest.mark.parametrize("mode", [None, numpy_mode()])
def test_what_it_raises_comes_as_it_was(mode):
    kwargs = {} if mode is None else {"compile_kwargs": {"mode": mode}}
    with pytest.raises(ArithmeticError, match="did not converge") as raised:
        lz.sample_hais(model=model_of(Raises()), **kwargs, **FAST)
    assert any(entry.name == "value" for entry in raised.traceback)
    assert any("Raises" in note for note in raised.value.__notes__)


def test_a_wrong_shape_is_named():
    with pytest.raises(ValueError, match=r"WrongShape.*computed an array of shape \(2,\)"):
        lz.sample_hais(model=model_of(WrongShape()), **FAST)


def test_a_wrong_type_is_named():
    """Would catch an imaginary part that is thrown away, and text that NumPy cannot read."""
    with pytest.raises(ValueError, match=r"WrongType.*type complex128.*must be float64"):
        lz.sample_hais(model=model_of(WrongType()), **FAST)
    node = with_host_calls([Line()(pt.dvector())], {})[0].owner
    assert node.op._checked(np.float32(1), "float64", ()).dtype == np.float64


@pytest.mark.parametrize(
    "call", [pytest.param(lz.evidence, marks=pytest.mark.slow), lz.sample_hais, lz.sample_tempered]
)
def test_a_black_box_beside_a_part_with_gradients(call):
    """Would catch a gradient of one part that stands for that of all."""
    with pm.Model() as model:
        t = pm.Normal("t", 0, 2, shape=2)
        pm.Normal("y", t[0] + t[1] * X[5:], 0.5, observed=Y[5:])
        pm.Potential("likelihood", FirstHalf()(t))
    given = {"draws": 200} if call is lz.sample_tempered else {}
    tree = call(model, **FAST) if call is lz.evidence else call(model=model, **given, **FAST)
    assert near_truth(tree)
    assert "run_row_gradients" not in tree["evidence"].attrs


def test_nan_counts_as_a_likelihood_of_zero():
    with pytest.warns(lz.EvidenceWarning, match="NaN"):
        tree = lz.sample_hais(model=model_of(IsNaN()), **FAST)
    assert near_truth(tree)


class Slow(Line):
    """A solver that takes its time."""

    def value(self, a, b):
        time.sleep(0.01)
        return log_likelihood(a, b)


def test_slow_calls_are_told_of_beforehand(caplog):
    op = Slow()
    node = with_host_calls([op(pt.tensor("x", shape=(2,), dtype="float64"))], {})[0].owner
    with caplog.at_level(logging.INFO, "pymc.pymc_logz"):
        node.op.called_for_rows(node, np.arange(8.0).reshape(4, 2))
    [said] = [record.getMessage() for record in caplog.records]
    assert "10,000 evaluations of a row take 2 minutes, on 1 core(s); with thread_safe" in said
    assert said.endswith("on all cores."), "nobody knows yet how many there will be"


def test_a_tempered_run_has_fewer_walkers_of_a_black_box():
    assert walkers_for(None, model_of(Line())) == 8
    assert walkers_for(5, model_of(Line())) == 5
    assert walkers_for(None, lz.energies.radiata_pine("density").model) == 64


def test_a_step_that_needs_gradients_says_so():
    with pytest.raises(lz.ModelError, match=r"no gradient.*pm.Slice"):
        lz.PartialMomentumHMC(model=model_of(Line()))


class Careless(Line):
    """A likelihood that overwrites what it is given, and what it gave before."""

    def perform(self, node, inputs, outputs):
        assert not self.busy
        self.busy = True
        time.sleep(1e-4)  # lets another thread in, if one may
        self.result.setflags(write=True)
        self.result[...] = log_likelihood(*inputs[0])
        self.result.setflags(write=False)
        inputs[0][:] = np.nan
        outputs[0][0] = self.result
        self.busy = False

    def __init__(self):
        self.busy, self.result = False, np.zeros(())


def test_a_box_that_threads_may_not_share_and_that_uses_its_memory_again():
    """Would catch calls that overlap, and values of one call that the next one overwrites."""
    node = with_host_calls([Careless()(pt.tensor("x", shape=(2,), dtype="float64"))], {})[0].owner
    rows = np.random.default_rng(1).normal(size=(8, 25, 2))
    rows.setflags(write=False)
    with ThreadPoolExecutor(8) as chains:
        found = list(chains.map(lambda some: node.op.called_for_rows(node, some)[0], rows))
    expected = [[log_likelihood(*row) for row in some] for some in rows]
    np.testing.assert_allclose(found, expected)
    assert node.op.called(node, [rows[0, 0]])[0].flags.writeable


def test_rows_that_are_repeated_are_called_once():
    op = Line()
    node = with_host_calls([op(pt.tensor("x", shape=(2,), dtype="float64"))], {})[0].owner
    rows = np.repeat([[1.0, 2.0], [0.0, 1.0]], [3, 2], axis=0)
    [values] = node.op.called_for_rows(node, rows)
    assert op.n_calls == 2
    np.testing.assert_allclose(values, [log_likelihood(*row) for row in rows])


def test_rows_that_a_block_is_filled_up_with_are_called_once():
    """Would catch calls for rows that are repeated in turn, and for each of a second axis."""
    op = Line()
    node = with_host_calls([op(pt.tensor("x", shape=(2,), dtype="float64"))], {})[0].owner
    rows = np.resize([[1.0, 2.0], [0.0, 1.0]], (8, 2))
    [values] = node.op.called_for_rows(node, np.broadcast_to(rows[:, None], (8, 3, 2)))
    assert op.n_calls == 2
    np.testing.assert_allclose(values, np.tile([[log_likelihood(*row)] for row in rows], 3))


def test_an_op_that_takes_batches_is_handed_them():
    """Would catch a call per row of an Op that PyTensor was told how to vectorise."""

    class Many(Op):
        """Log likelihood of a straight line, or of several."""

        __props__ = ()
        sizes: ClassVar[list[int]] = []

        def make_node(self, t):
            t = pt.as_tensor(t)
            return Apply(self, [t], [pt.tensor(dtype="float64", shape=t.type.shape[:-1])])

        def perform(self, node, inputs, outputs):
            self.sizes.append(inputs[0].size // 2)
            a, b = np.moveaxis(inputs[0], -1, 0)[..., None]
            outputs[0][0] = np.asarray(
                -0.5 * np.sum(((Y - a - b * X) / 0.5) ** 2, axis=-1)
                - 10 * np.log(0.5 * np.sqrt(2 * np.pi))
            )

    _vectorize_node.register(Many)(lambda op, node, batch: op.make_node(batch))
    tree = lz.sample_hais(model=model_of(Many()), **FAST)
    assert near_truth(tree)
    assert np.median(Many.sizes) > 100
    assert tree["evidence"].attrs["batching"] == "vector"


def test_ops_of_pytensor_stay_as_they_are():
    x = pt.dvector("x")
    outputs = [pt.sum(x**2)]
    assert with_host_calls(outputs, {}) == outputs
    assert isinstance(with_host_calls([Line()(x)], {})[0].owner.op, HostCall)


def beside_a_regression(n):
    """The box, and a regression on n coefficients that it knows nothing of; and its log Z."""
    rng = np.random.default_rng(3)
    design = rng.normal(size=(n, n)) / 4
    seen = design @ rng.normal(size=n) + rng.normal(size=n)
    with model_of(Line()) as model:
        pm.Normal("y", design @ pm.Normal("b", shape=n), 1.0, observed=seen)
    of_regression = multivariate_normal.logpdf(seen, cov=np.eye(n) + design @ design.T)
    return model, TRUTH + of_regression


@pytest.mark.parametrize("mode", [numpy_mode(), pytest.param("JAX", marks=pytest.mark.slow)])
def test_what_no_box_depends_on_follows_its_gradient(mode, caplog):
    """Would catch a gradient that a box spoils for all, and one that leaves out what it may not."""
    model, truth = beside_a_regression(32)
    with caplog.at_level(logging.INFO, "pymc.pymc_logz"):
        tree = lz.sample_hais(256, 2, model=model, compile_kwargs={"mode": mode}, **FAST)
    [said] = [record.message for record in caplog.records if "random walk" in record.message]
    assert said.startswith("The model has no gradient by t (")
    assert said.endswith(
        ": it moves by a random walk, while the other variables follow their gradient."
    )
    entry = tree["evidence"].isel(estimator=0)
    assert "run_row_gradients" in tree["evidence"].attrs
    assert entry["status"].item() == "ok"
    assert abs(entry["log_z"].item() - truth) < 4 * entry["mcse"].item()
    assert isinstance(kernel_for(None, beside_a_regression(8)[0]), lz.kernels.RandomWalk)
    with pytest.raises(lz.ModelError, match="no gradient"):
        lz.sample_hais(
            model=model, kernel=lz.kernels.Compose({"b": lz.kernels.RandomWalk()}), **FAST
        )


def test_gradients_beside_a_box_are_those_of_the_rest():
    flat = flatten_model(beside_a_regression(4)[0])
    densities = [flat.log_prior, flat.log_ratio]
    assert columns_of_boxes(densities, flat.point) == {0, 1}
    with pytest.raises(NotImplementedError):
        gradients_of(densities, flat.point, (1, 2))
    found = gradients_of(densities, flat.point, (2, 3, 4, 5))[1]
    row = np.arange(6.0) / 7
    kwargs = {"mode": "FAST_COMPILE", "on_unused_input": "ignore"}
    value = pytensor.function([flat.point, *flat.inputs], [found, flat.log_ratio], **kwargs)
    slope = value(row, *flat.values)[0]
    for j in range(2, 6):
        step = 1e-5 * np.eye(6)[j]
        up, down = (value(row + sign * step, *flat.values)[1] for sign in (1, -1))
        assert slope[j] == pytest.approx((up - down) / 2e-5, rel=1e-6)
