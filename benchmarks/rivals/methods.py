"""Each method as it is called first: a target and a seed in, log Z and its cost out."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
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


def of_tree(tree: Any) -> Found:
    """The recommended estimate of a tree."""
    group = tree["evidence"].to_dataset()
    first = group.isel(estimator=0)
    names = ("pilot_row_gradients", "run_row_gradients", "row_evaluations")
    costs = [int(group.attrs[name]) for name in names if name in group.attrs]
    status = str(first["status"].item())
    return Found(float(first["log_z"]), float(first["mcse"]), status, sum(costs) or None)


def by_hais(target: Target, seed: int) -> Found:
    """`pymc_logz.sample_hais`."""
    return of_tree(lz.sample_hais(model=target.model, random_seed=seed, progressbar=False))


def by_tempering(target: Target, seed: int) -> Found:
    """`pymc_logz.sample_tempered`."""
    return of_tree(lz.sample_tempered(model=target.model, random_seed=seed, progressbar=False))


def by_bridge(target: Target, seed: int) -> Found:
    """``pm.sample``, and `pymc_logz.bridge_sampling` of its draws."""
    tree = pm.sample(model=target.model, chains=4, random_seed=seed, progressbar=False)
    return of_tree(lz.bridge_sampling(tree, target.model, random_seed=seed, progressbar=False))


def by_smc(target: Target, seed: int) -> Found:
    """``pm.sample_smc``; its error is the spread of its chains."""
    tree = pm.sample_smc(model=target.model, random_seed=seed, progressbar=False)
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


def by_blackjax(target: Target, seed: int) -> Found:
    """Adaptive tempered SMC of blackjax: 1,000 particles, random walks shaped by them."""
    from rivals.with_blackjax import tempered_smc

    return Found(*tempered_smc(target, seed))


def by_nested_slices(target: Target, seed: int) -> Found:
    """Nested slice sampling of blackjax: 1,000 live points."""
    from rivals.with_blackjax import nested_slices

    return Found(*nested_slices(target, seed))


N_PARTICLES, N_TEMPERATURES = 200, 1000


def by_plain_ais(target: Target, seed: int) -> Found:
    """AIS as in Neal (2001), in NumPy: a linear ladder, Gaussian random walks of three widths."""
    rng = np.random.default_rng(seed)
    log_likelihood = np.vectorize(target.log_likelihood, signature="(d)->()")
    to_x = np.vectorize(target.from_cube, signature="(d)->(d)")
    # the prior is uniform on the cube, so that a walk there needs its likelihood alone
    u = rng.random((N_PARTICLES, target.n_dims))
    ratio, log_weight = log_likelihood(to_x(u)), np.zeros(N_PARTICLES)
    betas = np.linspace(0, 1, N_TEMPERATURES) ** 4
    for before, beta in pairwise(betas):
        log_weight += (beta - before) * np.maximum(ratio, -1e300)
        width = rng.choice([0.3, 0.1, 0.03]) / np.sqrt(target.n_dims)
        proposed = (u + width * rng.normal(size=u.shape)) % 1.0
        new = log_likelihood(to_x(proposed))
        accepted = np.log(rng.random(N_PARTICLES)) < beta * (new - ratio)
        u[accepted], ratio[accepted] = proposed[accepted], new[accepted]
    log_z = float(np.logaddexp.reduce(log_weight) - np.log(N_PARTICLES))
    weight = np.exp(log_weight - log_weight.max())
    mcse = float(weight.std() / weight.mean() / np.sqrt(N_PARTICLES))
    return Found(log_z, mcse, evaluations=N_PARTICLES * N_TEMPERATURES)


METHODS: dict[str, Callable[[Target, int], Found]] = {
    "sample_hais": by_hais,
    "sample_tempered": by_tempering,
    "bridge": by_bridge,
    "pm.sample_smc": by_smc,
    "blackjax_smc": by_blackjax,
    "blackjax_nested": by_nested_slices,
    "dynesty": by_dynesty,
    "nautilus": by_nautilus,
    "plain_ais": by_plain_ais,
}
OURS = ("sample_hais", "sample_tempered", "bridge")
