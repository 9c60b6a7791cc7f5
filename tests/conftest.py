"""Fixtures that all tests share."""

import gc
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from support.checks import make_rng


def pytest_configure(config: pytest.Config) -> None:
    """Compile C only where a test asks for it by the fixture `c_compiler`, or with slow tests.

    In mode FAST_COMPILE, too, PyTensor compiles inner graphs by gcc, one by one; here they are
    run once. Nor does it note for each variable of each graph which lines made it. Processes that
    tests start inherit both.
    """
    if config.option.markexpr == "not slow":
        flags = os.environ.get("PYTENSOR_FLAGS")
        ours = ["cxx=", "traceback__limit=0"]
        os.environ["PYTENSOR_FLAGS"] = ",".join(filter(None, [*ours, flags]))


def pytest_collection_finish() -> None:
    """Keep what was imported out of the garbage collector's rounds, which come once a file."""
    gc.disable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """What a file leaves behind is collected at its end, and what it keeps is not looked at again.

    The collector's own rounds take a fifteenth of the time.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def c_compiler() -> Iterator[None]:
    """What mode CVM compiles is C, as for a user who has a compiler."""
    import pytensor

    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++")
    with pytensor.config.change_flags(cxx=compiler):
        yield


@contextmanager
def _without_look() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for run in ("hais.run", "tempered.run", "posterior.own_proposal"):
            patch.setattr(f"pymc_logz.{run}.log_z_from_prior", lambda *_: None)
        yield


@pytest.fixture
def no_look_from_prior() -> Iterator[None]:
    """Runs end without the look from the prior for modes that they lack, which takes seconds."""
    with _without_look():
        yield


@pytest.fixture(scope="module")
def no_look_in_this_file() -> Iterator[None]:
    """The same for all runs of a file, those that its tests share included."""
    with _without_look():
        yield


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Generator of one test: a function of the suite's seed and the test's own name."""
    return make_rng(request.node.name)


@pytest.fixture
def interrupt() -> Callable[[], object]:
    """Task that ends as if the user had pressed Ctrl-C."""

    def task() -> object:
        raise KeyboardInterrupt

    return task


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT is Ctrl-C, also in a worker of pytest-xdist, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
