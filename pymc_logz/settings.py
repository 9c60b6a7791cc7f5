"""Settings of a HAIS run, checked at construction; their ``record`` goes into the result."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.kernels import Hamiltonian, check_kernel
from pymc_logz.kernels.base import Kernel
from pymc_logz.schedules import check_betas, linear_betas


@dataclass(frozen=True)
class HaisSettings:
    """What `pymc_logz.sample_hais` was asked for; see there for the meaning of each."""

    draws: int = 256
    chains: int = 4
    betas: Any = "adaptive"
    kernel: Kernel = field(default_factory=Hamiltonian)
    tune: int = 64
    target_accept: float = 0.8
    cores: int = 1
    reference: str | xr.DataTree = "prior"
    direction: str = "forward"
    target_mcse: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("draws", 2), ("chains", 1), ("cores", 1), ("tune", 1)):
            value = getattr(self, name)
            if not _is_whole(value) or value < least:
                raise ValueError(f"{name}={value!r} must be a whole number of at least {least}")
        if not 0 < self.target_accept < 1:
            raise ValueError(
                f"target_accept={self.target_accept!r} must lie strictly between 0 and 1"
            )
        check_kernel(self.kernel)
        if self.direction not in ("forward", "both"):
            raise ValueError(f"direction={self.direction!r} must be 'forward' or 'both'")
        if self.target_mcse is not None and not 0 < self.target_mcse < np.inf:
            raise ValueError(
                f"target_mcse={self.target_mcse!r} must be positive and finite, in nats"
            )
        self.ladder()

    def ladder(self) -> np.ndarray | None:
        """Betas that the user gave; None if the pilot is to place them."""
        if isinstance(self.betas, str):
            if self.betas != "adaptive":
                raise ValueError(
                    f"betas={self.betas!r} must be 'adaptive', a whole number, or an array"
                )
            return None
        return linear_betas(int(self.betas)) if _is_whole(self.betas) else check_betas(self.betas)

    def record(self) -> dict[str, Any]:
        """Settings as plain numbers and strings."""
        given = {
            "betas": self.betas if isinstance(self.betas, str | int) else "array",
            "reference": self.reference if isinstance(self.reference, str) else "draws",
            "kernel": {"name": type(self.kernel).__name__, **asdict(self.kernel)},  # type: ignore[call-overload]
        }
        names = ("draws", "chains", "tune", "target_accept", "direction", "target_mcse")
        return {"method": "hais", **{name: getattr(self, name) for name in names}, **given}


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
