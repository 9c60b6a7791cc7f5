"""Calls of black boxes, made on threads that an interrupt (Ctrl-C) need not wait for."""

import os
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

_idle: list[SimpleQueue] = []
_asked: set[SimpleQueue] = set()
_locks = [threading.RLock()]
os.register_at_fork(after_in_child=_idle.clear)  # threads stay with the parent


def ask(function: Callable[..., Any], *args: Any) -> SimpleQueue:
    """Start a call on a thread that ends with the process, and is used again when it is done."""
    try:
        tasks = _idle.pop()
    except IndexError:
        tasks = SimpleQueue()
        threading.Thread(target=_serve, args=(tasks,), daemon=True).start()
    answers: SimpleQueue = SimpleQueue()
    _asked.add(answers)
    tasks.put((copy_context(), function, args, answers))
    return answers


def answer(answers: SimpleQueue) -> Any:
    """What a call that was started returns, or raises."""
    try:
        value, error = answers.get()
    except KeyboardInterrupt:
        drop_calls()
        raise
    finally:
        _asked.discard(answers)
    if error is not None:
        raise error
    return value


def drop_calls() -> None:
    """Answer all calls under way with an error, whatever they are waiting for."""
    _locks[0] = threading.RLock()  # what hangs keeps the old one
    for answers in list(_asked):
        answers.put((None, RuntimeError("interrupted while a black box of the model was called")))


def one_at_a_time() -> threading.RLock:
    """Lock of black boxes that threads may not share."""
    return _locks[0]


def _serve(tasks: SimpleQueue) -> None:
    while True:
        _serve_one(*tasks.get())
        _idle.append(tasks)


def _serve_one(
    context: Context, function: Callable[..., Any], args: tuple[Any, ...], answers: SimpleQueue
) -> None:
    try:
        answers.put((context.run(function, *args), None))
    except BaseException as error:  # raised where the answer is waited for
        answers.put((None, error))
