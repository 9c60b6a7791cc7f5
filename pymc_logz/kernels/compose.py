"""Several kernels in one: each moves variables of its own, one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from pymc_logz.kernels.base import Kernel, KernelInfo, KernelState, Move
from pymc_logz.kernels.hamiltonian import Hamiltonian, walls_of
from pymc_logz.kernels.integers import Gibbs, IntegerWalk
from pymc_logz.kernels.one_of import CombinedKernel, OneOf, moves_integers, with_own_settings
from pymc_logz.paths.geometric import WIDE, AnnealingPath, Site


class Part(NamedTuple):
    """A kernel, and what it moves."""

    names: tuple[str, ...]
    """Variables."""
    kernel: Kernel
    columns: tuple[int, ...] = ()
    """Their columns in a row, once the model is known."""


@dataclass(frozen=True)
class Compose(CombinedKernel):
    """Several kernels in turn, each for some of the variables: PyMC's compound steps in a kernel.

    A step applies the kernels in the order given, then those but the last once more in the reverse
    order, so that the whole step is its own time reversal, as reverse annealing needs. Variables
    that no kernel is given for have those of the default: `Hamiltonian` moves the continuous ones,
    `Gibbs` discrete ones of at most 128 values, `IntegerWalk` the others.

    The pilot tunes one step size: that of the first kernel that leaves its own open.

    Parameters
    ----------
    parts
        From the name of a variable, or a tuple of names, to the kernel that moves it; a mapping, or
        pairs.

    Raises
    ------
    ValueError
        If there is no part, or a variable is named twice; and, where a model is given, if it does
        not have the variable, or a kernel cannot move it.

    References
    ----------
    Tierney (1994), Markov chains for exploring posterior distributions, section 2.4,
    doi 10.1214/aos/1176325750.

    Examples
    --------
    >>> from pymc_logz.kernels import Compose, Gibbs, RandomWalk
    >>> kernel = Compose({("early", "late"): RandomWalk(), "change": Gibbs()})
    """

    parts: Any

    def __post_init__(self) -> None:
        pairs = self.parts.items() if isinstance(self.parts, Mapping) else self.parts
        parts = tuple(_as_part(pair) for pair in pairs)
        names = [name for part in parts for name in part.names]
        if not parts:
            raise ValueError(
                "parts is empty: give one kernel at least, such as {'x': RandomWalk()}"
            )
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"parts names {twice} more than once: give one kernel for each")
        if walled := [part.names for part in parts if walls_of(part.kernel)]:
            raise ValueError(
                f"the kernel of {walled[0]} has walls, which are about whole particles: a kernel "
                "with walls moves all variables of a model, none of them discrete"
            )
        object.__setattr__(self, "parts", parts)

    @property
    def members(self) -> tuple[Kernel, ...]:
        """Kernels of the parts."""
        return tuple(part.kernel for part in self.parts)

    @property
    def columns(self) -> tuple[int, ...] | None:
        """Columns of a row along which a gradient is followed; None where all of them are."""
        if all(part.kernel.needs_gradient or moves_integers(part.kernel) for part in self.parts):
            return None
        own = (part.columns for part in self.parts if part.kernel.needs_gradient)
        return tuple(sorted(column for columns in own for column in columns))

    @property
    def order(self) -> tuple[Part, ...]:
        """The parts as they are applied: there, and back without the last."""
        return (*self.parts, *self.parts[-2::-1])

    def resolved(self, n_dims: int) -> Self:
        """The same with ``dense`` decided for d dimensions."""
        parts = (part._replace(kernel=part.kernel.resolved(n_dims)) for part in self.parts)
        return replace(self, parts=tuple(parts))

    def evaluations_per_move(self, n_dims: int) -> int:
        """Evaluations of all kernels, and those that bring gradients up to date."""
        own = sum(part.kernel.evaluations_per_move(n_dims) for part in self.order)
        return own + sum(self._stale(i) for i in range(1, len(self.order) + 1))

    def draw_noise(self, rng: np.random.Generator, n_moves: int, n_rows: int, n_dims: int) -> Any:
        """Noise of each kernel each time that it is applied."""
        return tuple(part.kernel.draw_noise(rng, n_moves, n_rows, n_dims) for part in self.order)

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Any
    ) -> tuple[KernelState, KernelInfo]:
        """Apply the kernels; leaves the density at ``move.beta`` invariant, as each of them does.

        The acceptance rate is that of the leader.
        """
        rates = []
        for i, (part, own) in enumerate(zip(self.order, noise, strict=True)):
            if self._stale(i):
                state = state._replace(evaluation=path.evaluate(state.position))
            walked = path if part.kernel.needs_gradient else path.without_gradients()
            state, info = part.kernel.step(walked, state, self._move_of(part, move), own)
            if part.kernel is self.leader:
                rates.append(info.acceptance_rate)
        if self._stale(len(self.order)):
            state = state._replace(evaluation=path.evaluate(state.position))
        return state, KernelInfo(sum(rates) / len(rates))

    def _stale(self, i: int) -> bool:
        """Whether the i-th kernel, or what comes after the last, needs gradients and finds none."""
        needs = self.needs_gradient and (
            i == len(self.order) or self.order[i].kernel.needs_gradient
        )
        return needs and i > 0 and not self.order[i - 1].kernel.needs_gradient

    def _move_of(self, part: Part, move: Move) -> Move:
        """The settings of a kernel's own step: its scales are zero at variables of others."""
        if moves_integers(part.kernel):
            return move
        kernel, per_row = part.kernel, move.step_size.ndim
        if kernel is not self.leader:
            move = with_own_settings(kernel, move)
        here = np.zeros(move.scale.type.shape[-1])
        here[list(part.columns)] = 1.0
        is_vector = move.scale.ndim == per_row + 1
        return move._replace(scale=move.scale * (here if is_vector else here[:, None]))


def _as_part(pair: Any) -> Part:
    if isinstance(pair, Part):
        return pair
    names, kernel = pair
    names = (names,) if isinstance(names, str) else tuple(names)
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"parts has {names!r} in the place of the name of a variable, or of several"
        )
    return Part(names, kernel)


def for_variables(
    kernel: Kernel,
    owners: Sequence[str],
    sites: Sequence[Site],
    independent: Sequence[Site] = (),
) -> Kernel:
    """The kernel for a row: composed with others where it does not move all of its variables.

    ``owners`` are the variables that the d entries of a row belong to, ``sites`` the entries that
    are integers, and ``independent`` those of them that are independent given the rest of a row.
    """
    if not sites and not isinstance(kernel, Compose):
        return kernel
    discrete = {owners[site.column] for site in sites}
    names = tuple(dict.fromkeys(owners))
    if isinstance(kernel, Compose):
        requested = list(kernel.parts)
    else:
        own = tuple(name for name in names if (name in discrete) is moves_integers(kernel))
        requested = [Part(own, kernel)] if own else []
    _check_names(requested, names, discrete)
    taken = {name for part in requested for name in part.names}
    smooth = tuple(name for name in names if name not in taken | discrete)
    parts = [*([Part(smooth, Hamiltonian())] if smooth else []), *requested]
    bound = [_bound(part, owners, sites, tuple(independent)) for part in parts]
    left = [site for site in sites if owners[site.column] not in taken]
    at_once = tuple(independent) if set(independent) <= set(left) else ()
    left = [site for site in left if site not in at_once]
    return Compose((*bound, *_default_parts(at_once, left, owners)))


def _check_names(requested: Sequence[Part], names: Sequence[str], discrete: set[str]) -> None:
    """Raise a ValueError for a variable that is none, or that its kernel cannot move."""
    for part in requested:
        unknown = [name for name in part.names if name not in names]
        if unknown:
            raise ValueError(
                f"kernel=Compose(...) names {unknown}, but the free variables are {list(names)}"
            )
        what, integers = type(part.kernel).__name__, moves_integers(part.kernel)
        wrong = [name for name in part.names if (name in discrete) is not integers]
        if wrong and integers:
            raise ValueError(
                f"{what} moves integers, but {wrong} are continuous: give them another "
                "kernel, such as Hamiltonian() or RandomWalk()"
            )
        if wrong:
            raise ValueError(
                f"{what} moves continuous variables, but {wrong} are discrete: give them Gibbs() "
                "or IntegerWalk(), or leave them out to have the default"
            )


def sums_out(requested: bool | None, kernel: Kernel) -> bool | None:
    """Whether discrete variables are summed out: not where a kernel or a part is made for them."""
    if requested is not None:
        return requested
    # it moves them, or has scales of all entries
    members = kernel.members if isinstance(kernel, CombinedKernel) else ()
    own = moves_integers(kernel) or kernel.scale is not None
    return False if own or any(sums_out(None, one) is False for one in members) else None


def _bound(
    part: Part, owners: Sequence[str], sites: Sequence[Site], independent: tuple[Site, ...]
) -> Part:
    """A part with its columns, and its entries if it moves integers."""
    columns = tuple(i for i, name in enumerate(owners) if name in part.names)
    if not moves_integers(part.kernel):
        return part._replace(columns=columns)
    own = tuple(site for site in sites if site.column in columns)
    unknown = sorted({owners[site.column] for site in own if site.n_values is None})
    scores = any(isinstance(one, Gibbs) for one in getattr(part.kernel, "kernels", [part.kernel]))
    if scores and unknown:
        raise ValueError(
            f"Gibbs scores each value, but those of {unknown} have no end that is known: use "
            "IntegerWalk() for them"
        )
    tied = sorted({owners[site.column] for site in own if site.tied is not None})
    if scores and tied:
        raise ValueError(
            f"Gibbs draws one entry given all others, but those of {tied} have a fixed sum, so "
            "that none can change by itself: use IntegerWalk() for them"
        )
    return Part(part.names, _for_sites(part.kernel, part.names, own, independent), columns)


def _for_sites(
    kernel: Any, names: Sequence[str], own: tuple[Site, ...], independent: tuple[Site, ...]
) -> Any:
    """A kernel of integers with its entries, and all kernels of a mixture with theirs."""
    if isinstance(kernel, OneOf):
        bound = tuple(_for_sites(one, names, own, independent) for one in kernel.kernels)
        return replace(kernel, kernels=bound)
    if not is_dataclass(kernel) or "sites" not in {field.name for field in fields(kernel)}:
        raise TypeError(
            f"{type(kernel).__name__} moves integers, but has no field for their positions: a "
            "custom kernel with moves_integers=True must be a frozen dataclass with a field `sites`"
        )
    kernel = replace(kernel, sites=own)  # type: ignore[type-var]
    if isinstance(kernel, Gibbs) and kernel.together is not False:
        if kernel.together and own != independent:
            raise ValueError(
                f"Gibbs(together=True) is given for {list(names)}, which the model does not "
                "show to be independent given the other variables: leave together out"
            )
        kernel = replace(kernel, together=bool(own) and own == independent)
    return kernel


def _default_parts(
    at_once: tuple[Site, ...], sites: Sequence[Site], owners: Sequence[str]
) -> list[Part]:
    """How integers move by default: independent ones, then others of equally many values."""
    by_count: dict[int, list[Site]] = {}
    for site in sites:
        scored = site.has_at_most(WIDE) and site.tied is None
        by_count.setdefault((site.n_values or 0) if scored else 0, []).append(site)
    kernels: list[Any] = [Gibbs(at_once, together=True)] if at_once else []
    for n_values, group in sorted(by_count.items(), reverse=True):
        if n_values != 1:
            kernels.append(Gibbs(tuple(group)) if n_values else IntegerWalk(sites=tuple(group)))
    columns = [tuple(site.column for site in kernel.sites) for kernel in kernels]
    return [
        Part(tuple(dict.fromkeys(owners[i] for i in own)), kernel, own)
        for kernel, own in zip(kernels, columns, strict=True)
    ]
