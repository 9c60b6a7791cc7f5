"""Data rows times particles in one run: groups of rows, both ways of batching, batches."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from support.checks import CheckFailedError, assert_detects, check_coverage, make_rng
from support.latent_models import PEOPLE, check_rows, exact_people, numbers, survey
from support.pilot_runs import narrow_block

import pymc_logz as lz
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.kernels.base import KernelState
from pymc_logz.loop.calls import Call
from pymc_logz.loop.frozen import make_plan
from pymc_logz.models.flat import flatten_model, model_path
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.geometric import Evaluation
from pymc_logz.per_datum import likelihood as per_datum
from pymc_logz.per_datum.data_rows import read_data_rows
from pymc_logz.per_datum.likelihood import (
    BatchJob,
    batches_of,
    collect,
    compile_batches,
    pilot_groups,
    run_batches,
)
from pymc_logz.pilot.ladder import variance_of_most
from pymc_logz.pilot.population import Population
from pymc_logz.pilot.scales import centred, population_scale
from pymc_logz.runners import block as block_module
from pymc_logz.runners.anneal import Annealed, Plan, anneal
from pymc_logz.runners.block import Block
from pymc_logz.runners.running import Running
from pymc_logz.seeds import generators_from

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
FIXED = lz.kernels.Hamiltonian(step_size=0.3, scale=1.0)

# --- one path for all rows -----------------------------------------------------------------------

STACKED = np.concatenate([PEOPLE[name].astype(float) for name in PEOPLE], axis=1)


def short_plan(n_temperatures: int, n_dims: int = 1) -> Plan:
    ends = np.full(n_temperatures + 1, 0.5)
    return Plan(np.linspace(0, 1, n_temperatures + 1), ends, np.ones((ends.size, n_dims)))


@cache
def annealed(kernel: Any, batching: str, **compile_kwargs: Any) -> tuple[Block, Annealed]:
    """A short run of all people with 3 particles each, batched in one of the ways."""
    model = survey()
    flat = flatten_model(model, data=PEOPLE)
    path = replace(model_path(flat, PriorDraws(model)), how=batching)
    kernel = kernel.resolved(flat.n_dims)
    block = Block(path, kernel, 36, {"mode": "JAX", **compile_kwargs}, data=STACKED)
    assert block.path.batching == batching
    rng = make_rng("annealed")
    return block, anneal(block, short_plan(6), path.sample_reference(rng, 36), rng)


KERNELS = [FIXED, lz.kernels.RandomWalk(step_size=0.5, scale=1.0), lz.kernels.Slice(scale=1.0)]


@pytest.mark.parametrize(
    "kernel",
    # exact values of batches below are by the first
    [pytest.param(KERNELS[0], marks=pytest.mark.slow), *KERNELS[1:]],
    ids=lambda kernel: type(kernel).__name__,
)
def test_both_ways_of_batching_make_the_same_chain(kernel: Any) -> None:
    """Would catch data that one of the ways, or a kernel's inner loop, leaves behind or shifts."""
    pytest.importorskip("jax")
    (_, vector), (_, row) = annealed(kernel, "vector"), annealed(kernel, "row")
    np.testing.assert_allclose(row.log_weight, vector.log_weight, rtol=1e-9)
    np.testing.assert_allclose(row.position, vector.position, rtol=1e-9)
    np.testing.assert_allclose(row.stage_mean_log_ratio, vector.stage_mean_log_ratio, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["NUMBA", "CVM"])
@pytest.mark.parametrize("batching", ["vector", "row"])
def test_backends_make_the_same_chain(batching: str, mode: str) -> None:
    """Would catch a backend that reads the data of the rows in another way."""
    _, expected = annealed(FIXED, "vector")
    _, other = annealed(FIXED, batching, mode=mode)
    np.testing.assert_allclose(other.log_weight, expected.log_weight, rtol=1e-6)


def test_log_ratio_is_the_log_likelihood_of_each_row() -> None:
    """Would catch a row that is given the data of another: exact, row by row, against PyMC's."""
    block, _ = annealed(KERNELS[1], "vector")
    position = make_rng("positions").normal(size=(36, 1))
    expected = np.empty(36)
    for i in range(36):
        row = {name: value[i // 3] for name, value in PEOPLE.items()}
        mu, logit = np.exp(0.5 + 0.6 * position[i]), 2 * row["x"] * position[i] - 0.5
        expected[i] = stats.poisson.logpmf(row["counts"], mu).sum()
        expected[i] += stats.bernoulli.logpmf(row["answers"], expit(logit)).sum()
    np.testing.assert_allclose(block.densities(position)[1], expected, rtol=1e-6)
    # a permutation of the data rows is another answer
    _, moved = block.given(np.roll(STACKED, 1, axis=0), 36).densities(position)
    assert not np.any(np.isclose(moved, expected))


def test_statistics_along_the_path_are_those_of_groups() -> None:
    """Would catch weights that are compared between data rows, whose log Z differ by far."""
    _, result = annealed(KERNELS[1], "vector")
    groups = result.log_weight.reshape(12, 3)
    weight = np.exp(groups - groups.max(axis=1, keepdims=True))
    ess = (weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1)).sum()
    assert result.stage_weight_ess[-1] == pytest.approx(ess)
    assert result.stage_weight_ess[0] == 36
    assert ess > 12  # at least one particle of each data row


def populated(n_groups: int, n_known_groups: int) -> tuple[Population, np.ndarray]:
    """Rows whose position says which data row they belong to."""
    group = np.repeat(np.arange(n_groups), 8).astype(float)
    flat, zeros = np.zeros(group.size), np.zeros((group.size, 1))
    log_ratio = make_rng("population").normal(size=group.size) + 50 * group
    log_ratio[-8:] = -np.inf  # a data row that no particle can explain
    state = KernelState(group[:, None], zeros, Evaluation(flat, log_ratio, zeros, zeros))
    population = Population(narrow_block(FIXED), group[:, None], make_rng("resample"), 0.8)
    population.state, population.log_ratio = state, log_ratio
    population.n_parts = n_known_groups
    return population, group


def check_resampling(population: Population, group: np.ndarray) -> None:
    weight = population.weight(0.5 * population.log_ratio.reshape(population.n_parts, -1))
    population.resample(weight)
    ends = np.asarray(population.state.position)[:, 0]
    shares = weight.reshape(4, -1).sum(axis=1)
    if np.any(ends != group) or not np.allclose(shares, 0.25):
        raise CheckFailedError("rows went over to another data row")


def test_pilot_resamples_within_each_data_row() -> None:
    """Would catch a pilot whose rows all end at the data row that is easiest to explain."""
    check_resampling(*populated(4, 4))
    assert_detects(lambda groups: check_resampling(*populated(4, groups)), 1)


def check_scale(n_groups: int) -> None:
    """Scales of 4 groups of 500 rows, of standard deviation 1, that lie far apart."""
    rng = make_rng("scales")
    rows = rng.normal(size=(2000, 2)) + 10 * np.repeat(np.arange(4), 500)[:, None]
    weight = rng.exponential(size=2000) / 2000
    scale = population_scale(centred(rows, weight, n_groups), weight, np.ones(2))
    if not np.all(np.abs(scale - 1) < 0.15):
        raise CheckFailedError(f"scales {scale} are not those within a group")


def test_scales_are_those_within_data_rows() -> None:
    """Would catch scales as wide as the posteriors of all data rows lie apart."""
    check_scale(4)
    assert_detects(check_scale, 1)


# --- batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_data", "draws", "width"), [(1, 2, 1), (16, 128, 5), (200, 256, 64), (1001, 100, 16)]
)
def test_batches_hold_every_row_once(n_data: int, draws: int, width: int) -> None:
    """Would catch rows that are lost or run twice, and arrays of more sizes than one."""
    batches = batches_of(n_data, draws, width)
    np.testing.assert_array_equal(batches.ravel()[:n_data], np.arange(n_data))
    assert batches.size - n_data < len(batches)
    assert batches.shape[1] == 1 or batches.shape[1] * draws <= per_datum.ROWS_PER_BATCH


def test_huge_data_run_in_small_batches() -> None:
    """Would catch memory that grows with the length of a datum."""
    assert batches_of(50, 256, 10_000).shape == (50, 1)
    assert batches_of(50, 16, 100_000).shape == (25, 2)


@pytest.mark.parametrize(
    ("n_data", "n_rows", "expected"),
    [(200, 2048, (32, 2048)), (1, 256, (1, 256)), (3, 48, (2, 256)), (10, 100_000, (8, 4096))],
)
def test_pilot_groups(n_data: int, n_rows: int, expected: tuple[int, int]) -> None:
    """Would catch a pilot with groups of unequal size, or with too few particles in each."""
    assert pilot_groups(n_data, n_rows) == expected


def test_ladder_is_long_enough_for_most_groups_that_can_be_reached() -> None:
    """Would catch a ladder that grows without end for a data row that is impossible."""
    log_weight = make_rng("groups").normal(size=(10, 500)) * np.linspace(0.1, 1, 10)[:, None]
    variance = variance_of_most(list(log_weight))
    assert variance_of_most([*log_weight, np.full(500, -np.inf)]) == variance
    assert variance_of_most([log_weight[0]]) < 0.02 < variance < variance_of_most([log_weight[9]])
    assert variance_of_most([np.full(500, -np.inf)]) == np.inf


@pytest.fixture(scope="module")
def prepared() -> tuple[Prepared, Block, Plan]:
    """The survey made ready, with a frozen plan, for tests that run batches of it."""
    rngs = generators_from(3)
    ready = prepare(survey(), rngs.checks, data=PEOPLE)
    block, _ = compile_batches(ready, STACKED, Call(HaisSettings(draws=16, betas=30), rngs))
    start = ready.prior(rngs.pilot, block.n_rows)
    return ready, block, make_plan(block, HaisSettings(betas=30), start, rngs.pilot).plan


def call_of(settings: HaisSettings, seed: int) -> Call[HaisSettings]:
    """A call whose batches have random numbers of this seed."""
    rngs = generators_from(0)._replace(run=np.random.default_rng(seed))
    return Call(settings, rngs)


def batched(
    prepared: tuple[Prepared, Block, Plan], size: int, cores: int = 1, draws: int = 16
) -> list[Any]:
    """Results of all people in batches of a size, from one seed."""
    _, block, plan = prepared
    batches = list(STACKED.reshape(-1, size, STACKED.shape[1]))
    settings = HaisSettings(draws=draws, running=Running(cores=cores))
    return run_batches(block, plan, batches, call_of(settings, 4))


def test_cores_do_not_change_a_bit(prepared: tuple[Prepared, Block, Plan]) -> None:
    """Would catch batches that share a random stream, prior draws among them."""
    one, two = (
        [e.log_z for result in batched(prepared, 3, cores) for e in result.estimates]
        for cores in (1, 2)
    )
    assert one == two
    assert len(set(one)) == 12


def test_batches_of_any_size_are_exact(
    prepared: tuple[Prepared, Block, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch data that go to the particles of other rows, as in the broken variant."""
    exact = exact_people(PEOPLE)

    def check(size: int) -> None:
        results = batched(prepared, size, draws=64)
        estimates = [estimate for result in results for estimate in result.estimates]
        assert [estimate.status for estimate in estimates].count("degenerate") == 0
        log_z, mcse = (
            np.array([getattr(e, name) for e in estimates]) for name in ("log_z", "mcse")
        )
        check_rows((log_z, mcse, exact))

    check(6)
    check(12)

    def tiled(data: np.ndarray, n_rows: int) -> tuple[int, list[np.ndarray]]:
        return len(data), [np.tile(data, (n_rows // len(data), 1))]

    monkeypatch.setattr(block_module, "_per_row", tiled)
    assert_detects(check, 12)


@pytest.mark.filterwarnings("ignore:4 of 12 data rows.*few_rows")
def test_interrupt_keeps_finished_batches(
    prepared: tuple[Prepared, Block, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch finished rows that are thrown away, or unfinished ones with a number."""
    advance, calls = BatchJob.advance, iter(range(100))

    def stop(*args: Any) -> tuple[BatchJob, None]:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return advance(*args)

    monkeypatch.setattr(BatchJob, "advance", stop)
    results, rows = batched(prepared, 4), read_data_rows(survey(), PEOPLE)
    ready, block, plan = prepared
    with pytest.warns(lz.EvidenceWarning, match="8 of 12 data rows.*row 4.*'not_run'"):
        tree = collect(ready, rows, block, plan, results, call_of(HaisSettings(draws=16), 4))
    status = tree["evidence"]["status"].to_numpy()[0]
    np.testing.assert_array_equal(status == "not_run", np.arange(12) >= 4)
    np.testing.assert_array_equal(np.isnan(numbers(tree)[0]), status == "not_run")
    assert np.isnan(tree["evidence"].attrs["sum_log_z"])


@pytest.mark.slow
def test_intervals_cover_the_exact_log_likelihood() -> None:
    """Would catch errors that miss a source of variation, over rows and replicates."""
    settings = HaisSettings(draws=128)
    rngs = generators_from(3)
    ready = prepare(survey(), rngs.checks, data=PEOPLE)
    block, batches = compile_batches(ready, STACKED, Call(settings, rngs))
    plan = make_plan(block, settings, ready.prior(rngs.pilot, block.n_rows), rngs.pilot).plan
    z = []
    for seed in range(25):
        [result] = run_batches(block, plan, batches, call_of(settings, seed))
        log_z = np.array([estimate.log_z for estimate in result.estimates])
        mcse = np.array([estimate.mcse for estimate in result.estimates])
        z.append((log_z - exact_people(PEOPLE)) / mcse)
    z = np.concatenate(z)
    covered = np.abs(z) < 1.96
    print(f"{covered.mean():.3f} covered, z {z.mean():+.2f} +- {z.std():.2f}")
    check_coverage(covered)
    assert_detects(check_coverage, np.abs(z) < 1.96 / 2)
