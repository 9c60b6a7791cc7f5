"""What step methods have in common towards pm.sample, and how Hamiltonian ones are tuned."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pymc as pm
from pymc.step_methods import BlockedStep
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.step_methods.step_sizes import DualAverageAdaptation
from pymc.util import get_value_vars_from_user_vars
from rich.progress import TextColumn
from rich.table import Column

from pymc_logz.arguments import check_positive, check_probability
from pymc_logz.errors import DiscreteVariableError
from pymc_logz.loop.calls import Call
from pymc_logz.loop.planning import block_for
from pymc_logz.models.cache import made_of
from pymc_logz.models.context import check_compile_kwargs, check_no_model, without_labels
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.runners.block import Block
from pymc_logz.seeds import random_generator
from pymc_logz.step_methods.sources import BlockSource, Source


def continuous_vars(vars: Any, model: pm.Model) -> list[Any]:
    """Value variables in the order of the model, whatever the order asked for."""
    chosen = (
        model.continuous_value_vars if vars is None else get_value_vars_from_user_vars(vars, model)
    )
    names = {value: rv.name for rv, value in model.rvs_to_values.items()}
    discrete = [names[var] for var in chosen if not np.issubdtype(var.dtype, np.floating)]
    if discrete:
        raise DiscreteVariableError(
            f"variables {discrete} are discrete, but this step method moves continuous ones; leave "
            "them out of vars, and pm.sample gives them a step method of their own"
        )
    if not chosen:
        raise DiscreteVariableError("the model has no continuous variable to move")
    return [var for var in model.value_vars if var in chosen]


def checked_scale(scale: float | Sequence[float], n_dims: int) -> np.ndarray:
    """Length scales of all dimensions, shape (d,)."""
    check_positive(scale=scale)
    values = np.asarray(scale, dtype=float)
    if values.ndim > 1 or values.size not in (1, n_dims):
        raise ValueError(
            f"scale has shape {values.shape}; give one number, or {n_dims}, one for each "
            "unconstrained dimension of the variables"
        )
    return np.broadcast_to(values, n_dims).copy()


def values_of_row(
    row: np.ndarray, columns: Mapping[str, np.ndarray], point: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Value variables in these columns of a row, of the types that ``point`` has."""
    return {name: np.asarray(row[own], point[name].dtype) for name, own in columns.items()}


# names and dtypes that other step methods use: PyMC refuses one name with two dtypes, and
# renames mean_tree_accept, tree_size and model_logp to acceptance_rate, n_steps and lp
STATS_OF_TRAJECTORIES = (
    *("mean_tree_accept", "accepted", "energy", "energy_error"),
    *("step_size", "step_size_bar", "tree_size", "model_logp"),
)


def declared(kind: type, *names: str) -> dict[str, tuple[type, list[int]]]:
    """Statistics that are one number each, as PyMC wants them declared."""
    return dict.fromkeys(names, (kind, []))


class ChosenStep(BlockedStep):
    """A step method that runs only if asked for, with some statistics on the progress bar."""

    shown: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Statistics on the progress bar: heading and format of each."""
    __signature__: ClassVar[inspect.Signature]
    """That of ``__init__``, where PyMC's ``__new__`` shows none."""
    failing: ClassVar[str | None] = None
    """Statistic that counts failures, which turn the bar red."""
    target_accept: float

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """As PyMC's, once arguments in the wrong place have been refused."""
        check_no_model(f"{cls.__name__}(model=model)", vars=args[0] if args else None)
        check_compile_kwargs(kwargs.get("compile_kwargs"))
        return super().__new__(cls, *args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Each has the signature of its own ``__init__``."""
        super().__init_subclass__(**kwargs)
        own = list(inspect.signature(cls.__init__).parameters.values())
        cls.__signature__ = inspect.Signature(own[1:])

    @classmethod
    def _progressbar_config(cls, n_chains: int = 1) -> tuple[list[Any], dict[str, Any]]:
        columns = [
            TextColumn(f"{{task.fields[{name}]:{form}}}", table_column=Column(heading, ratio=1))
            for name, (heading, form) in cls.shown.items()
        ]
        return columns, {name: [0] * n_chains for name in cls.shown}

    @classmethod
    def _make_progressbar_update_functions(cls) -> tuple[Callable[[Any], dict[str, Any]]]:
        def update(stats: Mapping[str, Any]) -> dict[str, Any]:
            shown = {name: stats[name] for name in cls.shown}
            return shown | {"failing": cls.failing is not None and stats[cls.failing] > 0}

        return (update,)

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Forget the chain before; called by ``pm.sample`` at the start of each chain."""
        super().setup_chain(rng, tune, draws)
        self._reset(tune)

    def _reset(self, tune: int) -> None:
        """Forget the chain before, and begin one with so many draws of tuning."""
        raise NotImplementedError

    def _set_step_size(self, step_size: float) -> None:
        """Tune anew from here, by PyMC: Hoffman & Gelman (2014), section 3.2, arXiv 1111.4246."""
        aim = self.target_accept
        self.step_adapt = DualAverageAdaptation(step_size, aim, gamma=0.05, k=0.75, t0=10)


class WholeModelStep(ChosenStep):
    """A step method that moves all free variables of a model, and that nothing else may move.

    What it draws is computed by a source, in whatever process that is.
    """

    alone: ClassVar[str]
    """Why no other step method may move the variables, and what to do."""
    source: Source
    tune: bool
    _columns: Mapping[str, np.ndarray]

    def _take(self, vars: Any, model: pm.Model, rng: Any) -> pm.Model:
        """The model in plain tensors, taken whole; a ValueError if ``vars`` are only some."""
        chosen = model.value_vars if vars is None else get_value_vars_from_user_vars(vars, model)
        missing = set(model.value_vars) - set(chosen)
        if missing:
            names = sorted(rv.name for rv, value in model.rvs_to_values.items() if value in missing)
            raise ValueError(
                f"vars leaves out {names}, but this step moves the whole model; omit vars, or use "
                "PartialMomentumHMC for some of the variables"
            )
        self.vars, self.rng = model.value_vars, random_generator(rng)
        self._model, self._made_of = model, made_of(model)
        return without_labels(model)

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """As of all steps; a ValueError if the model is another one than that it was made for."""
        now, before = made_of(self._model), self._made_of
        changed = [name for name in before | now if now.get(name, 0) != before.get(name, 0)]
        if changed:
            raise ValueError(
                f"{changed} changed since this {type(self).__name__} was made, and its draws would "
                "be those of the model before: make a new one, in the model's context"
            )
        super().setup_chain(rng, tune, draws)

    def step(self, point: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[Any]]:
        """One draw: a point, its order of keys kept, and its statistics."""
        for name, value in self._values(point).items():
            if not np.array_equal(value, point[name]):
                raise RuntimeError(f"another step method moved {name!r}, {self.alone}")
        stats = {**self._next(point), "tune": self.tune}
        return {**point, **self._values(point)}, [stats]

    def _next(self, point: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Statistics of the next draw, after it has been made."""
        raise NotImplementedError

    def _row(self) -> np.ndarray | None:
        """Unconstrained values of the last draw, shape (d,); None before the first."""
        raise NotImplementedError

    def _values(self, point: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Value variables of the last draw, of the types that ``point`` has."""
        row = self._row()
        return {} if row is None else values_of_row(row, self._columns, point)


@dataclass_state
class BatchedState(StepMethodState):
    """What a chain of a `BatchedStep` carries from draw to draw."""

    tune: bool
    carried: Any  # what the next batch goes on with
    batch: Any
    n_used: int  # rows of the batch
    held: Any  # where the chain is


class BatchedStep(WholeModelStep):
    """A step method whose draws come from batches of rows along the path to a model."""

    _state_class = BatchedState
    source: BlockSource

    def _prepare(self, model: pm.Model, call: Call) -> tuple[Prepared, Block]:
        """The model made flat, and moves along the path from its prior."""
        prepared = prepare(model, call.rngs.checks, integers=True)
        self._columns = prepared.flat.columns_by_name
        return prepared, block_for(prepared, call.settings, call.compile_kwargs)

    def _reset(self, tune: int) -> None:
        self.tune, self.n_used = tune > 0, 0
        self.carried: Any = None
        self.batch: Any = None
        self.held: Any = None

    def _next_row(self) -> Any:
        """One row of the batch, or of the next one."""
        if self.batch is None or self.n_used == len(self.batch.log_ratio):
            seed = self.rng.integers(2**63, size=4).tolist()
            self.carried, self.batch = self.source.ask((self.carried, seed))
            self.n_used = 0
        self.n_used += 1
        return type(self.batch)(*(part[self.n_used - 1] for part in self.batch))

    def _row(self) -> np.ndarray | None:
        return None if self.held is None else self.held.position


MAX_ENERGY_ERROR = 1000.0
"""Nats beyond which a trajectory counts as diverging, as in PyMC's own samplers."""


def window_ends(tune: int) -> tuple[int, ...]:
    """Draws after which length scales are set anew: windows double, the last fifth is left."""
    # the first has as many as a variance needs that says more than the first guess; the last ones
    # forget the way into the bulk of the posterior
    last = int(0.8 * tune)
    doubling = [20 * (2**k - 1) for k in range(1, last.bit_length())]
    ends = [end for end in doubling if end <= last]
    # a window that could not be followed by a longer one takes the rest
    return (*ends[:-1], last) if ends else ()


def gradient_scale(gradient: np.ndarray) -> np.ndarray:
    """Length scales guessed from one gradient, shape (d,)."""
    size = np.abs(gradient)
    usable = np.isfinite(size) & (size > 0)
    return np.clip(np.where(usable, size, 1.0) ** -0.5, 1e-5, 1e5)


class ScaleAdaptation(NamedTuple):
    """Length scales ``(var(position) / var(gradient))**0.25`` over a window of draws."""

    # of a normal that is the geometric mean of marginal and conditional deviation; draws of a part
    # of the posterior shrink both variances alike, so the ratio comes right long before

    scale: np.ndarray
    """Shape (d,)."""
    mean: np.ndarray | float = 0.0
    """Of positions and gradients of the window, shape (2, d)."""
    square: np.ndarray | float = 0.0
    """Sums of squares around these."""
    n: int = 0

    def added(self, position: np.ndarray, gradient: np.ndarray) -> Self:
        """With one more draw in the window (Welford's update)."""
        values, n = np.stack([position, gradient]), self.n + 1
        delta = values - self.mean
        mean = self.mean + delta / n
        return self._replace(mean=mean, square=self.square + delta * (values - mean), n=n)

    def finished(self) -> Self:
        """Scales from the window, where it can tell them, and a new one."""
        position, gradient = np.asarray(self.square)
        known = (position > 0) & (gradient > 0) & np.isfinite(position) & np.isfinite(gradient)
        ratio = np.where(known, position, 1.0) / np.where(known, gradient, 1.0)
        # beyond these bounds a step changes nothing in floating point, or overflows
        return type(self)(np.where(known, np.clip(ratio**0.25, 1e-10, 1e10), self.scale))


def aim_of(target_accept: float | None, step_size: float | None, default: float) -> float:
    """Acceptance rate to tune for: the one given, if any; a ValueError where nothing is tuned."""
    if target_accept is None:
        return default
    check_probability(target_accept=target_accept)
    if step_size is not None:
        raise ValueError(
            f"target_accept={target_accept!r} is what the step size is tuned for, but "
            f"step_size={step_size!r} is given: leave out one of the two"
        )
    return target_accept
