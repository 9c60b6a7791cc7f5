"""How many temperatures does each kind of move need for the same error of log Z?

Figures 2 and 3 of Sohl-Dickstein & Culpepper (2012), arXiv 1205.1925: products of 36 Student-t and
Laplace experts in 36 dimensions, 200 particles, a linear schedule, and several ways to move.

- HAIS: one leapfrog step per temperature, momentum partially refreshed.
- AIS with full refreshment: the same step with a new momentum each time. The paper has one step;
  four of them per temperature are added here.
- AIS with a Gaussian random walk.

The paper's filters were learned from whitened images, which makes a complete set of them close to a
rotation. Here they are a random rotation with rows of such a length that the target is twice as
wide as the reference N(0, I). The Student-t experts have seven degrees of freedom: with far fewer,
a few weights of many thousands decide the error. Each method has its own best step size: the one
whose log weights vary least in a scan. The exact log Z is known, so errors are errors, not spreads.

A leapfrog step is one evaluation of the model with its gradient, a step of the walk one without.

Run it with ``uv run examples/annealing/products_of_experts.py`` (a few minutes); it saves
``products_of_experts.png``. With the argument ``paper`` it takes the paper's step sizes.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import matplotlib

matplotlib.use("Agg")

import sys
import time
import warnings
from dataclasses import dataclass, field

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, NullLocator

from pymc_logz import EvidenceWarning
from pymc_logz.energies import laplace_experts, random_filters, student_t_experts
from pymc_logz.kernels import Hamiltonian, RandomWalk
from pymc_logz.models.flat import flatten_model, model_path
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.schedules import linear_betas
from pymc_logz.runners.anneal import Plan, anneal
from pymc_logz.runners.block import Block

N_DIMS, N_PARTICLES, N_REPLICATES = 36, 200, 32
N_BOOTSTRAP, N_TIMINGS = 1000, 5
DOUBLINGS = 2 ** np.arange(4)


@dataclass(frozen=True)
class Method:
    """A way to move, with the schedules and the step sizes to try."""

    kernel: Hamiltonian | RandomWalk
    """With the paper's step size."""
    temperatures: np.ndarray
    step_sizes: tuple[float, ...]
    color: str
    n_batches: int = 4
    """Batches of `N_REPLICATES` runs."""

    @property
    def n_steps(self):
        """Evaluations of the model per temperature."""
        return getattr(self.kernel, "n_steps", 1)


METHODS = {
    "HAIS": Method(
        Hamiltonian(step_size=0.2, scale=1.0),
        60 * DOUBLINGS,
        (0.45, 0.6, 0.75, 0.9),
        "#2a7f62",
    ),
    "full refreshment": Method(
        Hamiltonian(step_size=0.2, scale=1.0, refreshment=1.0),
        80 * DOUBLINGS,
        (0.7, 0.85, 1.0, 1.2),
        "#8c6d31",
    ),
    "full, 4 steps": Method(
        Hamiltonian(step_size=0.2, scale=1.0, refreshment=1.0, n_steps=4),
        20 * DOUBLINGS,
        (0.35, 0.5, 0.65, 0.8),
        "#4a6fa5",
    ),
    "random walk": Method(
        RandomWalk(step_size=0.1, scale=1.0),
        750 * DOUBLINGS,
        (0.3, 0.4, 0.5, 0.6),
        "#b0413e",
        n_batches=2,
    ),
}


@dataclass
class Curve:
    """Errors of log Z of one method, one row of replicates for each schedule."""

    temperatures: np.ndarray
    errors: np.ndarray
    step_size: float
    acceptance_rate: float
    needed: float = np.nan
    """Temperatures for the RMSE asked for."""
    resampled: np.ndarray = field(default_factory=lambda: np.empty(0))
    """The same, from resampled replicates."""

    @property
    def rmse(self):
        """Root mean square error of one estimate, for each schedule."""
        return np.sqrt((self.errors**2).mean(axis=1))


def experts(n_dims):
    """The two products of experts, by name."""
    rotation = np.linalg.qr(random_filters(1, n_dims))[0]
    # variances of the responses F x
    student_t, laplace = 1 / 5, 2
    return {
        "Student-t": student_t_experts(np.sqrt(student_t) / 2 * rotation, np.full(n_dims, 4.0)),
        "Laplace": laplace_experts(np.sqrt(laplace) / 2 * rotation),
    }


def run(block, n_temperatures, step_size, n_replicates, rng):
    """Log weights (replicates, particles) on a linear schedule, and the acceptance rate."""
    betas = linear_betas(n_temperatures)
    plan = Plan(betas, np.full(betas.size, step_size), np.ones((betas.size, block.path.n_dims)))
    start = block.path.sample_reference(rng, n_replicates * N_PARTICLES)
    annealed = anneal(block, plan, start, rng)
    return annealed.log_weight.reshape(n_replicates, -1), annealed.acceptance_rate.mean()


def compiled(energy, kernel, n_replicates):
    """Compiled moves of all replicates at once."""
    path = model_path(flatten_model(energy.model), PriorDraws(energy.model))
    block = Block(path, kernel, n_replicates * N_PARTICLES)
    block.compile()
    return block


def best_step_size(block, method, n_replicates, rng):
    """The step size whose log weights vary least on the second shortest schedule."""
    spread = [
        run(block, method.temperatures[1], step_size, n_replicates, rng)[0].var()
        for step_size in method.step_sizes
    ]
    return method.step_sizes[int(np.argmin(spread))]


def measure(block, method, step_size, log_z, n_replicates, rng):
    """Errors of log Z with schedules of several lengths."""
    errors = []
    for n_temperatures in method.temperatures:
        runs = [
            run(block, n_temperatures, step_size, n_replicates, rng)
            for _ in range(method.n_batches)
        ]
        log_weight = np.concatenate([log_weight for log_weight, _ in runs])
        log_mean_weight = np.logaddexp.reduce(log_weight, axis=1) - np.log(N_PARTICLES)
        errors.append(log_mean_weight - log_z)
    acceptance = np.mean([acceptance for _, acceptance in runs])
    return Curve(method.temperatures, np.array(errors), step_size, acceptance)


def microseconds(blocks, curves, n_temperatures, n_replicates, rng):
    """Median time per temperature and 200 particles, all methods in turn."""
    times = {name: [] for name in blocks}
    for _ in range(N_TIMINGS):
        for name, block in blocks.items():
            began = time.perf_counter()
            run(block, n_temperatures, curves[name].step_size, n_replicates, rng)
            times[name].append(time.perf_counter() - began)
    per_temperature = 1e6 / (n_temperatures * n_replicates)
    return {name: per_temperature * np.median(each) for name, each in times.items()}


def temperatures_for(rmse, temperatures, errors):
    """Temperatures at which a line through log RMSE against log temperatures passes ``rmse``."""
    log_rmse = 0.5 * np.log((errors**2).mean(axis=-1))
    slope, level = np.polyfit(np.log(temperatures), log_rmse.T, 1)
    return np.exp((np.log(rmse) - level) / slope)


def compare(curves, rng):
    """Find the temperatures that each method needs for one RMSE; returns the RMSE.

    It lies in the middle of what all methods reach with the schedules they were given.
    """
    reached = [(curve.rmse.min(), curve.rmse.max()) for curve in curves.values()]
    rmse = np.sqrt(max(low for low, _ in reached) * min(high for _, high in reached))
    for curve in curves.values():
        shape = (N_BOOTSTRAP, *curve.errors.shape)
        chosen = rng.integers(curve.errors.shape[1], size=shape)
        again = np.take_along_axis(curve.errors[None], chosen, axis=2)
        curve.needed = temperatures_for(rmse, curve.temperatures, curve.errors)
        curve.resampled = temperatures_for(rmse, curve.temperatures, again)
    return rmse


def report(name, curves, rmse, times):
    """One row per method: what it needs for this RMSE, and how many times what HAIS needs."""
    hais = curves["HAIS"]
    rows = {}
    for method, curve in curves.items():
        ratio, n_steps = curve.needed / hais.needed, METHODS[method].n_steps
        low, high = np.quantile(curve.resampled / hais.resampled, [0.025, 0.975])
        rows[method] = {
            "step size": curve.step_size,
            "acceptance": f"{curve.acceptance_rate:.2f}",
            "temperatures": f"{curve.needed:.0f}",
            "/ HAIS": f"{ratio:.1f}",
            "95% interval": "" if curve is hais else f"{low:.1f} to {high:.1f}",
            "evaluations / HAIS": f"{ratio * n_steps:.1f}",
            "us per temperature": f"{times[method]:.0f}",
            "time / HAIS": f"{ratio * times[method] / times['HAIS']:.1f}",
        }
    print(f"\n{name} experts: for an RMSE of {rmse:.2f} nats")
    print(pd.DataFrame(rows).T.to_string())
    table = {
        method: pd.Series(curve.rmse, curve.temperatures).map("{:.3f}".format)
        for method, curve in curves.items()
    }
    print("\nRMSE by number of temperatures")
    print(pd.DataFrame(table).sort_index().to_string(na_rep=""))


def draw(axes, name, energy, curves, rmse):
    """Estimates against temperatures as in the paper, and their RMSE against evaluations."""
    left, right = axes
    left.axhline(energy.log_z, color="0.15", lw=1.2, ls=":")
    right.axhline(rmse, color="0.15", lw=1.2, ls=":")
    for method, curve in curves.items():
        color, n_steps = METHODS[method].color, METHODS[method].n_steps
        shown = energy.log_z + curve.errors[:, :N_REPLICATES]
        where = np.outer(curve.temperatures, np.linspace(0.93, 1.07, shown.shape[1]))
        left.scatter(where, shown, s=7, color=color, lw=0, alpha=0.6)
        right.plot(n_steps * curve.temperatures, curve.rmse, "o-", ms=4, color=color, label=method)
        right.plot(n_steps * curve.needed, rmse, "|", ms=14, mew=1.8, color=color)
    left.set(xscale="log", xlabel="temperatures", ylabel="log Z (nats)")
    left.set_title(f"{name} experts: estimates, exact value dotted")
    right.set(xscale="log", yscale="log", xlabel="evaluations of the model")
    right.set(ylabel="RMSE of log Z (nats)", title=f"{name} experts: error")
    right.yaxis.set_minor_locator(NullLocator())
    right.yaxis.set_major_locator(FixedLocator([0.05, 0.1, 0.2, 0.3, 0.5, 0.8]))
    right.yaxis.set_major_formatter("{x:g}")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)


def study(energy, rng, n_replicates, papers_step_sizes=False):
    """Curves of all methods for one product of experts, and the time of their steps."""
    blocks, curves = {}, {}
    for name, method in METHODS.items():
        block = blocks[name] = compiled(energy, method.kernel, n_replicates)
        step_size = method.kernel.step_size
        if not papers_step_sizes:
            step_size = best_step_size(block, method, max(1, n_replicates // 4), rng)
        curves[name] = measure(block, method, step_size, energy.log_z, n_replicates, rng)
    return curves, microseconds(blocks, curves, 64, n_replicates, rng)


def main(papers_step_sizes=False):
    """Measure, print the tables, save the picture."""
    # the potential is the model here
    warnings.simplefilter("ignore", EvidenceWarning)
    rng = np.random.Generator(np.random.SFC64(2012))
    figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
    for row, (name, energy) in zip(axes, experts(N_DIMS).items(), strict=True):
        curves, times = study(energy, rng, N_REPLICATES, papers_step_sizes)
        rmse = compare(curves, rng)
        report(name, curves, rmse, times)
        draw(row, name, energy, curves, rmse)
    axes[0, 1].legend(frameon=False)
    figure.savefig("products_of_experts.png", dpi=130)
    print("\nThe picture is in products_of_experts.png")


if __name__ == "__main__":
    main(papers_step_sizes="paper" in sys.argv[1:])
