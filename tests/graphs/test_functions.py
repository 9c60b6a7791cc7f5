"""PyTensor functions as models need them."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytensor
import pytensor.tensor as pt

from pymc_logz.graphs.functions import function_for, mode_for


def test_threads_that_compile_leave_pytensor_as_it_was() -> None:
    """Would catch a default mode that is changed for good, for all that a user compiles later.

    With ``pytensor.function`` in place of ours this failed in ten runs of ten.
    """
    before, x = pytensor.config.mode, pt.dvector("x")
    found = set()

    def work(mode: str) -> None:
        for n in range(20):
            function_for([x], sum((pt.exp(x * i) for i in range(n)), x), mode=mode)
            found.add(mode_for(None))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, ["FAST_COMPILE", "CVM"] * 2))
    assert pytensor.config.mode is before
    assert len(found) == 1


WITHOUT_C = """
import numpy as np
import pymc as pm
from pymc_logz.models.rows import natural_shapes
from pymc_logz.models.flat import constrain, flatten_model
from pymc_logz.models.prior import PriorDraws

with pm.Model() as model:
    pm.Normal("y", pm.HalfNormal("scale", 1), 1, observed=0.5)
flat = flatten_model(model)
constrain(flat, PriorDraws(model)(np.random.default_rng(0), 3))
natural_shapes(model)
"""


def test_what_runs_once_compiles_nothing_in_c(tmp_path: Path) -> None:
    """Would catch half a second for PyTensor's own loop in C, where its cache is empty."""
    env = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={tmp_path}"}
    subprocess.run([sys.executable, "-c", WITHOUT_C], check=True, env=env)
    assert not list(tmp_path.rglob("*.so"))
