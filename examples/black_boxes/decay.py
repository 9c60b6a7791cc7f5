"""One differential equation, three solvers, one log Z, and what each of them costs.

A drug is broken down by an enzyme that saturates: dC/dt = -v C / (k + C), the law of Michaelis and
Menten, with two unknown numbers and ten noisy measurements. The likelihood needs a solver, and
there are three ways to have one:

- *by hand*: Runge-Kutta steps of fixed length in a ``pytensor.scan``. Gradients come with it, and
  every backend compiles it.
- *diffrax*: an adaptive solver of JAX's, by ``pytensor.wrap_jax``, with gradients. Left out where
  diffrax is not installed.
- *SciPy*: ``solve_ivp`` inside an Op that has nothing but ``perform``: a black box without
  gradients, called once for each particle.

All three are the same model, so they must have the same log Z. This equation happens to have a
solution, by the function of Lambert, so that log Z is also known from an integral in the plane.

Run it with ``uv run examples/black_boxes/decay.py``; it saves ``decay.png``.
"""

import time
from importlib.util import find_spec

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.compile.ops import wrap_py
from scipy.integrate import solve_ivp
from scipy.special import logsumexp, wrightomega
from scipy.stats import norm

import pymc_logz as lz

DOSE, NOISE = 10.0, 0.3
TIMES = np.arange(1.0, 11.0)
TRUTH = np.array([2.0, 3.0])
MEAN, SD = 0.5, 0.6
"""Of the logarithm of either number, in the prior."""
STEPS_BETWEEN = 4
"""Runge-Kutta steps from one measurement to the next: off by less than 1e-3 of the noise."""
COLORS = {"by hand": "#2a7f62", "diffrax": "#4a6fa5", "SciPy": "#b5542f"}


def change(amount, fastest, half):
    """Derivative of the amount that is left."""
    return -fastest * amount / (half + amount)


def exact(fastest, half):
    """The amount at the times of measurement, in closed form."""
    return half * wrightomega(np.log(DOSE / half) + (DOSE - fastest * TIMES) / half)


MEASURED = exact(*TRUTH) + NOISE * np.random.default_rng(1).normal(size=TIMES.size)


@wrap_py(itypes=[pt.dscalar] * 2, otypes=[pt.TensorType("float64", shape=(TIMES.size,))])
def in_scipy(fastest, half):
    """An adaptive solver of SciPy's, which only Python can call."""
    solved = solve_ivp(
        lambda t, amount: change(amount, fastest, half),
        (0.0, TIMES[-1]),
        [DOSE],
        method="LSODA",
        t_eval=TIMES,
        rtol=1e-6,
        atol=1e-8,
    )
    return solved.y[0]


def by_hand(fastest, half):
    """Runge-Kutta steps of fourth order."""
    h = (TIMES[1] - TIMES[0]) / STEPS_BETWEEN

    def step(amount, fastest, half):
        first = change(amount, fastest, half)
        second = change(amount + h / 2 * first, fastest, half)
        third = change(amount + h / 2 * second, fastest, half)
        fourth = change(amount + h * third, fastest, half)
        return amount + h / 6 * (first + 2 * second + 2 * third + fourth)

    amounts = pytensor.scan(
        step,
        outputs_info=[pt.constant(np.float64(DOSE))],
        non_sequences=[fastest, half],
        n_steps=STEPS_BETWEEN * TIMES.size,
        return_updates=False,
    )
    return amounts[STEPS_BETWEEN - 1 :: STEPS_BETWEEN]


def in_diffrax(fastest, half):
    """An adaptive solver of JAX's."""
    import diffrax
    import jax.numpy as jnp

    @pytensor.wrap_jax
    def solve(fastest, half):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, amount, rates: change(amount, *rates)),
            diffrax.Tsit5(),
            t0=0.0,
            t1=TIMES[-1],
            dt0=0.5,
            y0=jnp.array(DOSE),
            args=(fastest, half),
            saveat=diffrax.SaveAt(ts=jnp.asarray(TIMES)),
            stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-8),
            max_steps=512,
            throw=False,  # where it gives up the likelihood is zero
        ).ys

    return solve(fastest, half)


def kinetics(solve) -> pm.Model:
    """The model, by one of the solvers."""
    with pm.Model() as model:
        fastest = pm.LogNormal("fastest", MEAN, SD)
        half = pm.LogNormal("half", MEAN, SD)
        pm.Normal("amount", solve(fastest, half), NOISE, observed=MEASURED)
    return model


def by_quadrature(n: int = 400) -> float:
    """Log Z by an integral in the plane, from the solution in closed form."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    z = 6 * nodes
    log_prior = norm.logpdf(z) + np.log(6 * weights)
    rates = np.exp(MEAN + SD * z)
    solved = exact(rates[:, None, None], rates[None, :, None])
    log_likelihood = norm.logpdf(MEASURED, solved, NOISE).sum(axis=-1)
    return float(logsumexp(log_prior[:, None] + log_prior + log_likelihood))


def solvers() -> dict:
    """Those that can be had."""
    found = {"by hand": by_hand, "diffrax": in_diffrax, "SciPy": in_scipy}
    if find_spec("diffrax") is None:
        print("diffrax is not installed (python -m pip install diffrax): it is left out")
        del found["diffrax"]
    return found


def timed(solve, draws: int = 256, chains: int = 2, **settings):
    """A run, and the seconds of processor time that it took."""
    model, started = kinetics(solve), time.process_time()
    settings = {"random_seed": 1, "progressbar": False, **settings}
    tree = lz.sample_hais(draws, chains, model=model, **settings)
    return tree, time.process_time() - started


def report(runs: dict) -> None:
    """Print log Z and the cost of each solver."""
    print("solver     log Z   error  processor time  evaluations  with gradients")
    for name, (tree, seconds) in runs.items():
        entry, attrs = tree["evidence"].isel(estimator=0), tree["evidence"].attrs
        values, gradients = (
            sum(attrs.get(f"{part}_row_{what}", 0) for part in ("pilot", "run", "check"))
            for what in ("evaluations", "gradients")
        )
        print(
            f"{name:8}{entry['log_z'].item():8.3f}{entry['mcse'].item():8.3f}{seconds:14.1f} s"
            f"{values:13,}{gradients:16,}"
        )
    print(f"exact   {by_quadrature():8.3f}")


def draw(runs: dict) -> plt.Figure:
    """Log Z of each solver, the seconds it took, and the data."""
    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    for i, (name, (tree, seconds)) in enumerate(runs.items()):
        entry, color = tree["evidence"].isel(estimator=0), COLORS[name]
        left.errorbar(i, entry["log_z"].item(), 2 * entry["mcse"].item(), fmt="o", color=color)
        middle.bar_label(middle.bar(i, seconds, 0.5, color=color), fmt="%.1f")
    left.axhline(by_quadrature(), color="0.6", lw=1, label="exact")
    left.set(title="log Z, two errors", ylabel="log Z")
    left.margins(x=0.3, y=0.3)
    left.legend(frameon=False)
    middle.set(title="Seconds of processor time", ylabel="s")
    middle.margins(y=0.15)
    for ax in (left, middle):
        ax.set_xticks(range(len(runs)), list(runs))
    right.plot(TIMES, exact(*TRUTH), color="0.6", label="truth")
    right.plot(TIMES, MEASURED, "ko", ms=4, label="measured")
    right.set(title="The data", xlabel="time", ylabel="amount left")
    right.legend(frameon=False)
    return fig


def main() -> None:
    """All solvers, in one table and one picture."""
    runs = {name: timed(solve) for name, solve in solvers().items()}
    report(runs)
    draw(runs).savefig("decay.png", dpi=150)


if __name__ == "__main__":
    main()
