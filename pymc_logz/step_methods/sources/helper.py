"""A fresh Python process that answers for one that was forked."""

import os
import signal
import subprocess
import sys
from typing import Any, Protocol

import cloudpickle  # type: ignore[import-untyped]  # PyMC's own dependency

LENGTH_BYTES = 8
"""Before each message, for its length."""
SERVER = "from pymc_logz.step_methods.sources.helper import serve; serve()"


class Answering(Protocol):
    """What answers messages and can be pickled."""

    def answer(self, message: Any) -> Any:
        """Answer, a function of the message alone."""


class Helper:
    """A fresh Python process that answers for a forked one.

    It ends with the process that started it, when its standard input is closed.
    """

    def __init__(self, source: Answering) -> None:
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
    source: Answering | None = None
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
