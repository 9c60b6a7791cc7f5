"""Interpolation between the two ends of a path, and gradients of both."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from support.checks import make_rng
from support.paths_with_exact_draws import TARGETS
from support.plain_annealing import PLAIN

from pymc_logz.graphs.compiling import compile_function
from pymc_logz.graphs.functions import Kept
from pymc_logz.paths import geometric as path_module
from pymc_logz.paths.geometric import AnnealingPath, Evaluation, grad_log_density, log_density


@cache
def interpolation(beta_ndim: int) -> Any:
    """Function of beta and an evaluation: log density (n,) and gradient (n, d)."""
    beta = pt.tensor("beta", dtype="float64", shape=(None,) * beta_ndim)
    values = Evaluation(pt.dvector("f"), pt.dvector("r"), pt.dmatrix("df"), pt.dmatrix("dr"))
    outputs = [log_density(values, beta), grad_log_density(values, beta)]
    call = compile_function([beta, *values], outputs).call
    return lambda *args: [np.asarray(out) for out in call(*map(np.asarray, args))]


ROWS = np.array([-1.0, -2.0, -3.0, -4.0])
RATIO = np.array([2.0, -np.inf, np.nan, np.inf])
GRAD = np.ones((4, 2))
GRAD_RATIO = np.array([[1.0, 2.0], [np.nan, np.nan], [np.inf, 0.0], [np.nan, 1.0]])


def test_reference_does_not_see_the_ratio_at_beta_zero() -> None:
    """Catches 0 * inf: a prior draw outside the likelihood's support still has prior density."""
    value, gradient = interpolation(0)(0.0, ROWS, RATIO, GRAD, GRAD_RATIO)
    np.testing.assert_array_equal(value, ROWS)
    np.testing.assert_array_equal(gradient, GRAD)


@pytest.mark.parametrize("beta", [1e-12, 0.25, 1.0])
def test_nan_counts_as_no_density(beta: float) -> None:
    """Catches NaN that reaches acceptance, and gradients that poison the momentum."""
    value, gradient = interpolation(0)(beta, ROWS, RATIO, GRAD, GRAD_RATIO)
    np.testing.assert_allclose(value, [-1 + 2 * beta, -np.inf, -np.inf, np.inf])
    np.testing.assert_allclose(
        gradient, [[1 + beta, 1 + 2 * beta], [0, 0], [0, 1], [0, 1 + beta]], rtol=1e-12
    )


def test_one_beta_per_row() -> None:
    """Catches betas broadcast over dimensions in place of rows."""
    betas = np.array([0.0, 0.5, 1.0, 0.0])
    rng = make_rng("rows")
    parts = [rng.normal(size=shape) for shape in ((4,), (4,), (4, 3), (4, 3))]
    value, gradient = interpolation(1)(betas, *parts)
    for i, beta in enumerate(betas):
        one = interpolation(0)(beta, *(part[i : i + 1] for part in parts))
        np.testing.assert_allclose(value[i], one[0][0])
        np.testing.assert_allclose(gradient[i], one[1][0])


@pytest.mark.parametrize("name", PLAIN)
def test_evaluation_equals_plain_numpy(name: str) -> None:
    """Catches gradients of the wrong end, or of a sum over rows."""
    target, plain = TARGETS[name], PLAIN[name]
    rows = pt.dmatrix("rows")
    evaluate = compile_function([rows], list(target.path().evaluate(rows))).call
    x = target.sample(make_rng("evaluate"), 0.5, 30)
    for field, got in zip(Evaluation._fields, evaluate(x), strict=True):
        np.testing.assert_allclose(got, getattr(plain, field)(x), atol=1e-12, err_msg=field)


@pytest.mark.parametrize("batching", ["vector", "row"])
def test_flat_ends_have_gradient_zero(batching: str) -> None:
    """Catches a path whose reference or ratio does not depend on the point: no gradient graph."""
    point = pt.tensor("point", dtype="float64", shape=(2,))
    path = AnnealingPath(
        point,
        pt.constant(np.float64(-1.5)),
        -(point[0] ** 2),
        n_dims=2,
        sample_reference=lambda rng, n: rng.random((n, 2)),
        how=batching,
    )
    rows = pt.dmatrix("rows")
    x = make_rng("flat").normal(size=(5, 2))
    values = Evaluation(*compile_function([rows], list(path.evaluate(rows))).call(x))
    np.testing.assert_array_equal(values.log_reference, np.full(5, -1.5))
    np.testing.assert_array_equal(values.grad_log_reference, np.zeros((5, 2)))
    np.testing.assert_allclose(values.grad_log_ratio, np.column_stack([-2 * x[:, 0], 0 * x[:, 1]]))


def test_densities_are_simplified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches as many rewrites again for the path without gradients, a tenth of a first call."""
    seen = []

    def counted(outputs: Any, data: Any) -> Any:
        seen.append(outputs)
        return list(outputs)

    monkeypatch.setattr(path_module, "simplify", counted)
    path = replace(TARGETS["gaussian"].path(), kept=Kept())
    rows = pt.dmatrix("rows")
    for one in (path, path.without_gradients()):
        one.evaluate(rows)
    assert len(seen) == 1
