"""Evaluations of the model: as many are reported as the model itself was asked for."""

import threading
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from arviz_base import dict_to_dataset
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from support.checks import make_rng

from pymc_logz import bridge_sampling, sample_hais, sample_tempered
from pymc_logz.kernels import Hamiltonian, Langevin, RandomWalk, Slice
from pymc_logz.kernels.base import Kernel
from pymc_logz.paths.geometric import AnnealingPath
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.runners.block import MOVES_PER_BLOCK, Block
from pymc_logz.runners.moves_of_rows import Work
from pymc_logz.runners.temper import TemperBlock

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:.*has status 'few_rows'"),
]
PYTHON = {"mode": "FAST_COMPILE"}
N_DIMS, N_ROWS = 2, 6


class Counting(Op):
    """Minus half of the squared length of a row; counts the rows that it is asked for."""

    __props__ = ()
    itypes = (pt.dvector,)
    otypes = (pt.dscalar,)
    asked = 0

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, list(inputs), [pt.dscalar()])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        type(self).asked += 1
        outputs[0][0] = np.asarray(-0.5 * (inputs[0] ** 2).sum())

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        return [-inputs[0] * cotangents[0]]


def counting_path() -> AnnealingPath:
    point = pt.tensor("point", dtype="float64", shape=(N_DIMS,))
    return AnnealingPath(
        point,
        -0.5 * (point**2).sum(),
        Counting()(point),
        n_dims=N_DIMS,
        sample_reference=lambda rng, n: rng.standard_normal((n, N_DIMS)),
    )


KERNELS = [Hamiltonian(), Hamiltonian(n_steps=3), Langevin(), RandomWalk(), Slice(n_shrink=2)]
IDS = ["hamiltonian", "three steps", "langevin", "random walk", "slice"]


def asked_for(block: Any, call: Any) -> int:
    """Rows that the model was asked for in a call, after a check that the block says the same."""
    said, Counting.asked = block.work.done, 0
    call()
    assert block.work.done - said == Counting.asked
    return Counting.asked


@pytest.mark.parametrize("kernel", KERNELS, ids=IDS)
def test_a_block_counts_what_the_model_is_asked_for(kernel: Kernel) -> None:
    """Catches leapfrog steps, turns of a slice, or moves that only fill up a block counted."""
    block = Block(counting_path(), kernel.resolved(N_DIMS), N_ROWS, PYTHON)
    start = block.given_path.sample_reference(make_rng("start"), N_ROWS)
    block.compile()
    assert block.work.done == 0, "what a compiled function is tried out with"
    asked = asked_for(block, lambda: block.densities(start))
    assert asked == N_ROWS * kernel.evaluations_per_move(N_DIMS)
    walking = TemperBlock(block, 3, 4)
    assert walking.work is block.work
    asked_for(walking, lambda: walking.start(start[:4], make_rng("walkers")))


def test_threads_lose_no_count() -> None:
    """Catches two threads that read the same number and add to it."""
    work = Work()

    def add() -> None:
        for _ in range(5_000):
            work.add(3)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert work.done == 4 * 5_000 * 3


@pytest.fixture(scope="module")
def model() -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=0.7)
    return model


SETTINGS: dict[str, Any] = {"random_seed": 1, "progressbar": False, "compile_kwargs": PYTHON}


@pytest.mark.parametrize("cores", [1, 3])
def test_annealing_of_a_given_ladder_costs_draws_times_temperatures(
    model: pm.Model, cores: int
) -> None:
    """Catches a count that depends on threads, forgets chains, or mixes pilot and run."""
    kernel, k = Hamiltonian(n_steps=2, step_size=0.5, scale=1.0), 2 * MOVES_PER_BLOCK
    tree = sample_hais(5, 3, model=model, betas=k, kernel=kernel, cores=cores, **SETTINGS)
    attrs = tree["evidence"].attrs
    assert attrs["run_row_gradients"] == 5 * 3 * k * 2
    # no pilot: one look at the likelihood of the pilot's rows
    assert attrs["pilot_row_gradients"] == RunSettings.pilot_rows * 2
    assert isinstance(attrs["run_row_gradients"], int)
    # tails along a line from some draws at least, in seconds of their own
    assert attrs["check_row_gradients"] > 0
    assert attrs["checking_time"] > 0


def test_both_directions_and_kernels_without_gradients(model: pm.Model) -> None:
    """Catches reverse rows left out, and values alone passed off as gradients."""
    kernel, k = RandomWalk(step_size=0.5, scale=1.0), MOVES_PER_BLOCK
    settings: dict[str, Any] = {"betas": k, "kernel": kernel, "direction": "both"}
    tree = sample_hais(5, 3, model=model, tune=k, **settings, **SETTINGS)
    attrs = tree["evidence"].attrs
    # forward, moves at beta = 1, and reverse
    assert attrs["run_row_evaluations"] == 3 * (5 * 3 * k)
    assert "run_row_gradients" not in attrs


@pytest.mark.filterwarnings("ignore:walkers stay in one part")
def test_tempering_counts_climb_warm_up_and_draws(model: pm.Model) -> None:
    """Catches chains that begin to count after their climb."""
    kernel, m = Hamiltonian(step_size=0.5, scale=1.0), MOVES_PER_BLOCK
    levels = np.linspace(0, 1, 3)
    tree = sample_tempered(
        2 * m, 2, walkers=6, model=model, betas=levels, kernel=kernel, tune=m, **SETTINGS
    )
    attrs = tree["evidence"].attrs
    # of each chain: three levels climbed with two evaluations of starts, one tune, the draws, of
    # which each block may begin with fresh rows
    extra = attrs["run_row_gradients"] - 2 * 6 * (m * (3 + 1 + 2) + 2)
    assert extra in range(0, 2 * 6 * 3 + 1, 6)
    assert attrs["pilot_row_gradients"] > RunSettings.pilot_rows
    assert attrs["check_row_gradients"] > 0


def test_a_bridge_counts_rows(model: pm.Model) -> None:
    """Catches a bridge whose result does not say what it cost, and padding left out."""
    draws = make_rng("posterior").normal(0.35, np.sqrt(0.5), (2, 1000))
    tree = xr.DataTree.from_dict({"posterior": dict_to_dataset({"mu": draws})})
    settings: dict[str, Any] = {"method": "normal", "cross_check": None}
    bridged = bridge_sampling(tree, model, **settings, random_seed=1, progressbar=False)
    # 2,000 draws in calls of 512, 1,000 rows of the proposal, a call that looks at the tails, and
    # two that look for poles
    assert bridged["evidence"].attrs["row_evaluations"] == (4 + 2 + 1 + 2) * 512
