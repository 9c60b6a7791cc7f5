"""log Z of a nutpie posterior by bridge sampling: time against sampling, and honest errors.

A hierarchical regression with 50 parameters, whose log Z is known by quadrature. Run it with ``uv
run benchmarks/bridge.py``; it needs nutpie. All times are of one process, compilation included
where it says so; read them as ratios.
"""

import logging
import sys
import time
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_logz as lz
from pymc_logz.energies import Energy
from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import flatten_model
from pymc_logz.posterior.bridging import bridge
from pymc_logz.trees.posterior import posterior_rows

sys.path.append(str(Path(__file__).parents[1] / "tests"))


def replicates(energy: Energy, n: int, method: str = "warp3") -> np.ndarray:
    """Errors of log Z and their mcse from n posteriors of nutpie, shape (n, 2)."""
    import nutpie

    compiled = nutpie.compile_pymc_model(energy.model)
    density = RowDensity(flatten_model(energy.model))
    found = []
    for seed in range(n):
        tree = nutpie.sample(
            compiled, draws=1000, tune=1000, chains=4, cores=1, seed=seed, progress_bar=False
        )
        posterior = posterior_rows(tree, density.flat)
        log_target = density.log_target(posterior.inside).reshape(posterior.on_boundary.shape)
        rng = np.random.default_rng(seed)
        [one] = bridge(density, posterior, log_target, method, None, None, rng)[0]
        found.append((one.log_z - energy.log_z, one.mcse))
    return np.array(found)


def timed(energy: Energy) -> dict[str, float]:
    """Seconds of sampling and of the bridge, with compilation and without."""
    start = time.perf_counter()
    tree = pm.sample(
        1000,
        nuts_sampler="nutpie",
        chains=4,
        cores=1,
        model=energy.model,
        random_seed=1,
        progressbar=False,
    )
    sampled = time.perf_counter()
    tree = lz.bridge_sampling(tree, energy.model, random_seed=1)
    bridged = time.perf_counter()
    return {
        "pm.sample, all": sampled - start,
        "pm.sample, its moves": float(tree["posterior"].attrs["sampling_time"]),
        "bridge, all": bridged - sampled,
        "bridge, its densities": tree["evidence"].attrs["sampling_time"],
    }


def main(n: int = 50) -> None:
    """Print times, their ratios, and how honest the errors are."""
    from support.hierarchical_regression import hierarchical_regression

    logging.getLogger("pymc").setLevel(logging.ERROR)
    energy = hierarchical_regression()
    for label in ("first model of the session", "the same model again"):
        times = timed(energy)
        print(f"{label}: " + ", ".join(f"{name} {value:.2f} s" for name, value in times.items()))
        whole, part = times["bridge, all"], times["bridge, its densities"]
        print(f"  ratio {whole / times['pm.sample, all']:.2f} with compilation,", end=" ")
        print(f"{part / times['pm.sample, its moves']:.2f} without")
    runs = replicates(energy, n)
    z = runs[:, 0] / runs[:, 1]
    print(f"{n} replicates: sd of log Z {runs[:, 0].std():.4f}, mean mcse {runs[:, 1].mean():.4f},")
    print(f"  mean z {z.mean():+.2f}, sd z {z.std():.2f}, covered {np.mean(np.abs(z) < 1.96):.0%}")


if __name__ == "__main__":
    main()
