"""Paths over whole numbers whose law at every beta is known, and what breaks a kernel on them.

Each path is made once, since it keeps what is compiled for it: by kernel, for all betas.
"""

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import special, stats
from scipy.special import softmax

from pymc_logz.kernels import Gibbs, IntegerWalk, Kernel
from pymc_logz.kernels.base import KernelState, Move
from pymc_logz.paths.geometric import AnnealingPath, Entries, Site
from pymc_logz.runners.block import Block
from support.checks import ALPHA, CheckFailedError, check_means, check_same_law
from support.kernel_contracts import constant_moves, evaluated_state

N_ROWS = 10_000
SITES = (Site(0, 0, 1), Site(1, -1, 1), Site(2, 3, 6))
"""Two, three and four values."""
STATES = np.array(
    list(product(*(range(site.lower, site.upper + 1) for site in SITES))), dtype=float
)
RATES = (9.0, 3.0)
"""Poisson means of the reference and of the target, whose path is a Poisson too."""
MEANS, SDS = np.array([-1.5, 0.5, 2.0]), np.array([0.5, 1.0, 0.3])
"""Of the continuous entry given the whole number beside it."""


def _densities(rows: Any, xp: Any) -> tuple[Any, Any]:
    """Log reference and log ratio of rows of three dependent whole numbers."""
    a, b, c = rows[..., 0], rows[..., 1], rows[..., 2]
    return 0.3 * a * b - 0.2 * b * c, 2.0 * a * b - 1.5 * xp.abs(b + c - 4.0) + 0.7 * a * (c - 4.0)


@cache
def table_path() -> AnnealingPath:
    """Three dependent whole numbers."""
    point = pt.tensor("point", dtype="float64", shape=(3,))
    reference, ratio = _densities(point, pt)
    draw = table_draws(0.0)
    return AnnealingPath(
        point, reference, ratio, n_dims=3, sample_reference=draw, sites=SITES, how="vector"
    )


def table_law(beta: float) -> np.ndarray:
    """Probability of each of the states."""
    reference, ratio = _densities(STATES, np)
    return np.asarray(softmax(reference + beta * ratio))


def table_draws(beta: float) -> Any:
    """Exact draws of the table at a beta."""
    return lambda rng, n: STATES[rng.choice(len(STATES), n, p=table_law(beta))]


TIED_SITES = (*(Site(i, 0, 6, tied=0) for i in range(3)), Site(3, 0, 2))
"""Three counts with a fixed sum, and a label beside them."""
TIED_STATES = np.array(
    [(a, b, 6 - a - b, k) for a in range(7) for b in range(7 - a) for k in range(3)], dtype=float
)


def _tied_densities(rows: Any, xp: Any, gammaln: Any) -> tuple[Any, Any]:
    a, b, c, k = (rows[..., i] for i in range(4))
    reference = -gammaln(a + 1) - gammaln(b + 1) - gammaln(c + 1) - 0.2 * k
    return reference, 0.5 * a - xp.abs(b - 2.0) + 0.2 * a * c + 0.3 * k * b


@cache
def tied_path() -> AnnealingPath:
    """Counts with a fixed sum."""
    point = pt.tensor("point", dtype="float64", shape=(4,))
    reference, ratio = _tied_densities(point, pt, pt.gammaln)
    draw = tied_draws(0.0)
    return AnnealingPath(
        point, reference, ratio, n_dims=4, sample_reference=draw, sites=TIED_SITES, how="vector"
    )


def tied_law(beta: float) -> np.ndarray:
    """Probability of each of the states."""
    reference, ratio = _tied_densities(TIED_STATES, np, special.gammaln)
    return np.asarray(softmax(reference + beta * ratio))


def tied_draws(beta: float) -> Any:
    """Exact draws at a beta."""
    return lambda rng, n: TIED_STATES[rng.choice(len(TIED_STATES), n, p=tied_law(beta))]


@cache
def count_path() -> AnnealingPath:
    """One whole number without an upper end."""
    point = pt.tensor("point", dtype="float64", shape=(1,))
    n = point[0]
    reference = pt.switch(n >= 0, n * np.log(RATES[0]) - pt.gammaln(n + 1.0), -np.inf)
    return AnnealingPath(
        point,
        reference,
        n * np.log(RATES[1] / RATES[0]),
        n_dims=1,
        sample_reference=lambda rng, n: rng.poisson(RATES[0], (n, 1)).astype(float),
        sites=(Site(0, 0, None),),
        how="vector",
    )


def count_rate(beta: float) -> float:
    """Mean of the whole number at a beta."""
    return float(RATES[0] ** (1 - beta) * RATES[1] ** beta)


@cache
def mixed_path() -> AnnealingPath:
    """A label, and a normal whose mean and spread depend on it."""
    point = pt.tensor("point", dtype="float64", shape=(2,))
    label, x = pt.cast(point[0], "int64"), point[1]
    reference = -0.5 * x**2
    target = -0.5 * ((x - pt.constant(MEANS)[label]) / pt.constant(SDS)[label]) ** 2
    return AnnealingPath(
        point,
        reference,
        target - reference,
        n_dims=2,
        sample_reference=lambda rng, n: mixed_draws(rng, 0.0, n),
        sites=(Site(0, 0, 2),),
        how="row",
    )


def mixed_law(beta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probability of each label at a beta, and mean and precision of the normal given it."""
    precision = (1 - beta) + beta / SDS**2
    mean = beta * MEANS / SDS**2 / precision
    log_mass = 0.5 * precision * mean**2 - 0.5 * beta * (MEANS / SDS) ** 2 - 0.5 * np.log(precision)
    return np.asarray(softmax(log_mass)), mean, precision


def mixed_draws(rng: np.random.Generator, beta: float, n: int) -> np.ndarray:
    """Exact draws at a beta: products of normals are normal."""
    label_law, mean, precision = mixed_law(beta)
    label = rng.choice(3, n, p=label_law)
    x = mean[label] + rng.standard_normal(n) / np.sqrt(precision[label])
    return np.stack([label.astype(float), x], axis=1)


def check_counts(observed: np.ndarray, probability: np.ndarray) -> None:
    """Fail unless counts have these probabilities (chi-square)."""
    keep = probability * observed.sum() > 5
    counts = np.append(observed[keep], observed[~keep].sum())
    expected = np.append(probability[keep], max(1 - probability[keep].sum(), 0.0)) * observed.sum()
    counts, expected = (part[expected > 0.5] for part in (counts, expected))
    statistic = float(((counts - expected) ** 2 / expected).sum())
    p = stats.chi2.sf(statistic, counts.size - 1)
    if p < ALPHA:
        raise CheckFailedError(f"p={p:.2g}: counts {counts} where {expected.round(1)} are expected")


def moved(kernel: Kernel, path: AnnealingPath, beta: float, rng: np.random.Generator) -> np.ndarray:
    """Exact draws at a beta after a block of moves at it."""
    block = Block(path, kernel, N_ROWS)
    if path.sites == TIED_SITES:
        start = tied_draws(beta)(rng, N_ROWS)
    else:
        draws = {1: count_draws, 2: mixed_draws, 3: table_draws_at}[path.n_dims]
        start = draws(rng, beta, N_ROWS)
    state = evaluated_state(block, start, rng.standard_normal(start.shape))
    scale = np.ones(path.n_dims)
    moves = constant_moves(block, beta=beta, step_size=0.7, scale=scale, refreshment=0.3)
    return np.asarray(block.run(state, moves, rng)[0].position)


def count_draws(rng: np.random.Generator, beta: float, n: int) -> np.ndarray:
    """Exact draws of the count at a beta."""
    return rng.poisson(count_rate(beta), (n, 1)).astype(float)


def table_draws_at(rng: np.random.Generator, beta: float, n: int) -> np.ndarray:
    """Exact draws of the table at a beta."""
    return np.asarray(table_draws(beta)(rng, n))


def check_table(kernel: Kernel, beta: float, rng: np.random.Generator) -> None:
    """Fail unless the kernel leaves the law of the table at a beta."""
    end = moved(kernel, table_path(), beta, rng)
    place = (end[:, None] == STATES).all(axis=2)
    assert place.sum() == len(end), "a row has left the support"
    check_counts(place.sum(axis=0), table_law(beta))


def check_tied(kernel: Kernel, beta: float, rng: np.random.Generator) -> None:
    """Fail unless the kernel leaves the law of counts with a fixed sum at a beta."""
    end = moved(kernel, tied_path(), beta, rng)
    place = (end[:, None] == TIED_STATES).all(axis=2)
    assert place.sum() == len(end), "a row has left the support"
    check_counts(place.sum(axis=0), tied_law(beta))


def check_count(kernel: Kernel, beta: float, rng: np.random.Generator) -> None:
    """Fail unless the kernel leaves the law of the count at a beta."""
    end = moved(kernel, count_path(), beta, rng)[:, 0].astype(int)
    values = np.arange(end.max() + 1)
    check_counts(np.bincount(end), stats.poisson.pmf(values, count_rate(beta)))


def check_mixed(kernel: Kernel, beta: float, rng: np.random.Generator) -> None:
    """Fail unless the kernel leaves the joint law of label and normal at a beta."""
    end, fresh = moved(kernel, mixed_path(), beta, rng), mixed_draws(rng, beta, N_ROWS)
    law = mixed_law(beta)[0]
    check_means({f"label {k}": (end[:, 0] == k) - law[k] for k in range(3)})
    check_same_law(
        {
            f"x at {k}": (end[end[:, 0] == k, 1], fresh[fresh[:, 0] == k, 1])
            for k in range(3)
            if law[k] > 0.01
        }
    )


LABELS = (Site(0, 0, 2), Site(1, -1, 0))
"""Two entries that are independent given the normal beside them."""


@cache
def labels_path() -> AnnealingPath:
    """Two labels that pull at a normal; of one value less, the second has a hole in its table."""
    point = pt.tensor("point", dtype="float64", shape=(3,))
    x = point[2]
    first = pt.stack([0.4 * x, -0.3 * x + 0.2, 0.0 * x])
    second = pt.stack([0.7 * x, 0.1 - 0.2 * x, -np.inf + 0.0 * x])
    pull = pt.stack([first, second], axis=1)
    nothing = pt.switch(pt.constant([[True, True], [True, True], [True, False]]), 0.0 * x, -np.inf)
    chosen = pt.cast(point[:2], "int64") - np.array([0, -1])
    reference, ratio = -0.5 * x**2, pull[chosen, np.arange(2)].sum()
    zero = pt.zeros(())
    return AnnealingPath(
        point,
        reference,
        ratio,
        n_dims=3,
        sample_reference=lambda rng, n: labels_draws(rng, 0.0, n),
        sites=LABELS,
        entries=Entries(LABELS, (reference, nothing.ravel()), (zero, pull.ravel())),
        how="row",
    )


SLOPES = (np.array([0.4, -0.3, 0.0]), np.array([0.7, -0.2]))
OFFSETS = (np.array([0.0, 0.2, 0.0]), np.array([0.0, 0.1]))


def labels_draws(rng: np.random.Generator, beta: float, n: int) -> np.ndarray:
    """Exact draws at a beta: given both labels x is normal with unit spread."""
    slope = beta * (SLOPES[0][:, None] + SLOPES[1])
    law = softmax(beta * (OFFSETS[0][:, None] + OFFSETS[1]) + 0.5 * slope**2)
    pair = rng.choice(law.size, n, p=law.ravel())
    x = slope.ravel()[pair] + rng.standard_normal(n)
    return np.column_stack([pair // 2, pair % 2 - 1, x])


def check_labels(kernel: Kernel, beta: float, rng: np.random.Generator) -> None:
    """Fail unless the kernel leaves the joint law of both labels and the normal at a beta."""
    block = Block(labels_path(), kernel, N_ROWS)
    start, fresh = (labels_draws(rng, beta, N_ROWS) for _ in range(2))
    state = evaluated_state(block, start, rng.standard_normal(start.shape))
    moves = constant_moves(block, beta=beta, step_size=1.0, scale=np.ones(3), refreshment=0.3)
    after, _ = block.run(state, moves, rng)
    end = np.asarray(after.position)
    again = block.densities(end)
    for found, exact in zip(after.evaluation[:2], again, strict=True):
        np.testing.assert_allclose(found, exact, atol=1e-9)
    functions = {
        "a": (1, 0, 0),
        "b": (0, 1, 0),
        "a x": (1, 0, 1),
        "b x": (0, 1, 1),
        "a b": (1, 1, 0),
    }
    check_means(
        {
            name: np.prod(end**powers, axis=1) - np.prod(start**powers, axis=1)
            for name, powers in functions.items()
        }
    )
    check_same_law({"x": (end[:, 2], fresh[:, 2])})


# Broken kernels: each has one deliberate error.


@dataclass(frozen=True)
class HotGibbs(Gibbs):
    """Scores an entry at half of the beta."""

    def step(self, path: Any, state: Any, move: Move, noise: Any) -> Any:
        return super().step(path, state, move._replace(beta=0.5 * move.beta), noise)


@dataclass(frozen=True)
class TogetherGibbs(Gibbs):
    """Draws all entries given where the others were, as only independent ones may be."""

    def step(self, path: Any, state: KernelState, move: Move, noise: Any) -> Any:
        position, (backward, uniform) = state.position, noise
        for i, site in enumerate(self.sites):
            alone = Gibbs((site,))
            own = backward, uniform[:, i : i + 1]
            new, info = alone.step(path, state, move, own)
            here = np.arange(path.n_dims) == site.column
            position = pt.switch(here, new.position, position)
        evaluation = path.evaluate(position)
        return KernelState(position, state.momentum, evaluation), info


class UpwardWalk(IntegerWalk):
    """A broken walk: the entry visited only ever takes from the one that gives way."""

    def draw_noise(self, rng: np.random.Generator, n_moves: int, n_rows: int, n_dims: int) -> Any:
        backward, length, side, *rest = super().draw_noise(rng, n_moves, n_rows, n_dims)
        first = np.arange(side.shape[-1]) % 2 == 0
        return backward, length, np.where(first, 0.75, side), *rest
