"""Records of numbers and arrays as JSON and arrays, and back: nothing that could run on reading.

A record is made of None, truth values, whole and floating-point numbers, strings, NumPy arrays,
lists, tuples, dicts with strings as keys, and of dataclasses and named tuples of this package.
"""

import base64
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from pymc_logz.errors import CheckpointError

PACKAGE = "pymc_logz."
PLAIN, AS_NUMBERS = "biufS", {"U": "uint32", "m": "int64", "M": "int64"}
"""Kinds of arrays that a record may have, and those that it has as numbers: no objects."""


class Codec:
    """What turns records into JSON and arrays, and back."""

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
        if (own := fields_of(value)) is not None:
            parts = {name: self._encode(part, arrays) for name, part in own.items()}
            return {"class": name_of(type(value)), "fields": parts}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [self._encode(part, arrays) for part in value]}
        raise TypeError(f"a {type(value).__name__} is no part of a record: {value!r}")

    def _encode_array(self, array: np.ndarray, arrays: list[np.ndarray]) -> Any:
        if array.dtype.kind in AS_NUMBERS and array.dtype.itemsize:
            numbers = np.atleast_1d(array).view(AS_NUMBERS[array.dtype.kind])
            made = self._encode_array(numbers, arrays)
            return {**made, "dtype": array.dtype.str, "shape": list(array.shape)}
        if array.dtype.kind not in PLAIN:
            raise TypeError(f"an array of dtype {array.dtype} is no part of a record")
        # one row that stands for very many
        is_one = array.ndim > 1 and array.size > 2**12 and array.strides[0] == 0
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
                array, times = arrays[number], tree.get("times")
                if "dtype" in tree:
                    return array.view(tree["dtype"]).reshape(tree["shape"])
                return array if times is None else np.broadcast_to(array, (times, *array.shape))
            case {"dict": list(items)}:
                return {key: self.decode(part, arrays) for key, part in items}
            case {"class": str(name), "fields": dict(parts)} if (
                made := class_of(name)
            ) is not None:
                return made(**{key: self.decode(part, arrays) for key, part in parts.items()})
            case {"list": list(parts)}:
                return [self.decode(part, arrays) for part in parts]
            case {"tuple": list(parts)}:
                return tuple(self.decode(part, arrays) for part in parts)
        raise CheckpointError(f"a checkpoint has something that no checkpoint has: {tree!r:.200}")


def name_of(kind: type) -> str:
    """Module and name of a class of this package.

    Raises
    ------
    TypeError
        If it is of elsewhere.
    """
    if not kind.__module__.startswith(PACKAGE) or kind.__name__ != kind.__qualname__:
        raise TypeError(f"a {kind.__name__} is no part of a record")
    return f"{kind.__module__.removeprefix(PACKAGE)}.{kind.__name__}"


def class_of(name: str) -> Any:
    """The dataclass or named tuple of this name; None if this package has none."""
    module, _, own = name.rpartition(".")
    try:
        found = getattr(import_module(PACKAGE + module), own, None)
    except ImportError:
        return None
    is_record = isinstance(found, type) and (is_dataclass(found) or hasattr(found, "_fields"))
    return found if is_record and found.__module__ == PACKAGE + module else None


def fields_of(value: Any) -> dict[str, Any] | None:
    """Fields of a dataclass or of a named tuple; None of anything else."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: getattr(value, name) for name in value._fields}
    return None
