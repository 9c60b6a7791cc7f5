"""Fixtures that all tests share."""

import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.checks import make_rng


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
