"""Tempering leaves the joint law of position, momentum and level as it is, whatever its guesses."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.special import softmax
from support.checks import assert_detects, check_means, check_same_law, make_rng
from support.paths_with_exact_draws import (
    N_ROWS,
    RATES,
    SHAPES,
    TARGETS,
    compiled_block,
    dead_zone_block,
    log_z_at,
)

from pymc_logz.kernels import Hamiltonian, RandomWalk, Slice
from pymc_logz.kernels.base import Kernel
from pymc_logz.runners import temper
from pymc_logz.runners.block import Block
from pymc_logz.runners.temper import (
    Tables,
    TemperBlock,
    Walkers,
    draw_levels,
    swap_levels,
    walk,
)

BETAS = np.array([0.0, 0.15, 0.5, 1.0])
LOG_PRIOR = np.log([0.4, 0.1, 0.3, 0.2])
LOG_Z_HAT = np.array([0.0, 0.4, -0.5, 0.3])
"""Neither right nor close: the joint law is invariant under any guess."""
K = BETAS.size


def make_tables(kernel: Kernel, scale: tuple[float, ...]) -> Tables:
    """Settings that differ from level to level in every way."""
    step_size = np.array([1.3, 1.0, 0.6, 0.9])
    factor = np.array([1.5, 1.0, 1.2, 0.8])
    scales = factor[:, None] * np.array(scale)
    if kernel.dense:
        slants = np.array([0.0, 0.3, -0.2, 0.5])
        lower = np.tile(np.eye(2), (K, 1, 1))
        lower[:, 1, 0] = slants
        scales = scales[:, :, None] * lower
    return Tables(BETAS, step_size, scales, np.array([1.0, 0.3, 0.05, 0.6]), LOG_PRIOR - LOG_Z_HAT)


@dataclass
class Law:
    """The joint law of position, momentum and level, and its exact draws."""

    name: str
    exchange: str

    def draw(self, rng: np.random.Generator, block: TemperBlock) -> Walkers:
        """Independent walkers (swaps: independent sets of K walkers), not yet evaluated."""
        target = TARGETS[self.name]
        if self.exchange == "swap":
            level = block.spread_levels(rng)
        else:
            share = softmax(LOG_PRIOR - LOG_Z_HAT + log_z_at(self.name, BETAS))
            level = rng.choice(K, size=block.n_walkers, p=share)
        position = np.empty((level.size, target.n_dims))
        for k in range(K):
            here = level == k
            position[here] = target.sample(rng, BETAS[k], int(here.sum()))
        state = block.start(position, rng).state
        state = state._replace(momentum=rng.standard_normal(position.shape))
        return Walkers(state, level)


def functionals(walkers: Walkers) -> dict[str, np.ndarray]:
    """Bounded values of each walker that tell levels, positions and momenta together."""
    x, v = np.asarray(walkers.state.position), np.asarray(walkers.state.momentum)
    level = np.asarray(walkers.level)
    values = {}
    for k in range(K):
        here = (level == k).astype(float)
        values[f"level {k}"] = here
        for i in range(x.shape[1]):
            squashed = np.tanh(x[:, i])
            values |= {
                f"x{i} at {k}": here * squashed,
                f"x{i}^2 at {k}": here * squashed**2,
                f"v{i} at {k}": here * v[:, i],
                f"v{i}^2 at {k}": here * v[:, i] ** 2,
                f"x{i} v{i} at {k}": here * squashed * v[:, i],
            }
    return values


def check_joint_law(
    block: TemperBlock, name: str, distort: Callable[[Tables], Tables] = lambda tables: tables
) -> None:
    """Fail unless exact draws keep their law under a block of iterations."""
    law, rng = Law(name, block.exchange), make_rng("temper", name, type(block).__name__)
    tables = distort(make_tables(block.kernel, TARGETS[name].scale))
    before, fresh = law.draw(rng, block), law.draw(rng, block)
    after, trace = block.launch(before, tables, rng)
    done = trace()
    assert done.acceptance_rate.mean() > 0.1, "nothing moves"
    assert np.mean(np.asarray(after.level) != before.level) > 0.3, "levels stay"
    old, new = functionals(before), functionals(after)
    # walkers of one set depend on each other: compare sets
    sets = (-1, K) if block.exchange == "swap" else (-1, 1)
    changed = {label: (new[label] - old[label]).reshape(sets).sum(axis=1) for label in old}
    check_means({label: change for label, change in changed.items() if np.ptp(change) > 0})
    pairs = {}
    for k in range(K):
        for i in range(block.path.n_dims):
            pairs[f"x{i} at {k}"] = tuple(
                np.asarray(w.state.position)[np.asarray(w.level) == k, i] for w in (after, fresh)
            )
    check_same_law(pairs)


@cache
def temper_block(
    name: str, exchange: str, kernel: Kernel, variant: type[TemperBlock] = TemperBlock
) -> TemperBlock:
    return variant(compiled_block(name, kernel), K, N_ROWS, exchange)


@pytest.mark.parametrize(
    ("name", "kernel", "exchange"),
    [
        ("log_gamma", Hamiltonian(), "gibbs"),
        ("log_gamma", Hamiltonian(), "swap"),
        ("gaussian", Hamiltonian(dense=True), "gibbs"),
        pytest.param("gaussian", Hamiltonian(dense=True), "swap", marks=pytest.mark.slow),
        pytest.param("gaussian", Hamiltonian(n_steps=3), "gibbs", marks=pytest.mark.slow),
        pytest.param("gaussian", RandomWalk(dense=True), "gibbs", marks=pytest.mark.slow),
        pytest.param("log_gamma", RandomWalk(), "gibbs", marks=pytest.mark.slow),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_joint_law_is_invariant(name: str, kernel: Kernel, exchange: str) -> None:
    """Catches any error of exchange, of gathering settings by level, or of per-row moves."""
    check_joint_law(temper_block(name, exchange, kernel), name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dense"), [("log_gamma", False), ("gaussian", True)])
def test_joint_law_is_invariant_under_slice_moves(name: str, dense: bool) -> None:
    """Catches directions of another walker, and widths that differ by walker."""
    check_joint_law(temper_block(name, "gibbs", Slice(dense=dense)), name)


class UpsideDown(TemperBlock):
    """Has the log ratio's sign wrong in the exchange."""

    def new_levels(self, log_ratio: Any, *rest: Any) -> Any:
        return super().new_levels(-log_ratio, *rest)


class OtherWalker(TemperBlock):
    """Exchanges levels by the log ratio of another walker."""

    def new_levels(self, log_ratio: Any, *rest: Any) -> Any:
        return super().new_levels(log_ratio[::-1], *rest)


class StickyFirst(TemperBlock):
    """Swaps with the walker of the same place in the row, not of the neighbouring level."""

    def new_levels(self, log_ratio: Any, level: Any, tables: Any, *rest: Any) -> Any:
        in_order = (level * 0 + 1).cumsum() - 1
        moved = swap_levels(log_ratio, in_order % K, tables.betas, *rest)
        return (level + moved - in_order % K) % K


@pytest.mark.parametrize(
    ("variant", "exchange"),
    [
        (OtherWalker, "gibbs"),
        (UpsideDown, "swap"),
        pytest.param(UpsideDown, "gibbs", marks=pytest.mark.slow),
        pytest.param(StickyFirst, "swap", marks=pytest.mark.slow),
    ],
)
def test_a_broken_exchange_is_detected(variant: type[TemperBlock], exchange: str) -> None:
    """Catches an invariance test without power."""
    block = temper_block("log_gamma", exchange, Hamiltonian(), variant)
    assert_detects(lambda broken: check_joint_law(broken, "log_gamma"), block)


@pytest.mark.parametrize("exchange", ["gibbs", "swap"])
@pytest.mark.parametrize(
    "distort",
    [
        lambda tables: tables._replace(betas=tables.betas**3),
        lambda tables: tables._replace(log_pseudo_prior=-tables.log_pseudo_prior),
        lambda tables: tables._replace(log_pseudo_prior=np.zeros(K)),
    ],
    ids=["other betas", "prior over Z upside down", "no prior and no Z"],
)
def test_other_settings_are_detected(
    distort: Callable[[Tables], Tables], exchange: str, request: pytest.FixtureRequest
) -> None:
    """Catches a check that sees levels but not positions, and swaps that depend on a guess."""
    block = temper_block("log_gamma", exchange, Hamiltonian())

    def check(distorted: Callable[[Tables], Tables]) -> None:
        check_joint_law(block, "log_gamma", distorted)

    if exchange == "swap" and "other betas" not in request.node.name:
        check(distort)
    else:
        assert_detects(check, distort)


# Levels by hand


def test_levels_follow_their_law_at_fixed_positions() -> None:
    """Catches a cumulative sum that leaves out, or adds, a level; a log ratio of -inf."""
    n = 200_000
    rng = make_rng("levels")
    ratio = np.repeat([1.3, -2.0, 0.0, -np.inf], n // 4)
    tables = Tables(BETAS, *np.zeros((3, K)), LOG_PRIOR - LOG_Z_HAT)
    symbols = [pt.dvector(), *(pt.dvector() for _ in tables), pt.dvector()]
    level = draw_levels(symbols[0], Tables(*symbols[1:6]), symbols[6])
    function = pytensor.function(symbols, level, mode="FAST_COMPILE", on_unused_input="ignore")
    drawn = function(ratio, *tables, np.log(1 - rng.random(n)))
    for value in np.unique(ratio):
        here = drawn[ratio == value]
        if np.isinf(value):
            assert np.all(here == 0)
            continue
        expected = softmax(BETAS * value + LOG_PRIOR - LOG_Z_HAT)
        check_means({f"level {k} at {value}": (here == k) - expected[k] for k in range(K)})


@pytest.mark.parametrize("exchange", ["gibbs", pytest.param("swap", marks=pytest.mark.slow)])
def test_walkers_outside_the_support_go_to_the_reference(exchange: str) -> None:
    """Catches walkers at beta > 0 where the density is zero, and NaN that spreads."""
    kernel, rng = Hamiltonian(), make_rng("dead", exchange)
    block = TemperBlock(dead_zone_block(kernel), K, N_ROWS, exchange)
    tables = make_tables(kernel, (1.0,))
    walkers = block.start(rng.standard_normal((N_ROWS, 1)), rng)
    walkers, _ = walk(block, walkers, tables, 64, rng)
    walkers, done = walk(block, walkers, tables, 32, rng)
    lost = np.isneginf(done.log_ratio)
    assert lost.any(), "no walker is outside: the test tests nothing"
    assert np.all(done.level[lost] == 0)
    assert not np.any(np.isnan(done.log_ratio))
    assert np.all(done.n_nan > 0)
    x, level = np.asarray(walkers.state.position)[:, 0], np.asarray(walkers.level)
    # the new level was drawn where the walker is now
    assert np.all((x[level > 0] >= -1) & (x[level > 0] <= 1.5))
    if exchange == "swap":
        check_same_law({"x at the reference": (x[level == 0], rng.standard_normal(N_ROWS))})


@pytest.mark.parametrize("exchange", ["gibbs", "swap"])
def test_swaps_keep_one_walker_at_each_level(exchange: str) -> None:
    """Catches two walkers at one level; levels by Gibbs need no such thing."""
    block = temper_block("log_gamma", exchange, Hamiltonian())
    rng = make_rng("sets")
    walkers = block.start(TARGETS["log_gamma"].sample(rng, 1.0, N_ROWS), rng)
    assert np.all(np.sort(walkers.level.reshape(-1, K), axis=1) == np.arange(K))
    _, done = walk(block, walkers, make_tables(Hamiltonian(), (0.8,)), 9, rng)
    sets = np.sort(done.level.reshape(9, -1, K), axis=2)
    assert np.all(sets == np.arange(K)) == (exchange == "swap")
    if exchange == "swap":
        # even pairs in the first exchange, odd ones in the second
        change = done.level[1] != done.level[0]
        pair = done.level[0] // 2
        assert np.array_equal(pair[change], (done.level[1] // 2)[change])
        later = done.level[2][done.level[2] != done.level[1]]
        assert not np.any(np.isin(later, [0, K - 1]))


# Walks


def test_thinned_positions_are_those_of_the_whole_walk() -> None:
    """Catches positions one iteration off, or a rhythm that starts anew in each block."""
    block = temper_block("log_gamma", "gibbs", Hamiltonian())
    tables = make_tables(Hamiltonian(), (0.8,))
    start = TARGETS["log_gamma"].sample(make_rng("thin"), 0.5, N_ROWS)
    runs = {}
    for every in (1, 5, 70):
        rng = make_rng("thin walk")
        runs[every] = walk(block, block.start(start, rng), tables, 70, rng, every=every)[1]
    whole = runs[1]
    assert whole.position.shape == (70, N_ROWS, 1)
    assert whole.level.shape == whole.log_ratio.shape == (70, N_ROWS)
    np.testing.assert_array_equal(runs[5].position, whole.position[4::5])
    np.testing.assert_array_equal(runs[70].position, whole.position[69:])
    np.testing.assert_array_equal(runs[5].log_ratio, whole.log_ratio)
    u = whole.position[..., 0]
    np.testing.assert_allclose(whole.log_ratio, SHAPES[1] * u - RATES[1] * np.exp(u), atol=1e-9)
    np.testing.assert_allclose(whole.log_reference, SHAPES[0] * u - RATES[0] * np.exp(u), atol=1e-9)


def test_tables_of_one_level_keep_walkers_at_its_beta() -> None:
    """Catches a climb whose walkers wander off to other temperatures."""
    block = temper_block("log_gamma", "gibbs", Hamiltonian())
    rng, target = make_rng("one level"), TARGETS["log_gamma"]
    tables = make_tables(Hamiltonian(), (0.8,)).all_at(2)
    walkers = block.start(target.sample(rng, BETAS[2], N_ROWS), rng)
    walkers, _ = walk(block, walkers, tables, 32, rng)
    drawn = target.sample(rng, BETAS[2], N_ROWS)
    check_same_law({"x": (np.asarray(walkers.state.position)[:, 0], drawn[:, 0])})


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation")
@pytest.mark.parametrize("mode", ["FAST_COMPILE", pytest.param("NUMBA", marks=pytest.mark.slow)])
@pytest.mark.parametrize("exchange", ["gibbs", pytest.param("swap", marks=pytest.mark.slow)])
def test_backends_make_the_same_walk(mode: str, exchange: str) -> None:
    """Catches a graph that means one thing on JAX and another elsewhere."""
    target, kernel = TARGETS["gaussian"], Hamiltonian(dense=True)
    tables = make_tables(kernel, target.scale)
    ends = []
    for kwargs in ({"mode": mode}, None):
        base = (
            compiled_block("gaussian", kernel)
            if kwargs is None
            else Block(target.path(), kernel, 16, kwargs)
        )
        block = TemperBlock(base, K, 16, exchange)
        assert (block.compiled.backend == "jax") == (kwargs is None)
        rng = make_rng("backends")
        ends.append(walk(block, block.start(np.zeros((16, 2)), rng), tables, 40, rng)[1])
    np.testing.assert_array_equal(ends[0].level, ends[1].level)
    np.testing.assert_allclose(ends[0].position, ends[1].position, atol=1e-8)
    np.testing.assert_allclose(ends[0].log_ratio, ends[1].log_ratio, atol=1e-8)


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation")
def test_number_of_moves_is_even_and_limited_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches blocks after which even and odd swaps no longer take turns."""
    monkeypatch.setattr(temper, "MAX_NOISE_PER_BLOCK", 79)
    base = compiled_block("log_gamma", Hamiltonian())
    assert TemperBlock(base, K, 10).n_moves == 6
