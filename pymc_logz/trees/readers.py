"""What a run left for log Z, out of a tree of any kind: log weights, or levels and log ratios."""

import numpy as np
import xarray as xr

from pymc_logz.estimators import TemperedDraws
from pymc_logz.trees.alignment import SAMPLES, with_dims
from pymc_logz.trees.kinds import (
    HAIS,
    HAIS_BOTH,
    HAIS_STEP,
    KINDS,
    TEMPERED,
    TEMPERED_STEP,
    check_kind,
    group_of,
    kind_of,
)

WITH_LOG_WEIGHTS = (HAIS, HAIS_BOTH, HAIS_STEP)
WITH_LEVELS = (TEMPERED, TEMPERED_STEP)


def log_weights(tree: xr.DataTree) -> np.ndarray:
    """Log weights of all independent rows of a run, shape (chains, draws), in nats.

    A ValueError is raised if the tree is of a kind that has none.
    """
    if check_kind(tree, "weighted_posterior", WITH_LOG_WEIGHTS) == HAIS_STEP:
        return proposal_log_weight(tree)
    group = with_dims(group_of(tree, "weighted_posterior"), SAMPLES, "weighted_posterior")
    return group["log_weight"].transpose(*SAMPLES).to_numpy()


def proposal_log_weight(tree: xr.DataTree) -> np.ndarray:
    """Log weights of all proposals of a run of `HAIS`, shape (chains, draws), in nats.

    Every proposal is an independent annealed row of the same frozen plan, whether it was accepted
    or not and whether in warm-up or after, so all that the tree has kept go into log Z. A
    ValueError is raised if the tree does not come from ``pm.sample(step=HAIS())``.
    """
    groups = [name for name in ("warmup_sample_stats", "sample_stats") if name in tree.children]
    parts = [
        with_dims(tree[name].to_dataset(), SAMPLES, name)["log_weight"]
        for name in groups
        if "log_weight" in tree[name]
    ]
    if not parts:
        raise ValueError(
            "the tree has no log_weight in sample_stats; make it by "
            "pm.sample(step=pymc_logz.HAIS())"
        )
    return np.concatenate([part.transpose(*SAMPLES).to_numpy() for part in parts], axis=1)


def tempering_of(tree: xr.DataTree) -> xr.Dataset:
    """Group ``tempering`` of a tempered run: for a step method, from its statistics.

    ``level`` and ``log_ratio`` by chain, walker and draw; ``log_prior`` and ``log_z_hat`` by stage,
    with coordinate ``beta``. A ValueError is raised if the tree is of a kind that has none, or its
    chains have ladders of their own.
    """
    if check_kind(tree, "tempering", WITH_LEVELS) == TEMPERED:
        return group_of(tree, "tempering")
    stats = with_dims(group_of(tree, "sample_stats"), SAMPLES, "sample_stats")
    stats = stats.transpose(*SAMPLES, ...)
    dims = ("chain", "walker", "draw")
    first = stats.isel(chain=0, draw=0)
    for name in ("beta", "log_prior", "log_z_hat"):
        if not bool((stats[name] == first[name]).all()):
            raise ValueError(
                f"sample_stats[{name!r}] differs from chain to chain, so they were tempered over "
                "temperatures of their own, each made by another step method: take log Z of each"
            )
    return xr.Dataset(
        {
            "level": (dims, stats["walker_level"].to_numpy().swapaxes(1, 2)),
            "log_ratio": (dims, stats["walker_log_ratio"].to_numpy().swapaxes(1, 2)),
            "log_prior": ("stage", first["log_prior"].to_numpy()),
            "log_z_hat": ("stage", first["log_z_hat"].to_numpy()),
        },
        coords={"beta": ("stage", first["beta"].to_numpy())},
    )


def stored_draws(tree: xr.DataTree) -> TemperedDraws:
    """Levels and log ratios of a tempered run as estimators take them, walkers of all chains."""
    return draws_of_group(tempering_of(tree))


def draws_of_group(group: xr.Dataset) -> TemperedDraws:
    """Levels and log ratios in a group ``tempering``, as estimators take them."""
    group = with_dims(group, ("chain", "walker", "draw", "stage"), "tempering")
    # levels are numbers of stages
    group = group.sortby("beta").transpose("chain", "walker", "draw", "stage", ...)
    n_draws = group.sizes["draw"]
    return TemperedDraws(
        level=np.asarray(group["level"]).reshape(-1, n_draws),
        log_ratio=np.asarray(group["log_ratio"]).reshape(-1, n_draws),
        betas=np.asarray(group["beta"]),
        log_prior=np.asarray(group["log_prior"]),
        log_z_hat=np.asarray(group["log_z_hat"]),
    )


def weighted_draws(tree: xr.DataTree) -> xr.Dataset | None:
    """Draws with their ``log_weight`` by chain and draw; None if they are equally weighted.

    Walkers count as chains, since each of them is one.
    """
    name = KINDS[kind_of(tree)].draws
    if name is None or name == "posterior":
        return None
    group = with_dims(group_of(tree, name), SAMPLES, name)
    if "walker" in group.dims:
        group = group.stack(row=("chain", "walker")).reset_index("row", drop=True)
        group = group.drop_vars("chain", errors="ignore").rename(row="chain")
    return group
