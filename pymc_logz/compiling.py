"""Compiles symbolic functions: which backend, why, and how to call the result from threads."""

import logging
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import Variable

logger = logging.getLogger("pymc.pymc_logz")


@dataclass(frozen=True)
class Compiled:
    """A compiled function that threads may call at the same time."""

    call: Callable[..., Sequence[Any]]
    backend: str
    """Name of the PyTensor linker: ``"jax"``, ``"numba"``, ``"cvm"``, ..."""
    reason: str
    """Why this backend, in a sentence."""


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
) -> Compiled:
    """Compile for the user's mode, else for JAX when it is there and can, else for the default.

    Parameters
    ----------
    inputs, outputs
        Symbolic variables.
    compile_kwargs
        Keyword arguments of ``pytensor.function``; ``"mode"`` decides the backend when given.
    trial_inputs
        Values to try the JAX version on, since some graphs fail there only when called.
    """
    kwargs = {"trust_input": True, **(compile_kwargs or {})}
    mode = kwargs.pop("mode", None)
    if mode is not None:
        return _compile(inputs, outputs, mode, kwargs, "compile_kwargs['mode'] asked for it")
    if find_spec("jax") is None:
        reason = "JAX is not installed; 'pip install pymc-logz[jax]' compiles in seconds"
        logger.info("Compiling with PyTensor's default backend: %s.", reason)
        return _compile(inputs, outputs, None, kwargs, reason)
    try:
        reason = "JAX is installed and the model converts"
        compiled = _compile(inputs, outputs, "JAX", kwargs, reason)
        if trial_inputs is not None:
            compiled.call(*trial_inputs)
    except Exception as error:  # a conversion can fail with any exception of JAX or PyTensor
        reason = f"JAX could not run this model ({type(error).__name__}: {str(error)[:200]})"
        logger.info("Compiling with PyTensor's default backend: %s.", reason)
        return _compile(inputs, outputs, None, kwargs, reason)
    return compiled


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
