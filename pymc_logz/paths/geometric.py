"""The path from a reference to a target, and what a batch of rows, and of integers, is worth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.batching import batch
from pymc_logz.graphs.compiling import bytes_computed
from pymc_logz.graphs.functions import Kept
from pymc_logz.graphs.gradients import columns_of_boxes, gradients_of, needs_gradients
from pymc_logz.graphs.simplify import simplify

type DrawRows = Callable[[np.random.Generator, int], np.ndarray]
"""``(rng, n)`` to n exact draws, shape (n, d)."""
WIDE = 128
"""Values from which on an entry is walked along rather than scored at each of them."""


class Site(NamedTuple):
    """One discrete entry of a row."""

    column: int
    """Where it is in the row."""
    lower: int | None = None
    """Smallest value; None if that is not known, or depends on other variables."""
    upper: int | None = None
    """Largest value; None likewise."""
    tied: int | None = None
    """Number of the group of entries that it shares a fixed sum with; None if it has none."""

    @property
    def n_values(self) -> int | None:
        """Number of values; None if that is not known."""
        if self.lower is None or self.upper is None:
            return None
        return self.upper - self.lower + 1

    def has_at_most(self, n: int) -> bool:
        """Whether its values are known, and so many at most."""
        return self.n_values is not None and self.n_values <= n


def most_values(sites: Sequence[Site]) -> int:
    """As many values as any of the entries has, 1 where none is known."""
    return max((site.n_values or 1 for site in sites), default=1)


class Entries(NamedTuple):
    """What the densities of a path are, apart, for entries that are independent given the rest.

    With m of them, each of at most K values, a row has the log density ``rest + sum_i piece[k_i,
    i]``. The pieces may be evaluated at any values of these entries.
    """

    sites: tuple[Site, ...]
    """The entries, of length m."""
    reference: tuple[Any, Any]
    """Rest of the log density of the reference, and its pieces, shape (K * m,), symbolic."""
    ratio: tuple[Any, Any]
    """The same of the log ratio."""


class Evaluation(NamedTuple):
    """What the path is worth at a batch of n rows in d dimensions; everything else follows.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.kernels import Evaluation
    >>> at = Evaluation(np.zeros(2), np.ones(2), np.zeros((2, 1)), np.zeros((2, 1)))
    >>> at.log_reference + at.log_ratio  # the log target
    array([1., 1.])
    """

    log_reference: TensorVariable
    """Log density of the reference, shape (n,)."""
    log_ratio: TensorVariable
    """Log target minus log reference, shape (n,)."""
    grad_log_reference: TensorVariable
    """Gradient of ``log_reference``, shape (n, d)."""
    grad_log_ratio: TensorVariable
    """Gradient of ``log_ratio``, shape (n, d)."""


def log_density(evaluation: Evaluation, beta: TensorVariable) -> TensorVariable:
    """Log density at ``beta`` (a scalar or one per row): the geometric path, NaN read as -inf.

    Parameters
    ----------
    evaluation
        Of n rows.
    beta
        Inverse temperature in [0, 1], a scalar or shape (n,).

    Returns
    -------
    TensorVariable
        ``log_reference + beta * log_ratio``, shape (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.kernels import Evaluation, log_density
    >>> at = Evaluation(np.array([-1.0]), np.array([-4.0]), None, None)
    >>> log_density(at, np.array(0.5)).eval()
    array([-3.])
    """
    # at beta = 0 a row outside the target's support still has the reference's density
    tempered = pt.switch(pt.eq(beta, 0), 0.0, beta * evaluation.log_ratio)
    value = evaluation.log_reference + tempered
    return pt.switch(pt.isnan(value), -np.inf, value)


def grad_log_density(evaluation: Evaluation, beta: TensorVariable) -> TensorVariable:
    """Gradient of `log_density`, shape (n, d); 0 where it is not finite.

    Kernels stay exact whatever replaces the gradient, since any function of the position gives a
    reversible and volume-preserving kick.

    Parameters
    ----------
    evaluation
        Of n rows, with gradients.
    beta
        As in `log_density`.

    Returns
    -------
    TensorVariable
        By position, shape (n, d).

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.kernels import Evaluation, grad_log_density
    >>> at = Evaluation(None, None, np.array([[-1.0]]), np.array([[-4.0]]))
    >>> grad_log_density(at, np.array(0.5)).eval()
    array([[-3.]])
    """
    column = beta if beta.ndim == 0 else beta[:, None]
    tempered = pt.switch(pt.eq(column, 0), 0.0, column * evaluation.grad_log_ratio)
    value = evaluation.grad_log_reference + tempered
    return pt.switch(pt.abs(value) < np.inf, value, 0.0)


@dataclass(frozen=True, eq=False)
class AnnealingPath:
    """Joins a reference that can be sampled to a target, in d unconstrained dimensions."""

    is_binary: ClassVar[bool] = False
    """Whether rows are made of bits."""

    point: TensorVariable
    """Symbolic vector, shape (d,)."""
    log_reference: TensorVariable
    """Scalar log density of the reference at ``point``."""
    log_ratio: TensorVariable
    """Scalar log target minus log reference at ``point``."""
    n_dims: int
    """d, the length of a row."""
    sample_reference: DrawRows
    """Exact draws of the reference."""
    how: str = "auto"
    """How rows are to be batched: ``"vector"``, ``"row"`` or ``"auto"``."""
    has_gradients: bool = True
    """Whether evaluations have gradients; without, zeros stand in their place."""
    columns: tuple[int, ...] | None = None
    """Entries of a row that gradients are wanted by, if not all: others may lack what black boxes
    add to them."""
    data: TensorVariable | None = None
    """Symbolic vector of the data that a row brings along, shape (D,), if there are any."""
    row_data: TensorVariable | None = None
    """Symbolic data of the rows to be evaluated, shape (n, D)."""
    parameters: tuple[TensorVariable, ...] = ()
    """What both densities depend on besides the point, the same for all rows: inputs of whatever
    is compiled from the path, so that other values, of other shapes too, compile nothing."""
    values: tuple[np.ndarray, ...] = ()
    """Present values of the parameters."""
    rebased: Callable[[TensorVariable, Callable[..., Evaluation]], Evaluation] | None = None
    """Makes of the evaluation of the densities above that of a path from another reference to the
    same target, in coordinates of its own: see `pymc_logz.paths.mixture`."""
    sites: tuple[Site, ...] = ()
    """Discrete entries of a row: gradients by these are zero."""
    entries: Entries | None = None
    """Those of them that are independent given all the rest, if any are known to be."""
    kept: Kept = field(default_factory=Kept)
    """What was made of these densities."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", values_of(self.parameters, self.values))

    def evaluate(self, rows: TensorVariable) -> Evaluation:
        """From symbolic rows (n, d) to their `Evaluation`; a ModelError without gradient."""
        if self.rebased is None:
            return self._evaluate(rows)
        found = self.rebased(rows, self._evaluate)
        return found if self.has_gradients else Evaluation(*found[:2], *2 * [pt.zeros_like(rows)])

    def _evaluate(self, rows: TensorVariable) -> Evaluation:
        row_data = () if self.row_data is None else (self.row_data,)
        outputs = self._batched[0](rows, *row_data)
        if not self.has_gradients:
            outputs += 2 * [pt.zeros_like(rows)]
        return Evaluation(*outputs)

    def evaluate_entries(self, rows: TensorVariable) -> list[TensorVariable]:
        """Rest (n,) and pieces (n, K * m) of the reference, then of the log ratio."""
        assert self.entries is not None
        apart = [*self.entries.reference, *self.entries.ratio]
        made = self.made_once(("entries",), lambda: self._batch(simplify(apart, self.parameters)))
        row_data = () if self.row_data is None else (self.row_data,)
        return made[0](rows, *row_data)

    @property
    def batching(self) -> str:
        """How rows are batched: ``"vector"`` or ``"row"`` (see `pymc_logz.graphs.batching`)."""
        return self._batched[1]

    @property
    def may_turn(self) -> bool:
        """Whether rows are batched as vectors by choice, and may be mapped over instead."""
        return self.how == "auto" and self.batching == "vector"

    def without_gradients(self) -> "AnnealingPath":
        """The same path for kernels that need no gradients, and so must not pay for them."""
        return replace(self, has_gradients=False)

    def with_gradients_by(self, columns: tuple[int, ...]) -> "AnnealingPath":
        """The same path for kernels that follow gradients along some entries of a row alone."""
        densities = [self.log_reference, self.log_ratio]
        return replace(self, columns=columns) if columns_of_boxes(densities, self.point) else self

    def given(self, row_data: TensorVariable) -> "AnnealingPath":
        """The same path for rows that bring these data along, shape (n, D)."""
        return replace(self, row_data=row_data)

    def with_inputs(self) -> tuple["AnnealingPath", list[TensorVariable]]:
        """The path for rows that bring data along, if any do, and a symbolic input for these."""
        if self.data is None:
            return self, []
        data = pt.matrix("data", dtype="float64", shape=(None, *self.data.type.shape))
        return self.given(data), [data]

    def along(self, values: Sequence[Any], sample_reference: DrawRows) -> Self:
        """The same path at other values of its parameters, which are another reference's."""
        return replace(self, values=tuple(values), sample_reference=sample_reference)

    def made_once[Made](self, key: tuple[Any, ...], make: Callable[[], Made]) -> Made:
        """What depends on the densities, on how rows are batched, and on what the key names."""
        densities = (self.log_reference, self.log_ratio, self.data, *self.parameters)
        settings = (self.rebased, self.how, self.has_gradients, self.columns)
        return self.kept.get((*key, densities, *settings), make)

    def bytes_of_a_row(self) -> int:
        """Bytes of all that is computed of one row: an upper bound, before anything is fused."""
        own = [self.point] if self.data is None else [self.point, self.data]
        values = [*(np.zeros(var.type.shape, var.dtype) for var in own), *self.values]

        def counted() -> int:
            # not of parameters, which all rows share
            inputs = [*own, *self.parameters]
            return bytes_computed(inputs, self._outputs(), values, n_own=len(own))

        return self.made_once(("bytes of a row",), counted)

    def rows_within_caches(self, n_rows: int, most: int = 2**27) -> int:
        """How many of these rows are best computed together: fewer where there is much data."""
        # with more at a time arrays leave the processor's caches, or are more than the 32 MB that
        # glibc keeps between calls (an eighth of what is counted is there at once), and a row of
        # 10,000 to a million data takes 2 to 4 times as long; counting takes a tenth of a second
        n_bytes = self.bytes_of_data + sum(value.nbytes for value in self.values)
        if 32 * n_rows * n_bytes < most:
            return n_rows
        return min(n_rows, max(2, most // self.bytes_of_a_row()))

    @cached_property
    def bytes_of_data(self) -> int:
        """Bytes of all constants and shared variables of the two densities."""
        every = set(ancestors([self.log_reference, self.log_ratio]))
        data = [var.data for var in every if isinstance(var, Constant)]
        data += [var.get_value(borrow=True) for var in every if isinstance(var, SharedVariable)]
        return sum(getattr(array, "nbytes", 0) for array in data)

    @cached_property
    def _batched(self) -> tuple[Any, str]:
        return self.made_once(("batched",), lambda: self._batch(self._outputs()))

    def _outputs(self) -> list[TensorVariable]:
        densities = self.log_reference, self.log_ratio
        outputs = [
            *self.kept.get(("simple", *densities), lambda: simplify(densities, self.parameters))
        ]
        if self.has_gradients:
            without = "sample_hais or sample_tempered with kernel=RandomWalk() or kernel=Slice()"
            with needs_gradients(without):
                outputs += gradients_of(outputs, self.point, self.columns)
        return outputs

    def _batch(self, outputs: list[TensorVariable]) -> tuple[Any, str]:
        return batch(self.point, outputs, self.n_dims, self.how, self.data, self.parameters)


def no_draws(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draws of a reference where there are none to be made."""
    raise NotImplementedError("draws of the reference are made where the run was started")


def values_of(parameters: Sequence[TensorVariable], values: Sequence[Any]) -> tuple[Any, ...]:
    """Values as arrays of the parameters' types; a `ValueError` if they are not of them."""
    if len(values) != len(parameters):
        raise ValueError(
            f"values={values!r} must be {len(parameters)}, one for each of the path's parameters "
            f"{parameters!r}"
        )
    arrays = []
    for parameter, value in zip(parameters, values, strict=True):
        array = np.asarray(value, dtype=parameter.dtype)
        arrays.append(array)
        if not parameter.type.is_valid_value(array):
            raise ValueError(
                f"the value of shape {array.shape} of the path's parameter {parameter!r} does not "
                f"fit its type {parameter.type!r}"
            )
    return tuple(arrays)
