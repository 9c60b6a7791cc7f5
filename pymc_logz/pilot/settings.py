"""What the settings of all runs have in common."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr

from pymc_logz.arguments import (
    check_betas,
    check_choice,
    check_integer,
    check_probability,
    check_room,
)
from pymc_logz.kernels.base import Kernel
from pymc_logz.kernels.choice import check_kernel, kernel_record
from pymc_logz.kernels.hamiltonian import Hamiltonian, Wall, walls_of
from pymc_logz.pilot.ladder import Aim
from pymc_logz.runners.block import Block
from pymc_logz.runners.running import Running

REFERENCES = ("learned", "laplace", "prior")
"""What a path may start from, beside draws of the posterior."""


@dataclass(frozen=True)
class RunSettings:
    """What a user asked for, checked at construction; see the public functions for each."""

    pilot_rows: ClassVar[int] = 256
    """Rows of a pilot, and of a portion of a chain, whatever ``draws`` is: numbers of rows are
    compiled for, and at 128 the fixed cost of a call is small beside that of its rows."""
    draws: int = 256
    chains: int = 4
    betas: Any = "adaptive"
    kernel: Kernel = field(default_factory=Hamiltonian)
    tune: int = 64
    target_accept: float = 0.8
    reference: str | xr.DataTree | None = None
    running: Running = field(default_factory=Running, compare=False)
    """Who runs the chains, which changes no bit of what they come to."""
    sum_out: bool | None = None
    """Whether discrete variables are summed out; None where that can be done."""
    more: tuple[int, ...] = ()
    """Draws of each chain that were added to a run that was at its end, for each time."""

    other_references: ClassVar[str] = ", or a DataTree with draws of the posterior"
    """What a path may start from, beside what has a name: the end of a sentence."""
    OPTIONAL: ClassVar[tuple[str, ...]] = ("target_accept",)
    """Settings that not every run reads: callers have None for them unless they are given."""
    method: ClassVar[str]
    """Name of the method in the result."""
    recorded: ClassVar[tuple[str, ...]] = (
        *("draws", "chains", "tune", "target_accept"),
        *("sum_out", "more"),
    )
    """Settings that go into the result as they are."""
    held: ClassVar[tuple[str, ...]] = ("draws", "chains")
    """Settings whose product is the number of rows that are held at once."""

    def __post_init__(self) -> None:
        check_integer(2, draws=self.draws)
        check_integer(1, chains=self.chains, tune=self.tune)
        check_probability(target_accept=self.target_accept)
        check_kernel(self.kernel)
        check_choice((True, False, None), sum_out=self.sum_out)
        if not isinstance(self.reference, xr.DataTree):
            named = None, *REFERENCES
            check_choice(named, self.other_references, reference=self.reference)
        if self.walls and not self.requests_reference("prior"):
            raise ValueError(
                "reference must be None or 'prior' where the kernel has walls, since a fit has "
                "draws beyond them"
            )

    def within_memory(self, block: Block) -> Block:
        """Moves that keep to the bound on memory, shared by the chains that run at a time."""
        check_room(8 * block.path.n_dims, **{name: getattr(self, name) for name in self.held})
        bound = self.running.max_memory
        if bound is not None:
            block = block.limited(bound // min(self.running.cores, self.chains))
        return block.within_caches()

    @property
    def requested_reference(self) -> str | xr.DataTree:
        """What the path is to start from: learned, where the pilot places the temperatures."""
        if self.reference is None:
            return "learned" if self.ladder() is None and not self.walls else "prior"
        return self.reference

    def requests_reference(self, reference: str) -> bool:
        """Whether the path is to start from what has this name, and not from draws."""
        requested = self.requested_reference
        return isinstance(requested, str) and requested == reference

    @property
    def walls(self) -> Sequence[Wall]:
        """Linear constraints of the kernel; only draws of the prior are known to be within them."""
        return walls_of(self.kernel)

    @property
    def aim(self) -> Aim:
        """Variance of the log weights that a ladder is made for: a weight ESS of about 90%."""
        return Aim(0.1, 0.1)

    @property
    def mcse_without_path(self) -> float | None:
        """Error of log Z up to which rows may be weighted without a path; None: they may not."""
        return None

    @classmethod
    def from_arguments(cls, **arguments: Any) -> Self:
        """Settings from the arguments of a call, where None stands for those of `OPTIONAL`.

        Raises
        ------
        ValueError
            If an argument that is given would have no effect.
        """
        given = {k: v for k, v in arguments.items() if v is not None or k not in cls.OPTIONAL}
        settings = cls(**given)
        for name, reason in settings.unread().items():
            if name in given:
                raise ValueError(f"{name}={given[name]!r} has no effect: {reason}")
        return settings

    def unread(self) -> dict[str, str]:
        """Settings that this run does not read, with the reason and the remedy."""
        kernel, name = self.kernel, type(self.kernel).__name__
        aim = kernel.acceptance_for(self.target_accept)
        if kernel.step_size is not None:
            reason = (
                f"{name} has a step size of its own, {kernel.step_size}, so that none is tuned; "
                "leave target_accept out, or use a kernel with step_size=None"
            )
        elif aim != self.target_accept:
            reason = f"{name} is tuned for its own acceptance rate, {aim}; leave target_accept out"
        else:
            return {}
        return {"target_accept": reason}

    def kernel_for(self, n_dims: int) -> Kernel:
        """The kernel as it moves rows of d dimensions.

        Raises
        ------
        ValueError
            If its scales or walls are for another number of dimensions.
        """
        scale = self.kernel.scale
        if np.ndim(scale) and np.shape(scale) != (n_dims,):
            raise ValueError(
                f"scale has {np.size(scale)} entries, but the model has {n_dims} unconstrained "
                "dimensions; give one number, or one for each of them"
            )
        if self.walls and len(self.walls[0][0]) != n_dims:
            raise ValueError(
                f"walls have vectors of {len(self.walls[0][0])} entries, but the model has "
                f"{n_dims} unconstrained dimensions; give one entry for each of them"
            )
        return self.kernel.resolved(n_dims)

    def ladder(self) -> np.ndarray | None:
        """Betas that the user gave; None if the pilot is to place them."""
        if isinstance(self.betas, str):
            if self.betas != "adaptive":
                raise ValueError(
                    f"betas={self.betas!r} must be 'adaptive', an integer, or an increasing array "
                    "from 0 to 1"
                )
            return None
        return check_betas(self.betas, remedy=", an integer, or 'adaptive'")

    def cheaper(self) -> list[str]:
        """What would take less time than these settings."""
        ways = [f"fewer draws or chains than {self.draws} and {self.chains}"]
        if self.kernel.evaluations_per_move(1) > 1:
            ways.append("a kernel that evaluates the model less often for a move")
        if not isinstance(self.betas, str):
            ways.append("fewer betas")
        elif self.requests_reference("prior"):
            ways.append(
                "a reference that is learned, or draws of the posterior for it, which as a rule "
                "need fewer temperatures than the prior"
            )
        return ways

    def record(self) -> dict[str, Any]:
        """Settings as plain numbers and strings."""
        requested = self.requested_reference
        return {
            "method": self.method,
            **{name: _plain(getattr(self, name)) for name in self.recorded},
            "betas": _plain(self.betas) if np.ndim(self.betas) == 0 else "array",
            "reference": requested if isinstance(requested, str) else "draws",
            "kernel": kernel_record(self.kernel),
        }


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python, which files keep as such."""
    return value.item() if isinstance(value, np.generic) else value
