"""Interrupts (Ctrl-C) that other code would swallow."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def noting_interrupts() -> Iterator[threading.Event]:
    """Note an interrupt, which a run takes for its own, and ends early; it is passed on."""
    noted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noted  # only the main thread is interrupted
        return
    before = signal.getsignal(signal.SIGINT)

    def note(*args: Any) -> None:
        noted.set()
        if callable(before):
            before(*args)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)
