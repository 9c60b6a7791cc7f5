"""What is large goes to another process once, and is kept there under its name."""

import io
import pickle
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from typing import Any

MOST_KEPT = 16
"""Parts that a process keeps: a few for each model that it works on."""


class Part:
    """Something that is sent to a process once, whatever it is part of.

    Parameters
    ----------
    thing
        Anything that cloudpickle takes. Parts that it holds travel apart.
    """

    def __init__(self, thing: Any) -> None:
        self.thing, self.token = thing, uuid.uuid4().hex

    @cached_property
    def parcels(self) -> Mapping[str, bytes]:
        """The part, and those that it needs, which come first."""
        contents, held = packed(self.thing)
        return {**{k: v for part in held for k, v in part.parcels.items()}, self.token: contents}


class Travels:
    """Base of what goes to another process as a `Part`, wherever it is met; it says which."""

    def travelling(self) -> Part:
        """The part: the same one for whatever is the same."""
        raise NotImplementedError


def packed(thing: Any) -> tuple[bytes, list[Part]]:
    """A thing as bytes, and the parts that it holds, which are not in there."""
    import cloudpickle

    held: dict[str, Part] = {}

    class Pickler(cloudpickle.Pickler):
        def persistent_id(self, obj: Any) -> str | None:
            if isinstance(obj, Travels) and obj is not thing:
                obj = obj.travelling()
            if not isinstance(obj, Part):
                return None
            held[obj.token] = obj
            return obj.token

    file = io.BytesIO()
    Pickler(file).dump(thing)
    return file.getvalue(), list(held.values())


class Store:
    """Parts that have arrived in a process; of more than it keeps, those not used for longest go.

    Parameters
    ----------
    most
        How many it keeps.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._most, self._lock = most, threading.RLock()

    def take_in(self, parcels: Mapping[str, bytes]) -> None:
        """Unpack what is not there yet."""
        with self._lock:
            for token, contents in parcels.items():
                if token not in self._kept:
                    self._kept[token] = self._unpacked(contents)
            while len(self._kept) > max(self._most, len(parcels)):
                self._kept.popitem(last=False)

    def get(self, token: str) -> Any:
        """A part; None if it is not there."""
        with self._lock:
            if token in self._kept:
                self._kept.move_to_end(token)
            return self._kept.get(token)

    def _unpacked(self, contents: bytes) -> Any:
        store = self

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, token: str) -> Any:
                return store.get(token)

        return Unpickler(io.BytesIO(contents)).load()
