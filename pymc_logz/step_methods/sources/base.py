"""What all sources of draws have in common: they answer messages, whatever process asks."""

import os
from typing import Any, Self

from pymc_logz.step_methods.sources.forks import hush_forks_for
from pymc_logz.step_methods.sources.server import Asker, Server


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
            hush_forks_for(_answers_by_itself)
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


def _answers_by_itself(step: Any) -> bool:
    """Whether chains of a step method ask this process, and do not call JAX themselves."""
    source = getattr(step, "source", None)
    return isinstance(source, Source) and source._way is not None
