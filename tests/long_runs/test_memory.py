"""`max_memory`: the bound holds, and rows in portions are the same rows."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
from support.paths_with_exact_draws import N_ROWS, TARGETS, compiled_block

from pymc_logz.arguments import as_bytes
from pymc_logz.kernels import Hamiltonian
from pymc_logz.models.flat import flatten_model, model_path
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.schedules import linear_betas
from pymc_logz.runners.anneal import anneal
from pymc_logz.runners.block import Block
from pymc_logz.runners.temper import TemperBlock
from pymc_logz.seeds import spawn_generators

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
ROOT = Path(__file__).parents[2]
BOUND = 48


def measured(bound: str) -> dict[str, Any]:
    """What a process took for 1,024 particles on 20,000 rows of data."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-m", "support.memory_of_runs", bound, "FAST_COMPILE"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_the_bound_holds_with_20_000_rows_of_data_and_1_024_particles() -> None:
    """Would catch a bound that is not kept; without one the same run takes more."""
    within, without = measured(f"{BOUND} MB"), measured("none")
    assert within["grew"] <= BOUND * 2**20
    assert without["grew"] > BOUND * 2**20, "the measurement would show it"
    np.testing.assert_allclose(within["log_weight"], without["log_weight"], rtol=1e-9)


@pytest.mark.parametrize("n_rows", [1, 7, 64])
def test_rows_in_portions_are_the_same_rows(n_rows: int) -> None:
    """Would catch noise of another row, padding that stays, and rows out of order."""
    target, block = TARGETS["gaussian"], compiled_block("gaussian", Hamiltonian())
    plan = target.plan(linear_betas(9), 0.8)
    of_row = block.limited(2**30)
    assert of_row.most_rows is not None
    some = block.limited(n_rows * (2**30 // of_row.most_rows + 1))
    assert some.most_rows is not None
    assert some.most_rows <= n_rows + 1
    runs = []
    for one in (block, some):
        [rng] = spawn_generators(np.random.default_rng(1), 1)
        runs.append(anneal(one, plan, target.sample(rng, 0.0, N_ROWS), rng))
    np.testing.assert_allclose(runs[0].log_weight, runs[1].log_weight, rtol=1e-10)
    np.testing.assert_allclose(runs[0].position, runs[1].position, rtol=1e-10)


@pytest.mark.parametrize("exchange", ["gibbs", "swap"])
def test_walkers_in_portions_are_the_same_walkers(exchange: str) -> None:
    """Would catch walkers that swap with those of another portion."""
    block, ends = compiled_block("gaussian", Hamiltonian()), []
    few = block.limited(5 * 2**10)
    assert few.most_rows is not None
    assert few.most_rows < 12
    for one in (block, few):
        walking = TemperBlock(one, 3, 12, exchange)
        [rng] = spawn_generators(np.random.default_rng(1), 1)
        walkers = walking.start(rng.normal(size=(12, block.path.n_dims)), rng)
        walkers, walk = walking.launch(walkers, walking.still_tables(), rng)
        ends.append((np.asarray(walkers.state.position), walk().level))
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=1e-12)
    np.testing.assert_array_equal(ends[0][1], ends[1][1])


def test_a_bound_without_room_for_a_row_is_refused() -> None:
    """Would catch a run that ignores its bound."""
    block = compiled_block("gaussian", Hamiltonian())
    with pytest.raises(ValueError, match=r"max_memory leaves 10 bytes.*one particle.*takes"):
        block.limited(10)


@pytest.mark.parametrize(
    ("given", "found"), [(None, None), (1000, 1000), ("2 GB", 2**31), ("1.5kb", 1536), (1e6, 10**6)]
)
def test_bounds_are_read(given: Any, found: int | None) -> None:
    """Would catch a unit that is wrong by a thousand."""
    assert as_bytes(given) == found


@pytest.mark.parametrize("given", ["much", -1, 0, True, "2 XB", float("nan"), [1]])
def test_other_bounds_are_refused(given: Any) -> None:
    """Would catch a typing error that means no bound."""
    with pytest.raises(ValueError, match=r"max_memory=.*must be a positive number of bytes"):
        as_bytes(given)


def test_a_model_with_much_data_is_computed_fewer_rows_at_a_time() -> None:
    """Would catch the caches thrashed by long arrays, and portions where rows are short."""
    blocks = {}
    for n_data in (50, 50_000):
        with pm.Model() as model:
            x = pm.Normal("x", 0, 1)
            pm.Normal("y", x, 2, observed=np.linspace(-1, 1, n_data))
        flat = flatten_model(model)
        blocks[n_data] = Block(model_path(flat, PriorDraws(model)), Hamiltonian())
    assert blocks[50].within_caches() is blocks[50]
    block, few = blocks[50_000], blocks[50_000].within_caches()
    assert few.most_rows is not None
    assert 2 <= few.most_rows < block.n_rows // 2
    rows = np.linspace(-2, 2, 3 * few.most_rows + 1)[:, None]
    np.testing.assert_allclose(few.log_target(rows), block.log_target(rows), rtol=1e-10)
