"""How much memory one row takes while it is evaluated: an upper bound, before anything is fused."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.link.vm import VMLinker

UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


def as_bytes(max_memory: Any) -> int | None:
    """A bound on memory as a number of bytes, from such a number or from text like ``"2 GB"``."""
    if max_memory is None:
        return None
    text = str(max_memory).strip().upper()
    unit = next((unit for unit in UNITS if text.endswith(unit)), None)
    try:
        value = float(text.removesuffix(unit or "")) * UNITS.get(unit or "", 1)
    except ValueError:
        value = np.nan
    if isinstance(max_memory, bool) or not (np.isfinite(value) and value >= 1):
        raise ValueError(
            f"max_memory={max_memory!r} must be a positive number of bytes, or text such as '2 GB'"
        )
    return int(value)


def bytes_computed(
    inputs: Sequence[Any], outputs: Sequence[Any], values: Sequence[Any], n_own: int | None = None
) -> int:
    """Bytes of all that depends on the first inputs, or all, while outputs are computed."""
    # nothing is freed
    linker = VMLinker(allow_gc=False, use_cloop=False, lazy=False, c_thunks=False)
    function = pytensor.function(
        list(inputs), list(outputs), mode=Mode(linker, None), on_unused_input="ignore"
    )
    with np.errstate(all="ignore"):
        function(*values)
    graph = function.maker.fgraph
    own = set(graph.inputs[:n_own])
    total = 0
    for var, cell in function.vm.storage_map.items():
        if isinstance(var, Constant) or not own & set(ancestors([var])):
            continue
        total += getattr(cell[0], "nbytes", 8) if cell else 8
    return int(total)
