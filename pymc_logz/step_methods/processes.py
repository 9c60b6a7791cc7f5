"""Compiled work for step methods, in whatever process PyMC runs them, JAX or not."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # PyMC's own dependency
import pymc as pm

from pymc_logz.graphs.compiling import Compiled
from pymc_logz.kernels.base import Kernel
from pymc_logz.models.flat import flatten_model, model_path
from pymc_logz.models.prior import PriorDraws
from pymc_logz.runners.block import Block

LENGTH_BYTES = 8
SERVER = "from pymc_logz.step_methods.processes import serve; serve()"


class Source:
    """Answers messages by compiled moves; a function of the message alone.

    It pickles as the model and the settings, and compiles again where it arrives. JAX does not
    survive a fork: a forked process that needs it starts a fresh one to compute in.

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
        start_from = None if isinstance(reference, PriorDraws) else reference
        self.model, self.reference, self.n_compiled = model, start_from, n_compiled
        self.kernel: Kernel = block.kernel
        self.transports = block.transports
        self.compile_kwargs = compile_kwargs
        self._block: Block | None = block
        self._pid = os.getpid()
        self._helper: Helper | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what cannot leave the process."""
        return {**self.__dict__, "_block": None, "_helper": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle, to compile when first used."""
        self.__dict__.update(state)
        self._pid = os.getpid()

    def ask(self, message: Any) -> Any:
        """Answer, computed here or in a process that can."""
        if self._block is not None and _lost_by_fork(self._block.compiled, self._pid):
            if self._helper is None or self._helper.pid != os.getpid():
                self._helper = Helper(self)
            return self._helper.ask(message)
        return self.answer(message)

    def answer(self, message: Any) -> Any:
        """Answer, computed here."""
        raise NotImplementedError

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
        start_from = self._block.path.sample_reference
        if isinstance(start_from, PriorDraws):
            # its count of unusable draws decides how many it makes: begin anew with each answer
            start_from.n_drawn = start_from.n_finite = 0
        return self._block


def _lost_by_fork(compiled: Compiled, pid: int) -> bool:
    """Whether the threads that the function needs were left behind in the parent process."""
    return compiled.backend == "jax" and os.getpid() != pid


class Helper:
    """A fresh Python process that answers for a forked one.

    It ends with the process that started it, when its standard input is closed.
    """

    def __init__(self, source: Source) -> None:
        self.pid = os.getpid()
        # multiprocessing forbids the workers of pm.sample to have children of its own kind
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        self._send(source)

    def ask(self, message: Any) -> Any:
        """Answer of the source there."""
        self._send(message)
        answer = _receive(self._process.stdout)
        if answer is None:
            raise RuntimeError(
                "the process that computes for this chain ended early; pass cores=1 or "
                'mp_ctx="forkserver" to pm.sample'
            )
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()

    def __del__(self) -> None:
        """End the process with the last user of it, not with a fork of that."""
        if self.pid == os.getpid():
            self.close()

    def _send(self, message: Any) -> None:
        _send(self._process.stdin, message)


def serve() -> None:
    """Answer messages until standard input is closed; the main loop of a `Helper`."""
    # an interrupt is for the process that asks, which then closes standard input
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = sys.stdin.buffer
    # what libraries print must not get among the answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    source: Any = None
    while (message := _receive(requests)) is not None:
        if source is None:
            source = message
            continue
        try:
            answer: Any = source.answer(message)
        except Exception as error:
            answer = error
        _send(answers, answer)


def _send(stream: Any, message: Any) -> None:
    data = cloudpickle.dumps(message)
    stream.write(len(data).to_bytes(LENGTH_BYTES, "little") + data)
    stream.flush()


def _receive(stream: Any) -> Any:
    """The next message; None at the end of the stream."""
    header = stream.read(LENGTH_BYTES)
    if len(header) < LENGTH_BYTES:
        return None
    return cloudpickle.loads(stream.read(int.from_bytes(header, "little")))
