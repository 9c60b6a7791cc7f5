"""Fixtures that all tests share."""

from collections.abc import Callable

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
