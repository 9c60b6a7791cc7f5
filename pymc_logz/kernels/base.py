"""What kernels and runners hand to each other."""

from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.paths.geometric import AnnealingPath, Evaluation

MAX_STEPS = 64
"""Leapfrog steps, expansions or tries of a move at most: each evaluates the path."""


class KernelState(NamedTuple):
    """All that the next step needs, for n rows in d dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.kernels import Evaluation, KernelState
    >>> at = Evaluation(np.zeros(2), np.ones(2), np.zeros((2, 1)), np.zeros((2, 1)))
    >>> KernelState(np.zeros((2, 1)), np.ones((2, 1)), at).momentum.shape
    (2, 1)
    """

    position: Any
    """Shape (n, d)."""
    momentum: Any
    """Whitened: standard normal at every beta and scale. Shape (n, d)."""
    evaluation: Evaluation
    """The path at ``position``."""


class KernelInfo(NamedTuple):
    """What a reader of the run may want to know of a step; the algorithm never reads it.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.kernels import KernelInfo
    >>> KernelInfo(np.array([1.0, 0.5])).acceptance_rate.mean()
    np.float64(0.75)
    """

    acceptance_rate: TensorVariable
    """Acceptance probability, shape (n,)."""


class Noise(NamedTuple):
    """The randomness of steps with a proposal and a decision, drawn by the runner.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.kernels import Noise
    >>> Noise(normal=np.zeros((5, 2)), log_uniform=np.full(5, -0.7)).log_uniform.shape
    (5,)
    """

    normal: Any
    """Standard normals, shape (n, d) in a step, (m, n, d) for m steps."""
    log_uniform: Any
    """Logarithms of uniforms on (0, 1), shape (n,) or (m, n)."""


def draw_noise(rng: np.random.Generator, n_moves: int, n_rows: int, n_dims: int) -> Noise:
    """Noise of a block: normals (n_moves, n_rows, n_dims) and log uniforms (n_moves, n_rows).

    Parameters
    ----------
    rng
        Source of randomness.
    n_moves, n_rows, n_dims
        Moves of the block, rows, and dimensions d.

    Returns
    -------
    Noise
        Standard normals and finite logarithms of uniforms, each in double precision.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.kernels import draw_noise
    >>> noise = draw_noise(np.random.default_rng(1), n_moves=3, n_rows=5, n_dims=2)
    >>> noise.normal.shape, noise.log_uniform.shape
    ((3, 5, 2), (3, 5))
    """
    normal = rng.standard_normal((n_moves, n_rows, n_dims))
    return Noise(normal, draw_log_uniform(rng, (n_moves, n_rows)))


def draw_log_uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Finite logarithms of uniforms.

    Parameters
    ----------
    rng
        Source of randomness.
    shape
        Of the array.

    Returns
    -------
    np.ndarray
        In (-inf, 0], of this shape.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.kernels import draw_log_uniform
    >>> bool((draw_log_uniform(np.random.default_rng(1), (4,)) <= 0).all())
    True
    """
    # 1 - random() lies in (0, 1], whose logarithm is finite
    uniform: Any = rng.random(shape)
    return uniform.__array_namespace__().log1p(-uniform)


class Move(NamedTuple):
    """The frozen settings of one step (of m steps: a leading axis of length m).

    They are either the same for all rows, as the shapes below say, or one for each of n rows: then
    all of them have a leading axis of length n.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.kernels import Move
    >>> Move(beta=0.5, step_size=0.2, scale=np.ones(3), refreshment=0.1).beta
    0.5
    """

    beta: Any
    """Inverse temperature that the step leaves invariant."""
    step_size: Any
    """Step size, or width of a slice kernel, in units of ``scale``; 0 makes the step stay."""
    scale: Any
    """Square root of the inverse mass: shape (d,), or lower triangular of shape (d, d)."""
    refreshment: Any
    """Fraction of the momentum variance replaced before the step, in [0, 1]."""


class Kernel(Protocol):
    """Frozen settings with a symbolic step: what an object must have to be used as a kernel.

    It is open: whatever has these attributes and methods is a kernel, `KernelDefaults` or not.

    Examples
    --------
    >>> from pymc_logz.kernels import Hamiltonian, Kernel, check_kernel
    >>> kernel: Kernel = Hamiltonian(n_steps=2)
    >>> kernel.evaluations_per_move(n_dims=5)
    2
    """

    @property
    def step_size(self) -> float | None:
        """Step size at every beta; None lets the pilot choose."""

    @property
    def scale(self) -> Any:
        """Length scales at every beta; None lets the pilot choose."""

    @property
    def dense(self) -> bool | None:
        """Whether scales are matrices."""

    @property
    def needs_gradient(self) -> bool:
        """Whether `step` reads the gradients of an evaluation; if not, they are zeros."""

    def resolved(self, n_dims: int) -> Self:
        """The same settings with ``dense`` decided for d dimensions."""

    def evaluations_per_move(self, n_dims: int) -> int:
        """Times that `step` evaluates the path for a row of d dimensions."""

    def refreshment_for(self, step_size: np.ndarray) -> np.ndarray:
        """Fraction of the momentum variance to replace over steps of these sizes."""

    def acceptance_for(self, target_accept: float) -> float:
        """Acceptance rate to tune for, given the one that the user asked for."""

    def tuned_step_size(
        self, step_size: float, acceptance_rate: float, target_accept: float
    ) -> float:
        """Step size expected to have the target acceptance rate."""

    def draw_noise(self, rng: np.random.Generator, n_moves: int, n_rows: int, n_dims: int) -> Any:
        """Named tuple of arrays whose leading axes are moves and rows."""

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Any
    ) -> tuple[KernelState, KernelInfo]:
        """Leave the path's density at ``move.beta`` times that of the momentum invariant.

        ``noise`` is what `draw_noise` gives, without the leading axis of moves.
        """


def strides(rows: Any, move: Move, *, back: bool = False) -> TensorVariable:
    """``step_size * scale``, or its transpose, applied to each row: elementwise, or as a matrix.

    Parameters
    ----------
    rows
        Jumps in units of the step, or gradients, shape (n, d).
    move
        One move; its scale is a vector or a matrix, and its settings those of all rows or one for
        each.
    back
        Whether to apply the transpose, which turns a gradient by position into one by jump.

    Returns
    -------
    TensorVariable
        Shape (n, d).

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.kernels import Move, strides
    >>> scale, step_size = np.array([1.0, 10.0]), np.array(0.5)
    >>> strides(np.ones((1, 2)), Move(1.0, step_size, scale, 0.0))
    array([[0.5, 5. ]])
    """
    scale, per_row = move.scale, move.step_size.ndim
    if scale.ndim == per_row + 1:
        moved = rows * scale
    elif per_row:
        moved = (scale * rows[:, :, None]).sum(1) if back else (scale * rows[:, None, :]).sum(2)
    else:
        moved = rows @ (scale if back else scale.T)
    return column(move.step_size) * moved


def column(setting: Any) -> Any:
    """A setting of a `Move` that multiplies rows (n, d): one number, or one for each row.

    Parameters
    ----------
    setting
        Scalar, or shape (n,).

    Returns
    -------
    TensorVariable
        Scalar, or shape (n, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.kernels import column
    >>> column(np.array([0.1, 0.9])).shape
    (2, 1)
    """
    return setting[:, None] if setting.ndim else setting


def metropolis(
    log_accept: TensorVariable, log_uniform: Any, proposal: KernelState, otherwise: KernelState
) -> tuple[KernelState, KernelInfo]:
    """Rows of the proposal with probability ``exp(log_accept)``, NaN read as 0.

    Parameters
    ----------
    log_accept
        Log of the acceptance ratio, shape (n,); +inf is accepted.
    log_uniform
        Logarithms of uniforms, shape (n,).
    proposal, otherwise
        States of n rows: where each goes if accepted, and if rejected.

    Returns
    -------
    KernelState, KernelInfo
        Where the rows are, and their acceptance probabilities.

    References
    ----------
    Metropolis et al. (1953), doi 10.1063/1.1699114; Hastings (1970), doi 10.1093/biomet/57.1.97.

    Examples
    --------
    >>> import numpy as np
    >>> import pytensor.tensor as pt
    >>> from pymc_logz.kernels import Evaluation, KernelState, metropolis
    >>> def at(x):
    ...     flat = pt.zeros(2)
    ...     return KernelState(pt.zeros((2, 1)) + x, pt.zeros((2, 1)), Evaluation(*[flat] * 4))
    >>> state, info = metropolis(pt.as_tensor([0.0, -9.0]), np.log([0.5, 0.5]), at(1.0), at(0.0))
    >>> state.position.eval().ravel()
    array([1., 0.])
    """
    # inf - inf: a row outside the support that stays outside
    log_accept = pt.switch(pt.isnan(log_accept), -np.inf, log_accept)
    chosen = choose(log_uniform < log_accept, proposal, otherwise)
    return chosen, KernelInfo(pt.exp(pt.minimum(log_accept, 0.0)))


def choose(chosen: TensorVariable, new: KernelState, old: KernelState) -> KernelState:
    """State with the rows of ``new`` where ``chosen`` (n,) is true, else of ``old``.

    Parameters
    ----------
    chosen
        Truth values, shape (n,).
    new, old
        States of n rows.

    Returns
    -------
    KernelState
        Position, momentum and evaluation of each row from the same one of the two.

    Examples
    --------
    >>> import numpy as np
    >>> import pytensor.tensor as pt
    >>> from pymc_logz.kernels import Evaluation, KernelState, choose
    >>> def at(x):
    ...     flat = pt.zeros(2)
    ...     return KernelState(pt.zeros((2, 1)) + x, pt.zeros((2, 1)), Evaluation(*[flat] * 4))
    >>> choose(pt.as_tensor([True, False]), at(1.0), at(0.0)).position.eval().ravel()
    array([1., 0.])
    """

    def pick(one: Any, other: Any) -> TensorVariable:
        return pt.switch(chosen if one.ndim == 1 else chosen[:, None], one, other)

    position, momentum = map(pick, new[:2], old[:2])
    return KernelState(position, momentum, Evaluation(*map(pick, new.evaluation, old.evaluation)))
