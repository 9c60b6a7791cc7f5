"""The ladder: how many temperatures, and where, from trial rows along the pilot's stages."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pymc_logz.graphs.host_calls import calls_host
from pymc_logz.pilot.population import Stages
from pymc_logz.runners.anneal import Annealed, Plan, anneal
from pymc_logz.runners.block import Block
from pymc_logz.weights import NEGLIGIBLE, log_mean, weight_ess

MAX_GROWTH = 4
"""Factor by which a ladder is made longer at a time, at most."""


@dataclass(frozen=True)
class Aim:
    """Variance of the log weights to aim at, and what may be spent on it."""

    variance: float
    """Where that is cheap."""
    most: float
    """Where it is not."""
    n_rows: int = 0
    """Rows that the run will have."""
    n_moves: int = 2**13
    """Moves of all rows up to which it is cheap: about as many as default posterior sampling makes
    on a model of few parameters."""
    limit: float = np.inf
    """The same, beyond which no longer ladder is tried: there may be a better reference."""

    def with_integers(self, cost_of_move: int, mcse: float = 0.016, most: int = 2**26) -> "Aim":
        """The same where whole numbers move, unless one error is asked for whatever it takes.

        Rows lag behind in them, and a ladder for a larger error than ``mcse`` leaves skewed
        weights, whose error is too small: with two change points 41 runs covered 87%. It takes
        ``most`` evaluations of the model: half a minute for a hundred data.
        """
        if self.variance == self.most:
            return self
        variance = min(self.variance, float(np.log1p(self.n_rows * mcse**2)))
        return replace(self, variance=variance, n_moves=most // cost_of_move)

    def growth(self, n_temperatures: int, variance: float) -> float:
        """Factor in a number of temperatures that had this variance."""
        affordable = self.n_moves / max(1, self.n_rows * n_temperatures)
        return min(variance / self.variance, max(variance / self.most, affordable))


def choose_plan(
    block: Block,
    stages: Stages,
    draw_start: Callable[[], np.ndarray],
    rng: np.random.Generator,
    aim: Aim,
    target_rows: np.ndarray | None = None,
) -> tuple[Plan, Annealed]:
    """Plan whose log weights have the variance aimed at, and the trial rows that it was read from.

    Anneals trial rows on a short ladder and scales its length by the variance found, since the
    variance falls as one over the number of temperatures once the rows keep up with the path. It
    stops where a longer ladder no longer helps.

    Trial rows start at draws of the reference, from ``draw_start``. With ``target_rows`` of the
    target, shape (m, d), which are annealed back, it starts with one temperature: they see the
    parts of the target that a few rows from the reference do not find. A mode that none of
    256 of them is in is worth 0.01 nats. There are `most_temperatures` at most.
    """
    most = most_temperatures(block)
    n_temperatures = min(first_ladder(stages), most) if target_rows is None else 1
    if target_rows is not None:
        target_rows = rng.permutation(target_rows)[:256]
    before = np.inf
    while True:
        trial = anneal(block, stages.plan(n_temperatures), draw_start(), rng)
        variance = variance_of_most(np.split(trial.log_weight, block.n_groups))
        if target_rows is not None:
            back = anneal_back(block, stages.plan(n_temperatures), target_rows, rng)
            variance = max(variance, variance_seen_from_target(-back))
        growth = aim.growth(n_temperatures, variance)
        if growth <= 1 or 0.8 * before < variance < 1 or n_temperatures >= most:
            return stages.plan(n_temperatures), trial
        if growth <= MAX_GROWTH:
            n_temperatures = int(min(n_temperatures * growth, most)) + 1
            return stages.plan(n_temperatures), trial
        before, n_temperatures = variance, min(MAX_GROWTH * n_temperatures, most)
        # one that would have to be longer still is not tried before it runs
        if n_temperatures == most or n_temperatures * aim.n_rows > aim.limit:
            return stages.plan(n_temperatures), trial


def most_temperatures(block: Block) -> int:
    """Of a ladder: minutes for most models, and a million calls of a black box by default."""
    path = block.given_path
    return 2**10 if calls_host([path.log_reference, path.log_ratio]) else 2**14


def first_ladder(stages: Stages, cuts: int = 16) -> int:
    """Temperatures of the first ladder that is tried along a pilot's stages."""
    return cuts * (stages.betas.size - 1)


def settled(stages: Stages, n: int = 8) -> Stages:
    """Stages of a path in n parts that starts near its end: the settings found there, all along."""
    ones, correlation = np.ones(n + 1), stages.correlation
    return Stages(
        np.linspace(0.0, 1.0, n + 1),
        stages.step_size[-1] * ones,
        np.outer(ones, stages.scale[-1]),
        None if correlation is None else np.tile(correlation[-1], (n + 1, 1, 1)),
        stages.acceptance_rate[-1] * ones,
    )


def anneal_back(
    block: Block, plan: Plan, target_rows: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Log weights of rows of the target, annealed back along a plan, shape (m,).

    In portions of the block's own size, which compile nothing.
    """
    backward, size = plan.reverse(), block.n_rows
    order = rng.permutation(max(len(target_rows), size)) % len(target_rows)
    portions = np.split(order[: len(order) // size * size], len(order) // size)
    return np.concatenate(
        [anneal(block, backward, target_rows[rows], rng).log_weight for rows in portions]
    )


def variance_seen_from_target(log_weight: np.ndarray) -> float:
    """Variance of the log weights of rows from the reference, as rows of the target tell it.

    The mean square of the weights of forward rows is Z times the mean weight of rows annealed back,
    and 1 / Z the mean of one over it; the two give the weight ESS of forward rows, and that the
    variance. What a fit misses is rare among forward rows and common among these, of which a few
    with the largest weights count no more than the next ones.

    ``log_weight`` is of rows of the target along the path, shape (m,), as if they had come from the
    reference.

    References
    ----------
    Crooks (2000), Path-ensemble averages in systems driven far from equilibrium, eq. 15,
    doi 10.1103/PhysRevE.61.2361.
    """
    if not np.all(log_weight < np.inf):
        return np.inf
    finite = log_weight[np.isfinite(log_weight)]
    if not finite.size:
        return np.inf
    capped = np.minimum(finite, np.quantile(finite, 1 - NEGLIGIBLE))
    return max(log_mean(capped) + log_mean(-finite), 0.0)


def variance_of_most(groups: list[np.ndarray]) -> float:
    """Variance of the log weights that nine in ten groups of rows stay below.

    Groups that lost all their rows do not count: no ladder brings them back.
    """
    variances = np.array([log_weight_variance(group) for group in groups])
    reached = variances[variances < np.inf]
    return float(np.quantile(reached, 0.9)) if reached.size else np.inf


def log_weight_variance(log_weight: np.ndarray) -> float:
    """Variance of log weights as if they were normal, whatever becomes of the rows that got lost.

    Rows of hardly any weight cost the estimate their share of the rows and nothing else, but would
    rule the plain variance.
    """
    ess = float(weight_ess(log_weight))
    if ess == 0:
        return np.inf
    variance = np.log(log_weight.size / ess)
    if variance < 1:
        return float(variance)
    # so few rows carry the weight that the weight ESS says no more than that
    with np.errstate(invalid="ignore"):  # of rows that got lost
        middle, upper = np.quantile(log_weight, [0.5, 0.8413])
    return float(max(variance, (upper - middle) ** 2 if np.isfinite(middle) else np.inf))
