"""What moves are made by, of many rows at once on JAX, is what PyTensor makes of one row alone.

Graphs are simplified, batched, differentiated part by part and compiled by XLA on the way. None of
it may cost a number: also far in the tails, where a form that is not stable ends in NaN.
"""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from support import pymc_models, tail_models
from support.checks import make_rng

from pymc_logz.graphs.compiling import compile_function
from pymc_logz.graphs.functions import compile_kwargs_for
from pymc_logz.models.flat import FlatModel, flatten_model
from pymc_logz.paths.geometric import AnnealingPath

MODELS = {
    **{f"tails of {name}": make for name, make in tail_models.MODELS.items()},
    **{f"ordinary {name}": make for name, make in pymc_models.MODELS.items()},
}
ALWAYS = ("mixture", "censored", "logistic", "ordinal", "robust", "zero_inflated")
FACTORS = np.array([0.0, 0.3, 1.0, 1.0, 3.0, 10.0, 30.0, 100.0])
"""Rows are normal draws times these: from the centre to where exp overflows a few times over."""
RTOL = 2e-7
"""PyTensor computes with small integers in single precision: a Beta(2, 2) and its constant."""


def one_by_one(flat: FlatModel, rows: np.ndarray) -> list[np.ndarray]:
    """Log prior, log ratio and their gradients with all of PyTensor's rewrites, without JAX."""
    values = [flat.log_prior, flat.log_ratio]
    values += [
        pt.grad(value, flat.point, disconnected_inputs="ignore", return_disconnected="zero")
        for value in values
    ]
    kwargs = compile_kwargs_for(Mode("py", "fast_run"), {"on_unused_input": "ignore"})
    function = pytensor.function([flat.point, *flat.inputs], values, **kwargs)
    with np.errstate(all="ignore"):
        found = [function(row, *flat.values) for row in rows]
    return [
        np.stack([np.asarray(part, float) for part in parts]) for parts in zip(*found, strict=True)
    ]


def all_at_once(flat: FlatModel, rows: np.ndarray) -> list[np.ndarray]:
    """The same as kernels get it."""
    path = AnnealingPath(
        flat.point,
        flat.log_prior,
        flat.log_ratio,
        n_dims=flat.n_dims,
        sample_reference=lambda rng, n: np.zeros((n, flat.n_dims)),
        parameters=flat.inputs,
        values=flat.values,
    )
    symbolic = pt.matrix("rows", shape=(None, flat.n_dims))
    compiled = compile_function(
        [symbolic, *path.parameters],
        list(path.evaluate(symbolic)),
        {"mode": "JAX"},
        [rows, *path.values],
    )
    return [np.asarray(part) for part in compiled.call(rows, *path.values)]


@pytest.mark.parametrize(
    "name",
    [
        name if name.split()[-1] in ALWAYS else pytest.param(name, marks=pytest.mark.slow)
        for name in MODELS
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_number_is_lost(name: str) -> None:
    """Catches a rewrite left out, a batch that is not its rows, and gradients of other parts."""
    model: pm.Model = MODELS[name]()
    flat = flatten_model(model)
    draws = make_rng("evaluations", name).normal(size=(len(FACTORS), flat.n_dims))
    rows = FACTORS[:, None] * draws
    wanted, found = one_by_one(flat, rows), all_at_once(flat, rows)
    for what, one, other in zip(
        ("log prior", "log ratio", "gradient of prior", "gradient of ratio"),
        wanted,
        found,
        strict=True,
    ):
        # a row without density has whatever gradient
        inside = np.isfinite(wanted[0] + wanted[1])
        where = np.isfinite(one) & (inside if one.ndim == 1 else inside[:, None])
        np.testing.assert_allclose(
            other[where],
            one[where],
            rtol=RTOL,
            atol=1e-9,
            err_msg=what,
        )
    lost = np.isfinite(wanted[0] + wanted[1]) & ~np.isfinite(found[0] + found[1])
    assert not lost.any()
