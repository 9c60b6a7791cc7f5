"""What long runs cost: workers, checkpoints, and time and memory by the size of the problem.

``python benchmarks/long_runs.py workers`` runs about 30 s of work by one and by two processes, each
pool warm, in turn, and prints the ratio of the wall times, beside what two processes of plain
Python gain over one at that moment; ``checkpoint`` the same run with and without one; ``law``
seconds of processors against rows, dimensions, temperatures, data, chains; ``memory`` the largest
size of a process against rows, data, and a bound on it. Each part prints one JSON line a
measurement. Run it on a quiet machine: with other work on it the ratios mean nothing.
"""

import argparse
import json
import os
import resource
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

import pymc_logz as lz
from pymc_logz.long_runs import checkpoint as checkpoint_module

KERNEL = lz.kernels.Hamiltonian(step_size=0.05, scale=1.0)
"""Fixed, so that there is no pilot and all the time is that of the chains."""
REPEATS = 3


def regression(n_data: int = 2000, n_dims: int = 10) -> pm.Model:
    """Logistic regression."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n_data, n_dims))
    y = rng.random(n_data) < 1 / (1 + np.exp(-x @ rng.normal(size=n_dims) / 4))
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0, 1, shape=n_dims)
        pm.Bernoulli("y", logit_p=x @ slopes, observed=y.astype(int))
    return model


def seconds(call: Callable[[], Any]) -> float:
    """Wall time of a call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def cpu_seconds(call: Callable[[], Any]) -> float:
    """Time of all threads of this process, which other work on the machine hardly changes."""
    started = time.process_time()
    call()
    return time.process_time() - started


def run(model: pm.Model, n_temperatures: int, **options: Any) -> xr.DataTree:
    """Chains of 128 rows along a fixed ladder."""
    given: dict[str, Any] = {"chains": 8, "draws": 128, **options}
    shared = {"kernel": KERNEL, "random_seed": 1, "progressbar": False}
    return lz.sample_hais(model=model, betas=n_temperatures, **shared, **given)


def temperatures_for(
    model: pm.Model, wanted: float, executor: ProcessPoolExecutor, **options: Any
) -> int:
    """So many that one process works for about so many seconds."""
    few, many = (timed(k, model, executor, **options)["workers_cpu"] for k in (64, 512))
    return int(64 + (512 - 64) * wanted / max(many - few, 1e-3))


def cpu_of(executor: ProcessPoolExecutor) -> float:
    """Seconds of processors that the processes of a pool have used (Linux)."""
    ticks = 0
    for pid in list(executor._processes):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def spin(n: int) -> int:
    """Arithmetic of Python, which shares nothing with other processes."""
    total = 0
    for i in range(n):
        total += i * i % 7
    return total


def ceiling(one: Executor, two: Executor, n: int = 20_000_000) -> float:
    """What two processes gain over one on this machine at this moment, with nothing to share."""
    alone = seconds(lambda: [one.submit(spin, n).result() for _ in range(2)])
    return alone / seconds(lambda: list(two.map(spin, [n, n])))


def timed(k: int, model: pm.Model, executor: ProcessPoolExecutor, **options: Any) -> dict[str, Any]:
    """Wall time of a run, and seconds of processors of the workers and of this process."""
    before, own = cpu_of(executor), time.process_time()
    wall = seconds(lambda: run(model, k, executor=executor, **options))
    used = {"workers_cpu": cpu_of(executor) - before, "own_cpu": time.process_time() - own}
    return {"wall": wall, **used}


def workers(wanted: float, backend: str) -> None:
    """Two processes against one, on a backend of which a process uses one processor."""
    if backend == "jax":  # of which XLA would use all there are
        os.environ["XLA_FLAGS"] = (
            "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        )
    model, spawn = regression(), get_context("spawn")
    options = {"compile_kwargs": {"mode": backend.upper()}}
    with (
        ProcessPoolExecutor(1, mp_context=spawn) as one,
        ProcessPoolExecutor(2, mp_context=spawn) as two,
    ):
        compiled = seconds(lambda: run(model, 64, executor=one, **options))
        k = temperatures_for(model, wanted, one, **options)
        for _ in range(2):  # both have the model, compiled, after this
            run(model, 64, executor=two, **options)
        for _ in range(REPEATS):
            line = {"part": "workers", "backend": backend, "temperatures": k, "first": compiled}
            line |= {"load": os.getloadavg()[0], "ceiling": ceiling(one, two)}
            for name, executor in (("one", one), ("two", two)):
                found = timed(k, model, executor, **options)
                line |= {f"{name}_{what}": value for what, value in found.items()}
            line["ratio"] = line["one_wall"] / line["two_wall"]
            print(json.dumps(line), flush=True)


def checkpoint(wanted: float) -> None:
    """The same run in threads with and without a checkpoint; seconds of processors beside walls."""
    model, folder, n_written = regression(), Path(tempfile.mkdtemp()), Counter[str]()
    write = checkpoint_module.write_record

    def counted(*args: Any) -> None:
        n_written["records"] += 1
        write(*args)

    checkpoint_module.write_record = counted
    run(model, 64)
    k = int(64 + 448 * wanted / max(cpu_seconds(lambda: run(model, 512)), 1e-3))
    for i in range(REPEATS):
        path, line = folder / f"{i}.ckpt", {"part": "checkpoint", "temperatures": k}
        line["load"] = os.getloadavg()[0]
        for name, options in (("plain", {}), ("kept", {"checkpoint": path})):
            n_written.clear()
            cpu, wall = time.process_time(), time.perf_counter()
            run(model, k, **options)
            line[f"{name}_cpu"] = time.process_time() - cpu
            line[f"{name}_wall"] = time.perf_counter() - wall
            line[f"{name}_records"] = n_written["records"]
        line["bytes"] = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        line["read"] = seconds(lambda path=path: run(model, k, checkpoint=path))
        print(json.dumps(line), flush=True)
    shutil.rmtree(folder)


def law() -> None:
    """Seconds of processors, without what does not depend on temperatures, one size at a time."""
    base = {"n_data": 1000, "n_dims": 8, "temperatures": 256, "draws": 256, "chains": 2}
    sizes: dict[str, tuple[int, ...]] = {
        "draws": (128, 256, 512, 1024),
        "temperatures": (128, 256, 512, 1024),
        "n_data": (250, 1000, 4000, 16000),
        "n_dims": (4, 8, 16, 32),
        "chains": (1, 2, 4, 8),
    }
    for name, values in sizes.items():
        for value in values:
            at = {**base, name: value}
            model = regression(at["n_data"], at["n_dims"])
            options = {"draws": at["draws"], "chains": at["chains"], "cores": 1}
            run(model, 16, **options)  # compiles
            few, all_of_them = (
                cpu_seconds(partial(run, model, k, **options)) for k in (16, at["temperatures"])
            )
            line = {"size": name, "value": value, "cpu_seconds": all_of_them - few}
            print(json.dumps({"part": "law", **line}), flush=True)


def peak(n_data: int, draws: int, max_memory: str | None) -> float:
    """Largest size of this process, MB, after a short run of one chain in it (Linux)."""
    bound = {} if max_memory is None else {"max_memory": max_memory}
    run(regression(n_data), 8, draws=draws, chains=1, cores=1, **bound)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory() -> None:
    """Largest size of a process that has done nothing else, one size at a time."""
    sizes = [(n, 256, None) for n in (1000, 4000, 16_000, 64_000)]
    sizes += [(16_000, n, None) for n in (512, 1024, 2048)]
    sizes += [(64_000, 256, bound) for bound in ("100 MB", "400 MB")]
    for n_data, draws, bound in sizes:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            found = fresh.submit(peak, n_data, draws, bound).result()
        line = {"part": "memory", "n_data": n_data, "draws": draws, "max_memory": bound}
        print(json.dumps({**line, "peak_mb": round(found)}), flush=True)


def main() -> None:
    """The part that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("workers", "checkpoint", "law", "memory")
    parser.add_argument("part", choices=parts, nargs="?", default="law")
    parser.add_argument("--backend", choices=("numba", "jax"), default="numba")
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    if asked.part == "workers":
        workers(asked.seconds, asked.backend)
    elif asked.part == "checkpoint":
        checkpoint(asked.seconds)
    else:
        {"law": law, "memory": memory}[asked.part]()


if __name__ == "__main__":
    main()
