"""Slice sampling along one direction at a time, which needs no gradient."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.arguments import check_integer, check_positive
from pymc_logz.kernels.base import MAX_STEPS, KernelInfo, KernelState, Move, draw_log_uniform
from pymc_logz.kernels.integers import in_order, visits
from pymc_logz.kernels.tuning import KernelDefaults, check_scale
from pymc_logz.paths.geometric import AnnealingPath, Evaluation, log_density


@dataclass(frozen=True)
class Slice(KernelDefaults):
    """Settings of a slice kernel, one direction at a time, with stepping out and shrinkage.

    A step visits each direction, a coordinate or a column of a dense scale, once. It draws a level
    below the density and an interval of length ``width`` around the point; moves either end of the
    interval out by ``width`` while that end lies in the slice (where the density exceeds the
    level); then draws points of the interval, cutting it at each point outside the slice, until one
    lies inside. It needs no gradient and no step size, and costs ``d * (n_expand + n_shrink)``
    evaluations, since all rows do as much as any may need. Momentum is carried along.

    Parameters
    ----------
    width
        Length of the first interval in units of ``scale``.
    n_expand
        Expansions of both ends together, 0 to 64.
    n_shrink
        Points tried in each direction, 1 to 64. A point that finds no other stays where it is.
    scale, dense
        As for `Hamiltonian`.

    Raises
    ------
    ValueError
        If a setting is outside its range.

    Notes
    -----
    Given the level, one direction's transition is symmetric on the slice, for each outcome of the
    stepping out and each number of points tried.

    *Stepping out.* The left end moves at most J times, the right end at most K times, with J + K =
    ``n_expand`` and J uniform. The interval found from x can be found from any other point y of it
    in the slice: if the first interval of y lies on the grid of the first interval of x, i places
    further right, J + i in place of J allows the same ends. Both choices have the same probability.
    Without the random split, an interval that took all its expansions on one side could not be
    found from a point at its other end.

    *Shrinkage.* Every miss is outside the slice, and has x and y on the same side of it as long as
    both are left in the interval. So the same misses followed by y from x, and by x from y, have
    the same density, whatever their number. To give up after ``n_shrink`` misses takes all
    transitions that need more of them away in both directions, and adds their probability to
    staying, which is symmetric by itself.

    *Order.* The directions are visited first to last or last to first with equal probability, so
    that the whole step is its own time reversal, as reverse annealing needs.

    References
    ----------
    Neal (2003), Slice sampling, figures 3 and 5, section 4.3, doi 10.1214/aos/1056562461.

    Examples
    --------
    >>> from pymc_logz.kernels import Slice
    >>> Slice(n_shrink=8)
    Slice(width=4.0, n_expand=1, n_shrink=8, scale=None, dense=None)
    """

    width: float = 4.0
    n_expand: int = 1
    n_shrink: int = 4
    scale: float | tuple[float, ...] | None = None
    dense: bool | None = None

    needs_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive(one=True, width=self.width)
        check_scale(self.scale, self.dense)
        check_integer(0, MAX_STEPS, n_expand=self.n_expand)
        check_integer(1, MAX_STEPS, n_shrink=self.n_shrink)

    @property
    def step_size(self) -> float:
        """The width, which nothing tunes."""
        return self.width

    def evaluations_per_move(self, n_dims: int) -> int:
        """Evaluations of the path: all turns of the search, in each direction."""
        return n_dims * (self.n_expand + self.n_shrink)

    def draw_noise(self, rng: np.random.Generator, n_moves: int, n_rows: int, n_dims: int) -> Any:
        """Uniforms for the order, the levels, the intervals and the points."""
        each = (n_moves, n_rows, n_dims)
        # rows below a half visit their directions first to last
        forward = rng.random(each[:2])
        # how far below the density the slice lies
        log_level = draw_log_uniform(rng, each)
        # where in its first interval the point lies, and how many expansions either side may have
        place, split = rng.random(each), rng.random(each)
        return forward, log_level, place, split, rng.random((*each, self.n_shrink))

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Any
    ) -> tuple[KernelState, KernelInfo]:
        """Visit each direction; leaves the density at ``move.beta`` invariant.

        The acceptance rate is the fraction of directions in which a point was found.
        """
        # the rows of a matrix (d, d), or of one for each point
        if move.scale.ndim == move.step_size.ndim + 1:
            directions = move.scale[..., None] * pt.eye(move.scale.shape[-1])
        else:
            directions = move.scale.swapaxes(-1, -2)
        forward, log_level, place, split, tries = noise
        order = in_order(1.0 - forward, path.n_dims)

        def visit(*args: Any) -> list[Any]:
            which, log_level, place, split, tries, position, reference, ratio = args[:8]
            n_found, beta, step_size, directions = args[8:]
            index = which if directions.ndim == 2 else (pt.arange(which.shape[0]), which)
            direction = directions[index]
            level = log_density(Evaluation(reference, ratio, None, None), beta) + log_level
            line = [position, direction, beta, level, step_size]
            found = self._search(path, line, place, split, tries)
            return [
                position + found.offset[:, None] * direction,
                pt.switch(found.found, found.log_reference, reference),
                pt.switch(found.found, found.log_ratio, ratio),
                n_found + found.found,
            ]

        sequences = [order, log_level.T, place.T, split.T, tries.transpose(1, 2, 0)]
        constants = [move.beta, move.step_size, directions]
        none = pt.zeros_like(state.evaluation[0])
        end, n_found = visits(visit, sequences, state, constants, none)
        return end, KernelInfo(n_found / path.n_dims)

    def _search(
        self,
        path: AnnealingPath,
        line: list[Any],
        place: TensorVariable,
        split: TensorVariable,
        candidate: TensorVariable,
    ) -> "Search":
        """Step out, then shrink, in one loop: the graph holds a single copy of the model.

        A line is n points (n, d), their directions, beta, the level of the slice and its width.
        """
        level, width = line[3:]
        left, n_left = -width * place, pt.floor((self.n_expand + 1) * split)
        nothing = pt.zeros_like(level)
        none_found = nothing, nothing, nothing, pt.zeros_like(level, dtype="bool")
        start = Search(left, left + width, n_left, self.n_expand - n_left, *none_found)
        # a turn that expands tries no point
        uniforms = pt.concatenate([pt.zeros((self.n_expand, level.shape[0])), candidate])
        expands = pt.constant(np.arange(self.n_expand + self.n_shrink) < self.n_expand)

        def turn(expanding: Any, uniform: Any, *args: Any) -> list[Any]:
            now, (position, direction, beta, level, width) = Search(*args[:8]), args[8:]
            inner = now.left + uniform * (now.right - now.left)
            end = pt.switch(now.n_left > 0, now.left, now.right)
            offset = pt.switch(expanding, end, inner)
            evaluation = path.evaluate(position + offset[:, None] * direction)
            density = log_density(evaluation, beta)
            # a row outside the support, whose level is -inf, stays where it is
            inside = pt.ge(density, level) & (density > -np.inf)
            stepped = step_out(now, inside, width)
            shrunk = shrink(now, offset, evaluation, inside)
            return list(map(partial(pt.switch, expanding), stepped, shrunk))

        ends = pytensor.scan(
            turn,
            sequences=[expands, uniforms],
            outputs_info=list(start),
            non_sequences=line,
            return_updates=False,
        )
        return Search(*(end[-1] for end in ends))


class Search(NamedTuple):
    """Parts of n lines that are searched, and points found, by offsets from where they start."""

    left: TensorVariable
    right: TensorVariable
    n_left: TensorVariable
    """How often the left end may move out, as the next does of the right one."""
    n_right: TensorVariable
    offset: TensorVariable
    """Of the point; zero where none was found, as the densities are."""
    log_reference: TensorVariable
    log_ratio: TensorVariable
    found: TensorVariable


def step_out(now: Search, inside: TensorVariable, width: Any) -> Search:
    """Move the end that was looked at, left before right, out if inside, else let it be final."""
    goes_left = now.n_left > 0
    goes_right = ~goes_left & (now.n_right > 0)
    return now._replace(
        left=pt.switch(goes_left & inside, now.left - width, now.left),
        right=pt.switch(goes_right & inside, now.right + width, now.right),
        n_left=pt.switch(goes_left, pt.switch(inside, now.n_left - 1, 0.0), now.n_left),
        n_right=pt.switch(goes_right, pt.switch(inside, now.n_right - 1, 0.0), now.n_right),
    )


def shrink(now: Search, offset: Any, evaluation: Evaluation, inside: TensorVariable) -> Search:
    """Take the point that was tried if it is the first one inside, else cut the interval there."""
    taken = ~now.found & inside
    missed = ~now.found & ~inside
    left = pt.switch(missed & (offset < 0), offset, now.left)
    right = pt.switch(missed & (offset >= 0), offset, now.right)
    tried = offset, *evaluation[:2], inside
    found = map(partial(pt.switch, taken), tried, now[4:])
    return Search(left, right, now.n_left, now.n_right, *found)
