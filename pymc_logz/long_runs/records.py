"""Records of numbers and arrays as JSON and arrays, and back: nothing that could run on reading.

A record is made of None, truth values, whole and floating-point numbers, strings, NumPy arrays,
lists, tuples, dicts with strings as keys, and of dataclasses and named tuples of this package. One
file of NumPy (npz) holds it, which is there as a whole or not at all.
"""

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np

from pymc_logz.errors import CheckpointError

WRITING = ".writing-"
"""What names of things begin with that are being written."""
SUFFIX = ".npz"
PREFIX = "pymc_logz."


def encode(record: Any) -> tuple[Any, list[np.ndarray]]:
    """The record as JSON, and the arrays that this refers to by number."""
    arrays: list[np.ndarray] = []
    return _encode(record, arrays), arrays


def _encode(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.generic):
        return _encode(value.item(), arrays)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype.kind not in "biufSUmM":
            raise TypeError(f"an array of dtype {array.dtype} is no part of a record")
        arrays.append(array)
        return {"array": len(arrays) - 1}
    if isinstance(value, Mapping):
        return {"dict": [[key, _encode(part, arrays)] for key, part in value.items()]}
    if (own := fields_of(value)) is not None:
        parts = {name: _encode(part, arrays) for name, part in own.items()}
        return {"class": name_of(type(value)), "fields": parts}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_encode(part, arrays) for part in value]}
    raise TypeError(f"a {type(value).__name__} is no part of a record: {value!r}")


def decode(tree: Any, arrays: list[np.ndarray]) -> Any:
    """The record that was encoded; a CheckpointError if something in it is none."""
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    match tree:
        case {"array": int(number)} if number < len(arrays):
            return arrays[number]
        case {"dict": list(items)}:
            return {key: decode(part, arrays) for key, part in items}
        case {"class": str(name), "fields": dict(parts)} if (made := class_of(name)) is not None:
            return made(**{key: decode(part, arrays) for key, part in parts.items()})
        case {"list": list(parts)}:
            return [decode(part, arrays) for part in parts]
        case {"tuple": list(parts)}:
            return tuple(decode(part, arrays) for part in parts)
    raise CheckpointError(f"a checkpoint has something that no checkpoint has: {tree!r:.200}")


def name_of(kind: type) -> str:
    """Module and name of a class of this package; a TypeError if it is of elsewhere."""
    if not kind.__module__.startswith(PREFIX) or kind.__name__ != kind.__qualname__:
        raise TypeError(f"a {kind.__name__} is no part of a record")
    return f"{kind.__module__.removeprefix(PREFIX)}.{kind.__name__}"


def class_of(name: str) -> Any:
    """The dataclass or named tuple of this name; None if this package has none."""
    module, _, own = name.rpartition(".")
    try:
        found = getattr(import_module(PREFIX + module), own, None)
    except ImportError:
        return None
    is_record = isinstance(found, type) and (is_dataclass(found) or hasattr(found, "_fields"))
    return found if is_record and found.__module__ == PREFIX + module else None


def fields_of(value: Any) -> dict[str, Any] | None:
    """Fields of a dataclass or of a named tuple; None of anything else."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: getattr(value, name) for name in value._fields}
    return None


def write_record(folder: Path, name: str, record: Any) -> None:
    """Write a record in this folder, and then give the file its name; all of it, or nothing."""
    tree, arrays = encode(record)
    new = folder / f"{WRITING}{uuid.uuid4().hex}"
    try:
        with open(new, "wb") as file:
            np.savez(file, *arrays, tree=np.array(json.dumps(tree)))
            _flush(file)
        os.replace(new, folder / (name + SUFFIX))
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def read_record(path: Path) -> Any:
    """A record as it was written; an error of NumPy or of its ZIP file if it is damaged."""
    with open(path, "rb") as file, np.load(file) as found:
        arrays = [found[f"arr_{i}"] for i in range(len(found.files) - 1)]
        return decode(json.loads(str(found["tree"])), arrays)


def _flush(file: IO[bytes]) -> None:
    """See that a file is on the disk before it gets its name."""
    file.flush()
    os.fsync(file.fileno())
