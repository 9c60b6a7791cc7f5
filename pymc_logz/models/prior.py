"""Exact draws of the prior of a model on the unconstrained space."""

import math
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.shape_utils import _change_dist_size, change_dist_size
from pymc.distributions.timeseries import GARCH11RV, AutoRegressiveRV, EulerMaruyamaRV
from pymc.initial_point import make_initial_point_expression
from pymc.pytensorf import collect_default_updates, find_rng_nodes, replace_rng_nodes, rvs_in_graph
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import ancestors, general_toposort
from pytensor.graph.utils import MissingInputError
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import TensorType
from pytensor.tensor.type_other import NoneTypeT

from pymc_logz.errors import ImproperPriorError, ModelError, warn
from pymc_logz.graphs.functions import function_for, known_shapes, wider
from pymc_logz.models.cache import kept_for
from pymc_logz.models.known_priors import (
    exact_transforms,
    log_constant_of_fields,
    log_mass_in_order,
)
from pymc_logz.models.rows import starting_point

LEAST_FINITE = 1e-3
"""Fraction of the draws below which a transform and its prior hardly meet; and that may round to a
bound, as log Z hardly notices that these are left out."""

FARTHEST = 1e70
"""Where draws of a variable without bounds are put that lie beyond, as some of N(0, sd) do if the
precision is Gamma(0.001, 0.001): products of its squares are finite. Likelihoods are zero there, or
the model is refused."""


class PriorDraws:
    """Exact draws of a model's prior as unconstrained rows, whatever ``initval`` says.

    Draws of like entries that are to be in order are sorted, and whatever else a transform cannot
    take is drawn again: the rows are exact draws of the prior restricted to what the transforms
    allow, with the normalising constant of the restricted prior. What merely rounds to a bound, as
    draws of Beta(0.01, 0.01) do, is within it: most such priors are drawn from in the unconstrained
    space (`pymc_logz.models.known_priors`), and of any other it may be next to none.
    A prior that cannot be drawn from is an ImproperPriorError, at once if it is ``needed``, else at
    the first draw. ``columns`` are those of a row that are wanted.
    """

    def __init__(
        self, model: pm.Model, *, needed: bool = True, columns: np.ndarray | None = None
    ) -> None:
        self.model, self.columns = model, columns
        self._draws = _row_sampler(model)
        sizes = list(map(math.prod, self._draws.shapes))
        # of each column of a row: which variable it is of, and whether no transform bounds that
        self._owners = np.repeat([rv.name for rv in model.free_RVs], sizes)
        bare = [model.rvs_to_transforms[rv] is None for rv in model.free_RVs]
        self._unbounded = np.repeat(bare, sizes)
        self.n_drawn = self.n_outside = self.n_rounded = 0
        self._log_mass: tuple[float, float] | None = None
        self._log_mass_in_order = log_mass_in_order(model, self._draws.shapes)
        self._log_known = self._log_mass_in_order + log_constant_of_fields(model)
        self._has_warned = False
        if needed and self.obstacle is not None:
            raise self.obstacle

    @property
    def obstacle(self) -> ImproperPriorError | None:
        """Why no draw can be made, if so."""
        return None if self._draws.obstacle is None else ImproperPriorError(self._draws.obstacle)

    @property
    def vectorized(self) -> bool:
        """Whether many draws are made by one call."""
        return self._draws.vectorized

    @property
    def finite_fraction(self) -> float:
        """Share of the prior that the transforms can take: 1 unless they restrict it."""
        return float(np.exp(self._log_mass_in_order)) * (1.0 - self._fraction_outside)

    @property
    def _fraction_outside(self) -> float:
        return self.n_outside / self.n_drawn if self.n_drawn else 0.0

    def log_mass(self, rng: np.random.Generator | None = None) -> tuple[float, float]:
        """Log of what the prior integrates to, and its error: 0 and 0 as a rule.

        It is the share that the transforms allow, of which there is a warning if that is not all of
        it, or the prior cannot be drawn from to find out; and constants that PyMC leaves out.
        Without a generator it is the same whenever it is asked for.
        """
        if rng is None:
            if self._log_mass is None:
                self._log_mass = self.log_mass(np.random.default_rng(0))
            return self._log_mass
        if self.obstacle is not None:
            warn(f"whether the priors integrate to one could not be checked: {self.obstacle}")
            return self._log_known, 0.0
        self(rng, 256)
        if self.n_outside or self.n_rounded:
            # an error of log Z of at most 0.01 for shares above 0.4
            self(rng, 2**14 if self.vectorized else 2**10)
        self.warn_of_restriction()
        outside = self._fraction_outside
        error = float(np.sqrt(outside / ((1 - outside) * self.n_drawn)))
        return self._log_known + float(np.log1p(-outside)), error

    def warn_of_restriction(self) -> None:
        """Say once that transforms restrict the prior, if those draws that were made tell so."""
        if self.finite_fraction < 1.0 and not self._has_warned:
            self._has_warned = True
            warn(
                f"the transforms take only {self.finite_fraction:.1%} of the prior draws: log Z is "
                "that of the prior restricted to them and renormalised"
            )

    def __call__(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n rows, shape (n, d)."""
        if self.obstacle is not None:
            raise self.obstacle
        with self._draws.lock:
            self._draws.seed(rng, 4)
            return self._finite_rows(n)

    def _finite_rows(self, n: int) -> np.ndarray:
        """N rows that the transforms can take, from generators that were just seeded."""
        kept: list[np.ndarray] = []
        n_kept, n_drawn, n_next = 0, 0, n
        while n_kept < n:
            rows = self._draws.draw(n_next)
            rows[:, self._unbounded] = rows[:, self._unbounded].clip(-FARTHEST, FARTHEST)
            finite = np.all(np.isfinite(rows), axis=1)
            outside = np.any(np.isnan(rows[~finite]), axis=1)
            self.n_drawn += n_next
            self.n_outside += int(outside.sum())
            self.n_rounded += int((~outside).sum())
            self._check_rounded(rows)
            kept.append(rows[finite])
            n_kept, n_drawn = n_kept + int(finite.sum()), n_drawn + n_next
            if self._fraction_outside > 1.0 - LEAST_FINITE and self.n_drawn >= 1000:
                raise ImproperPriorError(
                    f"only {self.n_drawn - self.n_outside} of {self.n_drawn} prior draws fall "
                    "inside what the transforms allow: nothing is left of those of "
                    f"{self._names(np.isnan(rows))}. Change the prior so that it agrees with its "
                    "transform, if pm.draw gives numbers for it"
                )
            # sized by this call alone, so that its rows depend on the generator and nothing else
            share = max(n_kept / n_drawn, LEAST_FINITE)
            n_next = min(max(16, int(1.2 * (n - n_kept) / share)), 2**16)
        rows = np.concatenate(kept)[:n]
        return rows if self.columns is None else rows[:, self.columns]

    def _check_rounded(self, rows: np.ndarray) -> None:
        """Refuse a prior of which a share that matters has no unconstrained values."""
        expected = LEAST_FINITE * self.n_drawn
        if self.n_drawn < 1000 or self.n_rounded <= expected + 5.0 * np.sqrt(expected):
            return
        raise ImproperPriorError(
            f"{self.n_rounded} of {self.n_drawn} prior draws round to a bound of "
            f"{self._names(np.isinf(rows))}, or to infinity, in floating-point numbers: their "
            "unconstrained values are infinite, and log Z would lack their part; use a prior with "
            "less mass there, or write the variable as a function of one on an unbounded scale"
        )

    def _names(self, which: np.ndarray) -> list[str]:
        """Variables of which any of these entries of rows are."""
        return list(dict.fromkeys(self._owners[np.any(which, axis=0)].tolist()))


class Sampler:
    """A compiled function that draws, by generators of its outputs' own that can be seeded."""

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Any]) -> None:
        outputs = replace_rng_nodes(wider(outputs))
        updates = collect_default_updates(inputs=inputs, outputs=outputs)
        self.function = function_for(
            inputs, outputs, updates=updates, mode="FAST_COMPILE", on_unused_input="ignore"
        )
        self._rngs = find_rng_nodes(outputs)
        self.lock = threading.Lock()
        """Held from seeding the generators to the last draw."""

    def __call__(self, *values: Any) -> list[np.ndarray]:
        """Draws, one of each output."""
        return list(map(np.asarray, self.function(*values)))

    def seed(self, rng: np.random.Generator, n_words: int = 1) -> None:
        """Make the draws that follow a function of this generator."""
        for shared in self._rngs:
            seed = rng.integers(2**63, size=n_words)
            shared.set_value(np.random.Generator(np.random.PCG64(seed)), borrow=True)


class _RowSampler(Sampler):
    """Draws a prior as rows, many by one call, or by one call each, as any distribution can."""

    obstacle: str | None = None
    """Why no draw can be made, if so."""

    def __init__(self, model: pm.Model) -> None:
        self.model, self.vectorized = model, True
        self.shapes = [value.shape for value in starting_point(model).values()]
        values, size = prior_values(model), pt.scalar("size", dtype="int64")
        try:
            super().__init__([size], _batched(values, size))
            self.draw(2)
        except (NotImplementedError, ValueError, TypeError, AssertionError, MissingInputError):
            self.vectorized = False
            super().__init__([size], values)
        try:
            self.draw(1)
        except NotImplementedError as error:
            self.obstacle = (
                f"the prior of {_first_without_sampler(model)} cannot be drawn from, so there is "
                "nowhere to start: give pm.CustomDist a random= function, or use a proper prior "
                f"({str(error).partition('.')[0]})"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return _row_sampler, (self.model,)

    def draw(self, n: int) -> np.ndarray:
        """N rows, of which some may not be finite."""
        if not self.vectorized:
            rows = [np.concatenate([np.ravel(value) for value in self(1)]) for _ in range(n)]
            return np.array(rows, dtype=float)
        # SciPy takes the size of parameters of shape (1,) for that of a scalar
        values = [value[:n] for value in self(max(n, 2))]
        if any(
            value.shape != (n, *shape) for value, shape in zip(values, self.shapes, strict=True)
        ):
            raise ValueError("a batch of prior draws has another shape than the model")
        return np.concatenate([value.reshape(n, -1) for value in values], axis=1, dtype=float)


def _row_sampler(model: pm.Model) -> _RowSampler:
    """What draws from a prior, compiled once for a model."""
    return kept_for(model).get("prior draws", lambda: _RowSampler(model))


def transformed(model: pm.Model) -> list[Any]:
    """The free variables in the unconstrained space, as graphs of themselves."""
    pairs = [(rv, model.rvs_to_transforms[rv]) for rv in model.free_RVs]
    return [rv if way is None else way.forward(rv, *rv.owner.inputs) for rv, way in pairs]


def prior_values(model: pm.Model, *others: Any) -> list[Any]:
    """One draw of each free variable in the unconstrained space, and of others that go with it."""
    return make_initial_point_expression(
        free_rvs=[*model.free_RVs, *others],
        rvs_to_transforms=exact_transforms(model),
        initval_strategies={},
        default_strategy="prior",
        return_transformed=True,
    )


def simulate(model: pm.Model, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """One draw of the prior, as an unconstrained row (1, d), and data simulated from it."""
    if model.potentials:
        names = [potential.name for potential in model.potentials]
        raise ModelError(f"data cannot be simulated from a model with potentials ({names})")
    observed = [rv.name for rv in model.observed_RVs]
    sampler = kept_for(model).get(
        "simulation", lambda: Sampler([], prior_values(model, *model.observed_RVs))
    )
    n_tries = 1000
    for _ in range(n_tries):
        with sampler.lock:
            sampler.seed(rng)
            values = sampler()
        n_free = len(model.free_RVs)
        row = np.concatenate([np.ravel(value) for value in values[:n_free]], dtype=float)[None]
        if np.all(np.isfinite(row)):
            return row, dict(zip(observed, values[n_free:], strict=True))
    raise ModelError(f"none of {n_tries} prior draws fits the transforms of this model")


def _batched(values: Sequence[Any], size: Variable) -> list[Any]:
    """Draws of many rows in one graph; raises where a distribution cannot be resized."""
    # what is made empty in the shape of a draw, as transforms do, is then not made row by row
    if known := known_shapes(ancestors(values)):
        values = clone_replace(values, known, rebuild_strict=False)
    random = rvs_in_graph(values)
    order = general_toposort(values, lambda var: var.owner.inputs if var.owner else None)
    # each by itself, as what several depend on is not to be drawn twice
    resized: dict[Variable, Variable] = {}
    for rv in order:
        if rv not in random or not isinstance(rv.type, TensorType):
            continue
        if not set(resized) & set(ancestors([rv], blockers=list(resized))):
            resized[rv] = change_dist_size(rv, new_size=(size,), expand=True)
        elif isinstance(rv.owner.op, RandomVariable):
            resized[rv] = _batched_draw(rv, resized, size)
        elif isinstance(rv.owner.op, AutoRegressiveRV | EulerMaruyamaRV | GARCH11RV):
            resized[rv] = _batched_loop(rv, resized, size)
        else:
            resized[rv] = vectorize_graph(rv, resized)
    batched = vectorize_graph(values, resized)
    if any(new.ndim != old.ndim + 1 for new, old in zip(batched, values, strict=True)):
        raise ValueError("a free variable was not batched")
    return batched


def _batched_draw(rv: Any, resized: dict[Variable, Variable], size: Variable) -> Any:
    """A batch of a distribution of which some parameters are batched, and its size is known."""
    # PyTensor would count the dimensions that a batch adds by the first parameter alone, and add
    # none to a size that is a graph, as that of the steps of a random walk
    op, (rng, own, *parameters) = rv.owner.op, rv.owner.inputs
    if not isinstance(own.type, NoneTypeT):
        known = rv.type.shape[: op.batch_ndim(rv.owner)]
        own = (size, *(own if None in known else known))
    return op.make_node(rng, own, *vectorize_graph(parameters, resized)).outputs[1]


def _batched_loop(rv: Any, resized: dict[Variable, Variable], size: Variable) -> Any:
    """A batch of a distribution whose loop over time has draws in it, and is made anew."""
    op, (*parameters, rng) = rv.owner.op, rv.owner.inputs
    batched = []
    for parameter, n_own in zip(parameters, op.ndims_params, strict=True):
        new = vectorize_graph(parameter, resized)
        n_missing = rv.type.ndim + n_own - new.type.ndim
        if new.type.ndim > parameter.type.ndim:  # else it is the same for all
            new = pt.expand_dims(new, tuple(range(1, 1 + n_missing)))
        batched.append(new)
    like = SimpleNamespace(owner=SimpleNamespace(inputs=[*batched, rng]))
    return _change_dist_size(op, like, new_size=(size, *rv.type.shape[:-1]), expand=False)


def _first_without_sampler(model: pm.Model) -> str:
    """Name of the first free variable whose own draw fails."""
    for rv in model.free_RVs:
        try:
            pm.draw(rv, mode="FAST_COMPILE")
        except NotImplementedError:
            return repr(rv.name)
    return "this model"
