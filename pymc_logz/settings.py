"""Settings of a run, checked at construction; their ``record`` goes into the result."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from pymc_logz.kernels import Hamiltonian, check_kernel
from pymc_logz.kernels.base import Kernel
from pymc_logz.runners.temper import EXCHANGES
from pymc_logz.runners.warm_up import CORRECTIONS
from pymc_logz.schedules import check_betas, linear_betas

LEVEL_PRIORS = ("uniform", "exp")
EXP_RATE = 2.0
"""Prior exp(2 beta), as in Carlson et al. (2016), section 4.4."""


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
    transport: bool = True

    def __post_init__(self) -> None:
        _check_whole(self, draws=2, chains=1, cores=1, tune=1)
        _check_moves(self.kernel, self.target_accept)
        if self.direction not in ("forward", "both"):
            raise ValueError(f"direction={self.direction!r} must be 'forward' or 'both'")
        if self.target_mcse is not None and not 0 < self.target_mcse < np.inf:
            raise ValueError(
                f"target_mcse={self.target_mcse!r} must be positive and finite, in nats"
            )
        if not isinstance(self.transport, bool | np.bool_):
            raise ValueError(f"transport={self.transport!r} must be True or False")
        self.ladder()

    @property
    def transports(self) -> bool:
        """Whether moves are compiled with maps: they need a ladder that the pilot places."""
        return bool(self.transport) and self.ladder() is None

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
        names = (
            "draws",
            "chains",
            "tune",
            "target_accept",
            "direction",
            "target_mcse",
            "transport",
        )
        return {"method": "hais", **_record(self, names)}


@dataclass(frozen=True)
class TemperedSettings:
    """What `pymc_logz.sample_tempered` was asked for; see there for the meaning of each."""

    draws: int = 1000
    chains: int = 4
    walkers: int = 64
    betas: Any = "adaptive"
    level_prior: Any = "uniform"
    update: str = "rts"
    exchange: str = "gibbs"
    kernel: Kernel = field(default_factory=Hamiltonian)
    tune: int = 64
    target_accept: float = 0.8
    thin: int = 10
    cores: int = 1
    reference: str | xr.DataTree = "prior"
    transports: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_whole(self, draws=2, chains=1, walkers=1, tune=1, thin=1, cores=1)
        _check_moves(self.kernel, self.target_accept)
        for name, allowed in (("update", tuple(CORRECTIONS)), ("exchange", EXCHANGES)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} must be one of {allowed}")
        if isinstance(self.level_prior, str) and self.level_prior not in LEVEL_PRIORS:
            raise ValueError(
                f"level_prior={self.level_prior!r} must be one of {LEVEL_PRIORS}, or an array with "
                "the share of each level"
            )
        if self.exchange == "swap" and not self.has_uniform_prior:
            raise ValueError(
                "exchange='swap' has as many walkers at each level, so level_prior must be "
                "'uniform'; use exchange='gibbs' for another"
            )
        if not isinstance(self.level_prior, str):
            self._check_prior(np.asarray(self.level_prior, dtype=float))

    def _check_prior(self, prior: np.ndarray) -> None:
        if self.n_levels is None:
            raise ValueError(
                "level_prior is an array, but the pilot chooses the number of levels: give "
                "betas=<int> or an array too, or level_prior='exp'"
            )
        if prior.shape != (self.n_levels,) or not np.all(np.isfinite(prior) & (prior > 0)):
            raise ValueError(
                f"level_prior has shape {prior.shape} and lowest entry {prior.min(initial=np.inf)};"
                f" give one positive, finite number for each of the {self.n_levels} levels"
            )

    @property
    def has_uniform_prior(self) -> bool:
        """Whether all levels are to be visited alike."""
        return isinstance(self.level_prior, str) and self.level_prior == "uniform"

    @property
    def n_levels(self) -> int | None:
        """Number of levels that the user asked for, if so."""
        if _is_whole(self.betas):
            return int(self.betas)
        ladder = self.ladder()
        return None if ladder is None else ladder.size

    def ladder(self) -> np.ndarray | None:
        """Betas that the user gave; None if the pilot is to place them."""
        if _is_whole(self.betas):
            if self.betas < 2:
                raise ValueError(f"betas={self.betas} must be at least 2: the two ends")
            return None
        if isinstance(self.betas, str):
            if self.betas != "adaptive":
                raise ValueError(
                    f"betas={self.betas!r} must be 'adaptive', a whole number, or an array"
                )
            return None
        return check_betas(self.betas)

    def log_prior(self, betas: np.ndarray) -> np.ndarray:
        """Log of the share of time that each level is to have, up to a constant, shape (K,)."""
        if isinstance(self.level_prior, str):
            return EXP_RATE * betas if self.level_prior == "exp" else np.zeros(betas.size)
        return np.log(np.asarray(self.level_prior, dtype=float))

    def record(self) -> dict[str, Any]:
        """Settings as plain numbers and strings."""
        names = (
            "draws",
            "chains",
            "walkers",
            "update",
            "exchange",
            "tune",
            "target_accept",
            "thin",
        )
        prior = self.level_prior if isinstance(self.level_prior, str) else "array"
        return {"method": "tempered", "level_prior": prior, **_record(self, names)}


def _record(settings: HaisSettings | TemperedSettings, names: Iterable[str]) -> dict[str, Any]:
    betas, reference, kernel = settings.betas, settings.reference, settings.kernel
    return {
        **{name: getattr(settings, name) for name in names},
        "betas": betas if isinstance(betas, str | int) else "array",
        "reference": reference if isinstance(reference, str) else "draws",
        "kernel": {"name": type(kernel).__name__, **asdict(kernel)},  # type: ignore[call-overload]
    }


def _check_whole(settings: Any, **at_least: int) -> None:
    for name, least in at_least.items():
        value = getattr(settings, name)
        if not _is_whole(value) or value < least:
            raise ValueError(f"{name}={value!r} must be a whole number of at least {least}")


def _check_moves(kernel: Kernel, target_accept: float) -> None:
    if not 0 < target_accept < 1:
        raise ValueError(f"target_accept={target_accept!r} must lie strictly between 0 and 1")
    check_kernel(kernel)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
