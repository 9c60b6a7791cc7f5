"""A model with exact observations in compiled form, made anew wherever it is unpickled."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm

from pymc_logz.graphs.kept import settings_key
from pymc_logz.manifold.backends.base import Backend
from pymc_logz.manifold.backends.choice import make_backend
from pymc_logz.manifold.generator import Generator, make_generator
from pymc_logz.manifold.system import SymbolicSystem
from pymc_logz.models.keeping import kept_for
from pymc_logz.models.prior import PriorDraws


@dataclass(frozen=True, eq=False)
class PickledByFields:
    """A record that pickles as its fields: what it has compiled is made again where it arrives."""

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone, without cached properties."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, eq=False)
class CompiledGenerator(PickledByFields):
    """A model with exact observations, and what it compiles to whatever the units of its inputs."""

    model: pm.Model
    compile_kwargs: Mapping[str, Any] | None = None
    """Keyword arguments of ``pytensor.function``; ``"mode"`` decides the backend when given."""

    @cached_property
    def generator(self) -> Generator:
        """Symbolic form."""
        return make_generator(self.model)

    @property
    def prior(self) -> PriorDraws:
        """Draws of the prior as unconstrained rows, none of which was counted yet."""
        self.generator  # noqa: B018  # checks the model before it is drawn from
        return PriorDraws(self.model)

    @cached_property
    def backend(self) -> Backend:
        """What functions are compiled with."""
        generator = self.generator
        symbolic = SymbolicSystem(generator.flat.point, generator.residual, generator.log_density)
        return make_backend(symbolic, self.compile_kwargs)

    @cached_property
    def jacobian(self) -> Callable[[np.ndarray], Any]:
        """Function from inputs as they are, shape (d,), to the dense Jacobian, shape (m, d)."""
        generator = self.generator
        ones = np.ones(generator.n_dims)
        system = self.backend.system(ones, np.ones(generator.n_outputs), None)
        return self.backend.compile(system.jacobian)


def compiled_generator(
    model: pm.Model, compile_kwargs: Mapping[str, Any] | None
) -> CompiledGenerator:
    """What was compiled for a model as it is, whoever asked for it first."""
    key = (CompiledGenerator, settings_key(compile_kwargs))
    return kept_for(model).get(key, lambda: CompiledGenerator(model, compile_kwargs))
