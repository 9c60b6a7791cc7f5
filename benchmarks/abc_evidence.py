"""Do predators and prey interact? The log Bayes factor by ABC at several tolerances, and exactly.

Two simulators of the Lotka-Volterra equations, with interaction and without, of data that leave
some doubt: ten steps, of which all 20 populations are observed, or the 10 of the prey. Priors of
the interaction rates are about their scale, kind to ABC, since few simulations explode. Under the
paper's priors and data (last table) nearly all of them do.

Exact: HAIS on the likelihood, which these simulators happen to have. Ours: constrained HMC and
``lz.bridge_sampling``, which need none. ABC has a uniform ball of the radius shown (rejection), or
a normal kernel of that standard deviation: ``lz.relax`` with HAIS, the same with ``pm.sample_smc``,
and ``pm.sample_smc`` with ``pm.Simulator`` (SMC-ABC, made a density by the constant that PyMC
leaves out). A ball of radius r in m dimensions is about as wide as a normal kernel of r / sqrt(m +
2). Runs of the simulator are counted, or steps times rows; those of HAIS and ours come with a
gradient or a Jacobian, and tuning is not among them. Seconds are of both simulators, compilation
and tuning included.

Run it with ``uv run benchmarks/abc_evidence.py``, or with ``quick`` for fewer draws and tolerances.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import logging
import sys
import time
import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
from pymc.smc.kernels import IMH
from scipy.special import logsumexp

import pymc_logz as lz
from pymc_logz.errors import ModelError, PilotError

sys.path.append(str(Path(__file__).parent))

from likelihood_free.simulators import DOUBT, PAPER, Simulator


@dataclass
class Estimate:
    """log Z of one simulator: its error, simulator runs, and what to know of it."""

    log_z: float
    error: float = np.nan
    runs: float = 0
    note: str = ""

    def __str__(self):
        if np.isnan(self.log_z):
            return self.note
        return f"{self.log_z:.2f} ± {self.error:.2g}" + f" {self.note}".rstrip()


def of_tree(tree, runs):
    """Estimate of a tree with a group evidence."""
    first = tree["evidence"].to_dataset().isel({"estimator": 0})
    status = str(first["status"].values)
    log_z, mcse = float(first["log_z"]), float(first["mcse"])
    return Estimate(log_z, mcse, runs, "" if status == "ok" else status)


def hais(model, draws):
    """Estimate by HAIS, and rows times temperatures of the kept run."""
    try:
        tree = lz.sample_hais(draws, 2, model=model, cores=1, random_seed=1, progressbar=False)
    except (ModelError, PilotError) as error:
        return Estimate(np.nan, note=type(error).__name__)
    return of_tree(tree, 2 * draws * int(tree["evidence"].attrs["n_temperatures"]))


def exact(simulator, draws):
    """Estimate from the likelihood."""
    return hais(simulator.with_likelihood(), 4 * draws)


def constrained(simulator, draws):
    """Estimate on the set of inputs that give the data."""
    model = simulator.model()
    tree = pm.sample(
        2 * draws,
        tune=300,
        chains=4,
        cores=1,
        model=model,
        step=lz.ConstrainedHMC(model=model),
        random_seed=1,
        progressbar=False,
    )
    stats = tree["sample_stats"].to_dataset()
    # each projection has a start, its iterations, and its way back
    per_step = 2 * (1 + stats["n_iterations"])
    kept = float((stats["n_steps"] * per_step).sum())
    return of_tree(lz.bridge_sampling(tree, model, random_seed=1), kept)


def relaxed(simulator, draws, tolerance):
    """Estimate by HAIS with a normal kernel."""
    return hais(lz.relax(simulator.model(), tolerance), draws)


class CountedIMH(IMH):
    """PyMC's default kernel, which counts evaluations and gives up after too many stages."""

    evaluations = 0
    max_stages = 200

    def setup_kernel(self):
        super().setup_kernel()
        CountedIMH.evaluations += self.draws

    def mutate(self):
        super().mutate()
        CountedIMH.evaluations += self.draws * self.n_steps
        if self.iteration > self.max_stages:
            raise RuntimeError("too many stages")


def smc(model, draws, shift=0.0):
    """Estimate by ``pm.sample_smc``; the error is that of two chains."""
    CountedIMH.evaluations = 0
    settings = {"chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
    try:
        tree = pm.sample_smc(
            draws, CountedIMH, model=model, compute_convergence_checks=False, **settings
        )
    except (ArithmeticError, RuntimeError, ValueError, np.linalg.LinAlgError) as error:
        return Estimate(np.nan, runs=CountedIMH.evaluations, note=str(error)[:40])
    values = tree["sample_stats"]["log_marginal_likelihood"].to_numpy()
    log_z = np.array([np.asarray(chain, dtype=float)[-1] for chain in values]) + shift
    mean = logsumexp(log_z) - np.log(len(log_z))
    error = log_z.std(ddof=1) / np.sqrt(len(log_z))
    return Estimate(mean, error, CountedIMH.evaluations)


def relaxed_smc(simulator, draws, tolerance):
    """Estimate by PyMC's SMC with a normal kernel."""
    return smc(lz.relax(simulator.model(), tolerance), 2 * draws)


def smc_abc(simulator, draws, tolerance):
    """Estimate by PyMC's SMC-ABC, each evaluation of which simulates anew."""

    def simulate(rng, *rates_and_size):
        # rates arrive as numbers, or repeated to the shape of the output
        u = np.log([np.ravel(rate)[0] for rate in rates_and_size[:-1]]) - simulator.prior_mean
        output = simulator.output(u[None], rng.normal(size=(1, simulator.n_noise)))[0]
        return np.nan_to_num(output, nan=np.inf, posinf=np.inf, neginf=-np.inf)

    with pm.Model() as model:
        z = pm.LogNormal("z", simulator.prior_mean, 1.0)
        rates = [z[i] for i in range(len(simulator.free))]
        pm.Simulator("y", simulate, *rates, epsilon=tolerance, observed=simulator.observed)
    level = -simulator.observed.size * np.log(np.sqrt(2 * np.pi) * tolerance)
    return smc(model, 2 * draws, level)


def rejection(simulator, n, radii):
    """Estimates by the share of prior draws within each radius."""
    found, model = [], simulator.model()
    for radius in radii:
        try:
            tree = lz.abc_rejection(model, radius, n, random_seed=1 + simulator.interaction)
        except ModelError:  # none accepted
            found.append(Estimate(np.nan, runs=n, note="none"))
        else:
            found.append(replace(of_tree(tree, n), note=""))
    return found


METHODS = {"relax, HAIS": relaxed, "relax, sample_smc": relaxed_smc, "SMC-ABC": smc_abc}
RADII = (300.0, 100.0, 30.0, 10.0, 3.0)
TOLERANCES = {
    "relax, HAIS": (30.0, 3.0, 1.0, 0.3, 0.1),
    "relax, sample_smc": (30.0, 3.0, 0.3),
    "SMC-ABC": (30.0, 3.0, 0.3),
}
QUICK_TOLERANCES = dict.fromkeys(METHODS, (30.0, 3.0))


def row(method, width, pair, seconds, truth=None):
    """Print what a method says of both simulators, and return the log Bayes factor."""
    factor, error = pair[0].log_z - pair[1].log_z, np.hypot(pair[0].error, pair[1].error)
    shown = "none" if np.isnan(factor) else f"{factor:.2f} ± {error:.2g}"
    wrong = "" if truth is None or np.isnan(factor) else f"{factor - truth:+.2f}"
    cells = [method, width, *map(str, pair), shown, wrong]
    cells += [f"{seconds:.0f}", f"{sum(one.runs for one in pair):.1e}"]
    print("|", " | ".join(cells), "|", flush=True)
    return factor


def timed(method, simulators):
    """Estimates of both simulators, and seconds."""
    start = time.perf_counter()
    return [method(simulator) for simulator in simulators], time.perf_counter() - start


def compare(setting, prey_only, n, draws, radii, tolerances):
    """Print the table of one setting."""
    simulators = [Simulator(setting, interaction, prey_only) for interaction in (True, False)]
    print(f"\n{simulators[0].observed.size} numbers observed in {setting.n_steps} steps")
    print("| method | width | log Z, with | log Z, without | log Bayes factor | error", end=" ")
    print("| seconds | runs |\n" + "|---" * 8 + "|")
    truth = row("exact", "", *timed(partial(exact, draws=draws), simulators))
    row("ConstrainedHMC", "0", *timed(partial(constrained, draws=draws), simulators), truth)
    pairs, seconds = timed(partial(rejection, n=n, radii=radii), simulators)
    for radius, pair in zip(radii, zip(*pairs, strict=True), strict=True):
        row("ABC rejection", f"{radius:g}", pair, seconds, truth)
    for name, widths in tolerances.items():
        for tolerance in widths:
            estimate = partial(METHODS[name], draws=draws, tolerance=tolerance)
            row(name, f"{tolerance:g}", *timed(estimate, simulators), truth)


def main(size="full"):
    """Print a table for each setting."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    quick = {"full": False, "quick": True}[size]
    n, draws = (100_000, 64) if quick else (2_000_000, 256)
    for prey_only in (False, True):
        compare(DOUBT, prey_only, n, draws, RADII, QUICK_TOLERANCES if quick else TOLERANCES)
    compare(PAPER, False, n, draws, (1000.0, 100.0), {"relax, HAIS": (100.0,)})


if __name__ == "__main__":
    main(*sys.argv[1:])
