"""A loop over a symbolic step: written once, compiled as each backend does it best.

JAX compiles the step, and loops over it by itself: building a ``pytensor.scan`` and rewriting what
is in it takes longer than all the rest. Where JAX is not there, NumPy computes small steps one
operation after the other, since NUMBA takes a minute for what is then a second's work. What else a
user asks for loops by ``pytensor.scan``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.compiling import (
    Choice,
    Compiled,
    Maker,
    bytes_computed,
    compile_first,
    compile_graph,
    function_of,
    in_python,
    xla_options,
)
from pymc_logz.graphs.host_calls import calls_host
from pymc_logz.graphs.jax_host_calls import raising_as_called
from pymc_logz.graphs.numpy_linker import runs_python, suits_numpy


@dataclass(frozen=True)
class Step:
    """What is done again and again, as symbolic variables of one time."""

    state: Sequence[TensorVariable]
    """What a step is handed by the one before."""
    sequences: Sequence[TensorVariable]
    """What is different in each step."""
    constants: Sequence[TensorVariable]
    """What is the same in all steps."""
    new_state: Sequence[TensorVariable]
    """The state after the step, of the same types."""
    traced: Sequence[TensorVariable]
    """What is remembered of the step."""

    @property
    def inputs(self) -> list[TensorVariable]:
        """All inputs, in the order of those of the compiled loop."""
        return [*self.state, *self.sequences, *self.constants]

    @property
    def outputs(self) -> list[TensorVariable]:
        """All outputs, in the order of those of the compiled loop."""
        return [*self.new_state, *self.traced]


def compile_loop(
    step: Step,
    n_steps: int,
    compile_kwargs: Mapping[str, Any] | None,
    trial_inputs: Sequence[Any],
    alternative: Callable[[], Step] | None = None,
) -> Compiled:
    """Compile so many steps, or fewer, for the backend that `choose_backend` decides on.

    It is a function of the number of steps to make, of the state, of sequences with an axis of
    length ``n_steps`` in front, and of the constants. It returns the last state, and what was
    traced with an axis in front, which counts at least the steps made. ``trial_inputs`` are values
    to call it with once, without the number of steps; ``alternative`` is another graph of the same
    step, which JAX is tried with before it is given up.
    """
    makers: list[Maker] = [partial(_compile, step, n_steps, trial_inputs)]
    if alternative is not None:
        makers.append(lambda choice: _compile(alternative(), n_steps, trial_inputs, choice))
    return compile_first(makers, compile_kwargs, [np.array(n_steps), *trial_inputs])


def _compile(step: Step, n_steps: int, trial_inputs: Sequence[Any], choice: Choice) -> Compiled:
    if choice.is_jax:
        return _jax_loop(step, n_steps, choice)
    has_boxes = calls_host(step.outputs)
    if has_boxes and runs_python(choice.mode):
        return _numpy_loop(step, in_python(choice) if choice.mode is None else choice)
    if choice.mode is None and suits_numpy(step.outputs):
        n_state, n_before = len(step.state), len(step.state) + len(step.sequences)
        first = [np.asarray(part[0]) for part in trial_inputs[n_state:n_before]]
        values = [*trial_inputs[:n_state], *first, *trial_inputs[n_before:]]
        # of larger steps a call of many takes longer than NUMBA takes to compile
        if bytes_computed(step.inputs, step.outputs, values) <= 2**24:
            return _numpy_loop(step, in_python(choice))
    return compile_graph(_scan(step, n_steps), choice)


def _numpy_loop(step: Step, choice: Choice) -> Compiled:
    one_step = compile_graph((step.inputs, step.outputs), choice)
    n_state = len(step.state)
    n_before = n_state + len(step.sequences)

    def loop(n_asked: Any, *values: Any) -> list[Any]:
        state: Sequence[Any] = values[:n_state]
        sequences, traces = values[n_state:n_before], []
        for i in range(n_asked):
            now = (np.asarray(part[i]) for part in sequences)
            outputs = one_step.call(*state, *now, *values[n_before:])
            state = outputs[:n_state]
            traces.append(outputs[n_state:])
        return [*state, *map(np.stack, zip(*traces, strict=True))]

    return replace(one_step, call=loop)


def _jax_loop(step: Step, n_steps: int, choice: Choice) -> Compiled:
    import jax
    import jax.numpy as jnp

    function, backend = function_of(step.inputs, step.outputs, choice)
    one_step, n_state = function.vm.jit_fn, len(step.state)
    n_before = n_state + len(step.sequences)

    def loop(n_asked: Any, *values: Any) -> list[Any]:
        state, sequences = values[:n_state], values[n_state:n_before]
        constants = values[n_before:]

        def at(i: Any, state: Any) -> list[Any]:
            return one_step(*state, *(part[i] for part in sequences), *constants)

        def body(i: Any, carried: tuple[Any, Any]) -> tuple[Any, Any]:
            state, traces = carried
            outputs = at(i, state)
            traced = zip(traces, outputs[n_state:], strict=True)
            return tuple(outputs[:n_state]), tuple(trace.at[i].set(now) for trace, now in traced)

        shapes = jax.eval_shape(at, 0, state)[n_state:]
        traces = tuple(jnp.zeros((n_steps, *shape.shape), shape.dtype) for shape in shapes)
        state, traces = jax.lax.fori_loop(0, n_asked, body, (tuple(state), traces))
        return [*state, *traces]

    # the jitted function keeps nothing between calls, so threads may share it
    jitted = jax.jit(loop, compiler_options=xla_options(function.maker.fgraph))
    if not calls_host(step.outputs):
        return Compiled(jitted, backend, choice.reason)

    def no_steps(n_asked: Any, *values: Any) -> Any:
        return jitted(np.zeros_like(n_asked), *values)

    return Compiled(raising_as_called(jitted), backend, choice.reason, dry=no_steps)


def _scan(step: Step, n_steps: int) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs of the loop as a graph."""
    sequences = [
        pt.tensor(var.name, dtype=var.dtype, shape=(n_steps, *var.type.shape))
        for var in step.sequences
    ]
    n_asked = pt.lscalar("n_asked")
    in_order = [*step.sequences, *step.state, *step.constants]

    def one_step(*args: Any) -> list[Any]:
        values = dict(zip(in_order, args, strict=True))
        return clone_replace(step.outputs, values, rebuild_strict=False)

    traces = pytensor.scan(
        one_step,
        sequences=sequences,
        outputs_info=[*step.state, *[None] * len(step.traced)],
        non_sequences=list(step.constants),
        n_steps=n_asked,
        return_updates=False,
        strict=True,
    )
    n_state = len(step.state)
    looped = replace(step, sequences=sequences)
    inputs = [n_asked, *looped.inputs]
    return inputs, [*(trace[-1] for trace in traces[:n_state]), *traces[n_state:]]
