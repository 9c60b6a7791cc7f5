"""A run that is interrupted: ``python -m support.interrupted_run PATH FOUND processes|threads``.

What it comes to is written to ``FOUND``.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context

import numpy as np

from pymc_logz.long_runs import running
from support.long_runs import annealed, numbers_of

if __name__ == "__main__":
    running.SECONDS = 0.0
    in_processes = sys.argv[3] == "processes"
    workers = ProcessPoolExecutor(2, mp_context=get_context("spawn")) if in_processes else None
    with workers or nullcontext() as executor:
        tree = annealed(executor=executor, checkpoint=sys.argv[1])
    np.savez(sys.argv[2], **numbers_of(tree))
