"""Compiles loops over a symbolic step.

A step is compiled, and a loop over it is written in Python, or left to JAX where that compiles:
building a ``pytensor.scan`` and compiling what is in it takes half as long again as all the rest.
Small steps are computed by NumPy, one operation after the other: all of them where JAX is not
there, since NUMBA takes a minute for what is then a second's work, and else those that are made
one at a time, since JAX takes two seconds to be imported and to compile. Of large steps without
JAX, and where a mode was asked for, only what a model computes for a batch of rows is compiled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.compiling import (
    Choice,
    Compiled,
    bytes_computed,
    compile_first,
    compile_graph,
    function_of,
    has_jax,
    linker_name,
    on_jax,
)
from pymc_logz.graphs.functions import Kept
from pymc_logz.graphs.host_calls import calls_host
from pymc_logz.graphs.numpy_linker import has_row_loops, numpy_mode, suits_numpy

MOST_BYTES = {"jax": 2**22, "numba": 2**27}
"""Bytes of a step that NumPy computes rather than a backend. JAX takes two seconds to be imported
and to compile, and then makes some 300 steps of a plan no faster; NUMBA takes half a minute, as
NumPy does for 300 larger ones at 4 GB a second."""
STEP_BY_STEP = (
    "NumPy computes single moves of a small model, which takes less time than compiling them; "
    "where several are made at once, JAX does"
)


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

    def split(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """What is given for the state, the sequences and the constants."""
        n_state, n_before = len(self.state), len(self.state) + len(self.sequences)
        return values[:n_state], values[n_state:n_before], values[n_before:]


def compile_loop(
    step: Step,
    n_steps: int,
    compile_kwargs: Mapping[str, Any] | None,
    trial_inputs: Sequence[Any],
    alternative: Callable[[], Step] | None = None,
    *,
    one_by_one: bool = False,
) -> Compiled:
    """Compile so many steps, or fewer, for the backend that `choose_backend` decides on.

    It is a function of the number of steps to make, of the state, of sequences with an axis of
    length ``n_steps`` in front, and of the constants. It returns the last state, and what was
    traced with an axis in front, which counts at least the steps made. ``trial_inputs`` are values
    to call it with once, without the number of steps; ``alternative`` is another graph of the same
    step, which JAX is tried with before it is given up. NumPy computes small steps of a loop that
    is mostly called ``one_by_one``, and others are compiled when they are first asked for.
    """

    @cache
    def n_bytes() -> float:
        """Bytes of what NumPy would compute in a step, black boxes aside; infinite if it cannot."""
        if not suits_numpy(step.outputs):
            return np.inf
        if calls_host(step.outputs):
            return 0.0
        state, sequences, constants = step.split(trial_inputs)
        values = [*state, *(np.asarray(part[0]) for part in sequences), *constants]
        return bytes_computed(step.inputs, step.outputs, values)

    def made(step: Step, choice: Choice) -> Compiled:
        if choice.is_jax:
            return _jax_loop(step, choice)
        if choice.mode is None and n_bytes() <= MOST_BYTES["numba"]:
            return _python_loop(step, choice.in_numpy())
        # moves are many small operations, which NUMBA takes half a minute to compile
        apart = suits_numpy(step.outputs, but_models=True)
        made = _python_loop(step, choice.around_models() if apart else choice)
        return replace(made, backend=linker_name(choice.mode))

    def compiled() -> Compiled:
        trial = [np.array(n_steps), *trial_inputs]
        return compile_first(made, step, alternative, compile_kwargs, trial)

    by_default = "mode" not in (compile_kwargs or {}) and has_jax()
    may_wait = one_by_one and by_default and not has_row_loops(step.outputs)
    if not may_wait or calls_host(step.outputs) or n_bytes() > MOST_BYTES["jax"]:
        return compiled()
    kept = Kept()
    by_numpy = _python_loop(step, Choice(numpy_mode(), {}, STEP_BY_STEP))
    return replace(by_numpy, many=lambda: kept.get("many", compiled))


def _python_loop(step: Step, choice: Choice) -> Compiled:
    one_step, n_state = compile_graph((step.inputs, step.outputs), choice), len(step.state)

    def loop(n_requested: Any, *values: Any) -> list[Any]:
        state, sequences, constants = step.split(values)
        traces = []
        for i in range(n_requested):
            now = (np.asarray(part[i]) for part in sequences)
            outputs = one_step.call(*state, *now, *constants)
            state = outputs[:n_state]
            traces.append(outputs[n_state:])
        return [*state, *map(np.stack, zip(*traces, strict=True))]

    return replace(one_step, call=loop)


def _jax_loop(step: Step, choice: Choice) -> Compiled:
    function = function_of(step.inputs, step.outputs, choice)
    one_step, n_state = function.vm.jit_fn, len(step.state)

    def loop(n_requested: Any, *values: Any) -> list[Any]:
        state, sequences, constants = step.split(values)

        def at(state: Sequence[Any], now: Sequence[Any]) -> tuple[Any, Any]:
            outputs = one_step(*state, *now, *constants)
            return tuple(outputs[:n_state]), tuple(outputs[n_state:])

        state, traces = traced_in_jax(at, tuple(state), tuple(sequences), n_requested)
        return [*state, *traces]

    def no_steps(jitted: Any, n_requested: Any, *values: Any) -> Any:
        return jitted(np.zeros_like(n_requested), *values)

    return on_jax(loop, function, choice, no_steps if calls_host(step.outputs) else None)


def traced_in_jax(step: Callable[..., Any], state: Any, given: Any, n: Any) -> tuple[Any, Any]:
    """The last state of a loop, and records of its steps, from ``step(state, given[i])`` to both.

    It makes the first n steps, and has room for records of all that are given.
    """
    import jax
    import jax.numpy as jnp

    def at(i: Any, state: Any) -> tuple[Any, Any]:
        return step(state, jax.tree.map(lambda part: part[i], given))

    def move(i: Any, carried: tuple[Any, Any]) -> tuple[Any, Any]:
        state, record = at(i, carried[0])
        return state, jax.tree.map(lambda of, one: of.at[i].set(one), carried[1], record)

    _, record = jax.eval_shape(at, 0, state)
    shape = jax.tree.leaves(given)[0].shape[:1]
    empty = jax.tree.map(lambda one: jnp.zeros(shape + one.shape, one.dtype), record)
    return jax.lax.fori_loop(0, n, move, (state, empty))
