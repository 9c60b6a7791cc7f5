"""Both ways of batching rows against one row at a time, on the backends."""

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.tensor.variable import TensorVariable
from support.checks import make_rng

from pymc_logz.graphs.batching import batch
from pymc_logz.graphs.compiling import compile_function
from pymc_logz.kernels import Hamiltonian
from pymc_logz.paths import geometric as path_module
from pymc_logz.paths.geometric import AnnealingPath
from pymc_logz.runners.block import Block

N_DIMS = 4
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation")


def elementwise(x: TensorVariable) -> TensorVariable:
    return (x * pt.exp(-(x**2)) - pt.log1p(x**2)).sum()


def matrix_product(x: TensorVariable) -> TensorVariable:
    design = np.arange(20.0).reshape(5, N_DIMS) / 10
    return pt.log1p(pt.dot(design, x) ** 2).sum()


def indexing(x: TensorVariable) -> TensorVariable:
    group = np.array([0, 2, 2, 1, 3, 0])
    return (x[group] * np.arange(6.0)).sum() * x[0] + x[1:3].prod() + x[-1]


def split(x: TensorVariable) -> TensorVariable:
    first, second = pt.split(x, [1, 3])
    return pt.exp(first[0]) * (second**2).sum()


def cholesky(x: TensorVariable) -> TensorVariable:
    covariance = pt.outer(x[:2], x[:2]) + pt.eye(2) * pt.exp(x[2])
    factor = pt.linalg.cholesky(covariance)
    return (
        pt.log(pt.diagonal(factor)).sum()
        + pt.linalg.solve_triangular(factor, x[2:], lower=True).sum()
    )


def scan(x: TensorVariable) -> TensorVariable:
    states = pytensor.scan(
        lambda value, before: 0.5 * before + pt.sin(value),
        sequences=[x],
        outputs_info=[x[0]],
        return_updates=False,
    )
    return (states**2).sum()


def constant(x: TensorVariable) -> TensorVariable:
    return pt.constant(np.float64(2.5))


GRAPHS = {f.__name__: f for f in (elementwise, matrix_product, indexing, split, cholesky, scan)}
LOOPS = {"cholesky", "scan", "split"}


def outputs_of(make: Callable, point: TensorVariable) -> list[TensorVariable]:
    value = make(point)
    gradient = pt.grad(value, point, disconnected_inputs="ignore", return_disconnected="zero")
    return [value, gradient]


def new_point() -> TensorVariable:
    return pt.tensor("point", dtype="float64", shape=(N_DIMS,))


@cache
def row_by_row(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (n, d), and their values (n,) and gradients (n, d) one at a time."""
    point = new_point()
    one = pytensor.function([point], outputs_of(GRAPHS[name], point), mode="FAST_COMPILE")
    rows = make_rng("batching", name).normal(size=(5, N_DIMS))
    values, gradients = zip(*(one(row) for row in rows), strict=True)
    return rows, np.array(values), np.array(gradients)


def check_batching(name: str, batching: str, mode: str) -> None:
    point, rows = new_point(), pt.tensor("rows", dtype="float64", shape=(None, N_DIMS))
    evaluate, how = batch(point, outputs_of(GRAPHS[name], point), N_DIMS, batching)
    assert how == batching
    call = compile_function([rows], evaluate(rows), {"mode": mode}).call
    x, values, gradients = row_by_row(name)
    got_values, got_gradients = call(x)
    np.testing.assert_allclose(got_values, values, rtol=1e-9)
    np.testing.assert_allclose(got_gradients, gradients, rtol=1e-9, atol=1e-12)


# inner graphs that are interpreted, not compiled, are eight digits apart for a Cholesky factor
COMPILED = ("cholesky", "row", "FAST_COMPILE")
CASES = [
    pytest.param(*case, marks=pytest.mark.slow) if case == COMPILED else case
    for case in product(GRAPHS, ["vector", "row"], ["JAX", "FAST_COMPILE"])
]


@pytest.mark.parametrize(("name", "batching", "mode"), CASES)
def test_batches_agree_with_single_rows(name: str, batching: str, mode: str) -> None:
    """Catches a batch axis taken for a dimension, and a gradient summed over rows."""
    if (batching, mode) == ("vector", "JAX") and name in {"scan", "split"}:
        pytest.skip("PyTensor cannot convert the vectorised graph to JAX: rows are there for that")
    check_batching(name, batching, mode)


@pytest.mark.slow
def test_numba_row_loop_agrees_with_single_rows() -> None:
    """Catches a loop whose inner graph overwrites the rows it is given views of."""
    check_batching("split", "row", "NUMBA")


@pytest.mark.parametrize("name", sorted(set(GRAPHS) - {"split"}))
def test_auto_takes_rows_where_vectorising_fails_or_loops(name: str) -> None:
    """Catches a choice that is slow, or that JAX cannot convert: NUMBA takes ten times as long."""
    point = new_point()
    _, how = batch(point, outputs_of(GRAPHS[name], point), N_DIMS, "auto")
    assert how == ("row" if name in LOOPS else "vector")


def test_jax_takes_rows_where_it_cannot_convert_the_vectorised_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches a model that leaves JAX, for a minute of NUMBA, although rows convert."""
    pytest.importorskip("jax")
    # simplified, the graph would convert
    monkeypatch.setattr(path_module, "simplify", lambda outputs, data: outputs)
    point = new_point()
    path = AnnealingPath(
        point,
        -0.5 * (point**2).sum(),
        split(point),
        n_dims=N_DIMS,
        sample_reference=lambda rng, n: rng.standard_normal((n, N_DIMS)),
    )
    # asked for, since NumPy would compute so few rows as they are
    by_jax = {"mode": "JAX"}
    block = Block(path, Hamiltonian(step_size=0.1, scale=1.0), n_rows=4, compile_kwargs=by_jax)
    assert block.compiled.backend == "jax"
    assert block.path.batching == "row"


@pytest.mark.parametrize("batching", ["vector", "row"])
def test_outputs_without_the_point_are_repeated_per_row(batching: str) -> None:
    """Catches a constant log density of shape () or (1,) where one per row is due."""
    point, rows = new_point(), pt.tensor("rows", dtype="float64", shape=(None, N_DIMS))
    evaluate, _ = batch(point, outputs_of(constant, point), N_DIMS, batching)
    value, gradient = compile_function([rows], evaluate(rows)).call(np.ones((3, N_DIMS)))
    np.testing.assert_array_equal(value, np.full(3, 2.5))
    np.testing.assert_array_equal(gradient, np.zeros((3, N_DIMS)))


def test_unknown_batching_is_refused() -> None:
    """Catches a typing error that falls through to one of the ways."""
    point = new_point()
    with pytest.raises(ValueError, match="batching='rows' must be one of"):
        batch(point, outputs_of(elementwise, point), N_DIMS, "rows")
