"""log Z of the radiata pine models: sample_hais against PyMC's sample_smc, in one run.

Each cold run is a process of its own with an empty compile cache, timed from import to result, and
is followed by warm runs in the same process. Run with ``uv run benchmarks/radiata_pine.py``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import logging
import subprocess
import sys
import tempfile
import time
from statistics import median, stdev

N_WARM = 5
METHODS = ("sample_hais", "sample_smc")


def log_z_of(method, model, seed):
    """Estimate of log Z with default settings."""
    if method == "sample_hais":
        import pymc_logz as lz

        tree = lz.sample_hais(model=model, random_seed=seed, progressbar=False)
        group = tree["evidence"]
        return float(group["log_z"][0]), float(group["mcse"][0]), group.attrs
    import numpy as np
    import pymc as pm

    tree = pm.sample_smc(model=model, random_seed=seed, progressbar=False)
    groups = (tree, tree["posterior"], tree["sample_stats"])
    attrs = {name: value for group in groups for name, value in group.attrs.items()}
    chains = tree["sample_stats"]["log_marginal_likelihood"].values
    chains = chains if chains.dtype == object else [chains]
    values = np.array([np.asarray(chain, dtype=float)[-1] for chain in chains])
    log_z = float(np.logaddexp.reduce(values) - np.log(values.size))
    # PyMC compiles inside what it reports as the sampling time
    return log_z, float("nan"), {"sampling_time": attrs["_t_sampling"]}


def child(method, covariate):
    """One cold run, then warm ones; prints a line of JSON."""
    began = time.perf_counter()
    logging.disable(logging.INFO)
    import warnings

    warnings.simplefilter("ignore")
    from pymc_logz.energies import radiata_pine

    energy = radiata_pine(covariate)
    cold = log_z_of(method, energy.model, 0)
    runs = {
        "cold_time": time.perf_counter() - began,
        "first_error": cold[0] - energy.log_z,
        "first_sampling": cold[2]["sampling_time"] + cold[2].get("tuning_time", 0.0),
    }
    errors, mcses, sampling = [], [], []
    for seed in range(1, N_WARM + 1):
        log_z, mcse, attrs = log_z_of(method, energy.model, seed)
        errors.append(log_z - energy.log_z)
        mcses.append(mcse)
        sampling.append(attrs["sampling_time"] + attrs.get("tuning_time", 0.0))
    print(json.dumps(runs | {"errors": errors, "mcses": mcses, "sampling": sampling}))


def main():
    """Print the table."""
    print(
        "| model | method | cold, import to result (s) | reported sampling, first run (s) "
        "| later runs (s) | errors of log Z | mcse |"
    )
    print("|---|---|---|---|---|---|---|")
    cold, first, warm = (dict.fromkeys(METHODS, 0.0) for _ in range(3))
    for covariate in ("density", "adjusted"):
        for method in METHODS:
            with tempfile.TemporaryDirectory() as cache:
                flags = f"base_compiledir={cache}"
                output = subprocess.run(
                    [sys.executable, __file__, method, covariate],
                    env={**os.environ, "PYTENSOR_FLAGS": flags},
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
            run = json.loads(output.strip().splitlines()[-1])
            cold[method] += run["cold_time"]
            first[method] += run["first_sampling"]
            warm[method] += median(run["sampling"])
            errors = [run["first_error"], *run["errors"]]
            sampling = median(run["sampling"])
            print(
                f"| {covariate} | {method} | {run['cold_time']:.1f} "
                f"| {run['first_sampling']:.2f} | {sampling:.2f} "
                f"| sd {stdev(errors):.3f}, largest {max(errors, key=abs):+.3f} "
                f"| {median(run['mcses']):.3f} |",
                flush=True,
            )
    ours, theirs = METHODS
    print(
        f"\nreported sampling, first run, sample_smc / sample_hais: "
        f"{first[theirs] / first[ours]:.1f}"
    )
    print(f"later runs: {warm[theirs] / warm[ours]:.1f}")
    print(f"cold time, sample_smc / sample_hais: {cold[theirs] / cold[ours]:.2f}")


if __name__ == "__main__":
    child(*sys.argv[1:]) if len(sys.argv) > 1 else main()
