"""What was made once, such as a compiled function, and is kept for the next one who needs it."""

import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any


class Kept:
    """Things made once, each by a key of all that it depends on; threads may ask at once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        # of all threads that want the same thing one makes it; what is made may need other things
        self._lock = threading.RLock()

    def get[Made](self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What was made for this key, made now if it was not, and if the key cannot be hashed."""
        try:
            hash(key)
        except TypeError:
            return make()
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and other processes start with nothing: compiled functions cannot travel."""
        return Kept, ()


def settings_key(compile_kwargs: Mapping[str, Any] | None) -> Hashable:
    """Keyword arguments of ``pytensor.function`` as part of a key."""
    return tuple(sorted((compile_kwargs or {}).items(), key=lambda item: item[0]))


def one_at_a_time[**Args, Out](function: Callable[Args, Out]) -> Callable[Args, Out]:
    """A function that threads may call at once: a PyTensor function keeps its inputs in itself."""
    lock = threading.Lock()

    def call(*args: Args.args, **kwargs: Args.kwargs) -> Out:
        with lock:
            return function(*args, **kwargs)

    return call
