"""Settings of a tempered run, checked at construction; their ``record`` goes into the result."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_logz.arguments import check_choice, check_integer, is_integer
from pymc_logz.pilot.population import Stages
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.temper import EXCHANGES
from pymc_logz.tempered.warm_up import CORRECTIONS

LEVEL_PRIORS = ("uniform", "exp")


@dataclass(frozen=True)
class TemperedSettings(RunSettings):
    """What `pymc_logz.sample_tempered` was asked for; see there for the meaning of each."""

    draws: int = 1000
    walkers: int = 64
    level_prior: Any = "uniform"
    update: str = "rts"
    exchange: str = "gibbs"
    thin: int = 10
    keep: str = "draws"

    OPTIONAL: ClassVar[tuple[str, ...]] = (*RunSettings.OPTIONAL, "update", "walkers", "thin")
    method: ClassVar[str] = "tempered"
    recorded: ClassVar[tuple[str, ...]] = (
        *RunSettings.recorded,
        *("walkers", "update", "exchange", "thin", "keep"),
    )

    held: ClassVar[tuple[str, ...]] = ("walkers", "chains")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer(1, walkers=self.walkers, thin=self.thin)
        check_choice(tuple(CORRECTIONS), update=self.update)
        check_choice(EXCHANGES, exchange=self.exchange)
        check_choice(("draws", "sums"), keep=self.keep)
        if self.named_prior not in (None, *LEVEL_PRIORS):
            raise ValueError(
                f"level_prior={self.level_prior!r} must be one of {LEVEL_PRIORS}, or an array with "
                "the share of each level"
            )
        if self.exchange == "swap" and self.named_prior != "uniform":
            raise ValueError(
                "exchange='swap' has as many walkers at each level, so level_prior must be "
                "'uniform'; use exchange='gibbs' for another"
            )
        if self.exchange == "swap" and self.keep == "sums":
            raise ValueError(
                "keep='sums' works only with RTS, which needs exchange='gibbs'; with "
                "exchange='swap' (log Z by MBAR) use keep='draws'"
            )
        if self.named_prior is None:
            self._check_prior(np.asarray(self.level_prior, dtype=float))

    def unread(self) -> dict[str, str]:
        """Settings that this run does not read, with the reason and the remedy."""
        unread = super().unread()
        if self.exchange == "swap":
            unread["update"] = (
                "exchange='swap' needs no correction of log Z; leave update out, or use "
                "exchange='gibbs'"
            )
        if self.keep == "sums":
            unread["thin"] = "keep='sums' keeps no draws; leave thin out, or use keep='draws'"
        return unread

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
    def named_prior(self) -> str | None:
        """Prior of the levels if it has a name; None if it is an array."""
        return self.level_prior if isinstance(self.level_prior, str) else None

    @property
    def n_kept(self) -> int:
        """Iterations of each walker that are kept, those that were added included."""
        return self.draws + sum(self.more)

    @property
    def n_levels(self) -> int | None:
        """Number of levels that the user asked for, if so."""
        if is_integer(self.betas):
            return int(self.betas)
        ladder = self.ladder()
        return None if ladder is None else ladder.size

    def ladder(self) -> np.ndarray | None:
        """Betas that the user gave; None if the pilot is to place them."""
        if not is_integer(self.betas):
            return super().ladder()
        if self.betas < 2:
            raise ValueError(f"betas={self.betas} must be at least 2: the two ends")
        return None

    def plan_on(self, stages: Stages) -> Plan:
        """Levels on the stages of a pilot: so many, or two a stage (a swap in four is rejected)."""
        n_levels = self.n_levels or 2 * (stages.betas.size - 1) + 1
        return stages.plan(n_levels - 1)

    def cheaper(self) -> list[str]:
        """What would take less time than these settings."""
        return [*super().cheaper(), f"fewer walkers than {self.walkers}"]

    def log_prior(self, betas: np.ndarray) -> np.ndarray:
        """Log of the share of time that each level is to have, up to a constant, shape (K,)."""
        match self.named_prior:
            case "uniform":
                return np.zeros(betas.size)
            case "exp":  # as in Carlson et al. (2016), section 4.4
                return 2.0 * betas
        return np.log(np.asarray(self.level_prior, dtype=float))

    def record(self) -> dict[str, Any]:
        """Settings as plain numbers and strings."""
        return {**super().record(), "level_prior": self.named_prior or "array"}
