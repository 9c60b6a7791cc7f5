"""Records of numbers and arrays as JSON and arrays, and back: nothing that could run on reading.

A record is made of None, truth values, whole and floating-point numbers, strings, NumPy arrays,
lists, tuples, dicts with strings as keys, and of dataclasses and named tuples that are on a list.
"""

import base64
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_logz.errors import CheckpointError

KINDS = "biufS"
"""Kinds of arrays that a record may have: no objects."""
BROADCAST = 2**12
"""Numbers from which on an array that is one row again and again is kept as that row."""


class Codec:
    """What records of a kind are made of.

    Parameters
    ----------
    classes
        Dataclasses and named tuples that may be read.
    """

    def __init__(self, classes: tuple[type, ...]) -> None:
        self.classes = {one.__name__: one for one in classes}

    def encode(self, record: Any) -> tuple[Any, list[np.ndarray]]:
        """The record as JSON, and the arrays that this refers to by number."""
        arrays: list[np.ndarray] = []
        return self._encode(record, arrays), arrays

    def _encode(self, value: Any, arrays: list[np.ndarray]) -> Any:
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):  # also one of NumPy
            return {"float": float(value).hex()}
        if isinstance(value, bytes):
            return {"bytes": base64.b64encode(value).decode()}
        if isinstance(value, np.generic):
            return self._encode(value.item(), arrays)
        if hasattr(value, "__array__"):
            return self._encode_array(np.asarray(value), arrays)
        if isinstance(value, Mapping):
            return {"dict": [[key, self._encode(part, arrays)] for key, part in value.items()]}
        if (fields := fields_of(value)) is not None:
            if self.classes.get(type(value).__name__) is not type(value):
                raise TypeError(f"a {type(value).__name__} is no part of a record")
            parts = {name: self._encode(part, arrays) for name, part in fields.items()}
            return {"class": type(value).__name__, "fields": parts}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [self._encode(part, arrays) for part in value]}
        raise TypeError(f"a {type(value).__name__} is no part of a record: {value!r}")

    def _encode_array(self, array: np.ndarray, arrays: list[np.ndarray]) -> Any:
        if array.dtype.kind not in KINDS:
            raise TypeError(f"an array of dtype {array.dtype} is no part of a record")
        is_one = array.ndim > 1 and array.size > BROADCAST and array.strides[0] == 0
        n_rows, array = len(array) if array.ndim else 0, array[0] if is_one else array
        # which makes arrays of one dimension of those of none
        arrays.append(np.ascontiguousarray(array).reshape(array.shape))
        return {"array": len(arrays) - 1, **({"times": n_rows} if is_one else {})}

    def decode(self, tree: Any, arrays: list[np.ndarray]) -> Any:
        """The record that was encoded.

        Raises
        ------
        CheckpointError
            If it has anything that a record has not.
        """
        if tree is None or isinstance(tree, bool | int | str):
            return tree
        match tree:
            case {"float": str(digits)}:
                return float.fromhex(digits)
            case {"bytes": str(text)}:
                return base64.b64decode(text)
            case {"array": int(number)} if number < len(arrays):
                array = arrays[number]
                times = tree.get("times")
                return array if times is None else np.broadcast_to(array, (times, *array.shape))
            case {"dict": list(items)}:
                return {key: self.decode(part, arrays) for key, part in items}
            case {"class": str(name), "fields": dict(parts)} if name in self.classes:
                fields = {key: self.decode(part, arrays) for key, part in parts.items()}
                return self.classes[name](**fields)
            case {"list": list(parts)}:
                return [self.decode(part, arrays) for part in parts]
            case {"tuple": list(parts)}:
                return tuple(self.decode(part, arrays) for part in parts)
        raise CheckpointError(f"a checkpoint has something that no checkpoint has: {tree!r:.200}")


def fields_of(value: Any) -> dict[str, Any] | None:
    """Fields of a dataclass or of a named tuple; None of anything else."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: getattr(value, name) for name in value._fields}
    return None
