"""Compiles symbolic functions: for which backend, why, and how."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from pytensor.compile.mode import Mode, optdb
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.rewriting.basic import SequentialGraphRewriter, in2out, node_rewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import ancestors
from pytensor.link.jax.linker import JAXLinker
from pytensor.link.vm import VMLinker
from pytensor.scalar.basic import Add, Mul
from pytensor.tensor.elemwise import Elemwise

from pymc_logz.errors import logger
from pymc_logz.graphs.batching import teach_own_ops
from pymc_logz.graphs.functions import (
    compile_kwargs_for,
    function_for,
    mode_for,
    one_at_a_time,
    without_c,
)
from pymc_logz.graphs.host_calls import calls_host
from pymc_logz.graphs.jax_calls import with_original_exception
from pymc_logz.graphs.numpy_linker import INLINING, numpy_mode, suits_numpy
from pymc_logz.graphs.threads import silence_fork_warnings

MOST_FUSED = 900
"""Operations that XLA is left to fuse: of more it computes some again and again, so that a solver
written out in 40 steps compiles for minutes; of fewer the time is 1.5 times as long unfused."""


@dataclass(frozen=True)
class Compiled:
    """A compiled function that threads may call at the same time."""

    call: Callable[..., Sequence[Any]]
    backend: str
    """Name of the PyTensor linker: ``"jax"``, ``"numba"``, ``"vm"`` (of mode CVM), ..."""
    reason: str
    """Why this backend, in a sentence."""
    is_alternative: bool = False
    """Whether it was the alternative graph that compiled."""
    dry: Callable[..., Any] | None = None
    """What tries it in place of a call, where that would call black boxes of a model in vain."""
    many: Callable[[], "Compiled"] | None = None
    """What makes several steps of a loop at once, if it is another one; compiled when asked for."""

    def of_steps(self, n: int) -> "Compiled":
        """What makes so many steps of a loop at once."""
        return self if n == 1 or self.many is None else self.many()

    @property
    def may_use_jax(self) -> bool:
        """Whether JAX computes any number of steps."""
        return self.backend == "jax" or self.many is not None

    def left(self, array: Any) -> Any:
        """An array where the function computes, so that no call has to carry it there."""
        if self.backend != "jax":
            return np.asarray(array)
        import jax

        return jax.device_put(array)


class Choice(NamedTuple):
    """A backend to compile for."""

    mode: Any
    """Mode of ``pytensor.function``; None is PyTensor's default."""
    kwargs: Mapping[str, Any]
    """What the user passes to ``pytensor.function`` besides the mode."""
    reason: str
    """Why this backend, in a sentence."""

    @property
    def is_jax(self) -> bool:
        """Whether JAX was asked for, by the user or by `choose_backend`."""
        return self.mode is not None and isinstance(mode_for(self.mode).linker, JAXLinker)

    def around_models(self) -> "Choice":
        """NumPy, but what a model computes for a batch of rows is compiled as was asked for."""
        mode = numpy_mode(lambda inputs, outputs: compile_graph((inputs, outputs), self).call)
        return self._replace(mode=mode, kwargs={})

    def in_numpy(self) -> "Choice":
        """NumPy in its place."""
        why = (
            "NumPy computes it as it is, which takes less time than compiling; "
            "compile_kwargs={'mode': 'NUMBA'} compiles, for long runs"
        )
        return self._replace(mode=numpy_mode(), reason=f"{self.reason}; {why}")


def choose_backend[Made](
    make: Callable[[Choice], Made], compile_kwargs: Mapping[str, Any] | None, gain: str
) -> Made:
    """What is made for the user's mode, else for JAX where it can, else for the default backend.

    ``make`` compiles for a choice, and calls what it has compiled: some graphs fail, and some
    backends compile, only then. What it raises for JAX speaks against JAX, unless the user asked
    for it by ``compile_kwargs["mode"]``. ``gain`` is what JAX would do for the user, as in "it
    compiles in seconds", without the subject.
    """
    kwargs = dict(compile_kwargs or {})
    mode = kwargs.pop("mode", None)
    if mode is not None:
        return make(Choice(mode, kwargs, "compile_kwargs['mode'] asked for it"))
    if not has_jax():
        reason = f"JAX is not installed, which {gain}: python -m pip install jax"
    else:
        try:
            return make(Choice("JAX", kwargs, "JAX is installed and the model converts"))
        except Exception as error:  # a conversion can fail with any exception of JAX or PyTensor
            reason = f"JAX could not run this model ({type(error).__name__}: {str(error)[:200]})"
    made = make(Choice(None, kwargs, reason))
    if getattr(made, "backend", None) != "numpy":  # which compiles nothing
        _say_once(reason)
    return made


def has_jax() -> bool:
    """Whether JAX is installed."""
    return find_spec("jax") is not None


@cache
def _say_once(reason: str) -> None:
    """Say why JAX was not used, which most functions of a call have in common."""
    logger.info("Compiled with PyTensor's default backend: %s.", reason)


def compile_function(
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    compile_kwargs: Mapping[str, Any] | None = None,
    trial_inputs: Sequence[np.ndarray] | None = None,
    alternative: Callable[[], tuple[Sequence[Variable], Sequence[Variable]]] | None = None,
    *,
    few_calls: bool = False,
) -> Compiled:
    """Compile for the backend that `choose_backend` decides on; JAX may try the ``alternative``.

    For a few calls NumPy computes the graph as it is, if it can, whatever the backend.
    """

    def made(graph: tuple[Sequence[Variable], Sequence[Variable]], choice: Choice) -> Compiled:
        in_numpy = (few_calls or choice.mode is None) and suits_numpy(graph[1])
        return compile_graph(graph, choice.in_numpy() if in_numpy else choice)

    return compile_first(made, (inputs, outputs), alternative, compile_kwargs, trial_inputs)


def compile_first[Made](
    make: Callable[[Made, Choice], Compiled],
    first: Made,
    alternative: Callable[[], Made] | None,
    compile_kwargs: Mapping[str, Any] | None,
    trial_inputs: Sequence[Any] | None,
) -> Compiled:
    """What is made of the first graph, or on JAX of the first one whose function runs."""

    def first_that_runs(choice: Choice) -> Compiled:
        failures = []
        others = [alternative] if alternative is not None and choice.is_jax else []
        for i, graph in enumerate([lambda: first, *others]):
            try:
                compiled = make(graph(), choice)
                if trial_inputs is not None:
                    (compiled.dry or compiled.call)(*trial_inputs)
                    if choice.is_jax:
                        silence_fork_warnings()
                return replace(compiled, is_alternative=i > 0)
            except Exception as error:  # JAX and PyTensor fail with exceptions of any kind
                failures.append(error)
        raise failures[0]

    return choose_backend(first_that_runs, compile_kwargs, gain="compiles in seconds")


def linker_name(mode: Any) -> str:
    """Name of the PyTensor linker of a mode, as in "numba"."""
    return type(mode_for(mode).linker).__name__.removesuffix("Linker").lower()


def function_of(inputs: Sequence[Variable], outputs: Sequence[Variable], choice: Choice) -> Any:
    """A function that trusts its inputs."""
    with warnings.catch_warnings():
        # JAX drops assertions about shapes, which are known here
        warnings.filterwarnings("ignore", message="Skipping .* Op", category=UserWarning)
        # a kernel need not use all that it is given, and of some data only the shape is used
        fixed = {"trust_input": True, "on_unused_input": "ignore"}
        kwargs = compile_kwargs_for(choice.mode, {**fixed, **choice.kwargs})
        teach_own_ops(kwargs["mode"].linker)
        return function_for(list(inputs), list(outputs), **kwargs)


def compile_graph(graph: tuple[Sequence[Variable], Sequence[Variable]], choice: Choice) -> Compiled:
    """Inputs and outputs as a function for this choice; NumPy calls black boxes by default."""
    has_boxes = calls_host(graph[1])
    choice = choice.in_numpy() if has_boxes and choice.mode is None else choice
    function, backend = function_of(*graph, choice), linker_name(choice.mode)
    if backend == "jax":
        import jax

        # finds out whether JAX can compute it
        dry = jax.eval_shape if has_boxes else None
        return on_jax(partial(function.vm.jit_fn), function, choice, dry)

    def copied(*values: Any) -> list[np.ndarray]:
        # NUMBA compiles anew, for half a minute, for parts of arrays that are not contiguous
        return [np.array(out) for out in function(*(np.asarray(v, order="C") for v in values))]

    call = function.vm.jit_fn if backend == "numpy" else one_at_a_time(copied)
    return Compiled(call, backend, choice.reason, dry=(lambda *_: None) if has_boxes else None)


def on_jax(
    call: Callable[..., Any], function: Any, choice: Choice, dry: Callable[..., Any] | None
) -> Compiled:
    """Calls of a function, compiled by XLA; where it has black boxes, ``dry`` tries it."""
    import jax

    # the jitted function keeps nothing between calls, so threads may share it
    jitted = jax.jit(call, compiler_options=xla_options(function.maker.fgraph))
    if dry is None:
        return Compiled(jitted, "jax", choice.reason)
    return Compiled(with_original_exception(jitted), "jax", choice.reason, dry=partial(dry, jitted))


def xla_options(graph: Any) -> dict[str, str]:
    """Options with which XLA compiles a graph: quickly, and a large one operation by operation."""
    # code as fast as that of higher levels, in 65 to 90% of the time; level 0 makes it half as fast
    quickly = {"xla_backend_optimization_level": "1"}
    apart = {"xla_disable_hlo_passes": "fusion"} if n_operations(graph) > MOST_FUSED else {}
    return quickly | apart


def n_operations(graph: Any) -> int:
    """Operations of a graph, those inside of others included."""
    inner = (getattr(node.op, "fgraph", None) for node in graph.apply_nodes)
    return len(graph.apply_nodes) + sum(n_operations(one) for one in inner if one is not None)


@node_rewriter([Elemwise])
def _two_at_a_time(fgraph: Any, node: Any) -> list[Any] | None:
    """Sums and products of many: PyTensor's interpreter takes 32 at most."""
    if len(node.inputs) <= 16 or not isinstance(node.op.scalar_op, Add | Mul):
        return None
    return [reduce(node.op, node.inputs)]


def bytes_computed(
    inputs: Sequence[Any], outputs: Sequence[Any], values: Sequence[Any], n_own: int | None = None
) -> int:
    """Bytes of all that depends on the first inputs, or all, while outputs are computed."""
    # nothing is freed, and what a model computes is taken apart
    linker = VMLinker(allow_gc=False, use_cloop=False, lazy=False, c_thunks=False)
    query = RewriteDatabaseQuery(include=[name for name in INLINING if name in optdb])
    mode = Mode(linker, SequentialGraphRewriter(optdb.query(query), in2out(_two_at_a_time)))
    with without_c():
        function = function_for(list(inputs), list(outputs), mode=mode, on_unused_input="ignore")
    with np.errstate(all="ignore"):
        function(*values)
    own = set(function.maker.fgraph.inputs[:n_own])
    return sum(
        getattr(cell[0], "nbytes", 8) if cell else 8
        for var, cell in function.vm.storage_map.items()
        if not isinstance(var, Constant) and not own.isdisjoint(ancestors([var]))
    )
