"""Settings of a HAIS run, checked at construction; their ``record`` goes into the result."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pymc_logz.arguments import check_choice, check_positive, is_whole
from pymc_logz.paths.schedules import linear_betas
from pymc_logz.pilot.settings import RunSettings


@dataclass(frozen=True)
class HaisSettings(RunSettings):
    """What `pymc_logz.sample_hais` was asked for; see there for the meaning of each."""

    direction: str = "forward"
    target_mcse: float | None = None

    method: ClassVar[str] = "hais"
    recorded: ClassVar[tuple[str, ...]] = (
        *RunSettings.recorded,
        "direction",
        "target_mcse",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(("forward", "both"), direction=self.direction)
        check_positive(unit="nats", one=True, target_mcse=self.target_mcse)
        self.ladder()

    def cheaper(self) -> list[str]:
        """What would take less time than these settings."""
        coarser = (
            [] if self.target_mcse is None else [f"a larger target_mcse than {self.target_mcse}"]
        )
        return [*coarser, *super().cheaper()]

    def ladder(self) -> np.ndarray | None:
        """Betas that the user gave; None if the pilot is to place them."""
        return linear_betas(int(self.betas)) if is_whole(self.betas) else super().ladder()
