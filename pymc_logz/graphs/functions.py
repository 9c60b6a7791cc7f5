"""PyTensor functions as models need them: which mode, made once and kept, one call at a time."""

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode, get_mode, optdb
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.shape import Shape

_compiling = threading.RLock()
"""Held while PyTensor compiles: it sets its default mode meanwhile, which is for all threads."""

SLOW = ("local_greedy_distributor", "dot_diag_to_elemwise", "selection_dot_to_indexing")
"""Rewrites that look through whole graphs: of a solver's thousand operations, nine tenths of all
rewriting, for a few operations less."""


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


def parameter_checks() -> tuple[str, ...]:
    """Name of PyMC's rewrite of a distribution's parameter check into log density -inf."""
    name = "local_check_parameter_to_ninf_switch"
    # without PyMC there are no such checks, and asking for a name that PyMC registers when it is
    # imported later would take that name
    return (name,) if name in optdb["canonicalize"] else ()


def function_for(inputs: Any, outputs: Any, **kwargs: Any) -> Any:
    """What ``pytensor.function`` returns; threads may call this at once."""
    # finding where each operation was made, for PyTensor's errors, takes a tenth of the time
    with _compiling, pytensor.config.change_flags(traceback__limit=0):
        return pytensor.function(inputs, outputs, **kwargs)


@contextmanager
def without_c() -> Iterator[None]:
    """PyTensor compiles nothing in C meanwhile, in whatever mode.

    Else it does for graphs inside of others, and, where its cache is empty, for a loop of its own.
    """
    with _compiling, pytensor.config.change_flags(cxx=""):
        yield


def mode_for(mode: Any) -> Mode:
    """A mode by name; None is PyTensor's default, not what another thread compiles for now."""
    with _compiling:
        with suppress(ValueError):
            if isinstance(found := get_mode(mode), Mode):
                return found
        raise ValueError(
            f"compile_kwargs={{'mode': {mode!r}}}: PyTensor has no such mode; use 'JAX', 'NUMBA' "
            "or 'FAST_COMPILE'"
        )


def compile_kwargs_for(mode: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of ``pytensor.function`` for a mode, bad parameters giving -inf."""
    mode = mode_for(mode)
    optimizer = mode.provided_optimizer.including(*parameter_checks()).excluding(*SLOW)
    return {**kwargs, "mode": Mode(linker=mode.linker, optimizer=optimizer)}


def cheaply_compiled(inputs: Any, outputs: Any) -> Callable[..., Any]:
    """Function that compiles in no time, for what is called once or twice."""
    kwargs = compile_kwargs_for("FAST_COMPILE", {"on_unused_input": "ignore"})
    with without_c():
        return one_at_a_time(function_for(inputs, outputs, **kwargs))


def known_shapes(variables: Iterable[Variable]) -> dict[Variable, Variable]:
    """Constants that may take the place of those of these variables that are known shapes."""
    return {
        one: pt.constant(one.owner.inputs[0].type.shape, dtype="int64")
        for one in variables
        if isinstance(one.owner_op, Shape) and None not in one.owner.inputs[0].type.shape
    }


def wider(outputs: Sequence[Variable]) -> list[Variable]:
    """The same graphs, with constants in which no arithmetic overflows.

    PyTensor takes 20 for an int8, whose square overflows: PyMC's own density of
    ``Uniform(-100, 100)`` is NaN, and that of an ExGaussian with ``sigma=12`` is another one.
    """
    made: dict[Any, Any] = {
        one: pt.constant(np.asarray(one.data, dtype="int64"))
        for one in ancestors(outputs)
        if isinstance(one, Constant)
        and np.asarray(one.data).dtype.name in ("int8", "int16", "int32", "uint8", "uint16")
        # a fourth power of smaller ones is an int8
        and np.any(np.abs(np.asarray(one.data, dtype="int64")) > 3)
    }
    for node in toposort(outputs) if made else ():
        if any(one in made for one in node.inputs):
            try:
                remade = node.op.make_node(*(made.get(one, one) for one in node.inputs))
            except Exception:  # an Op, or an inner graph, of these types alone
                continue
            made.update(zip(node.outputs, remade.outputs, strict=True))
    return [made.get(one, one) for one in outputs]
