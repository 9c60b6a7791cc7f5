"""Black boxes that count how often they are called."""

from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op


class Counted(Op):
    """A function of two parameters, known to Python alone: its ``value``."""

    itypes: ClassVar = [pt.dvector]
    otypes: ClassVar = [pt.dscalar]

    def __init__(self) -> None:
        self.n_calls = 0

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        self.n_calls += 1
        outputs[0][0] = np.asarray(self.value(*inputs[0]))

    def value(self, a: float, b: float) -> float:
        raise NotImplementedError
