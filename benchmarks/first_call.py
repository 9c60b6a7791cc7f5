"""Import, first call and second call on the quickstart model, against PyMC's own in the same run.

Each number is the median over three rounds of fresh processes, which take turns. Run it with ``uv
run benchmarks/first_call.py``. Compiled code that PyTensor and JAX keep on disk is used as a user's
would be; one round before those that count fills it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

N_ROUNDS = 3
IMPORTS = {
    "import pymc": "import pymc",
    "import pymc, pymc_logz": "import pymc, pymc_logz",
}
METHODS = ("pm.sample", "sample_hais", "evidence")
IMPORT = """
import time
began = time.perf_counter()
{line}
print([time.perf_counter() - began])
"""
CALLS = """
import logging, warnings
from gallery import MODELS
from side_by_side.methods import METHODS
logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
model = MODELS["quickstart"].build()
print([METHODS[{method!r}](model, seed)[0].seconds for seed in range(2)])
"""
# of import, first call and second call, in units of PyMC's
GOALS = (1.15, 1.0, 0.2)


def seconds(code: str) -> list[float]:
    """What a fresh process printed in its last line."""
    places = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    env = {"OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def one_round() -> dict[str, list[float]]:
    """Seconds of all imports and methods, each in a process of its own."""
    imports = {name: seconds(IMPORT.format(line=line)) for name, line in IMPORTS.items()}
    return imports | {method: seconds(CALLS.format(method=method)) for method in METHODS}


def main() -> None:
    """Print medians, and what they are in units of PyMC's."""
    one_round()
    rounds = [one_round() for _ in range(N_ROUNDS)]
    medians = {
        name: [median(values) for values in zip(*(r[name] for r in rounds), strict=True)]
        for name in rounds[0]
    }
    for name, values in medians.items():
        print(f"{name}: {', '.join(f'{value:.2f} s' for value in values)}")
    base, ours = (medians[name][0] for name in IMPORTS)
    print(f"\nimport: {ours / base:.2f} of import pymc (goal {GOALS[0]})")
    for method in METHODS[1:]:
        first, second = (
            own / theirs for own, theirs in zip(medians[method], medians["pm.sample"], strict=True)
        )
        print(f"{method}: first call {first:.2f} (goal {GOALS[1]}), ", end="")
        print(f"second {second:.2f} (goal {GOALS[2]}) of the same call of pm.sample")


if __name__ == "__main__":
    main()
