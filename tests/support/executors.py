"""Executors that stand in for those of other machines."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any, BinaryIO

import cloudpickle


class Sends(Executor):
    """Pickles what it is given, as for another process; some workers are lost on the way.

    Parameters
    ----------
    lost
        Numbers of submissions whose worker dies.
    """

    def __init__(self, lost: tuple[int, ...] = ()) -> None:
        self._max_workers, self.lost, self.n = 2, lost, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        self.n += 1
        try:
            if self.n in self.lost:
                raise BrokenExecutor("a worker died")
            answer = cloudpickle.loads(cloudpickle.dumps(fn))()
            future.set_result(cloudpickle.loads(cloudpickle.dumps(answer)))
        except Exception as error:
            future.set_exception(error)
        return future


class PlainPickles(Executor):
    """A process started afresh that is sent plain pickles, as by ``mpi4py.futures``.

    It has not seen the caller's script, nor anything that it has imported.
    """

    def __init__(self) -> None:
        self.num_workers, self.n_bytes = 1, 0
        (read_there, write), (read, write_there) = os.pipe(), os.pipe()
        code = f"from support.executors import serve; serve({read_there}, {write_there})"
        command = [sys.executable, "-c", code]
        self.process = subprocess.Popen(command, pass_fds=(read_there, write_there))
        for end in (read_there, write_there):
            os.close(end)
        self.to, self.come = os.fdopen(write, "wb"), os.fdopen(read, "rb")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        sent = pickle.dumps((fn, args, kwargs))
        self.n_bytes += len(sent)
        _write(self.to, sent)
        is_good, answer = pickle.loads(_read(self.come))
        (future.set_result if is_good else future.set_exception)(answer)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.to.close()
        self.process.wait()
        self.come.close()


def serve(read: int, write: int) -> None:
    """Do what comes in, until nothing more does."""
    with os.fdopen(read, "rb") as come, os.fdopen(write, "wb") as to:
        while sent := _read(come):
            try:
                fn, args, kwargs = pickle.loads(sent)
                answer = True, fn(*args, **kwargs)
            except Exception as error:
                answer = False, error
            _write(to, pickle.dumps(answer))


def _write(to: BinaryIO, contents: bytes) -> None:
    to.write(len(contents).to_bytes(8, "little") + contents)
    to.flush()


def _read(come: BinaryIO) -> bytes:
    return come.read(int.from_bytes(come.read(8), "little"))
