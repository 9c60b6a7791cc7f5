"""The papers' own algorithms: their loops in NumPy, around densities and gradients in JAX."""

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import logsumexp

from rivals.targets import Target
from rivals.with_blackjax import densities, prior_draws

Array = np.ndarray
Numbers = tuple[float, float, str, int]
"""log Z, its error, a status that these have not, and evaluations."""

N_ROWS, N_TEMPERATURES = 200, 1000
WIDTHS = (0.05, 0.15, 0.5)
STEP_SIZE = 0.2
"""Of walks, and of Hamiltonian annealing, for coordinates of unit spread in the prior."""
N_LEVELS, N_WALKERS, N_ROUNDS, N_SWEEPS, N_LEAPFROG = 100, 100, 10, 50, 5
"""Of simulated tempering."""


def log_mean(log_weight: Array) -> tuple[float, float]:
    """Log of the mean weight, and the standard error of that."""
    weight = np.exp(log_weight - log_weight.max())
    log_z = float(logsumexp(log_weight) - np.log(log_weight.size))
    return log_z, float(weight.std() / weight.mean() / np.sqrt(log_weight.size))


@lru_cache(maxsize=1)
def scaled(target: Target) -> tuple[Array, Callable[..., tuple[Array, ...]]]:
    """Spread of the prior, and values and gradients of rows in units of it.

    A function of rows gives the log prior, the log likelihood and their two gradients; the log
    prior lacks the constant of the change of scale, which cancels.
    """
    import jax

    log_prior, log_likelihood, _ = densities(target.model)
    scale = prior_draws(target, 0, 1000).std(axis=0)

    def both(z: Any) -> Any:
        prior = jax.value_and_grad(lambda z: log_prior(z * scale))(z)
        likelihood = jax.value_and_grad(lambda z: log_likelihood(z * scale))(z)
        return prior[0], likelihood[0], prior[1], likelihood[1]

    compiled = jax.jit(jax.vmap(both))

    def rows(z: Array) -> tuple[Array, ...]:
        prior, likelihood, *gradients = map(np.asarray, compiled(z))
        gradients = [np.nan_to_num(g, posinf=0.0, neginf=0.0) for g in gradients]
        return prior, np.maximum(likelihood, -1e300), *gradients

    return scale, rows


def neal(target: Target, seed: int) -> Numbers:
    """AIS as in Neal (2001): Gaussian random walks of three widths, ladder of fourth powers."""
    rng, (scale, rows) = np.random.default_rng(seed), scaled(target)
    z = prior_draws(target, seed, N_ROWS) / scale
    (prior, likelihood, *_), log_weight = rows(z), np.zeros(N_ROWS)
    for before, beta in pairwise(np.linspace(0, 1, N_TEMPERATURES) ** 4):
        log_weight += (beta - before) * likelihood
        for width in WIDTHS:
            proposed = z + width * rng.normal(size=z.shape)
            new_prior, new, *_ = rows(proposed)
            change = new_prior - prior + beta * (new - likelihood)
            accepted = np.log(rng.random(N_ROWS)) < change
            z = np.where(accepted[:, None], proposed, z)
            prior = np.where(accepted, new_prior, prior)
            likelihood = np.where(accepted, new, likelihood)
    return *log_mean(log_weight), "", N_ROWS * N_TEMPERATURES * len(WIDTHS)


def leapfrog(rows: Callable, state: tuple, momentum: Array, beta: Array, step: Array, n: int):
    """``n`` steps from (z, values and gradients there); the new state and momentum."""
    z, (prior, likelihood, slope_prior, slope) = state
    for _ in range(n):
        momentum = momentum + step / 2 * (slope_prior + beta * slope)
        z = z + step * momentum
        prior, likelihood, slope_prior, slope = rows(z)
        momentum = momentum + step / 2 * (slope_prior + beta * slope)
    return (z, (prior, likelihood, slope_prior, slope)), momentum


def energy(state: tuple, momentum: Array, beta: Array) -> Array:
    """Of rows with their momenta."""
    prior, likelihood = state[1][:2]
    return (momentum**2).sum(axis=1) / 2 - prior - np.ravel(beta) * likelihood


def chosen(accepted: Array, new: tuple, old: tuple) -> tuple:
    """Rows of the new state where accepted, of the old one elsewhere."""

    def pick(one: Array, other: Array) -> Array:
        return np.where(accepted if one.ndim == 1 else accepted[:, None], one, other)

    return pick(new[0], old[0]), tuple(map(pick, new[1], old[1]))


def moved(rng: Any, rows: Callable, state: tuple, momentum: Array, beta: Array, step: Any, n: int):
    """State and momentum after a Hamiltonian move, momentum reversed where it was rejected."""
    proposal, there = leapfrog(rows, state, momentum, beta, step, n)
    with np.errstate(all="ignore"):
        change = energy(state, momentum, beta) - energy(proposal, there, beta)
    accepted = np.log(rng.random(len(momentum))) < np.nan_to_num(change, nan=-np.inf)
    return chosen(accepted, proposal, state), np.where(accepted[:, None], there, -momentum)


def hamiltonian(target: Target, seed: int) -> Numbers:
    """HAIS as in Sohl-Dickstein and Culpepper (2012): one step at each of 1,000 temperatures.

    Half of the momentum is replaced in each unit of time; momentum reverses on rejection.
    """
    rng, (scale, rows) = np.random.default_rng(seed), scaled(target)
    z = prior_draws(target, seed, N_ROWS) / scale
    state, log_weight = (z, rows(z)), np.zeros(N_ROWS)
    momentum, kept = rng.normal(size=z.shape), 0.5**STEP_SIZE
    for before, beta in pairwise(np.linspace(0, 1, N_TEMPERATURES)):
        log_weight += (beta - before) * state[1][1]
        state, momentum = moved(rng, rows, state, momentum, np.array(beta), STEP_SIZE, 1)
        fresh = rng.normal(size=z.shape)
        momentum = np.sqrt(kept) * momentum + np.sqrt(1 - kept) * fresh
    return *log_mean(log_weight), "", N_ROWS * N_TEMPERATURES


def rao_blackwell(target: Target, seed: int) -> Numbers:
    """RTS as in Carlson and others (2016): levels drawn given the point, their chances averaged.

    100 levels and 100 chains; ten rounds of 50 sweeps find the weights of the levels, each from
    the last points and fresh levels, then a long one gives log Z. The paper has Gibbs sweeps of a
    Boltzmann machine: here Hamiltonian ones, shorter where the likelihood weighs more.
    """
    rng, (scale, rows) = np.random.default_rng(seed), scaled(target)
    betas = np.linspace(0, 1, N_LEVELS) ** 4
    z = prior_draws(target, seed, N_WALKERS) / scale
    state, log_z = (z, rows(z)), np.zeros(N_LEVELS)
    sizes = STEP_SIZE / np.sqrt(1 + betas * target.n_dims)
    lengths = [N_SWEEPS] * N_ROUNDS + [N_ROUNDS * N_SWEEPS]
    for length in lengths:
        level, log_chances = rng.integers(N_LEVELS, size=N_WALKERS), []
        for _ in range(length):
            momentum = rng.normal(size=z.shape)
            at = betas[level][:, None], sizes[level][:, None]
            state, _ = moved(rng, rows, state, momentum, *at, N_LEAPFROG)
            log_chance = betas * state[1][1][:, None] - log_z
            log_chance -= logsumexp(log_chance, axis=1, keepdims=True)
            log_chances.append(logsumexp(log_chance, axis=0))
            level = np.argmax(log_chance + rng.gumbel(size=log_chance.shape), axis=1)
        total = logsumexp(log_chances, axis=0)
        log_z = log_z + total - total[0]
    tenths = [logsumexp(part, axis=0) for part in np.array_split(np.array(log_chances), 10)]
    spread = np.std([part[-1] - part[0] for part in tenths], ddof=1) / np.sqrt(len(tenths))
    n_sweeps = sum(lengths)
    return float(log_z[-1]), float(spread), "", N_WALKERS * n_sweeps * N_LEAPFROG


def normal_bridge(target: Target, tree: Any, seed: int) -> Numbers:
    """Bridge of Meng and Wong (1996) as bridgesampling in R has it, from draws of ``pm.sample``.

    A normal fitted to half of each chain is the proposal; the other half and as many draws of it
    are weighed by the optimal bridge, iterated until it stands still.
    """
    import arviz as az
    import jax

    model, rng = target.model, np.random.default_rng(seed)
    columns = []
    for rv in model.free_RVs:
        draws = tree["posterior"][rv.name].values
        transform = model.rvs_to_transforms[rv]
        if transform is not None:
            draws = np.asarray(transform.forward(draws, *rv.owner.inputs).eval())
        columns.append(draws.reshape(*draws.shape[:2], -1))
    x = np.concatenate(columns, axis=2)
    fitted, used = np.split(x, 2, axis=1)
    n_effective = np.median([az.ess(used[..., k]) for k in range(x.shape[2])])
    log_prior, log_likelihood, _ = densities(model)
    log_target = jax.jit(jax.vmap(lambda x: log_prior(x) + log_likelihood(x)))
    rows = fitted.reshape(-1, x.shape[2])
    mean, root = rows.mean(axis=0), np.linalg.cholesky(np.atleast_2d(np.cov(rows.T)))
    proposed = mean + rng.normal(size=rows.shape) @ root.T

    def log_ratio(points: Array) -> Array:
        standard = np.linalg.solve(root, (points - mean).T)
        log_normal = -(standard**2).sum(axis=0) / 2 - np.log(np.diag(root)).sum()
        log_normal -= mean.size / 2 * np.log(2 * np.pi)
        return np.asarray(log_target(points)) - log_normal

    of_draws, of_proposal = log_ratio(used.reshape(rows.shape)), log_ratio(proposed)
    log_share = np.log(n_effective) - np.log(len(proposed))
    log_z = float(np.median(of_draws))
    for _ in range(1000):
        above = logsumexp(of_proposal - np.logaddexp(log_share + of_proposal, log_z))
        below = logsumexp(-np.logaddexp(log_share + of_draws, log_z))
        before, log_z = log_z, float(above - below)
        if abs(log_z - before) < 1e-10:
            break
    return log_z, float("nan"), "", 2 * len(rows)
