"""Log densities of many rows: against PyMC."""

import numpy as np
import pymc as pm
import pytest
from support import pymc_models as models
from support.checks import make_rng
from support.flat_rows import named_values

from pymc_logz.models.density import ROWS_PER_CALL, RowDensity
from pymc_logz.models.flat import flatten_model


def chosen(batching: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have rows batched in this way, whatever the graph looks like."""
    way = "pymc_logz.graphs.batching.vectorizes_well"
    monkeypatch.setattr(way, lambda *_: batching == "vector")


@pytest.mark.parametrize("name", ["regression", "lkj"])
@pytest.mark.parametrize("batching", ["vector", "row"])
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
def test_rows_have_the_models_density(
    name: str, batching: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch rows that are mixed up across calls, or a Jacobian left out."""
    chosen(batching, monkeypatch)
    model = models.MODELS[name]()
    flat = flatten_model(model)
    rows = make_rng("rows", name).normal(size=(ROWS_PER_CALL + 5, flat.n_dims))
    density = RowDensity(flat)
    assert density.batching == batching
    log_prior, log_ratio = density(rows)
    logp = model.compile_logp(mode="FAST_COMPILE")
    for i in (0, 7, ROWS_PER_CALL - 1, ROWS_PER_CALL, ROWS_PER_CALL + 4):
        expected = float(logp(named_values(flat, rows[i])))
        assert log_prior[i] + log_ratio[i] == pytest.approx(expected, rel=1e-6)


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
@pytest.mark.parametrize("batching", ["vector", "row"])
def test_a_row_without_density_leaves_the_others_theirs(
    batching: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch a parameter check over the whole batch: one bad row made all of them -inf."""
    chosen(batching, monkeypatch)
    with pm.Model() as model:
        rate = pm.Normal("rate", 1, 1)
        scale = pm.HalfNormal("scale", 1)
        pm.Poisson("count", rate, observed=[1, 2])
        pm.Normal("y", 0, scale, observed=[0.1])
    flat = flatten_model(model)
    rows = np.array([[0.5, 0.0], [-0.5, 0.0], [0.5, -800.0], [0.5, 0.2]])
    _, together = RowDensity(flat)(rows)
    assert np.isfinite(together).tolist() == [True, False, False, True]
    logp = model.compile_logp(vars=model.observed_RVs, mode="FAST_COMPILE")
    for i in (0, 3):
        assert together[i] == pytest.approx(float(logp(named_values(flat, rows[i]))))


@pytest.mark.parametrize(("n_data", "backend"), [(5, "numpy"), (20_000, "jax")])
def test_a_few_calls_of_a_small_model_compile_nothing(n_data: int, backend: str) -> None:
    """Would catch a second estimate that XLA compiles for four calls, or NumPy's gigabytes."""
    pytest.importorskip("jax")
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 1), 1, observed=np.linspace(-1, 1, n_data))
    flat = flatten_model(model)
    rows = make_rng("few calls").normal(size=(ROWS_PER_CALL, 1))
    few = RowDensity(flat, few_calls=True)
    assert few.compiled.backend == backend
    np.testing.assert_allclose(few(rows), RowDensity(flat)(rows), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
@pytest.mark.parametrize("as_data", [False, True])
def test_fewer_rows_together_where_there_is_much_data(as_data: bool) -> None:
    """Catches 512 rows of a million data at a time, which took 5 GB."""
    y = make_rng("much data").normal(size=20_000)
    with pm.Model() as model:
        mean = pm.Normal("mean")
        pm.Normal("y", mean, 1, observed=pm.Data("data", y) if as_data else y)
    density = RowDensity(flatten_model(model))
    assert 2 <= density.rows_per_call < ROWS_PER_CALL
    rows = np.linspace(-0.1, 0.1, 2 * density.rows_per_call + 1)[:, None]
    log_prior, log_ratio = density(rows)
    wanted = -0.5 * (rows**2).ravel() - 0.5 * ((y - rows) ** 2).sum(axis=1)
    found = log_prior + log_ratio
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], atol=1e-7)


def test_sums_over_an_axis_of_one_entry() -> None:
    """Catches wrong sums of XLA: jaxlib 0.12's are, where such arrays are inputs, off by nats.

    Of the same model as `pymc.sampling.jax.get_jaxified_logp` has it, batched and jitted, they are.
    """
    pytest.importorskip("jax", reason="needs the jax extra")
    with pm.Model() as model:
        scale = pm.Normal("scale", shape=64)
        effect = pm.Normal("effect", 0, pm.math.exp(scale[:, None] / 2), shape=(64, 1))
        pm.Normal("y", effect, 1.5, observed=np.linspace(-3, 3, 64)[:, None])
    flat, rows = flatten_model(model), np.random.default_rng(0).normal(size=(512, 128))
    here, there = (RowDensity(flat, {"mode": mode}) for mode in ("JAX", "FAST_COMPILE"))
    assert here.compiled.backend == "jax"
    np.testing.assert_allclose(here(rows), there(rows), rtol=1e-10)
