"""PyTensor functions as models need them."""

from concurrent.futures import ThreadPoolExecutor

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
