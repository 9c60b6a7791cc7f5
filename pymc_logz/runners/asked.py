"""Who is asked to run a run, and what its random numbers are made of."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from pymc_logz.arguments import check_flag, check_positive
from pymc_logz.graphs.memory import as_bytes
from pymc_logz.runners.checkpoint import begun_with, check_path
from pymc_logz.runners.jobs import generator_at, state_of
from pymc_logz.runners.records import Codec
from pymc_logz.runners.running import Running
from pymc_logz.seeds import random_generator

SEED = "seed"
"""Record of the state of the generator that a run was begun with."""


def who_runs(
    executor: Any,
    checkpoint: str | os.PathLike | None,
    time_limit: float | None,
    max_memory: Any,
    check_reproducible: bool,
    random_seed: Any,
) -> tuple[Running, Any]:
    """How chains are run, and a seed: that of the checkpoint where none was asked for.

    Parameters
    ----------
    executor, checkpoint, time_limit, max_memory, check_reproducible, random_seed
        As in `pymc_logz.sample_hais`.

    Raises
    ------
    TypeError
        If ``executor`` is none, or ``checkpoint`` is no path.
    ValueError
        If ``executor`` forks a process that has loaded JAX, or a number is outside its range.
    """
    check_positive("seconds", one=True, time_limit=time_limit)
    check_flag(check_reproducible=check_reproducible)
    path = check_path(checkpoint)
    if path is not None:
        random_seed = seed_of(path, random_seed)
    running = Running(
        executor,
        checkpoint=path,
        seed=None if path is None else state_of(random_seed),
        time_limit=time_limit,
        max_memory=as_bytes(max_memory),
        check_reproducible=check_reproducible,
    )
    return running, random_seed


def seed_of(path: Path, random_seed: Any) -> np.random.Generator:
    """Generator of a run that is kept: as it was begun, where no seed is asked for."""
    if random_seed is None and path.exists():
        return generator_at(begun_with(path, SEED, Codec(())))
    rng = random_generator(random_seed)
    return generator_at(state_of(rng))
