"""Models with much data, or many parameters: seconds and memory beside ``pm.sample``.

A logistic regression with coefficients N(0, 1), simulated here. Each call is made twice in a
process of its own: the first one compiles. Numbers are in docs/theory/ordinary_models.md.

    uv run benchmarks/large_models.py 20000 100 evidence
    uv run benchmarks/large_models.py 1000000 10 evidence --max-memory "1 GB"
    uv run benchmarks/large_models.py 1000000 10 sample --draws 100 --chains 1
"""

import argparse
import resource
import time

import numpy as np
import pymc as pm

import pymc_logz as lz


def regression(n_rows, n_parameters):
    """Model of so many rows of data and coefficients."""
    rng = np.random.default_rng(1)
    design = rng.normal(size=(n_rows, n_parameters))
    slopes = rng.normal(0, 0.5, n_parameters)
    success = rng.random(n_rows) < 1 / (1 + np.exp(-design @ slopes))
    with pm.Model() as model:
        coefficients = pm.Normal("coefficients", 0, 1, shape=n_parameters)
        pm.Bernoulli("success", logit_p=pm.math.dot(design, coefficients), observed=success)
    return model


def main():
    """Time a call, twice."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=int)
    parser.add_argument("parameters", type=int)
    parser.add_argument("call", choices=["evidence", "sample"])
    parser.add_argument("--max-memory", help="of evidence: compute in portions that fit into it")
    parser.add_argument("--draws", type=int, default=1000, help="of sample, after as many to tune")
    parser.add_argument("--chains", type=int, default=4, help="of sample")
    given = parser.parse_args()
    model = regression(given.rows, given.parameters)
    for seed in (1, 2):
        wall, processor = time.monotonic(), time.process_time()
        if given.call == "evidence":
            tree = lz.evidence(
                model, max_memory=given.max_memory, random_seed=seed, progressbar=False
            )
            entry = tree["evidence"].to_dataset().isel(estimator=0)
            result = f"{float(entry['log_z']):.2f} ± {float(entry['mcse']):.2f}, "
            result += entry["status"].item()
        else:
            settings = {"draws": given.draws, "tune": given.draws, "chains": given.chains}
            pm.sample(model=model, cores=1, random_seed=seed, progressbar=False, **settings)
            result = f"{given.chains} x {2 * given.draws} iterations"
        wall, processor = time.monotonic() - wall, time.process_time() - processor
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{result}: {wall:.0f} s, {processor:.0f} s of processor time, {memory:.1f} GB at most"
        )


if __name__ == "__main__":
    main()
