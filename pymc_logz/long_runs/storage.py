"""One record as one Zarr group, which is there as a whole or not at all."""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

WRITING = ".writing-"
"""What names of things begin with that are being written."""


def write_record(
    folder: Path,
    name: str,
    encoded: tuple[Any, list[np.ndarray]],
    attrs: Mapping[str, Any] | None = None,
) -> None:
    """Write a record, of `pymc_logz.long_runs.records.Codec`, and then give it its name.

    Parameters
    ----------
    folder
        Where to.
    name
        Of the group.
    encoded
        A JSON tree, and the arrays that it refers to.
    attrs
        What else the group says.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left of it then.
    """
    import zarr

    tree, arrays = encoded
    new = folder / f"{WRITING}{uuid.uuid4().hex}"
    try:
        head = {"tree": tree, "shapes": _shapes(arrays), "digest": digest(tree, arrays)}
        group = zarr.create_group(store=new, attributes={**(attrs or {}), **head}, zarr_format=3)
        for dtype, flat in _by_dtype(arrays).items():
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


def read_record(path: Path) -> tuple[Any, list[np.ndarray]]:
    """A record as it was written.

    Raises
    ------
    ValueError
        If it is not what was written.
    """
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
    return head["tree"], arrays


def digest(tree: Any, arrays: list[np.ndarray]) -> str:
    """Digest of a record."""
    found = hashlib.blake2b(json.dumps(tree, sort_keys=True).encode(), digest_size=16)
    for array in arrays:
        found.update(str((array.dtype.str, array.shape)).encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _shapes(arrays: list[np.ndarray]) -> list[Any]:
    return [[array.dtype.name, list(array.shape)] for array in arrays]


def _by_dtype(arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of each dtype one behind the other: few files are written sooner than many."""
    found: dict[str, list[np.ndarray]] = {}
    for array in arrays:
        found.setdefault(array.dtype.name, []).append(array.ravel())
    return {dtype: np.concatenate(parts) for dtype, parts in found.items()}


def _flush(folder: Path) -> None:
    """See that files are on the disk before they get their name."""
    for entry in folder.rglob("*"):
        if entry.is_file():
            with open(entry, "rb+") as file:
                os.fsync(file.fileno())
