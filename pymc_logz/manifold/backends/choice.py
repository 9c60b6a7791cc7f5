"""Which backend a level set is compiled for."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_logz.graphs.compiling import Choice, choose_backend
from pymc_logz.manifold.backends.base import Backend
from pymc_logz.manifold.backends.on_jax import JaxBackend
from pymc_logz.manifold.backends.on_pytensor import PytensorBackend
from pymc_logz.manifold.system import SymbolicSystem


def make_backend(symbolic: SymbolicSystem, compile_kwargs: Mapping[str, Any] | None) -> Backend:
    """The backend that `choose_backend` decides on.

    Parameters
    ----------
    symbolic
        What to compile.
    compile_kwargs
        Keyword arguments of ``pytensor.function``; ``"mode"`` decides the backend when given.
    """

    def make(choice: Choice) -> Backend:
        if not choice.is_jax:
            return PytensorBackend(symbolic, choice.reason, choice.mode, choice.kwargs)
        backend = JaxBackend(symbolic, choice.reason)
        for function in (backend.constraint, backend.log_density):
            backend.compile(function)(np.zeros(symbolic.n_dims))
        return backend

    return choose_backend(make, compile_kwargs, gain="makes this much faster")
