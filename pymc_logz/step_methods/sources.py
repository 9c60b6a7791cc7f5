"""Where step methods get their draws from: compiled work, in whatever process PyMC runs a chain."""

import contextlib
import os
import threading
import weakref
from functools import cached_property
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Self

import numpy as np
import pymc as pm

from pymc_logz.graphs.threads import silence_fork_warnings
from pymc_logz.kernels.base import Kernel
from pymc_logz.loop.frozen import Planned
from pymc_logz.models.flat import flatten_model, open_path
from pymc_logz.models.preparation import with_entries
from pymc_logz.models.prior import PriorDraws
from pymc_logz.runners.block import Block


class Server:
    """Answers for a source to other processes of this machine, each in a thread of its own.

    It ends with the source, or with the process.
    """

    def __init__(self, source: Any) -> None:
        # the secret by which processes know each other, as long as a digest of SHA-256
        self.key, self._pid = os.urandom(32), os.getpid()
        self._listener = Listener(authkey=self.key)
        self.address = self._listener.address
        self._open = True
        # neither a thread nor a finaliser may keep the source, which keeps what is compiled
        self._source = weakref.ref(source)
        threading.Thread(target=self._listen, daemon=True).start()
        weakref.finalize(source, self.close)

    def close(self) -> None:
        """Answer no more; a copy of the server in a forked process does nothing."""
        if self._open and os.getpid() == self._pid:
            self._open = False
            with contextlib.suppress(OSError):
                Client(self.address, authkey=self.key).close()  # wakes the thread that listens

    def _listen(self) -> None:
        with self._listener:
            while True:
                try:
                    connection = self._listener.accept()
                except (ConnectionError, EOFError, AuthenticationError):
                    continue  # whoever it was has gone, or has no key
                source = self._source()
                if source is None or not self._open:
                    return
                arguments = connection, source.for_one()
                del source
                threading.Thread(target=_answer_all, args=arguments, daemon=True).start()
                del arguments


def _answer_all(connection: Connection, source: Any) -> None:
    """Answer one process until it goes."""
    with connection, contextlib.suppress(OSError, EOFError):
        while True:
            message = connection.recv()
            try:
                answer: Any = source.answer(message)
            except Exception as error:
                answer = error
            connection.send(answer)


class Source:
    """Answers messages by compiled work; an answer is a function of message and settings alone.

    With JAX, which does not survive a fork and takes seconds to import, processes that PyMC starts
    for its chains ask the one that has compiled. It pickles without what is compiled; where nobody
    answers, it compiles again.
    """

    _server: Server | None = None
    _client: tuple[int, Connection] | None = None

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._way: tuple[Any, bytes] | None = None

    def opened(self) -> Self:
        """The same source, once it answers other processes where those need it."""
        if self.uses_jax():
            self._server = Server(self)
            self._way = self._server.address, self._server.key
            silence_fork_warnings()
        return self

    def for_one(self) -> Self:
        """The same for one asker: it shares what is compiled, not what it remembers."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Without what cannot leave the process: what the class has a default, or a maker, for."""
        return {name: value for name, value in vars(self).items() if not hasattr(type(self), name)}

    def ask(self, message: Any) -> Any:
        """Answer, computed here or in the process that can; what it raised there is raised here."""
        connection = self._connection()
        if connection is None:
            return self.answer(message)
        try:
            connection.send(message)
            answer = connection.recv()
        except (OSError, EOFError) as error:
            raise RuntimeError(
                "the process that computes for this chain has ended; sample again, with cores=1 if "
                "that happens again"
            ) from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _connection(self) -> Connection | None:
        """The way to the process that has compiled; None if it is this one, or has gone."""
        pid = os.getpid()
        if pid == self._pid or self._way is None:
            return None
        if self._client is None or self._client[0] != pid:
            address, key = self._way
            try:
                self._client = pid, Client(address, authkey=key)
            except OSError:  # a pickle has outlived who compiled
                self._way = self._client = None
                return None
        return self._client[1]

    def answer(self, message: Any) -> Any:
        """Answer, computed here."""
        raise NotImplementedError

    def uses_jax(self) -> bool:
        """Whether JAX is what the work is compiled with, whose threads a fork leaves behind."""
        raise NotImplementedError


class BlockSource(Source):
    """Batches of draws by compiled moves; it pickles as the model and the settings."""

    def __init__(self, model: pm.Model, planned: Planned) -> None:
        super().__init__()
        self.model, block = model, planned.block
        self.reference = planned.reference
        self.kernel: Kernel = block.kernel
        # the noise is drawn in portions that depend on the number of rows
        self.n_rows = block.n_rows
        self.compile_kwargs = block.compile_kwargs
        self.block = block

    def uses_jax(self) -> bool:
        """Whether the block is compiled, and may be by JAX."""
        return "block" in vars(self) and self.block.compiled.may_use_jax

    @cached_property
    def block(self) -> Block:
        """Compiled moves, made again where it arrives."""
        prior = PriorDraws(self.model)
        path = open_path(with_entries(flatten_model(self.model, integers=True)), prior)
        block = Block(path, self.kernel, self.n_rows, self.compile_kwargs)
        return self.reference.start(block)

    def answer(self, message: tuple[Any, list[int]]) -> tuple[Any, Any]:
        """What the next batch goes on with, and a batch; None starts anew."""
        carried, seed = message
        # SFC64 as in the runners: a fifth faster with normals
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
        return self.batch(carried, rng)

    def batch(self, carried: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """What the next batch goes on with, and a batch."""
        raise NotImplementedError
