"""Figures 1, 3, 4 and 5 of the paper on Rao-Blackwellized tempered sampling, on handwritten digits.

Carlson, Stinson, Pakman & Paninski (2016, arXiv 1603.01912) compare ways to log Z on restricted
Boltzmann machines. Here they are machines of 64 visible units, learned from scikit-learn's digits,
with 12 hidden units (log Z is summed exactly), 100 and 500:

1. Rough log Z of 100 temperatures, from nothing: rounds of 50 sweeps of 100 chains, with levels
   counted, and with their conditional probability averaged (Rao-Blackwellized).
2. (figure 3) Mean and error of log Z against the number of Gibbs sweeps of each of 100 chains, the
   sweeps of the rounds included: annealing forward (AIS, with hidden units carried along, and
   summed out as Salakhutdinov & Murray do) and back from data (RAISE); and from the same tempered
   run RTS, counts (TS), BAR between neighbours, and MBAR.
3. (figure 4) The number of temperatures.
4. (figure 5) Log likelihood of training and held-out digits while a machine learns.

Run it with ``uv run examples/papers/rts_rbm.py``, 15 minutes of processor time; with ``--paper``
for the paper's number of sweeps and replicates, about four hours. Numbers are kept in
``rts_rbm.npz`` (``rts_rbm_paper.npz``), of figure 3 after each replicate, so that a run that is
stopped goes on; what is there is drawn again, not computed: ``--figures 3 4`` chooses.
It saves ``rts_rbm_1.png`` and so on. docs/theory/rts_paper.md says what comes of it.
"""

import argparse
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from scipy.special import expit, logsumexp, softmax
from sklearn.datasets import load_digits

import pymc_logz as lz
from pymc_logz.energies import base_log_odds, bernoulli_rbm
from pymc_logz.estimators import (
    bar_chain,
    importance_log_z,
    mbar,
    rts,
    rts_log_z,
)
from pymc_logz.kernels import BlockGibbs
from pymc_logz.loop.frozen import fixed_plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.temper import TemperBlock, Walkers, walk
from pymc_logz.tempered.warm_up import climb, make_ladder

sys.path.append(str(Path(__file__).parent))

import rts_figures as figures

HIDDEN = {12: 20_000, 100: 20_000, 500: 10_000}  # units, and updates that they learn by
N_CHAINS, N_LEVELS, N_ROUNDS, ROUND = 100, 100, 10, 50
HARDER = 3  # factor in the parameters of a machine whose modes are further apart
BEFORE = N_LEVELS + N_ROUNDS * ROUND  # sweeps before a tempered run
SMALL = {"sweeps": (1000, 3000, 10000), "replicates": 10, "truth": 30000, "updates": 1200}
PAPER = {"sweeps": (1000, 10000, 100000), "replicates": 50, "truth": 1000000, "updates": 8000}
MOST_FOR_MBAR, MOST_SUMMED_OUT = 200_000, 3000
TEMPERATURES = (10, 30, 100, 300, 1000)
N_BOOTSTRAP, N_ESTIMATES, MBAR_ESTIMATES = 10_000, 100, 10
SIZES = {"data": 60, "walkers": 400, "between": 25, "alpha": 0.2, "rate": 0.04}


def digits(rng):
    """Binarised digits of 8 by 8 pixels, training and held-out."""
    data = (load_digits().data >= 8).astype(float)
    data = rng.permutation(data)
    return data[:1500], data[1500:]


def learn(data, n_hidden, rng, n_updates, rate=0.1, contrastive=1 / 3, gibbs=1, decay=2e-4):
    """A machine learned by contrastive divergence for a share of the updates, then persistent."""
    bias, kind = base_log_odds(data).astype(data.dtype), data.dtype
    w = rng.normal(0, 0.01, (data.shape[1], n_hidden)).astype(kind)
    b, c = bias.copy(), np.zeros(n_hidden, dtype=kind)
    chains = data[:100].copy()
    for i in range(n_updates):
        batch = data[rng.integers(len(data), size=100)]
        of_data = expit(c + batch @ w)
        chains = batch if i < int(contrastive * n_updates) else chains
        for _ in range(gibbs):
            hidden = (rng.random((100, n_hidden), kind) < expit(c + chains @ w)).astype(kind)
            chains = (rng.random(batch.shape, kind) < expit(b + hidden @ w.T)).astype(kind)
        of_model, step = expit(c + chains @ w), rate * (1 - i / n_updates)
        w += step * ((batch.T @ of_data - chains.T @ of_model) / 100 - decay * w)
        b += step * (batch - chains).mean(axis=0)
        c += step * (of_data - of_model).mean(axis=0)
    return bernoulli_rbm(w, b, c, bias)


class Tempered:
    """The paper's procedure: rounds that correct rough log Z, then a run with all frozen."""

    def __init__(self, rbm, n_levels=N_LEVELS, n_chains=N_CHAINS):
        blocks = [Block(rbm.path, BlockGibbs(), 128, most_moves=n) for n in (8, 64)]
        self.block, self.long_block = (TemperBlock(one, n_levels, n_chains) for one in blocks)
        plan = fixed_plan(blocks[0], np.linspace(0, 1, n_levels))
        self.ladder = make_ladder(plan, np.zeros(n_levels))
        self.walkers = None

    def sweep(self, n, rng, every=None):
        """Levels and log ratios of so many sweeps, and what the walkers did."""
        tables = self.ladder.tables(BlockGibbs())
        block, every = self.block if n <= ROUND else self.long_block, every or n
        self.walkers, done = walk(block, self.walkers, tables, n, rng, every=every)
        return self.ladder.draws(done), done

    def rounds(self, rng, n_rounds=N_ROUNDS, *, counts=False, climbs=True):
        """Rounds from rough log Z; log Z and shares (rounds, K) as they come.

        Rough log Z is zero, as in the paper, or that of a population which climbs from level to
        level, one sweep at each. Walkers go on from where they are, at fresh levels.
        """
        start = self.block.path.sample_reference(rng, self.block.n_walkers)
        self.walkers, log_z, shares = self.block.start(start, rng), [], []
        if climbs:
            self.walkers, rough = climb(self.block, self.ladder, start, 1, rng)
            self.ladder = replace(self.ladder, log_z_hat=rough)
        for _ in range(n_rounds):
            self.walkers = Walkers(self.walkers.state, self.block.spread_levels(rng))
            draws, _ = self.sweep(ROUND, rng)
            found = counted(draws) if counts else rts_log_z(draws)
            share = softmax(draws.log_prior + found - draws.log_z_hat[0])
            self.ladder = replace(self.ladder, log_z_hat=found)
            log_z.append(found)
            shares.append(share)
        return np.array(log_z), np.array(shares)


def counted(draws):
    """Log Z from the visits of each level, 0.1 added to all of them as in the paper."""
    log_z = draws.log_z_hat[0] - draws.log_prior + np.log(draws.visits + 0.1)
    return log_z - log_z[0]


def summed_out(rbm, n_temperatures, rng, n_chains=N_CHAINS):
    """Log weights of AIS with the hidden units summed out, as Salakhutdinov & Murray (2008)."""
    w, b, c, base = rbm.weights, rbm.visible_bias, rbm.hidden_bias, rbm.base_bias
    v = (rng.random((n_chains, len(b))) < expit(base)).astype(float)
    odds, linear = c + v @ w, v @ (b - base)
    shift = np.logaddexp(0, base).sum() + len(c) * np.log(2)
    log_weight, before = np.full(n_chains, shift), len(c) * np.log(2)
    for k in range(1, n_temperatures + 1):
        beta = k / n_temperatures
        # at the new beta where the rows are, less the same at the old one
        log_weight += linear / n_temperatures + np.logaddexp(0, beta * odds).sum(axis=1) - before
        hidden = (rng.random(odds.shape) < expit(beta * odds)).astype(float)
        field = (1 - beta) * base + beta * (b + hidden @ w.T)
        v = (rng.random(v.shape) < expit(field)).astype(float)
        odds, linear = c + v @ w, v @ (b - base)
        before = np.logaddexp(0, beta * odds).sum(axis=1)
    return log_weight


def quick(function, *args, **kwargs):
    """Log Z of an annealed run, of each chain."""
    tree = function(*args, progressbar=False, **kwargs)
    log_weight = tree["weighted_posterior"]["log_weight"].to_numpy()
    return np.array([importance_log_z(chain).log_z for chain in log_weight])


def annealed(rbm, data, sizes, rng):
    """Estimates of AIS, forward and back, by method and number of sweeps: shape (replicates,)."""
    found, n = {}, sizes["replicates"]
    for sweeps in sizes["sweeps"]:
        settings = {"betas": sweeps, "random_seed": rng}
        found["AIS", sweeps] = quick(lz.sample_hais, N_CHAINS, n, model=rbm, **settings)
        starts = (data[rng.choice(len(data), N_CHAINS // 2, replace=False)] for _ in range(n))
        back = [
            lz.raise_log_likelihood(rbm, one, draws=2, progressbar=False, **settings)
            for one in starts
        ]
        found["RAISE", sweeps] = [one["evidence"].attrs["log_z_upper"] for one in back]
        if sweeps <= MOST_SUMMED_OUT:
            log_weight = (summed_out(rbm, sweeps, rng) for _ in range(n))
            found["AIS, summed", sweeps] = [importance_log_z(w).log_z for w in log_weight]
    return found


def of_same_run(draws, level, log_ratio):
    """Some of a run's draws, made under the same rough log Z."""
    return replace(draws, level=level, log_ratio=log_ratio, segment=np.zeros(1, dtype=int))


def part(draws, n):
    """The first n draws of each walker."""
    return of_same_run(draws, draws.level[:, :n], draws.log_ratio[:, :n])


def tempered(rbm, sizes, rng):
    """The same of estimators of tempered runs; the sweeps before the run are counted, too."""
    found = {}
    for _ in range(sizes["replicates"]):
        run = Tempered(rbm)
        run.rounds(rng)
        draws, _ = run.sweep(max(sizes["sweeps"]) - BEFORE, rng)
        for sweeps in sizes["sweeps"]:
            some = part(draws, sweeps - BEFORE)
            values = {"RTS": rts_log_z(some)[-1], "TS": counted(some)[-1]}
            values["BAR"] = bar_chain(some).log_z[-1]
            if some.n_draws <= MOST_FOR_MBAR:
                values["MBAR"] = mbar(some).log_z[-1]
            for name, value in values.items():
                found.setdefault((name, sweeps), []).append(value)
    return found


def truth(rbm, sizes, rng):
    """Exact log Z, or that of a long run of each of two methods, and how far these are apart."""
    if np.isfinite(rbm.log_z):
        return {"log_z": rbm.log_z, "apart": 0.0, "mcse": 0.0}
    n = sizes["truth"]
    run = Tempered(rbm)
    run.rounds(rng)
    run.sweep(n // 10, rng)
    one = rts(run.sweep(n, rng)[0]).estimate
    tree = lz.sample_hais(4 * N_CHAINS, 1, model=rbm, betas=n // 2, random_seed=rng)
    other = tree["evidence"].to_dataset().isel(estimator=0)
    log_z, mcse = (float(other[name]) for name in ("log_z", "mcse"))
    both = np.array([[one.log_z, log_z], [one.mcse, mcse]])
    weight = both[1] ** -2 / (both[1] ** -2).sum()
    error = (both[1] ** -2).sum() ** -0.5
    return {"log_z": weight @ both[0], "apart": one.log_z - log_z, "mcse": error}


def rounds_study(rbm, rng):
    """Figure 1: log Z and shares by round, with and without the Rao-Blackwell step."""
    found = {"exact": rbm.log_z_at(np.linspace(0, 1, N_LEVELS))}
    for name, counts in (("averaged", False), ("counted", True)):
        found[f"{name}_log_z"], found[f"{name}_share"] = Tempered(rbm).rounds(
            rng, 8, counts=counts, climbs=False
        )
    return found


def resampled(draws, rng):
    """Draws of a run in any order, with replacement, as one walker's."""
    chosen = rng.integers(draws.n_draws, size=(1, N_BOOTSTRAP))
    level, log_ratio = draws.level.ravel()[chosen], draws.log_ratio.ravel()[chosen]
    return of_same_run(draws, level, log_ratio)


def ti_filled(draws):
    """Trapezoidal rule of integration; levels without draws are filled by interpolation."""
    total = np.bincount(draws.level.ravel(), draws.log_ratio.ravel(), draws.n_levels)
    seen = draws.visits > 0
    mean = np.interp(draws.betas, draws.betas[seen], total[seen] / draws.visits[seen])
    return np.trapezoid(mean, draws.betas)


def ti_averaged(draws):
    """The same with means over all draws, by their probability of each level (eq. 21)."""
    q = draws.level_given(draws.log_ratio.ravel(), draws.segment.ravel())
    return np.trapezoid(draws.log_ratio.ravel() @ q / q.sum(axis=0), draws.betas)


def temperatures_study(rbm, log_z, sizes, rng):
    """Figure 4: error of each method against the number of temperatures, and seconds of MBAR."""
    methods = {
        "RTS": lambda draws: rts_log_z(draws)[-1],
        "TS": lambda draws: counted(draws)[-1],
        "TI": ti_filled,
        "TI-RB": ti_averaged,
        "MBAR": lambda draws: mbar(draws).log_z[-1],
    }
    found = {}
    for n_levels in TEMPERATURES:
        run = Tempered(rbm, n_levels)
        run.rounds(rng, 2 * N_ROUNDS)
        draws, _ = run.sweep(sizes["truth"] // 5, rng)
        for name, method in methods.items():
            n = MBAR_ESTIMATES if name == "MBAR" else N_ESTIMATES
            started = time.perf_counter()
            error = np.array([method(resampled(draws, rng)) for _ in range(n)]) - log_z
            found[name, n_levels] = np.sqrt(np.nanmean(error**2))
            found[f"{name}, seconds", n_levels] = (time.perf_counter() - started) / n
    return found


def gradient(rbm, visible, weight):
    """Mean gradient of the log density of visible units (n, M) by weights and biases."""
    hidden = expit(rbm.hidden_bias + visible @ rbm.weights)
    return (visible * weight[:, None]).T @ hidden, weight @ visible, weight @ hidden


def tracking_study(train, test, n_hidden, n_updates, rng):
    """Figure 5: log likelihoods tracked while a machine learns, and AIS now and then."""
    few, rate = train[: SIZES["data"]], SIZES["rate"]
    rbm = learn(few, n_hidden, rng, 300)
    tracker = lz.LogZTracker(
        rbm,
        betas=N_LEVELS,
        level_prior="exp",
        walkers=SIZES["walkers"],
        draws=SIZES["between"],
        alpha=SIZES["alpha"],
        tune=5,
        thin=5,
        random_seed=rng,
        progressbar=False,
    )
    even, rows, checks, theta = np.full(len(few), 1 / len(few)), [], [], None
    for update in range(n_updates + 1):
        draws = tracker.update(theta)["tempered_posterior"].to_dataset()
        rbm, log_z = tracker.model, tracker.log_z
        fits = [rbm.log_visible(data).mean() for data in (few, test)]
        rows.append([*(fit - log_z for fit in fits), log_z])
        if update % max(1, n_updates // 8) == 0:
            tree = lz.sample_hais(
                N_CHAINS, 1, model=rbm, betas=3000, random_seed=rng, progressbar=False
            )
            log_z = float(tree["evidence"]["log_z"][0])
            checks.append([update, *(fit - log_z for fit in fits), log_z])
        log_weight = draws["log_weight"].to_numpy().ravel()
        weight = np.exp(log_weight - logsumexp(log_weight))
        visible = draws["visible"].to_numpy().reshape(-1, train.shape[1]).astype(float)
        pairs = zip(gradient(rbm, few, even), gradient(rbm, visible, weight), strict=True)
        step = [rate * (of_data - of_model) for of_data, of_model in pairs]
        names = ("weights", "visible_bias", "hidden_bias")
        theta = {name: getattr(rbm, name) + part for name, part in zip(names, step, strict=True)}
    return {"tracked": np.array(rows), "checks": np.array(checks)}


def rng_of(part):
    """Random numbers of a part, the same whether the parts before it were kept or made now."""
    return np.random.default_rng(list(part.encode()))


def both(kept, part, rbm, data, sizes):
    """Figure 3 of a machine: annealing, and tempered runs, kept one replicate after the other."""
    found = {}
    for i in range(sizes["replicates"]):
        for method in ("annealed", "tempered"):
            key = f"{part}, {method} {i}"
            if key not in kept:
                one, rng = sizes | {"replicates": 1}, rng_of(key)
                kept[key] = (
                    annealed(rbm, data, one, rng)
                    if method == "annealed"
                    else tempered(rbm, one, rng)
                )
            for name, values in kept[key].items():
                found.setdefault(name, []).extend(values)
    return found


def study(kept, chosen, sizes):
    """Whatever the figures need and is not kept yet; each part has a seed of its own."""
    train, test = digits(np.random.default_rng(0))
    machines = {}
    for n, n_updates in HIDDEN.items():
        if f"machine {n}" not in kept:
            rbm = learn(train, n, np.random.default_rng(n), n_updates)
            kept[f"machine {n}"] = (rbm.weights, rbm.visible_bias, rbm.hidden_bias, rbm.base_bias)
        machines[n] = bernoulli_rbm(*kept[f"machine {n}"])
    if 1 in chosen and "1" not in kept:
        kept["1"] = rounds_study(machines[12], rng_of("1"))
    for n, rbm in machines.items():
        if chosen & {3, 4} and f"truth {n}" not in kept:
            kept[f"truth {n}"] = truth(rbm, sizes, rng_of(f"truth {n}"))
            print(f"{n} hidden units: {kept[f'truth {n}']}")
        if 3 in chosen and f"3 {n}" not in kept:
            kept[f"3 {n}"] = both(kept, f"3 {n}", rbm, test, sizes)
    if 3 in chosen and "3 hard" not in kept:
        *parts, base = kept["machine 12"]
        hard = bernoulli_rbm(*(HARDER * part for part in parts), base)
        kept["truth hard"] = truth(hard, sizes, rng_of("truth hard"))
        kept["3 hard"] = both(kept, "3 hard", hard, test, sizes)
    if 4 in chosen and "4" not in kept:
        large = max(HIDDEN)
        log_z = kept[f"truth {large}"]["log_z"]
        kept["4"] = temperatures_study(machines[large], log_z, sizes, rng_of("4"))
    if 5 in chosen and "5" not in kept:
        kept["5"] = tracking_study(train, test, 100, sizes["updates"], rng_of("5"))


def main(arguments=None):
    """Compute what is missing, keep it, print tables, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paper", action="store_true", help="the paper's sweeps and replicates")
    parser.add_argument("--figures", type=int, nargs="*", default=[1, 3, 4, 5])
    given = parser.parse_args(arguments)
    # too few sweeps for a weight or a level to be trusted is what is being looked at
    warnings.simplefilter("ignore", lz.EvidenceWarning)
    store = Path("rts_rbm_paper.npz" if given.paper else "rts_rbm.npz")
    kept = figures.Kept(store)
    print(f"numbers are kept in {store}")
    for number in given.figures:
        study(kept, {number}, PAPER if given.paper else SMALL)
        figures.show(number, kept, list(HIDDEN))


if __name__ == "__main__":
    main()
