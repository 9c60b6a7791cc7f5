"""Effective draws per second on a level set, against Mici.

The predator-prey simulator of Graham & Storkey (2017), arXiv 1605.07826: 104 inputs, with all 100
populations observed exactly or only every fifth number of prey. Mici, a package for constrained HMC
(https://github.com/matt-graham/mici), gets the simulator in JAX, its JAX backend, starting points
of the posterior, and four settings of its own, the best of which counts: its default (a dynamic
integration time) and trajectories of six steps of 0.25, with Newton's and with the quasi-Newton
projection. Ours is ``pm.sample(step=lz.ConstrainedHMC())``.

Run it with ``uv run benchmarks/constrained.py``, or with a number of draws of Mici's as argument.
Lines of JSON go to ``benchmarks/results/constrained.jsonl``, and on to the page of benchmarks.
Effective draws are of the worst of the four rates (bulk ESS); neither warm-up nor compilation is in
the seconds of draws, which are of the processor. All is of one process; read it as ratios.
"""

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

import pymc_logz as lz

sys.path.append(str(Path(__file__).parent))

from likelihood_free.simulators import START, Simulator

KEPT = Path(__file__).parent / "results" / "constrained.jsonl"
N_CHAINS = 2
TUNE = 300
WARM_UP = 60


def worst(log_rates):
    """Effective draws of the worst rate, and the largest R-hat, of (chain, draw, 4)."""
    data = xr.Dataset({"log_z": (("chain", "draw", "rate"), log_rates)})
    ess, rhat = az.ess(data)["log_z"], az.rhat(data)["log_z"]
    return float(ess.min()), float(rhat.max())


def row(name, log_rates, seconds, seconds_in_all):
    """Line of the table."""
    ess, rhat = worst(log_rates)
    return {
        "sampler": name,
        "draws": log_rates.shape[0] * log_rates.shape[1],
        "ESS": ess,
        "R-hat": rhat,
        "seconds": seconds,
        "ESS / s": ess / seconds,
        "ESS / s with warm-up": ess / seconds_in_all,
        "mean of log z": np.round(log_rates.mean(axis=(0, 1)), 3).tolist(),
    }


def ours(model, n_draws, seed):
    """Line of `ConstrainedHMC`, and points of its chains as inputs of unit spread."""
    with model:
        step = lz.ConstrainedHMC()
        settings = {"tune": TUNE, "chains": N_CHAINS, "cores": 1, "random_seed": seed}
        settings |= {"step": step, "progressbar": False, "compute_convergence_checks": False}
        pm.sample(2, **{**settings, "tune": 2})  # compiles
        start = time.process_time()
        pm.sample(2, **settings)
        warm = time.process_time()
        tree = pm.sample(n_draws, **settings)
        end = time.process_time()
    posterior = tree["posterior"].to_dataset()
    log_rates = np.log(posterior["z"].to_numpy())
    inputs = np.concatenate(
        [log_rates + 2.0, posterior["noise"].to_numpy().reshape(*log_rates.shape[:2], -1)], axis=-1
    )
    seconds = (end - warm) - (warm - start)
    return row("ConstrainedHMC", log_rates, seconds, end - warm), inputs[:, -1]


def jax_functions(simulator):
    """What Mici is given: potential and constraint of 104 standard normal inputs, in JAX."""
    import jax
    import jax.numpy as jnp

    observed, every = jnp.asarray(simulator.observed), simulator.setting.every

    def constraint(u):
        z = jnp.exp(u[:4] - 2.0)

        def step(state, noise):
            prey, predators = state
            eaten = prey * predators
            new = jnp.array(
                [
                    prey + z[0] * prey - z[1] * eaten + noise[0],
                    predators - z[2] * predators + z[3] * eaten + noise[1],
                ]
            )
            return new, new

        _, states = jax.lax.scan(step, jnp.asarray(START), u[4:].reshape(-1, 2))
        output = states[every - 1 :: every, 0] if simulator.prey_only else states.ravel()
        return output - observed

    return (lambda u: 0.5 * (u @ u)), constraint


def mici_chains(functions, starts, n_draws, seed, dynamic, solver):
    """Draws of the log rates (chain, draw, 4), seconds of the draws, and of all after compiling."""
    import mici

    potential, constraint = functions
    system = mici.systems.DenseConstrainedEuclideanMetricSystem(
        potential, constraint, dens_wrt_hausdorff=False, backend="jax"
    )
    integrator = mici.integrators.ConstrainedLeapfrogIntegrator(system, projection_solver=solver)
    rng = np.random.default_rng(seed)
    if dynamic:
        sampler = mici.samplers.DynamicMultinomialHMC(system, integrator, rng)
    else:
        sampler = mici.samplers.StaticMetropolisHMC(system, integrator, rng, n_step=6)
    settings = {
        "trace_funcs": [lambda state: {"log_z": state.pos[:4] - 2.0}],
        "display_progress": False,
        "n_worker": 1,
    }
    integrator.step_size = 0.25
    sampler.sample_chains(0, 2, list(starts), **settings)  # compiles
    integrator.step_size = None if dynamic else 0.25
    start = time.process_time()
    if dynamic:
        adapter = mici.adapters.DualAveragingStepSizeAdapter(0.8)
        ends = sampler.sample_chains(WARM_UP, 1, list(starts), adapters=[adapter], **settings)
        starts = [state.pos for state in ends.final_states]
    warm = time.process_time()
    result = sampler.sample_chains(0, n_draws, list(starts), **settings)
    end = time.process_time()
    return np.array(result.traces["log_z"]), end - warm, end - start


def mici_rows(simulator, starts, n_draws, seed):
    """Lines of Mici's four settings."""
    from mici import solvers

    projections = {
        "Newton": solvers.solve_projection_onto_manifold_newton,
        "quasi-Newton": solvers.solve_projection_onto_manifold_quasi_newton,
    }
    functions = jax_functions(simulator)
    for name, solver in projections.items():
        for dynamic in (False, True):
            kind = "dynamic" if dynamic else "6 steps of 0.25"
            found = mici_chains(functions, starts, n_draws, seed, dynamic, solver)
            yield row(f"Mici, {kind}, {name}", *found)


def main():
    """One table for each set of observations."""
    n_mici = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    for prey_only in (False, True):
        simulator = Simulator(prey_only=prey_only)
        first, starts = ours(simulator.model(), 2000, seed=1)
        table = pd.DataFrame([first, *mici_rows(simulator, starts, n_mici, seed=1)])
        best = table["ESS / s"][1:].max()
        print(
            f"\n{simulator.observed.size} numbers observed\n{table.round(3).to_string(index=False)}"
        )
        print(f"ConstrainedHMC / best of Mici: {table['ESS / s'][0] / best:.1f}", flush=True)
        table["observed"] = simulator.observed.size
        KEPT.parent.mkdir(exist_ok=True)
        with KEPT.open("a") as file:
            file.write(table.to_json(orient="records", lines=True))


if __name__ == "__main__":
    main()
