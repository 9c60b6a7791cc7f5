"""Likelihoods that raise, or do not come back, from some moment on."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op


class Fails(Op):
    """The sum of squares, which raises or hangs once there is a file, in whatever process.

    Parameters
    ----------
    path
        The file.
    seconds
        How long it hangs; 0 raises.
    """

    __props__ = ("path", "seconds")

    def __init__(self, path: str, seconds: float = 0.0) -> None:
        self.path, self.seconds = path, seconds

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [pt.as_tensor(x)], [pt.dscalar()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        [x] = inputs
        if Path(self.path).exists():
            if not self.seconds:
                raise ArithmeticError("the simulator has no answer here")
            time.sleep(self.seconds)
        outputs[0][0] = np.asarray(np.sum(x**2), dtype="float64")
