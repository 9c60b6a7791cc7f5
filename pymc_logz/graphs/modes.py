"""Modes of ``pytensor.function`` as models need them."""

from collections.abc import Callable, Mapping
from typing import Any

import pytensor
from pytensor.compile.mode import Mode, get_mode, optdb

from pymc_logz.graphs.kept import one_at_a_time


def parameter_checks() -> tuple[str, ...]:
    """Name of PyMC's rewrite of a distribution's parameter check into log density -inf."""
    name = "local_check_parameter_to_ninf_switch"
    # without PyMC there are no such checks, and asking for a name that PyMC registers when it is
    # imported later would take that name
    return (name,) if name in optdb["canonicalize"] else ()


SLOW = ("local_greedy_distributor", "dot_diag_to_elemwise", "selection_dot_to_indexing")
"""Rewrites that look through whole graphs: of a solver's thousand operations, nine tenths of all
rewriting, for a few operations less."""


def compile_kwargs_for(mode: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of ``pytensor.function`` for a mode, bad parameters giving -inf."""
    mode = get_mode(mode)
    optimizer = mode.provided_optimizer.including(*parameter_checks()).excluding(*SLOW)
    return {**kwargs, "mode": Mode(linker=mode.linker, optimizer=optimizer)}


def cheaply_compiled(inputs: Any, outputs: Any) -> Callable[..., Any]:
    """Function that compiles in no time, for what is called once or twice."""
    kwargs = compile_kwargs_for("FAST_COMPILE", {"on_unused_input": "ignore"})
    return one_at_a_time(pytensor.function(inputs, outputs, **kwargs))
