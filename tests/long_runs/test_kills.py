"""Runs that are killed at random moments, and end with the bits of one that was not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.long_runs import METHODS, OTHERS, differing

ROOT = Path(__file__).parents[2]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forks of one process")


def survives(method: str, kills: int, seed: int, folder: Path) -> None:
    """Kill a run so often, and compare what it comes to with one that was never stopped."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    command = ["-m", "support.killed_runs", method, str(kills), str(seed), str(folder)]
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["killed"] == kills
    found, whole = (dict(np.load(folder / f"{name}.npz")) for name in ("found", "whole"))
    assert len(whole) >= 8
    assert differing(found, whole) == [], told


@needs_fork
def test_a_run_that_is_killed_twice_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Would catch a generator, a weight or a tally that is not where it was."""
    survives("annealed", 2, 1, tmp_path)


@needs_fork
@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_twenty_kills(method: str, tmp_path: Path) -> None:
    """Would catch a moment at which a kill costs more than a few seconds of work."""
    survives(method, 20, 2, tmp_path)


@needs_fork
@pytest.mark.slow
@pytest.mark.parametrize("method", OTHERS)
def test_eight_kills_of_other_units(method: str, tmp_path: Path) -> None:
    """Would catch a batch, a model or a repetition that is lost, or made twice."""
    survives(method, 8, 3, tmp_path)
