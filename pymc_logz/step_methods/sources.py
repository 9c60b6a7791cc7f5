"""Where step methods get their draws from: compiled work, in whatever process PyMC runs a chain."""

import os
from typing import Any, Self

import numpy as np
import pymc as pm

from pymc_logz.graphs.threads import hush_forks_of_chains
from pymc_logz.kernels.base import Kernel
from pymc_logz.models.flat import flatten_model, open_path
from pymc_logz.models.preparation import with_entries
from pymc_logz.models.prior import PriorDraws
from pymc_logz.references.reference import Reference
from pymc_logz.runners.block import Block
from pymc_logz.step_methods.server import Asker, Server


class Source:
    """Answers messages by compiled work; an answer is a function of message and settings alone.

    With JAX, which does not survive a fork and takes seconds to import, processes that PyMC starts
    for its chains ask the one that has compiled. It pickles without what is compiled; where nobody
    answers, it compiles again.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._server: Server | None = None
        self._asker: Asker | None = None
        self._way: tuple[Any, bytes] | None = None

    def opened(self) -> Self:
        """The same source, once it answers other processes where those need it."""
        if self.uses_jax():
            self._server = Server(self)
            self._way = self._server.address, self._server.key
            hush_forks_of_chains()
        return self

    def for_one(self) -> Self:
        """The same for one asker: it shares what is compiled, not what it remembers."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Without what cannot leave the process."""
        return {**self.__dict__, "_server": None, "_asker": None}

    def ask(self, message: Any) -> Any:
        """Answer, computed here or in the process that can."""
        if os.getpid() != self._pid and self._way is not None:
            if self._asker is None or self._asker.pid != os.getpid():
                self._asker = self._reached(self._way)
            if self._asker is not None:
                return self._asker.ask(message)
        return self.answer(message)

    def _reached(self, way: tuple[Any, bytes]) -> Asker | None:
        """The way to the process that has compiled; None if a pickle outlived it."""
        try:
            return Asker(*way)
        except OSError:
            self._way = None
            return None

    def answer(self, message: Any) -> Any:
        """Answer, computed here."""
        raise NotImplementedError

    def uses_jax(self) -> bool:
        """Whether JAX is what the work is compiled with, whose threads a fork leaves behind."""
        raise NotImplementedError


class BlockSource(Source):
    """Batches of draws by compiled moves on the path from a reference to a model.

    It pickles as the model and the settings. A batch is a function of a seed, and of what the one
    before has left to go on with.
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

    def draw(self, carried: Any, seed: list[int]) -> tuple[Any, Any]:
        """What the next batch goes on with, and a batch; None starts anew."""
        return self.ask((carried, seed))

    def answer(self, message: tuple[Any, list[int]]) -> tuple[Any, Any]:
        """A batch, computed here."""
        carried, seed = message
        # SFC64 as in the runners: a fifth faster with normals
        return self.batch(
            carried, np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
        )

    def batch(self, carried: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """What the next batch goes on with, and a batch."""
        raise NotImplementedError
