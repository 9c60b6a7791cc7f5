"""Settings of a HAIS run, checked at construction; their ``record`` goes into the result."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr

from pymc_logz.arguments import check_choice, check_positive, is_integer
from pymc_logz.kernels.hamiltonian import Hamiltonian
from pymc_logz.paths.schedules import linear_betas
from pymc_logz.pilot.ladder import Aim
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.weights import TOLERANCE

DEFAULT_MCSE = (TOLERANCE, 0.05)
"""Errors of log Z, in nats, that are aimed at where that is cheap and where it is not: even the
larger one is small enough for any reading of a Bayes factor."""
VARIANCES = (0.1, 1.0)
"""Smallest and largest variance of the log weight that a ladder is made for: a shorter one leaves
weights whose errors are rough, and a longer one gains less than more rows."""


@dataclass(frozen=True)
class HaisSettings(RunSettings):
    """What `pymc_logz.sample_hais` was asked for; see there for the meaning of each."""

    direction: str = "forward"
    target_mcse: float | None = None
    target_variance: float | None = None
    """Variance of the log weight to aim at, in place of an error of log Z."""

    other_references: ClassVar[str] = (
        f"{RunSettings.other_references}, or another PyMC model of the same variables"
    )
    method: ClassVar[str] = "hais"
    recorded: ClassVar[tuple[str, ...]] = (*RunSettings.recorded, "direction", "target_mcse")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(("forward", "both"), direction=self.direction)
        check_positive(unit="nats", one=True, target_mcse=self.target_mcse)
        self.ladder()

    @property
    def requested_reference(self) -> str | xr.DataTree:
        """What the path is to start from: the prior for both directions, where nothing is said."""
        # a mixture has heavier tails than most targets, which serves rows that come from it, and
        # leaves those that are annealed back to it with an error of no finite variance
        if self.reference is None and self.direction == "both":
            return "prior"
        return super().requested_reference

    @property
    def aim(self) -> Aim:
        """Variance of the log weights that gives the error aimed at with the rows asked for."""
        if self.target_variance is not None:
            return Aim(self.target_variance, self.target_variance)
        n_rows = self.draws * self.chains
        fine, coarse = (
            float(np.clip(np.log1p(n_rows * mcse**2), *VARIANCES))
            for mcse in ((self.target_mcse,) * 2 if self.target_mcse else DEFAULT_MCSE)
        )
        return Aim(fine, coarse, n_rows)

    @property
    def mcse_without_path(self) -> float | None:
        """The larger error where nothing that was asked for needs a path."""
        plain = self.kernel == Hamiltonian()
        if not plain or self.direction != "forward" or self.target_variance is not None:
            return None
        return max(DEFAULT_MCSE[1], self.target_mcse or 0.0)

    def cheaper(self) -> list[str]:
        """What would take less time than these settings."""
        ways = super().cheaper()
        if self.target_mcse is not None:
            ways.insert(0, f"a larger target_mcse than {self.target_mcse}")
        return ways

    def ladder(self) -> np.ndarray | None:
        """Betas that the user gave; None if the pilot is to place them."""
        return linear_betas(int(self.betas)) if is_integer(self.betas) else super().ladder()
