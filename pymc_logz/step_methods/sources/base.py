"""What all sources of draws have in common: they answer messages, in a fresh process if need be."""

import os
from typing import Any

from pymc_logz.step_methods.sources.helper import Helper


class Source:
    """Answers messages by compiled work; an answer is a function of message and settings alone.

    It pickles without what is compiled, and compiles again where it arrives. JAX does not survive a
    fork: a forked process that needs it starts a fresh one to compute in.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._helper: Helper | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what cannot leave the process."""
        return {**self.__dict__, "_helper": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle, to compile when first used."""
        self.__dict__.update(state)
        self._pid = os.getpid()

    def ask(self, message: Any) -> Any:
        """Answer, computed here or in a process that can."""
        if os.getpid() != self._pid and self.uses_jax():
            if self._helper is None or self._helper.pid != os.getpid():
                self._helper = Helper(self)
            return self._helper.ask(message)
        return self.answer(message)

    def answer(self, message: Any) -> Any:
        """Answer, computed here."""
        raise NotImplementedError

    def uses_jax(self) -> bool:
        """Whether JAX is what the work is compiled with, whose threads a fork leaves behind."""
        raise NotImplementedError
