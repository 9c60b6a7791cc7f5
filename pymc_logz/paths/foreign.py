"""Targets that are no PyMC models: what one must bring to be sampled as they are."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pymc_logz.paths.geometric import AnnealingPath


class ForeignModel:
    """A target with a path and runs of its own, for which samplers have a place but no code.

    Whoever adds a kind of target inherits from it, so that what is common to all targets needs to
    know none of them.
    """

    name: str
    path: "AnnealingPath"
    kernels: ClassVar[Mapping[str, type]] = {}
    """Classes of its kernels, which a checkpoint may hold."""

    def checked(self, kernel: Any, reference: Any, sum_out: bool | None) -> tuple[Any, str]:
        """Kernel and reference to run with, given what was asked for; raises for what cannot be."""
        raise NotImplementedError

    def between(self, reference: Any, direction: str) -> Callable[..., Any] | None:
        """What runs from other targets to this one; None if ``reference`` is something else."""
        raise NotImplementedError

    def run_hais(self, settings: Any, **options: Any) -> Any:
        """The tree of an annealed run."""
        raise NotImplementedError

    def run_tempered(self, settings: Any, **options: Any) -> Any:
        """The tree of a tempered run."""
        raise NotImplementedError

    def followed(self, names: Sequence[str] | None) -> Any:
        """What a tracker follows, see `pymc_logz.tempered.tracked_models.Followed`."""
        raise NotImplementedError
