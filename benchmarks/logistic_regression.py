"""log Z of a logistic regression: sample_hais against PyMC's sample_smc, in one run.

532 rows, 5 coefficients with prior sd 10: the shape of the Pima diabetes data, simulated here. The
figure of merit is the variance of log Z over seeds times the wall time of one run: how long a run
must take for a given error. The first run of each pays for compilation, which is reported apart.
Run with ``uv run benchmarks/logistic_regression.py [replicates]``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import logging
import sys
import time
import warnings

import numpy as np
import pymc as pm

import pymc_logz as lz

N_ROWS, SLOPES = 532, np.array([-1.0, 0.4, 1.1, 0.6, 0.4])


def pima_like():
    """A model of the shape of the Pima data."""
    rng = np.random.default_rng(532)
    covariates = rng.multivariate_normal(np.zeros(4), 0.5 * np.eye(4) + 0.5, size=N_ROWS)
    design = np.column_stack([np.ones(N_ROWS), covariates])
    y = rng.binomial(1, 1 / (1 + np.exp(-design @ SLOPES)))
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 10, shape=5)
        pm.Bernoulli("y", logit_p=pm.math.dot(design, slope), observed=y)
    return model


def exact(model):
    """log Z with an error of about 0.001, from a reference that is close to the posterior."""
    tree = lz.sample_hais(2000, model=model, reference="laplace", random_seed=1, progressbar=False)
    return tree["evidence"]["log_z"].values[0], tree["evidence"]["mcse"].values[0]


def hais(model, seed):
    """Log Z and seconds without compilation."""
    tree = lz.sample_hais(model=model, random_seed=seed, progressbar=False)
    times = tree["evidence"].attrs
    return float(tree["evidence"]["log_z"][0]), times["tuning_time"] + times["sampling_time"]


def smc(model, seed):
    """Log Z and seconds as PyMC reports them."""
    tree = pm.sample_smc(model=model, random_seed=seed, progressbar=False)
    attrs = {k: v for group in tree.subtree for k, v in group.attrs.items()}
    chains = tree["sample_stats"]["log_marginal_likelihood"].values
    chains = chains if chains.dtype == object else [chains]
    last = np.array([np.asarray(chain, dtype=float)[-1] for chain in chains])
    return float(np.logaddexp.reduce(last) - np.log(last.size)), float(attrs["_t_sampling"])


def main(n_replicates):
    """Print the comparison."""
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    model = pima_like()
    log_z, mcse = exact(model)
    print(f"log Z {log_z:.4f} +- {mcse:.4f} (reference='laplace', 8,000 rows)")
    print(f"{'':14s}{'mean error':>12s}{'sd':>9s}{'seconds':>9s}{'first run':>11s}{'var x s':>12s}")
    merit = {}
    for method in (hais, smc):
        began = time.perf_counter()
        method(model, 0)
        first = time.perf_counter() - began
        values, seconds = np.array([method(model, 1 + i) for i in range(n_replicates)]).T
        error, sd = values.mean() - log_z, values.std(ddof=1)
        merit[method.__name__] = sd**2 * np.median(seconds), sd**2 * first
        print(
            f"{method.__name__:14s}{error:+12.4f}{sd:9.4f}{np.median(seconds):9.2f}{first:11.2f}"
            f"{merit[method.__name__][0]:12.2e}",
            flush=True,
        )
    apart, with_compilation = np.divide(merit["smc"], merit["hais"])
    print(f"variance x time, smc / hais: {apart:.0f}, with compilation {with_compilation:.0f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
