"""Sources whose work is moves along the path from a reference to a model."""

from collections.abc import Mapping
from typing import Any

import pymc as pm

from pymc_logz.kernels.base import Kernel
from pymc_logz.models.flat import flatten_model, model_path
from pymc_logz.models.prior import PriorDraws
from pymc_logz.runners.block import Block
from pymc_logz.step_methods.sources.base import Source


class BlockSource(Source):
    """Answers messages by a compiled block of moves; it pickles as the model and the settings.

    Parameters
    ----------
    model
        The model.
    block
        Compiled moves.
    reference
        What rows start from; None draws from the prior.
    n_compiled
        Rows that the block was compiled for: its noise is drawn in portions that depend on them.
    compile_kwargs
        Keyword arguments of ``pytensor.function``, to compile the block again.
    """

    def __init__(
        self,
        model: pm.Model,
        block: Block,
        reference: Any,
        *,
        n_compiled: int,
        compile_kwargs: Mapping[str, Any] | None,
    ) -> None:
        super().__init__()
        start_from = None if isinstance(reference, PriorDraws) else reference
        self.model, self.reference, self.n_compiled = model, start_from, n_compiled
        self.kernel: Kernel = block.kernel
        self.transports = block.transports
        self.compile_kwargs = compile_kwargs
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
            flat = flatten_model(self.model)
            reference = PriorDraws(self.model) if self.reference is None else self.reference
            self._block = Block(
                model_path(flat, reference),
                self.kernel,
                self.n_compiled,
                self.compile_kwargs,
                transports=self.transports,
            )
        return self._block
