"""Tempered runs of one model that share what is compiled: for tests of all but the compiling."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pymc as pm
import pytest

from pymc_logz.models import preparation
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.geometric import AnnealingPath
from pymc_logz.runners.block import Block
from pymc_logz.runners.temper import TemperBlock
from pymc_logz.tempered import chains, warm_up
from pymc_logz.tempered import run as runs


@contextmanager
def compiled_once(shared: pm.Model) -> Iterator[None]:
    """One compilation for all runs of a model with one kernel; and few rounds of warm-up.

    A dozen walkers may take many rounds to meet the rule, which tests of other things do not need.
    """
    prepared: list[Prepared] = []
    moves: dict[Any, Block] = {}
    blocks: dict[Any, TemperBlock] = {}

    def prepare_once(model: pm.Model, rng: np.random.Generator, **options: Any) -> Prepared:
        if model is not shared:
            return preparation.prepare(model, rng, **options)
        if not prepared:
            prepared.append(preparation.prepare(model, rng, **options))
        return prepared[0]

    def block_once(path: AnnealingPath, kernel: Any, *args: Any) -> Block:
        if not prepared or path.point is not prepared[0].flat.point:
            return Block(path, kernel, *args)
        key = (path.log_reference, kernel, args[0])
        if key not in moves:
            moves[key] = Block(path, kernel, *args)
        return moves[key]

    def compile_once(block: Block, *args: Any) -> TemperBlock:
        key = (block, *args[:-1])
        if key not in blocks:
            blocks[key] = TemperBlock(block, *args)
        return blocks[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm_up, "MAX_ROUNDS", 5)
        patch.setattr(runs, "prepare", prepare_once)
        patch.setattr(runs, "Block", block_once)
        patch.setattr(chains, "TemperBlock", compile_once)
        yield
