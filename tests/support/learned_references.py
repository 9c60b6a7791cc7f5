"""Pilots made by hand from exact draws: what a reference is learned from, without a pilot's run."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from pymc_logz import energies
from pymc_logz.energies import Energy
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.planning import block_for
from pymc_logz.models.flat import unconstrain
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.pilot.population import Stages
from pymc_logz.runners.block import Block
from support.checks import make_rng
from support.pymc_models import exact_draws

N_ROWS = 256
N_LOOKS = 2
ENERGIES = {
    "skewed": energies.poisson_gamma,
    "heavy-tailed": energies.student_location,
    "two modes": lambda: energies.two_gaussians(2),
}


@dataclass(frozen=True)
class Known:
    """A model whose posterior can be drawn from, with compiled moves."""

    energy: Energy
    prepared: Prepared
    block: Block

    def rows(self, label: object, n: int) -> np.ndarray:
        """Exact unconstrained draws of the posterior, shape (n, d)."""
        draws = exact_draws(self.energy, make_rng(self.energy.name, label), n)
        return unconstrain(self.prepared.flat, draws["posterior"].to_dataset())

    def stages(self, rows: np.ndarray, step_size: float = 0.8) -> Stages:
        """A pilot that ended at these rows, shape (n, d)."""
        ones, d = np.ones(2), rows.shape[1]
        correlation = np.tile(np.eye(d), (2, 1, 1)) if self.block.kernel.dense else None
        return Stages(
            np.array([0.0, 1.0]),
            step_size * ones,
            np.tile(rows.std(axis=0), (2, 1)),
            correlation,
            0.8 * ones,
            end=rows[:N_ROWS],
            log_z=np.full(4, self.energy.log_z),
            rows=rows,
        )


@cache
def known(name: str) -> Known:
    """One of `ENERGIES`, made ready once."""
    energy = ENERGIES[name]()
    prepared = prepare(energy.model, make_rng("prepare", name))
    return Known(energy, prepared, block_for(prepared, HaisSettings(), None))
