"""Settings of many chains, checked at construction; their ``record`` goes into the result."""

from dataclasses import asdict, dataclass
from typing import Any

from pymc_logz.arguments import (
    check_below_one,
    check_positive,
    check_probability,
    check_share,
    check_whole,
)
from pymc_logz.kernels.base import MAX_STEPS
from pymc_logz.kernels.hamiltonian import Hamiltonian


@dataclass(frozen=True)
class HmcSettings:
    """Arguments of `pymc_logz.sample_hmc`; see there for the meaning of each."""

    draws: int
    chains: int
    tune: int
    superchains: int
    n_steps: int
    refreshment: float
    step_size: float | None
    scale: float | tuple[float, ...] | None
    target_accept: float
    jitter: float

    def __post_init__(self) -> None:
        check_whole(1, draws=self.draws, tune=self.tune)
        check_whole(2, superchains=self.superchains)
        check_whole(1, chains=self.chains)
        check_whole(1, MAX_STEPS, n_steps=self.n_steps)
        check_share("of the momentum variance", refreshment=self.refreshment)
        check_probability(target_accept=self.target_accept)
        check_below_one(jitter=self.jitter)
        check_positive(one=True, step_size=self.step_size)
        if self.chains % self.superchains:
            near = self.superchains * max(1, self.members)
            raise ValueError(
                f"chains={self.chains} must be a multiple of superchains={self.superchains}, such "
                f"as {near}, since each of these has as many chains"
            )

    @property
    def members(self) -> int:
        """Chains of a superchain."""
        return self.chains // self.superchains

    @property
    def kernel(self) -> Hamiltonian:
        """How chains move."""
        return Hamiltonian(
            n_steps=self.n_steps,
            refreshment=self.refreshment,
            step_size=self.step_size,
            scale=self.scale,
        )

    def record(self) -> dict[str, Any]:
        """Settings as plain numbers and strings."""
        return {"method": "hmc", **asdict(self)}
