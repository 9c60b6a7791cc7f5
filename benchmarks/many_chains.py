"""Effective draws per second of 1,000 short chains, against pm.sample and blackjax, in one run.

The posterior has 50 dimensions: a logistic regression with 500 rows of data. What counts is the
worst of all coefficients (bulk, arviz-stats), per second of everything but compilation: warm-up
included. Each method runs once to compile, then twice. Run it with ``uv run
benchmarks/many_chains.py``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import logging
import time
import warnings

import arviz_stats
import numpy as np
import pymc as pm
import xarray as xr

import pymc_logz as lz

N_ROWS, N_DIMS, N_CHAINS, N_DRAWS, N_STEPS = 500, 50, 1000, 20, 8
rng = np.random.default_rng(1)
COVARIATES = rng.standard_normal((N_ROWS, N_DIMS)) / np.sqrt(N_DIMS)
OUTCOME = rng.random(N_ROWS) < 1 / (1 + np.exp(-COVARIATES @ rng.normal(0, 2, N_DIMS)))


def model() -> pm.Model:
    """Logistic regression with normal priors."""
    with pm.Model() as regression:
        b = pm.Normal("b", 0, 2, shape=N_DIMS)
        pm.Bernoulli("y", logit_p=COVARIATES @ b, observed=OUTCOME.astype(int))
    return regression


MODEL = model()


def ours(seed: int) -> np.ndarray:
    """`sample_hmc`, 1,000 chains; shape (chains, draws, d)."""
    run = lz.sample_hmc(
        N_DRAWS,
        N_CHAINS,
        model=MODEL,
        superchains=20,
        n_steps=N_STEPS,
        random_seed=seed,
        progressbar=False,
    )
    return run["posterior"]["b"].values


def pymc_default(seed: int) -> np.ndarray:
    """Default ``pm.sample``."""
    run = pm.sample(model=MODEL, random_seed=seed, progressbar=False)
    return run["posterior"]["b"].values


def blackjax_many() -> object:
    """The same number of chains, moves and leapfrog steps by blackjax, tuned on one chain."""
    import blackjax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    covariates, signs = jnp.array(COVARIATES), jnp.array(2.0 * OUTCOME - 1.0)

    def log_density(b: object) -> object:
        fit = jnp.sum(jax.nn.log_sigmoid(signs * (covariates @ b)))
        return fit - 0.5 * jnp.sum((b / 2.0) ** 2)

    @jax.jit
    def tuned(key: object) -> object:
        adaptation = blackjax.window_adaptation(
            blackjax.hmc, log_density, num_integration_steps=N_STEPS
        )
        (state, parameters), _ = adaptation.run(key, jnp.zeros(N_DIMS), 500)
        return state.position, parameters["step_size"], parameters["inverse_mass_matrix"]

    @jax.jit
    def sampled(key: object, start: object, step_size: object, inverse_mass: object) -> object:
        hmc = blackjax.hmc(log_density, step_size, inverse_mass, N_STEPS)
        states = jax.vmap(hmc.init)(start)

        def move(states: object, key: object) -> object:
            keys = jax.random.split(key, N_CHAINS)
            states, _ = jax.vmap(hmc.step)(keys, states)
            return states, states.position

        # the same number of moves before the draws that are kept
        _, positions = jax.lax.scan(move, states, jax.random.split(key, 100 + N_DRAWS))
        return positions[100:]

    def run(seed: int) -> np.ndarray:
        first, second = jax.random.split(jax.random.PRNGKey(seed))
        position, *parameters = tuned(first)
        start = jnp.broadcast_to(position, (N_CHAINS, N_DIMS))
        return np.asarray(sampled(second, start, *parameters)).swapaxes(0, 1)

    return run


def worst(draws: np.ndarray) -> float:
    """Effective draws of the worst coefficient."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = xr.Dataset({"b": (("chain", "draw", "coefficient"), draws)})
        return float(arviz_stats.ess(dataset)["b"].min())


def main() -> None:
    """Print the table."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    methods = {
        f"sample_hmc, {N_CHAINS} chains": ours,
        f"blackjax HMC, {N_CHAINS} chains": blackjax_many(),
        "pm.sample": pymc_default,
    }
    means = {}
    print("| method | seconds | effective draws | per second |\n|---|---|---|---|")
    for name, method in methods.items():
        method(0)
        seconds, effective, found = [], [], []
        for seed in (1, 2):
            began = time.perf_counter()
            draws = method(seed)
            seconds.append(time.perf_counter() - began)
            effective.append(worst(draws))
            found.append(draws.mean(axis=(0, 1)))
        means[name] = np.mean(found, axis=0)
        rate = np.sum(effective) / np.sum(seconds)
        print(f"| {name} | {np.mean(seconds):.2f} | {np.mean(effective):,.0f} | {rate:,.0f} |")
    first, *others = means.values()
    apart = max(float(np.abs(other - first).max()) for other in others)
    print(f"\nlargest difference between two posterior means: {apart:.3f}")


if __name__ == "__main__":
    main()
