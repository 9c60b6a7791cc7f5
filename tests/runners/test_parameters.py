"""Parameters of a path are inputs of what is compiled: other values, no other compilation."""

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.tensor.variable import TensorVariable
from support.checks import make_rng
from support.kernel_contracts import constant_moves

from pymc_logz.kernels import Hamiltonian
from pymc_logz.paths.geometric import AnnealingPath
from pymc_logz.runners.block import Block
from pymc_logz.runners.temper import Tables, TemperBlock

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation")
N_DIMS, N_ROWS = 2, 8
KERNEL = Hamiltonian(dense=False)
MODES = ["JAX", *(pytest.param(name, marks=pytest.mark.slow) for name in ("CVM", "NUMBA"))]


def symbolic_parameters() -> tuple[TensorVariable, ...]:
    """Of a mixture with any number of parts, one of them another one; and data, of integers."""
    return (
        pt.tensor("is_other", dtype="bool", shape=(None,)),
        pt.tensor("log_share", dtype="float64", shape=(None,)),
        pt.tensor("centre", dtype="float64", shape=(None, N_DIMS)),
        pt.tensor("whitener", dtype="float64", shape=(None, N_DIMS, N_DIMS)),
        pt.tensor("counts", dtype="int64", shape=(None,)),
    )


def some_values(n_components: int, n_data: int) -> tuple[np.ndarray, ...]:
    """Values of the parameters: the other part comes first, in arrays that are never empty."""
    rng = make_rng("parameters", n_components, n_data)
    n = n_components + 1
    return (
        np.arange(n) == 0,
        np.log(rng.dirichlet(np.ones(n))),
        rng.normal(size=(n, N_DIMS)),
        np.eye(N_DIMS) + 0.3 * np.tril(rng.normal(size=(n, N_DIMS, N_DIMS))),
        rng.poisson(3.0, size=n_data),
    )


def densities(point: TensorVariable, parameters: Any) -> tuple[TensorVariable, TensorVariable]:
    """Log reference and log ratio; no density need be normalised here.

    The parts are not concatenated: the gradient of that is a split into dynamic lengths, which JAX
    does not know.
    """
    is_other, log_share, centre, whitener, counts = parameters
    white = (whitener * (point - centre)[:, None, :]).sum(axis=2)
    parts = pt.switch(is_other, -(point**2).sum(), -0.5 * (white**2).sum(axis=1))
    log_reference = pt.logsumexp(log_share + parts)
    log_likelihood = (counts * point[0] - pt.exp(point[0])).sum() - 0.1 * point[1] ** 4
    return log_reference, log_likelihood - log_reference


def draw_start(rng: np.random.Generator, n: int) -> np.ndarray:
    """Any rows: what the moves do to them is all that counts here."""
    return rng.standard_normal((n, N_DIMS))


def path_of(arrays: Any, batching: str, **rest: Any) -> AnnealingPath:
    """The path with these parameters, symbolic or not."""
    point = pt.tensor("point", dtype="float64", shape=(N_DIMS,))
    return AnnealingPath(
        point,
        *densities(point, arrays),
        n_dims=N_DIMS,
        sample_reference=draw_start,
        how=batching,
        **rest,
    )


def parametric(batching: str) -> AnnealingPath:
    """The path whose parameters are inputs, with two components at first."""
    parameters = symbolic_parameters()
    values = some_values(2, 3)
    return path_of(parameters, batching, parameters=parameters, values=values)


def constant(values: tuple[np.ndarray, ...], batching: str) -> AnnealingPath:
    """The same with the values written into the graph."""
    return path_of([pt.constant(value) for value in values], batching)


def chain(block: Block) -> list[np.ndarray]:
    """Where a short run of a block ends, and what happened on the way."""
    moves = constant_moves(block, beta=0.6, step_size=0.4, scale=1.0, refreshment=0.3)
    start = block.path.sample_reference(make_rng("start"), N_ROWS)
    state, trace = block.run(block.initial_state(start), moves, make_rng("noise"))
    return [np.asarray(state.position), trace.log_ratio, trace.acceptance_rate]


def tempered_chain(block: TemperBlock) -> list[np.ndarray]:
    """Where a short tempered run ends, and what happened on the way."""
    even = np.ones(3)
    tables = Tables(np.linspace(0, 1, 3), 0.4 * even, np.ones((3, N_DIMS)), 0.3 * even, 0 * even)
    walkers = block.start(draw_start(make_rng("start"), N_ROWS), make_rng("first"))
    walkers, trace = block.launch(walkers, tables, make_rng("noise"))
    walk = trace()
    return [np.asarray(walkers.state.position), walk.level, walk.log_ratio]


def check_same(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("batching", ["vector", "row"])
def test_parameters_do_what_constants_do(
    batching: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches parameters batched with the rows, kept at their first values, or compiled again."""
    block = Block(parametric(batching), KERNEL, N_ROWS, {"mode": mode})
    block.compile()
    others = [some_values(3, 5), some_values(0, 1)]
    wanted = [chain(Block(constant(v, batching), KERNEL, N_ROWS, {"mode": mode})) for v in others]
    monkeypatch.setattr(pytensor, "function", None)
    for values, there in zip(others, wanted, strict=True):
        moved = block.along(values, sample_reference=draw_start)
        assert moved.compiled is block.compiled
        assert moved.path.batching == batching
        check_same(chain(moved), there)
    # the block that it came from is as it was
    assert block.path.values[0].shape == (3,)


def test_tempering_follows_the_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches walkers whose iterations keep to the first values."""
    kwargs = {"mode": "JAX"}
    values = some_values(3, 5)
    block = Block(constant(values, "vector"), KERNEL, N_ROWS, kwargs)
    wanted = tempered_chain(TemperBlock(block, 3, N_ROWS))
    block = Block(parametric("vector"), KERNEL, N_ROWS, kwargs)
    tempered = TemperBlock(block, 3, N_ROWS)
    monkeypatch.setattr(pytensor, "function", None)
    moved = tempered.along(values, sample_reference=draw_start)
    check_same(tempered_chain(moved), wanted)


def test_values_must_fit_their_parameters() -> None:
    """Catches values that a compiled function, which trusts its inputs, would misread."""
    path = parametric("vector")
    with pytest.raises(ValueError, match="must be 5, one for each"):
        path.along(path.values[:3], draw_start)
    wrong = (*path.values[:2], np.zeros((2, 5)), *path.values[3:])
    with pytest.raises(ValueError, match=r"value of shape \(2, 5\).*centre"):
        path.along(wrong, draw_start)
