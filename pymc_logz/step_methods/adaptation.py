"""Tuning of a Hamiltonian step method: windows, length scales, dual averaging of its step size."""

from dataclasses import field

import numpy as np
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state
from pymc.step_methods.step_sizes import DualAverageAdaptation

from pymc_logz.arguments import check_probability

MAX_ENERGY_ERROR = 1000.0
"""Nats beyond which a trajectory counts as diverging, as in PyMC's own samplers."""


def window_ends(tune: int, first: int = 20, final_share: float = 0.2) -> tuple[int, ...]:
    """Draws after which the length scales are set anew.

    The first window has as many as a variance needs that says more than the first guess. Each one
    is twice as long as the one before, so that the last ones forget the way into the bulk of the
    posterior; the last fifth of the draws is left to the step size.
    """
    last = int(tune * (1.0 - final_share))
    ends, end, width = [], 0, first
    while end + width <= last:
        end += width
        width *= 2
        # a window that could not be followed by a longer one takes the rest
        if end + width > last:
            end = last
        ends.append(end)
    return tuple(ends)


def gradient_scale(gradient: np.ndarray) -> np.ndarray:
    """Length scales guessed from one gradient, shape (d,)."""
    size = np.abs(gradient)
    usable = np.isfinite(size) & (size > 0)
    return np.clip(np.where(usable, size, 1.0) ** -0.5, 1e-5, 1e5)


@dataclass_state
class ScaleState(DataClassState):
    """What `ScaleAdaptation` knows."""

    scale: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    n: int
    n_dims: int = field(metadata={"frozen": True})


class ScaleAdaptation(WithSamplingState):
    """Length scales from the spread of positions and of gradients in a window of draws.

    The scale is the fourth root of var(position) / var(gradient). For a normal posterior that is
    the geometric mean of the marginal and the conditional standard deviation. Draws that have seen
    a part of the posterior only underestimate both variances alike, so the ratio comes right long
    before the spread of the positions does.
    """

    _state_class = ScaleState

    def __init__(self, n_dims: int) -> None:
        self.n_dims = n_dims
        self.scale = np.ones(n_dims)
        self.clear()

    def clear(self) -> None:
        """Start a new window."""
        self.mean, self.square = np.zeros((2, self.n_dims)), np.zeros((2, self.n_dims))
        self.n = 0

    def add(self, position: np.ndarray, gradient: np.ndarray) -> None:
        """Take one draw into the window (Welford's update)."""
        values = np.stack([position, gradient])
        self.n += 1
        delta = values - self.mean
        self.mean = self.mean + delta / self.n
        self.square = self.square + delta * (values - self.mean)

    def finish_window(self) -> None:
        """Set the scales from the window, where it can tell them, and start a new one."""
        position, gradient = self.square
        known = (position > 0) & (gradient > 0) & np.isfinite(position) & np.isfinite(gradient)
        ratio = np.where(known, position, 1.0) / np.where(known, gradient, 1.0)
        # beyond these bounds a step changes nothing in floating point, or overflows
        self.scale = np.where(known, np.clip(ratio**0.25, 1e-10, 1e10), self.scale)
        self.clear()


def aim_of(target_accept: float | None, step_size: float | None, default: float) -> float:
    """Acceptance rate that a step size is tuned for: the one given, if any.

    Raises
    ------
    ValueError
        If it is out of range, or the step size is given too, so that nothing is tuned.
    """
    if target_accept is None:
        return default
    check_probability(target_accept=target_accept)
    if step_size is not None:
        raise ValueError(
            f"target_accept={target_accept!r} is what the step size is tuned for, but "
            f"step_size={step_size!r} is given: leave out one of the two"
        )
    return target_accept


def dual_averaging(step_size: float, target_accept: float) -> DualAverageAdaptation:
    """Tuning of a step size while a chain runs, by PyMC's dual averaging.

    References
    ----------
    Hoffman & Gelman (2014), section 3.2, arXiv 1111.4246, and their settings.
    """
    return DualAverageAdaptation(step_size, target_accept, gamma=0.05, k=0.75, t0=10)
