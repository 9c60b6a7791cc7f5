"""Targets that are no PyMC models: what one must bring to be sampled as they are."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pymc_logz.paths.geometric import AnnealingPath


class Runs(Protocol):
    """How targets of a kind are sampled; the module of a wing has these functions."""

    KERNELS: tuple[type, ...]
    """Kernels that a checkpoint of such a run may hold."""

    def checked(
        self, target: Any, kernel: Any, reference: Any, sum_out: bool | None
    ) -> tuple[Any, str]:
        """Kernel and reference to run with, given what was asked for; raises for what cannot be."""

    def between(self, target: Any, reference: Any, direction: str) -> Callable[..., Any] | None:
        """What runs from other targets to this one; None if ``reference`` is something else."""

    def run_hais(self, target: Any, settings: Any, **options: Any) -> Any:
        """The tree of an annealed run."""

    def run_tempered(self, target: Any, settings: Any, **options: Any) -> Any:
        """The tree of a tempered run."""

    def followed(self, target: Any, names: Sequence[str] | None) -> Any:
        """What a tracker follows, see `pymc_logz.per_datum.followed.Followed`."""


class ForeignModel:
    """A target with a path and runs of its own, for which samplers have a place but no code.

    Whoever adds a kind of target inherits from it, so that what is common to all targets needs to
    know none of them.
    """

    name: str
    path: "AnnealingPath"

    @property
    def runs(self) -> Runs:
        """How it is sampled."""
        raise NotImplementedError
