"""Each method with its default settings: one call, and what it says and costs."""

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import xarray as xr
from pymc.smc.kernels import IMH

import pymc_logz as lz

Record = dict[str, Any]


@dataclass
class Call:
    """What one call of a method says of a model, and what it cost."""

    method: str
    seconds: float = np.nan
    cpu_seconds: float = np.nan
    """Of this process, its threads, and processes it started."""
    log_z: float = np.nan
    mcse: float = np.nan
    status: str = ""
    evaluations: int | None = None
    """Row gradients; of sample_smc likelihoods without gradients."""
    detail: str = ""

    def record(self) -> Record:
        """All of it as plain numbers, without those that are missing."""
        return {name: value for name, value in asdict(self).items() if value == value}


@contextmanager
def timed(call: Call) -> Iterator[None]:
    """Note the time of what is done inside."""
    began, cpu = time.perf_counter(), _cpu_seconds()
    yield
    call.seconds = time.perf_counter() - began
    call.cpu_seconds = _cpu_seconds() - cpu


def _cpu_seconds() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def read_evidence(call: Call, tree: xr.DataTree) -> None:
    """Note the recommended log Z of a tree, and its cost if it is told."""
    group = tree["evidence"].to_dataset()
    first = group.isel(estimator=0)
    call.log_z, call.mcse = float(first["log_z"]), float(first["mcse"])
    call.status = str(first["status"].item())
    costs = [group.attrs.get(f"{stage}_row_gradients") for stage in ("pilot", "run", "check")]
    if any(cost is not None for cost in costs):
        call.evaluations = int(sum(cost for cost in costs if cost is not None))
    call.detail = str(first["estimator"].item())
    if "n_temperatures" in group.attrs:
        call.detail += f", {group.attrs['n_temperatures']} temperatures"


def by_hais(model: pm.Model, seed: int) -> list[Call]:
    """`sample_hais` by default."""
    call = Call("sample_hais")
    with timed(call):
        tree = lz.sample_hais(model=model, random_seed=seed, progressbar=False)
    read_evidence(call, tree)
    return [call]


def by_evidence(model: pm.Model, seed: int) -> list[Call]:
    """`evidence` of a model, by whatever way it chooses."""
    call = Call("evidence")
    with timed(call):
        tree = lz.evidence(model, random_seed=seed + 100, progressbar=False)
    read_evidence(call, tree)
    return [call]


def by_sample(model: pm.Model, seed: int) -> list[Call]:
    """``pm.sample`` by default, and apart from it a bridge from its draws."""
    sampling, bridge = Call("pm.sample"), Call("bridge")
    with timed(sampling):
        tree = pm.sample(
            model=model, random_seed=seed + 200, progressbar=False, discard_tuned_samples=False
        )
    sampling.evaluations = leapfrog_steps(tree)
    sampling.detail = str(tree["posterior"].attrs["inference_library"])
    with timed(bridge):
        found = lz.bridge_sampling(tree, model, random_seed=seed, progressbar=False)
    read_evidence(bridge, found)
    return [sampling, bridge]


def leapfrog_steps(tree: xr.DataTree) -> int | None:
    """Gradients that NUTS took, all chains, tuning included."""
    groups = [tree[name] for name in ("warmup_sample_stats", "sample_stats") if name in tree]
    counts = [int(group["n_steps"].sum()) for group in groups if "n_steps" in group]
    return sum(counts) if counts else None


class CountedIMH(IMH):
    """The default kernel of ``pm.sample_smc``, which also says how many likelihoods it took."""

    stats_dtypes_shapes: ClassVar = {**IMH.stats_dtypes_shapes, "n_likelihoods": (int, [])}

    def sample_stats(self) -> dict[str, Any]:
        """Statistics of a stage; ``n_steps`` starts at 1."""
        return {**super().sample_stats(), "n_likelihoods": self.draws * (self.n_steps - 1)}


def by_smc(model: pm.Model, seed: int) -> list[Call]:
    """``pm.sample_smc`` by default; it gives no error, but one log Z for each chain."""
    call = Call("pm.sample_smc")
    with timed(call):
        tree = pm.sample_smc(
            kernel=CountedIMH, model=model, random_seed=seed + 300, progressbar=False
        )
    stats = tree["sample_stats"]
    chains = [float(np.asarray(chain)[-1]) for chain in by_chain(stats, "log_marginal_likelihood")]
    call.log_z = float(np.logaddexp.reduce(chains) - np.log(len(chains)))
    call.detail = " ".join(f"{value:.4f}" for value in chains)
    n_moved = sum(int(np.sum(chain)) for chain in by_chain(stats, "n_likelihoods"))
    call.evaluations = n_moved + len(chains) * int(stats.attrs["_n_draws"])
    return [call]


def by_chain(stats: xr.DataTree, name: str) -> list[Any]:
    """Values of each chain; stages differ in number, so chains may be lists in an object array."""
    return [
        np.array(list(np.ravel(chain)), dtype=float) if np.ndim(chain) else chain
        for chain in stats[name].values
    ]


METHODS: dict[str, Callable[[pm.Model, int], list[Call]]] = {
    "pm.sample": by_sample,
    "pm.sample_smc": by_smc,
    "sample_hais": by_hais,
    "evidence": by_evidence,
}
"""What runs in a process of its own; ``pm.sample`` brings the bridge with it."""
