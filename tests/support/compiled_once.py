"""Tempered runs of one model that share what is compiled: for tests of all but the compiling."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pymc as pm
import pytest

from pymc_logz.loop import calls
from pymc_logz.models import preparation
from pymc_logz.models.preparation import Prepared
from pymc_logz.tempered import warm_up


@contextmanager
def compiled_once(shared: pm.Model) -> Iterator[None]:
    """One preparation for all runs of a model, which share what is compiled; few rounds of warm-up.

    A dozen walkers may take many rounds to meet the rule, which tests of other things do not need.
    """
    prepared: list[Prepared] = []

    def prepare_once(model: pm.Model, rng: np.random.Generator, **options: Any) -> Prepared:
        if model is not shared:
            return preparation.prepare(model, rng, **options)
        if not prepared:
            prepared.append(preparation.prepare(model, rng, **options))
        return prepared[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm_up, "MAX_ROUNDS", 5)
        patch.setattr(calls, "prepare", prepare_once)
        yield
