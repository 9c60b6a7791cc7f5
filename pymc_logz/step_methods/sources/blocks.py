"""Sources whose work is moves along the path from a reference to a model."""

from typing import Any

import pymc as pm

from pymc_logz.kernels.base import Kernel
from pymc_logz.models.flat import flatten_model, open_path
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.summing import with_entries
from pymc_logz.references.reference import Reference
from pymc_logz.runners.block import Block
from pymc_logz.step_methods.sources.base import Source


class BlockSource(Source):
    """Answers messages by a compiled block of moves; it pickles as the model and the settings.

    Parameters
    ----------
    model
        The model.
    block
        Compiled moves on the path from the reference; settings are kept, to compile it again.
    reference
        What the path starts from.
    """

    def __init__(self, model: pm.Model, block: Block, reference: Reference) -> None:
        super().__init__()
        self.model = model
        # draws of the prior are compiled, and made again where they are needed
        self.reference = reference.without_draws()
        self.kernel: Kernel = block.kernel
        # the noise is drawn in portions that depend on the number of rows
        self.n_rows = block.n_rows
        self.compile_kwargs = block.compile_kwargs
        self._block: Block | None = block

    def __getstate__(self) -> dict[str, Any]:
        """Without what cannot leave the process."""
        return {**super().__getstate__(), "_block": None}

    def uses_jax(self) -> bool:
        """Whether the block is compiled, and by JAX."""
        return self._block is not None and self._block.compiled.backend == "jax"

    @property
    def block(self) -> Block:
        """Compiled moves."""
        if self._block is None:
            prior = PriorDraws(self.model)
            path = open_path(with_entries(flatten_model(self.model, integers=True)), prior)
            block = Block(path, self.kernel, self.n_rows, self.compile_kwargs)
            self._block = self.reference.with_draws(prior).start(block)
        return self._block
