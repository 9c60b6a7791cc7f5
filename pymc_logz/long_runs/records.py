"""Records of numbers and arrays as JSON and arrays, and back: nothing that could run on reading.

A record is made of None, truth values, whole and floating-point numbers, strings, NumPy arrays,
lists, tuples, dicts with strings as keys, and of dataclasses and named tuples of this package. One
Zarr group holds it, which is there as a whole or not at all.
"""

import base64
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pymc_logz.errors import CheckpointError

WRITING = ".writing-"
"""What names of things begin with that are being written."""
PREFIX = "pymc_logz."
MOVED = {
    "per_datum.batches": "per_datum.likelihood",
    "runners.jobs": "runners.running",
    "runners.walking": "runners.temper",
    "tempered.sums": "tempered.chains",
}
"""Modules whose classes older checkpoints name, and where they are now."""
PLAIN, AS_NUMBERS = "biufS", {"U": "uint32", "m": "int64", "M": "int64"}
"""Kinds of arrays that a record may have, and those that it has as numbers: no objects."""


def encode(record: Any) -> tuple[Any, list[np.ndarray]]:
    """The record as JSON, and the arrays that this refers to by number."""
    arrays: list[np.ndarray] = []
    return _encode(record, arrays), arrays


def _encode(value: Any, arrays: list[np.ndarray]) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):  # also one of NumPy
        return {"float": float(value).hex()}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.generic):
        return _encode(value.item(), arrays)
    if hasattr(value, "__array__"):
        return _encode_array(np.asarray(value), arrays)
    if isinstance(value, Mapping):
        return {"dict": [[key, _encode(part, arrays)] for key, part in value.items()]}
    if (own := fields_of(value)) is not None:
        parts = {name: _encode(part, arrays) for name, part in own.items()}
        return {"class": name_of(type(value)), "fields": parts}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_encode(part, arrays) for part in value]}
    raise TypeError(f"a {type(value).__name__} is no part of a record: {value!r}")


def _encode_array(array: np.ndarray, arrays: list[np.ndarray]) -> Any:
    if array.dtype.kind in AS_NUMBERS and array.dtype.itemsize:
        numbers = np.atleast_1d(array).view(AS_NUMBERS[array.dtype.kind])
        made = _encode_array(numbers, arrays)
        return {**made, "dtype": array.dtype.str, "shape": list(array.shape)}
    if array.dtype.kind not in PLAIN:
        raise TypeError(f"an array of dtype {array.dtype} is no part of a record")
    # one row that stands for very many
    is_one = array.ndim > 1 and array.size > 2**12 and array.strides[0] == 0
    n_rows, array = len(array) if array.ndim else 0, array[0] if is_one else array
    # which makes arrays of one dimension of those of none
    arrays.append(np.ascontiguousarray(array).reshape(array.shape))
    return {"array": len(arrays) - 1, **({"times": n_rows} if is_one else {})}


def decode(tree: Any, arrays: list[np.ndarray]) -> Any:
    """The record that was encoded; a CheckpointError if something in it is none."""
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
            return {key: decode(part, arrays) for key, part in items}
        case {"class": str(name), "fields": dict(parts)} if (made := class_of(name)) is not None:
            # older checkpoints have fields that nothing reads any more, or records in a record
            known = {field.name for field in fields(made)} if is_dataclass(made) else made._fields
            older = [part for key, part in parts.items() if key not in known]
            inner = [
                part["fields"] for part in older if isinstance(part, dict) and "fields" in part
            ]
            given = {key: part for one in (*inner, parts) for key, part in one.items()}
            kept = {key: part for key, part in given.items() if key in known}
            return made(**{key: decode(part, arrays) for key, part in kept.items()})
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
    module = MOVED.get(module, module)
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


def write_record(
    folder: Path, name: str, record: Any, attrs: Mapping[str, Any] | None = None
) -> None:
    """Write a record in this folder, and then give the group its name; all of it, or nothing."""
    import zarr

    tree, arrays = encode(record)
    new = folder / f"{WRITING}{uuid.uuid4().hex}"
    try:
        shapes = [[array.dtype.name, list(array.shape)] for array in arrays]
        head = {"tree": tree, "shapes": shapes, "digest": digest(tree, arrays)}
        group = zarr.create_group(store=new, attributes={**(attrs or {}), **head}, zarr_format=3)
        # arrays of each dtype one behind the other: few files are written sooner than many
        for dtype in dict.fromkeys(array.dtype.name for array in arrays):
            flat = np.concatenate([one.ravel() for one in arrays if one.dtype.name == dtype])
            chunks = (max(1, flat.size),)
            made = group.create_array(
                dtype, shape=flat.shape, dtype=flat.dtype, chunks=chunks, compressors=None
            )
            made[:] = flat
        _flush(new)
        target = folder / name
        if target.exists():  # of a run that was killed before it could say that it was there
            shutil.rmtree(target)
        os.rename(new, target)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def read_record(path: Path) -> Any:
    """A record as it was written; a ValueError if it is not what was written."""
    import zarr

    group: Any = zarr.open_group(store=path, mode="r")
    head: dict[str, Any] = dict(group.attrs)
    flat = {dtype: np.asarray(group[dtype][:]) for dtype, _ in head["shapes"]}
    arrays: list[np.ndarray] = []
    used = dict.fromkeys(flat, 0)
    for dtype, shape in head["shapes"]:
        size = int(np.prod(shape, dtype=int))
        part = flat[dtype][used[dtype] : used[dtype] + size]
        arrays.append(part.reshape(shape))
        used[dtype] += size
    if digest(head["tree"], arrays) != head["digest"]:
        raise ValueError("its digest is another")
    return decode(head["tree"], arrays)


def digest(tree: Any, arrays: list[np.ndarray]) -> str:
    """Digest of a record."""
    found = hashlib.blake2b(json.dumps(tree, sort_keys=True).encode(), digest_size=16)
    for array in arrays:
        found.update(str((array.dtype.str, array.shape)).encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _flush(folder: Path) -> None:
    """See that files are on the disk before they get their name."""
    for entry in folder.rglob("*"):
        if entry.is_file():
            with open(entry, "rb+") as file:
                os.fsync(file.fileno())
