"""Runs and estimates as ArviZ trees: the groups, dimensions and types of each.

The root says what a tree is (`pymc_logz.trees.kinds`). Which groups and variables a tree of each
kind has, and what the attributes of its cost are, is in ``docs/learn/read_the_output.md``, where
tests look it up.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.errors import STATUS_SENTENCES
from pymc_logz.estimators import TemperedDraws
from pymc_logz.estimators.result import LogZEstimate
from pymc_logz.graphs.compiling import Compiled
from pymc_logz.models.context import model_data, model_labels
from pymc_logz.trees.kinds import (
    HAIS,
    HAIS_BOTH,
    HAIS_STEP,
    KINDS,
    ROWS,
    TEMPERED,
    TEMPERED_STEP,
    check_kind,
    group_of,
    kind_of,
    marked,
)

if TYPE_CHECKING:
    import pymc as pm

SAMPLES = ("chain", "draw")
ESTIMATOR = "estimator"
"""Dimension of `LogZEstimate.method`: not ``method``, which is an argument of xarray's ``sel``."""
NUMBERS = ("log_z", "mcse", "weight_ess", "khat")
LIBRARIES = ("pymc-logz", "pymc", "pytensor", "arviz", "numpy")
UNITS = {"log_z": "nats", "mcse": "nats", "log_weight": "nats", "log_ratio": "nats", "lp": "nats"}


def evidence_dataset(estimates: Sequence[LogZEstimate], attrs: Mapping[str, Any]) -> xr.Dataset:
    """Group ``evidence``: one entry of dimension ``estimator`` per estimate, the best one first."""
    columns = {name: [getattr(est, name) for est in estimates] for name in NUMBERS}
    dataset = xr.Dataset(
        {name: (ESTIMATOR, np.array(values, dtype=float)) for name, values in columns.items()},
        coords={ESTIMATOR: [est.method for est in estimates]},
        attrs=dict(attrs),
    )
    dataset[ESTIMATOR].attrs["order"] = "the first one is the result, the others are its checks"
    dataset["status"] = (ESTIMATOR, np.array([est.status for est in estimates], dtype=str))
    dataset["status"].attrs = {est.status: STATUS_SENTENCES[est.status] for est in estimates}
    return with_units(dataset)


def estimate_of(group: xr.Dataset) -> LogZEstimate:
    """First entry of a group ``evidence`` as an estimate."""
    entry = group.isel({ESTIMATOR: 0}) if ESTIMATOR in group.dims else group
    log_z, mcse, ess, khat = (float(entry[name]) for name in NUMBERS)
    method, status = (str(entry[name].item()) for name in (ESTIMATOR, "status"))
    return LogZEstimate(method, log_z, mcse, ess, khat, status)


def evidence_of_rows(
    estimates: Sequence[LogZEstimate],
    row_dim: str,
    coords: Mapping[str, Any],
    attrs: Mapping[str, Any],
) -> xr.Dataset:
    """Group ``evidence`` of many data rows: one estimator, one entry of ``row_dim`` for each."""
    dataset = along(row_dim, evidence_dataset(estimates, attrs)).assign_coords(coords)
    # in one step the name would become an object, which no file keeps
    return dataset.expand_dims(ESTIMATOR).assign_coords({ESTIMATOR: [estimates[0].method]})


def along(dim: str, dataset: xr.Dataset) -> xr.Dataset:
    """Group ``evidence`` of estimates by one method of different things, which ``dim`` counts."""
    return dataset.drop_vars(ESTIMATOR).rename_dims({ESTIMATOR: dim})


def with_evidence(tree: xr.DataTree, group: xr.Dataset, kind: str | None = None) -> xr.DataTree:
    """Shallow copy of any tree with this group ``evidence``; mere draws become of this kind."""
    own = kind_of(tree)
    tree = marked(tree.copy(), own if kind is None or KINDS[own].material != ROWS else kind)
    tree["evidence"] = xr.DataTree(group)
    return tree


def data_datasets(
    model: "pm.Model", observed: Mapping[str, np.ndarray] | None = None
) -> dict[str, xr.Dataset]:
    """Groups ``observed_data`` and ``constant_data`` of a model, those that are not empty."""
    own, constant = model_data(model, observed)
    return {
        name: dataset_of(dict(data), **model_labels(model), sample_dims=[])
        for name, data in (("observed_data", own), ("constant_data", constant))
        if data
    }


def totals_of_rows(log_p: np.ndarray, sum_mcse: float, sum_bias: float) -> dict[str, float]:
    """Attributes of a group evidence with log p(x) of n rows: their mean and sum, with errors."""
    n = log_p.size
    known = n > 1 and np.isfinite(log_p).all()
    return {
        "mean_log_density": float(log_p.mean()),
        "mean_mcse": sum_mcse / n,
        "mean_standard_error": float(log_p.std(ddof=1) / np.sqrt(n)) if known else np.nan,
        "sum_log_z": float(log_p.sum()),
        "sum_mcse": sum_mcse,
        "sum_bias": sum_bias,
    }


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """Versions of those that are installed; a copy of the sources alone has none."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def make_tree(
    groups: Mapping[str, xr.Dataset], settings: Mapping[str, Any], kind: str
) -> xr.DataTree:
    """Tree of the groups; its kind, settings and library versions are attributes of its root."""
    tree = xr.DataTree.from_dict(dict(groups))
    tree.attrs = {
        "settings": json.dumps(settings, default=str, sort_keys=True),
        "versions": json.dumps(versions_of(LIBRARIES)),
    }
    return marked(tree, kind)


def run_attrs(
    compiled: Compiled, batching: str, share: float, cost: Mapping[str, float], **own: float | str
) -> dict[str, Any]:
    """Attributes of the group ``evidence``; transforms take a share of the prior."""
    return {
        "backend": compiled.backend,
        "backend_reason": compiled.reason,
        "batching": batching,
        **own,
        "prior_finite_share": share,
        **cost,
    }


def dataset_of(values: Mapping[str, Any], **labels: Any) -> xr.Dataset:
    """Dataset of arrays by name, as of `arviz_base.dict_to_dataset`, whose arguments it takes."""
    with _loading:
        # as if NumPyro, which ArviZ needs for NumPyro's results alone, were there: of what is
        # missing its loader notes who asked for it, by a look at all modules, which imports JAX
        is_missing = "arviz_base" not in sys.modules and find_spec("numpyro") is None
        if is_missing:
            sys.modules["numpyro"] = ModuleType("numpyro")
        try:
            from arviz_base import dict_to_dataset
        finally:
            if is_missing:
                del sys.modules["numpyro"]
    return dict_to_dataset(values, **labels)


_loading = Lock()


def with_units(dataset: xr.Dataset) -> xr.Dataset:
    """The same dataset, units noted on what has any."""
    for name, unit in UNITS.items():
        if name in dataset:
            dataset[name].attrs["units"] = unit
    return dataset


def with_dims(dataset: xr.Dataset, dims: Sequence[str], what: str) -> xr.Dataset:
    """The dataset ``what`` in order of time; a ValueError if it lacks one of these dimensions."""
    missing = [dim for dim in dims if dim not in dataset.dims]
    if missing:
        raise ValueError(
            f"{what} has no dimension {missing} (it has {sorted(map(str, dataset.sizes))}): the "
            "error needs the order of the draws in each chain. Pass the tree as it was returned, "
            "not stacked or averaged; to select, keep the dimension by a list, such as "
            "tree.isel(chain=[0])"
        )
    return in_time(dataset)


def in_time(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with chains and draws in the order of their labels, where these are distinct."""
    for dim in SAMPLES:
        if dim in dataset.indexes:
            index = dataset.indexes[dim]
            if index.is_unique and not index.is_monotonic_increasing:
                dataset = dataset.sortby(dim)
    return dataset


def log_weights(tree: xr.DataTree) -> np.ndarray:
    """Log weights of all independent rows of a run, shape (chains, draws), in nats."""
    names = ["weighted_posterior"]
    if check_kind(tree, "weighted_posterior", (HAIS, HAIS_BOTH, HAIS_STEP)) == HAIS_STEP:
        # a proposal is an independent row of one frozen plan, accepted or not, in warm-up or after
        before = tree.children.get("warmup_sample_stats", ())
        names = [*(["warmup_sample_stats"] if "log_weight" in before else []), "sample_stats"]
    groups = [with_dims(group_of(tree, name), SAMPLES, name)["log_weight"] for name in names]
    return np.concatenate([group.transpose(*SAMPLES).to_numpy() for group in groups], axis=1)


def tempering_of(tree: xr.DataTree) -> xr.Dataset:
    """Group ``tempering`` of a tempered run: for a step method, from its statistics."""
    if check_kind(tree, "tempering", (TEMPERED, TEMPERED_STEP)) == TEMPERED:
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
    """Draws with their ``log_weight``, walkers as chains; None if they are equally weighted."""
    name = KINDS[kind_of(tree)].draws
    if name is None or name == "posterior":
        return None
    group = with_dims(group_of(tree, name), SAMPLES, name)
    if "walker" in group.dims:
        group = group.stack(row=("chain", "walker")).reset_index("row", drop=True)
        group = group.drop_vars("chain", errors="ignore").rename(row="chain")
    return group
