"""Threads of the process that compiled something, which answer for the processes it started."""

import contextlib
import os
import threading
import weakref
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any


class Server:
    """Answers for a source to other processes of this machine, each in a thread of its own.

    It ends with the source, or with the process. The source has ``answer(message)``, a function of
    the message alone, and ``for_one()``, the same for one asker with a memory of its own.
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
    with connection:
        while True:
            try:
                message = connection.recv()
            except (OSError, EOFError):
                return
            try:
                answer: Any = source.answer(message)
            except Exception as error:
                answer = error
            try:
                connection.send(answer)
            except OSError:
                return


class Asker:
    """One process's way to a server."""

    def __init__(self, address: Any, key: bytes) -> None:
        self.pid = os.getpid()
        self._connection = Client(address, authkey=key)

    def ask(self, message: Any) -> Any:
        """Answer of the source there; what it raised is raised here, or that it has ended."""
        try:
            self._connection.send(message)
            answer = self._connection.recv()
        except (OSError, EOFError) as error:
            raise RuntimeError(
                "the process that computes for this chain has ended; sample again, with cores=1 if "
                "that happens again"
            ) from error
        if isinstance(answer, Exception):
            raise answer
        return answer
