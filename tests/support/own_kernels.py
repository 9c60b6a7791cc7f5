"""Kernels as users write them: outside the package, one with its defaults and one without."""

import re
import sys
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from pymc_logz.kernels import (
    KernelState,
    draw_log_uniform,
    log_density,
    metropolis,
    random_walk_step_size,
    strides,
)
from support.scripts import ROOT


@cache
def page(name: str) -> ModuleType:
    """All Python of a page of the documentation, run from top to bottom as one module."""
    text = (ROOT / "docs" / name).read_text()
    source = "\n".join(re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE))
    module = ModuleType(name.removesuffix(".md").replace("/", "_"))
    # dataclasses look their module up
    sys.modules[module.__name__] = module
    exec(compile(source, name, "exec"), module.__dict__)
    return module


class HeavyNoise(NamedTuple):
    """Two kinds of noise side by side, one of them a tuple of its own."""

    jump: tuple[Any, Any]
    log_uniform: Any


class HeavyWalk:
    """Random walk with jumps from a Student-t: neither a dataclass nor a heir of the package."""

    step_size, needs_gradient = None, False

    def __init__(self, freedom: int = 3, scale: Any = None, dense: bool = False) -> None:
        self.freedom, self.scale, self.dense = freedom, scale, dense
        self._private = object()

    def resolved(self, n_dims: int) -> "HeavyWalk":
        return self

    def evaluations_per_move(self, n_dims: int) -> int:
        return 1

    def refreshment_for(self, step_size: np.ndarray) -> np.ndarray:
        return np.zeros_like(step_size)

    def acceptance_for(self, target_accept: float) -> float:
        return 0.3

    def tuned_step_size(self, step_size: float, rate: float, target_accept: float) -> float:
        return random_walk_step_size(step_size, rate, target_accept)

    def draw_noise(self, rng: Any, n_moves: int, n_rows: int, n_dims: int) -> HeavyNoise:
        normal = rng.standard_normal((n_moves, n_rows, n_dims))
        stretch = np.sqrt(self.freedom / rng.chisquare(self.freedom, (n_moves, n_rows, 1)))
        return HeavyNoise((normal, stretch), draw_log_uniform(rng, (n_moves, n_rows)))

    def step(self, path: Any, state: KernelState, move: Any, noise: HeavyNoise) -> Any:
        normal, stretch = noise.jump
        position = state.position + strides(normal * stretch, move)
        proposal = KernelState(position, state.momentum, path.evaluate(position))
        new, old = (log_density(at.evaluation, move.beta) for at in (proposal, state))
        return metropolis(new - old, noise.log_uniform, proposal, state)
