"""Batches of annealed rows that step methods propose from, the same in whatever process."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]  # PyMC's own dependency
import numpy as np
import pymc as pm

from pymc_logz.compiling import Compiled
from pymc_logz.model import flatten_model, model_path
from pymc_logz.references import PriorDraws
from pymc_logz.runners.anneal import Plan, anneal
from pymc_logz.runners.block import Block

LENGTH_BYTES = 8
SERVER = "from pymc_logz.step_methods.proposals import serve; serve()"


class Proposals(NamedTuple):
    """n annealed rows."""

    position: np.ndarray
    """Unconstrained end points, shape (n, d)."""
    log_weight: np.ndarray
    """Shape (n,)."""
    log_ratio: np.ndarray
    """Log target minus log reference at the end points, shape (n,)."""
    log_density: np.ndarray
    """Log density of the model at the end points, shape (n,)."""


class ProposalSource:
    """Draws batches of annealed rows along a frozen plan; a function of the seed alone.

    It pickles as the model and the settings, and compiles again where it arrives. JAX does not
    survive a fork: a forked process that needs it starts a fresh one to compute in.

    Parameters
    ----------
    model
        The model.
    block
        Compiled moves.
    plan
        Frozen schedule.
    reference
        What the rows start from; None draws from the prior.
    n_compiled
        Rows that the block was compiled for: its noise is drawn in portions that depend on them.
    batch_size
        Rows per batch.
    compile_kwargs
        Keyword arguments of ``pytensor.function``, to compile the block again.
    """

    def __init__(
        self,
        model: pm.Model,
        block: Block,
        plan: Plan,
        reference: Any,
        *,
        n_compiled: int,
        batch_size: int,
        compile_kwargs: Mapping[str, Any] | None,
    ) -> None:
        self.model, self.kernel, self.plan = model, block.kernel, plan
        self.reference, self.n_compiled, self.batch_size = reference, n_compiled, batch_size
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

    def draw(self, seed: Sequence[int]) -> Proposals:
        """One batch of rows, independent of all other batches."""
        if self._block is not None and _lost_by_fork(self._block.compiled, self._pid):
            if self._helper is None or self._helper.pid != os.getpid():
                self._helper = Helper(self)
            return self._helper.draw(seed)
        return self._draw_here(seed)

    def _draw_here(self, seed: Sequence[int]) -> Proposals:
        block = self.block
        # SFC64 as in the runners: a fifth faster with normals
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(list(seed))))
        start_from = block.path.sample_reference
        if isinstance(start_from, PriorDraws):
            # its count of unusable draws decides how many it makes: begin anew with each batch
            start_from.n_drawn = start_from.n_finite = 0
        run = anneal(block, self.plan, start_from(rng, self.batch_size), rng)
        return Proposals(
            run.position, run.log_weight, run.log_ratio, run.log_reference + run.log_ratio
        )

    @property
    def block(self) -> Block:
        """Compiled moves."""
        if self._block is None:
            flat = flatten_model(self.model)
            reference = PriorDraws(self.model) if self.reference is None else self.reference
            self._block = Block(
                model_path(flat, reference), self.kernel, self.n_compiled, self.compile_kwargs
            )
        return self._block


def _lost_by_fork(compiled: Compiled, pid: int) -> bool:
    """Whether the threads that the function needs were left behind in the parent process."""
    return compiled.backend == "jax" and os.getpid() != pid


class Helper:
    """A fresh Python process that draws batches for a forked one.

    It ends with the process that started it, when its standard input is closed.
    """

    def __init__(self, source: ProposalSource) -> None:
        self.pid = os.getpid()
        # multiprocessing forbids the workers of pm.sample to have children of its own kind
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        self._send(source)

    def draw(self, seed: Sequence[int]) -> Proposals:
        """One batch of rows."""
        self._send(list(seed))
        answer = _receive(self._process.stdout)
        if answer is None:
            raise RuntimeError(
                "the process that anneals for this chain ended early; pass cores=1 or "
                'mp_ctx="forkserver" to pm.sample'
            )
        if isinstance(answer, Exception):
            raise answer
        return Proposals(*answer)

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
    """Answer seeds with batches until standard input is closed; the main loop of a `Helper`."""
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
            answer: Any = tuple(source.draw(message))
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
