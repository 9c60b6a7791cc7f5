"""Marks of outputs that are observed exactly: what the core knows of them."""

from collections.abc import Sequence
from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op

from pymc_logz.errors import ModelError

REMEDY = (
    "an exact observation has no density that this sampler could use; run "
    "pm.sample(step=pymc_logz.ConstrainedHMC()), or pymc_logz.relax(model, tolerance) for a model "
    "that any sampler can take"
)


class ExactlyEqual(Op):
    """Marks that an output equals what was observed, entry by entry.

    It stands in the model as a potential, so it goes wherever the model's graph goes. Its value
    would be a delta function: whoever evaluates, differentiates or converts it does not know what
    it means, and gets an error. ``noise`` names free variables of which each entry reaches one
    entry of the output only.
    """

    __props__ = ("noise",)

    def __init__(self, noise: tuple[str, ...] = ()) -> None:
        self.noise = noise

    def make_node(self, output: Any, observed: Any) -> Apply:
        """Node for an output and what it equals, of one shape."""
        output, observed = pt.as_tensor(output), pt.as_tensor(observed)
        return Apply(self, [output, observed], [output.type()])

    def do_constant_folding(self, fgraph: Any, node: Any) -> bool:
        """Never, since it has no value."""
        return False

    def infer_shape(self, node: Any, shapes: Sequence[Any]) -> list[Any]:
        """Shape of the output."""
        return [shapes[0]]

    def perform(self, *_: Any) -> Any:
        """Raise: there is no value, and no gradient."""
        raise ModelError(REMEDY)

    pullback = pushforward = perform

    def __str__(self) -> str:
        """Name and remedy: some backends put only this into their error."""
        return f"ExactlyEqual ({REMEDY})"


def exact_observations(model: pm.Model) -> list[Variable]:
    """Components of a model that came from `ExactObservation`, in order."""
    return [potential for potential in model.potentials if is_exact(potential)]


def is_exact(potential: Variable) -> bool:
    """Whether a potential came from `ExactObservation`."""
    return isinstance(potential.owner_op, ExactlyEqual)
