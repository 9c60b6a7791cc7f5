"""Error of log Z at equal model evaluations: tempering against annealing and two SMC samplers.

Every method may evaluate the model for as many rows as the budget says, tuning included, and what
it used is counted: with its gradient by tempering (RTS), HAIS and blackjax's adaptive tempered SMC
(Hamiltonian moves, mass from the particles), without by ``pm.sample_smc``, which uses none. A
gradient costs about as much again as a value. Runs of one method and target are independent, apart
from the pilot that those of RTS and HAIS share.

Run it with ``uv run benchmarks/tempering.py``, or with a number of runs and a budget as arguments.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import logging
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pymc as pm
from pymc.sampling.jax import get_jaxified_graph
from pymc.smc.kernels import IMH

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.estimators import TemperedDraws, rts
from pymc_logz.models.flat import flatten_model
from pymc_logz.models.prior import PriorDraws

N_RUNS, BUDGET = 6, 500_000
LEAPFROG_STEPS, PARTICLES, LOOKS = 5, 1024, 3
TARGETS = {
    "ridge (2-d)": energies.ridge,
    "radiata_pine (3-d)": energies.radiata_pine,
    "student_t_experts (12-d)": lambda: energies.student_t_experts(
        energies.random_filters(1, 12) + 2 * np.eye(12), np.linspace(2, 4, 12)
    ),
    "two_gaussians (10-d, two modes)": lambda: energies.two_gaussians(10),
}


def sampled(sample, energy, seed, draws, chains, **settings):
    """A run of the package, and what one chain of it takes, tuning included."""
    settings |= {"cores": 1, "random_seed": seed, "progressbar": False}
    tree = sample(draws, chains, model=energy.model, **settings)
    used = tree["evidence"].attrs
    return tree, used["pilot_row_gradients"] + used["run_row_gradients"] / chains


def affordable(run, draws, budget, least):
    """How many draws of one chain the budget allows, from trials that begin with so many.

    What a draw costs follows the number of draws, so it is looked at more than once.
    """
    for _ in range(LOOKS):
        _, used = run(draws, 1)
        draws = int(np.clip(draws * budget / used, max(least, draws / 8), 8 * draws))
    return draws


def by_rts(energy, n_runs, budget, seed):
    """Estimates of simulated tempering, as many draws as the budget allows."""

    def run(draws, chains):
        settings = {"walkers": 64, "thin": draws}
        return sampled(lz.sample_tempered, energy, seed, draws, chains, **settings)

    tree, used = run(affordable(run, 512, budget, 64), n_runs)
    group, names = tree["tempering"].to_dataset(), ("level", "log_ratio", "beta")
    stored = [
        TemperedDraws(
            *(group.isel(chain=chain)[name].to_numpy() for name in names),
            group["log_prior"].to_numpy(),
            group["log_z_hat"].to_numpy(),
        )
        for chain in range(n_runs)
    ]
    return np.array([rts(run).log_z[-1] for run in stored]), used


def by_hais(energy, n_runs, budget, seed):
    """Estimates of Hamiltonian annealed importance sampling, as many rows as the budget allows."""

    def run(draws, chains):
        return sampled(lz.sample_hais, energy, seed, draws, chains)

    tree, used = run(affordable(run, 512, budget, 64), n_runs)
    weights = tree["weighted_posterior"]["log_weight"].to_numpy()
    return np.logaddexp.reduce(weights, axis=1) - np.log(weights.shape[1]), used


class CountedIMH(IMH):
    """PyMC's default kernel, which counts its evaluations."""

    rows = 0

    def setup_kernel(self):
        super().setup_kernel()
        CountedIMH.rows += self.draws

    def mutate(self):
        super().mutate()
        CountedIMH.rows += self.draws * (self.n_steps - 1)


def by_pymc(energy, n_runs, budget, seed):
    """Estimates of ``pm.sample_smc``, with as many draws as the budget allows."""

    def sample(draws, chains):
        CountedIMH.rows = 0
        settings = {"cores": 1, "random_seed": seed, "progressbar": False}
        tree = pm.sample_smc(
            draws,
            CountedIMH,
            chains=chains,
            model=energy.model,
            compute_convergence_checks=False,
            **settings,
        )
        return tree, CountedIMH.rows / chains

    tree, used = sample(affordable(sample, 500, budget, 50), n_runs)
    values = tree["sample_stats"]["log_marginal_likelihood"].values
    chains = values if values.dtype == object else [values.ravel()]
    return np.array([np.asarray(chain, dtype=float)[-1] for chain in chains]), used


def by_blackjax(energy, n_runs, budget, seed):
    """Estimates of blackjax's adaptive tempered SMC; None if it is not installed."""
    try:
        import blackjax
        import blackjax.smc.resampling as resampling
        import jax
        from blackjax.smc import extend_params
        from blackjax.smc.tuning.from_particles import inverse_mass_matrix_from_particles
    except ImportError:
        return None
    flat = flatten_model(energy.model)
    density = get_jaxified_graph([flat.point], [flat.log_prior, flat.log_ratio])
    d, prior = flat.n_dims, PriorDraws(energy.model)
    step_size = 0.8 * d**-0.25

    def parameters(_, state, __):
        mass = inverse_mass_matrix_from_particles(state.particles)
        return extend_params({**fixed, "inverse_mass_matrix": mass})

    fixed = {"step_size": step_size, "num_integration_steps": LEAPFROG_STEPS}

    def log_z_of(key, moves):
        [start_key, key] = jax.random.split(key)
        rng = np.random.default_rng(int(jax.random.randint(start_key, (), 0, 2**31 - 1)))
        start = prior(rng, PARTICLES)
        sampler = blackjax.inner_kernel_tuning(
            smc_algorithm=blackjax.adaptive_tempered_smc,
            logprior_fn=lambda x: density(x)[0],
            loglikelihood_fn=lambda x: density(x)[1],
            mcmc_step_fn=blackjax.hmc.build_kernel(),
            mcmc_init_fn=blackjax.hmc.init,
            resampling_fn=resampling.systematic,
            mcmc_parameter_update_fn=parameters,
            initial_parameter_value=extend_params(
                {**fixed, "inverse_mass_matrix": np.diag(start.var(axis=0))}
            ),
            num_mcmc_steps=moves,
            target_ess=0.5,
        )
        state, log_z, n_stages = sampler.init(start), 0.0, 0
        step = steps.setdefault(moves, jax.jit(sampler.step))
        while state.sampler_state.tempering_param < 1:
            key, now = jax.random.split(key)
            state, info = step(now, state)
            log_z, n_stages = log_z + float(info.log_likelihood_increment), n_stages + 1
        return log_z, PARTICLES * n_stages * (moves * LEAPFROG_STEPS + 1)

    steps: dict[int, Callable] = {}
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), n_runs + 1)
        _, few = log_z_of(keys[0], 1)
        moves = max(1, round(budget / few * (LEAPFROG_STEPS + 1) / LEAPFROG_STEPS))
        found = [log_z_of(key, moves) for key in keys[1:]]
    log_z, used = np.transpose(found)
    return log_z, used.mean()


METHODS = {
    "RTS": by_rts,
    "HAIS": by_hais,
    "pm.sample_smc": by_pymc,
    "blackjax tempered SMC": by_blackjax,
}


def main(n_runs=N_RUNS, budget=BUDGET):
    """Print the table."""
    # the potentials are the models here, and a short run is what is compared
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    print(f"{n_runs} runs of about {budget} evaluations of one row")
    print("| target | method | evaluations | RMSE of log Z | mean error |\n|---|---|---|---|---|")
    for target, make in TARGETS.items():
        energy = make()
        for name, method in METHODS.items():
            result = method(energy, n_runs, budget, 1)
            if result is None:
                print(f"| {target} | {name} | not installed: pip install blackjax | | |")
                continue
            error, used = result[0] - energy.log_z, result[1]
            rmse = np.sqrt(np.mean(error**2))
            print(
                f"| {target} | {name} | {used:.0f} | {rmse:.3f} ± {rmse / np.sqrt(2 * n_runs):.3f} "
                f"| {error.mean():+.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
