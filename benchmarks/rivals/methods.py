"""Each method as it is called first: a target and a seed in, log Z and its cost out."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pymc as pm

import pymc_logz as lz
from rivals.targets import Target


@dataclass(frozen=True)
class Found:
    """What a method says."""

    log_z: float
    mcse: float = np.nan
    status: str = ""
    evaluations: int | None = None
    """Of the likelihood at one point, with its gradient where the method uses gradients."""
    seconds_before: float = 0.0
    """What draws took that another method of the same process had made already."""
    cpu_before: float = 0.0


def of_tree(tree: Any) -> Found:
    """The recommended estimate of a tree."""
    group = tree["evidence"].to_dataset()
    first = group.isel(estimator=0)
    names = ("pilot_row_gradients", "run_row_gradients", "check_row_gradients", "row_evaluations")
    costs = [int(group.attrs[name]) for name in names if name in group.attrs]
    status = str(first["status"].item())
    return Found(float(first["log_z"]), float(first["mcse"]), status, sum(costs) or None)


def by_evidence(target: Target, seed: int) -> Found:
    """`pymc_logz.evidence`, the one call that chooses."""
    return of_tree(lz.evidence(target.model, random_seed=seed, progressbar=False))


def by_evidence_to(target: Target, seed: int) -> Found:
    """`pymc_logz.evidence`, asked for an error of 0.01."""
    tree = lz.evidence(target.model, target_mcse=0.01, random_seed=seed, progressbar=False)
    return of_tree(tree)


def by_hais(target: Target, seed: int) -> Found:
    """`pymc_logz.sample_hais`."""
    return of_tree(lz.sample_hais(model=target.model, random_seed=seed, progressbar=False))


def by_tempering(target: Target, seed: int) -> Found:
    """`pymc_logz.sample_tempered`."""
    return of_tree(lz.sample_tempered(model=target.model, random_seed=seed, progressbar=False))


KEPT: dict[tuple[int, int], tuple[Any, float, float]] = {}
"""Draws of ``pm.sample`` by target and seed, with seconds and processor seconds."""


def nuts(target: Target, seed: int) -> tuple[Any, dict[str, float]]:
    """Draws of ``pm.sample``, and what they took if they were there already."""
    key = (id(target), seed)
    if key in KEPT:
        tree, seconds, cpu = KEPT.pop(key)
        return tree, {"seconds_before": seconds, "cpu_before": cpu}
    began, used = time.perf_counter(), sum(os.times()[:4])
    tree = pm.sample(model=target.model, chains=4, random_seed=seed, progressbar=False)
    KEPT[key] = tree, time.perf_counter() - began, sum(os.times()[:4]) - used
    return tree, {}


def by_bridge(target: Target, seed: int) -> Found:
    """``pm.sample``, and `pymc_logz.bridge_sampling` of its draws."""
    tree, before = nuts(target, seed)
    found = lz.bridge_sampling(tree, target.model, random_seed=seed, progressbar=False)
    return replace(of_tree(found), **before)


def by_smc(target: Target, seed: int, draws: int = 2000) -> Found:
    """``pm.sample_smc``; its error is the spread of its chains."""
    tree = pm.sample_smc(draws, model=target.model, random_seed=seed, progressbar=False)
    chains = tree["sample_stats"]["log_marginal_likelihood"].values
    last = [[float(value) for value in np.ravel(chain)][-1] for chain in chains]
    log_z = float(np.logaddexp.reduce(last) - np.log(len(last)))
    return Found(log_z, float(np.std(last, ddof=1) / np.sqrt(len(last))))


def by_dynesty(target: Target, seed: int) -> Found:
    """Dynamic nested sampling of dynesty."""
    import dynesty

    rng = np.random.default_rng(seed)
    arguments = (target.log_likelihood, target.from_cube, target.n_dims)
    sampler = dynesty.NestedSampler(*arguments, rstate=rng)
    sampler.run_nested(print_progress=False)
    results = sampler.results
    error, calls = float(results.logzerr[-1]), int(np.sum(results.ncall))
    return Found(float(results.logz[-1]), error, evaluations=calls)


def by_nautilus(target: Target, seed: int) -> Found:
    """Importance nested sampling with a neural network, nautilus."""
    import nautilus

    sampler = nautilus.Sampler(
        target.from_cube, target.log_likelihood, n_dim=target.n_dims, seed=seed
    )
    sampler.run(verbose=False)
    n_effective = float(sampler.n_eff)
    # the library's own estimate of the error
    return Found(float(sampler.log_z), n_effective**-0.5, evaluations=int(sampler.n_like))


def by_blackjax(target: Target, seed: int, n: int = 1000) -> Found:
    """Adaptive tempered SMC of blackjax: 1,000 particles, random walks shaped by them."""
    from rivals.with_blackjax import tempered_smc

    return Found(*tempered_smc(target, seed, n))


def by_nested_slices(target: Target, seed: int) -> Found:
    """Nested slice sampling of blackjax: 1,000 live points."""
    from rivals.with_blackjax import nested_slices

    return Found(*nested_slices(target, seed))


def by_persistent(target: Target, seed: int) -> Found:
    """Persistent sampling of blackjax: its adaptive ladder, 1,000 particles, the same walks."""
    from rivals.with_blackjax import persistent_sampling

    return Found(*persistent_sampling(target, seed))


def by_normal_bridge(target: Target, seed: int) -> Found:
    """``pm.sample``, and the bridge of R's bridgesampling in NumPy."""
    from rivals.papers import normal_bridge

    tree, before = nuts(target, seed)
    return replace(Found(*normal_bridge(target, tree, seed)), **before)


def by_paper(name: str) -> Callable[[Target, int], Found]:
    """An algorithm as its paper has it, in NumPy."""

    def run(target: Target, seed: int) -> Found:
        from rivals import papers

        return Found(*getattr(papers, name)(target, seed))

    return run


METHODS: dict[str, Callable[[Target, int], Found]] = {
    "evidence": by_evidence,
    "sample_hais": by_hais,
    "sample_tempered": by_tempering,
    "bridge": by_bridge,
    "nuts_normal_bridge": by_normal_bridge,
    "pm.sample_smc": by_smc,
    "blackjax_smc": by_blackjax,
    "blackjax_persistent": by_persistent,
    "neal_ais": by_paper("neal"),
    "paper_hais": by_paper("hamiltonian"),
    "paper_rts": by_paper("rao_blackwell"),
    "dynesty": by_dynesty,
    "nautilus": by_nautilus,
    "blackjax_nested": by_nested_slices,
}
LONGER: dict[str, Callable[[Target, int], Found]] = {
    "evidence to 0.01": by_evidence_to,
    "blackjax_smc, 16,000": partial(by_blackjax, n=16_000),
    "pm.sample_smc, 8,000": partial(by_smc, draws=8000),
}
"""Settings with an error of about 0.01, for targets on which a call with defaults is mostly fixed
costs."""
TOGETHER = (("evidence", "sample_hais"), ("bridge", "nuts_normal_bridge"))
"""Methods of one process, of which the second finds a model compiled, or draws made."""
OURS = ("evidence", "sample_hais", "sample_tempered", "bridge")
