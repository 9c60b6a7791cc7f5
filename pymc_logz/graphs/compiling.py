"""Compiles symbolic functions: which backend, why, and how to call the result from threads."""

import logging
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import Variable
from pytensor.link.jax.linker import JAXLinker

Graph = Callable[[], tuple[Sequence[Variable], Sequence[Variable]]]
"""Makes the inputs and outputs of a function."""

logger = logging.getLogger("pymc.pymc_logz")


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


def compile_kwargs_for(mode: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of ``pytensor.function`` for a mode, bad parameters giving -inf."""
    mode = get_mode(mode)
    # as pymc.compile: a distribution's parameter check turns into log density -inf
    optimizer = mode.provided_optimizer.including("local_check_parameter_to_ninf_switch")
    return {**kwargs, "mode": Mode(linker=mode.linker, optimizer=optimizer)}


def compile_function(
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    compile_kwargs: Mapping[str, Any] | None = None,
    trial_inputs: Sequence[np.ndarray] | None = None,
    alternative: Graph | None = None,
) -> Compiled:
    """Compile for the user's mode, else for JAX when it is there and can, else for the default.

    Parameters
    ----------
    inputs, outputs
        Symbolic variables.
    compile_kwargs
        Keyword arguments of ``pytensor.function``; ``"mode"`` decides the backend when given.
    trial_inputs
        Values to call it with once: some graphs fail, and some backends compile, only when called.
    alternative
        Another graph of the same function, which JAX is tried with before it is given up.
    """
    kwargs = {"trust_input": True, **(compile_kwargs or {})}
    mode = kwargs.pop("mode", None)
    graphs: list[Graph] = [lambda: (inputs, outputs), *([alternative] if alternative else [])]
    if mode is not None:
        reason = "compile_kwargs['mode'] asked for it"
        to_try = graphs if isinstance(get_mode(mode).linker, JAXLinker) else graphs[:1]
        return _first_that_runs(to_try, mode, kwargs, reason, trial_inputs)
    if find_spec("jax") is None:
        reason = "JAX is not installed; 'pip install pymc-logz[jax]' compiles in seconds"
    else:
        try:
            reason = "JAX is installed and the model converts"
            return _first_that_runs(graphs, "JAX", kwargs, reason, trial_inputs)
        except Exception as error:  # a conversion can fail with any exception of JAX or PyTensor
            reason = f"JAX could not run this model ({type(error).__name__}: {str(error)[:200]})"
    logger.info("Compiling with PyTensor's default backend: %s.", reason)
    return _first_that_runs(graphs[:1], None, kwargs, reason, trial_inputs)


def _first_that_runs(
    graphs: Sequence[Graph],
    mode: Any,
    kwargs: Mapping[str, Any],
    reason: str,
    trial_inputs: Sequence[np.ndarray] | None,
) -> Compiled:
    """Compile the first of several graphs of one function that can be called."""
    for i, graph in enumerate(graphs):
        try:
            compiled = _compile(*graph(), mode, kwargs, reason)
            if trial_inputs is not None:
                compiled.call(*trial_inputs)
            return replace(compiled, is_alternative=i > 0)
        except Exception as error:  # JAX and PyTensor fail with exceptions of any kind
            if i == 0:
                failure = error
    raise failure


def _compile(
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    mode: Any,
    kwargs: Mapping[str, Any],
    reason: str,
) -> Compiled:
    with warnings.catch_warnings():
        # JAX drops assertions about shapes, which are known here
        warnings.filterwarnings("ignore", message="Skipping .* Op", category=UserWarning)
        kwargs = compile_kwargs_for(mode, kwargs)
        function = pytensor.function(list(inputs), list(outputs), **kwargs)
    backend = type(function.maker.linker).__name__.removesuffix("Linker").lower()
    if backend == "jax":
        # the jitted function keeps nothing between calls, so threads may share it
        return Compiled(function.vm.jit_fn, backend, reason)
    lock = threading.Lock()

    def call(*values: Any) -> Sequence[Any]:
        # a PyTensor function writes its inputs into storage of its own: one caller at a time
        with lock:
            return [np.array(out) for out in function(*values)]

    return Compiled(call, backend, reason)
