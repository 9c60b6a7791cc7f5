"""Settings of a HAIS run, checked at construction; their ``record`` goes into the result."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pymc_logz.arguments import check_choice, check_flag, check_positive, is_whole
from pymc_logz.paths.schedules import linear_betas
from pymc_logz.pilot.settings import RunSettings


@dataclass(frozen=True)
class HaisSettings(RunSettings):
    """What `pymc_logz.sample_hais` was asked for; see there for the meaning of each."""

    direction: str = "forward"
    target_mcse: float | None = None
    transport: bool = True

    OPTIONAL: ClassVar[tuple[str, ...]] = (*RunSettings.OPTIONAL, "transport")
    method: ClassVar[str] = "hais"
    recorded: ClassVar[tuple[str, ...]] = (
        *RunSettings.recorded,
        "direction",
        "target_mcse",
        "transport",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(("forward", "both"), direction=self.direction)
        check_positive(unit="nats", one=True, target_mcse=self.target_mcse)
        check_flag(transport=self.transport)
        self.ladder()

    def unread(self) -> dict[str, str]:
        """Settings that this run does not read, with the reason and the remedy."""
        unread = super().unread()
        if self.transport and self.ladder() is not None:
            unread["transport"] = (
                "maps need the pilot's ladder, but betas are given; leave one of the two out"
            )
        return unread

    @property
    def transports(self) -> bool:
        """Whether moves are compiled with maps: they need a ladder that the pilot places."""
        return bool(self.transport) and self.ladder() is None

    def ladder(self) -> np.ndarray | None:
        """Betas that the user gave; None if the pilot is to place them."""
        return linear_betas(int(self.betas)) if is_whole(self.betas) else super().ladder()
