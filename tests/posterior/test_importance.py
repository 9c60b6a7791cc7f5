"""The second opinion on a posterior: exact where log Z is known, refused where there is none."""

from typing import Any

import numpy as np
import pytest
from support.checks import make_rng

from pymc_logz.errors import ModelError
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.posterior.own_proposal import bounded, importance

LOG_Z = 1.3
PROPOSAL = Elliptical(np.array([1.0, -2.0]), np.array([[2.0, 0.0], [-0.5, 0.3]]))
TARGET = Elliptical(PROPOSAL.centre + 0.1, 1.1 * PROPOSAL.factor)


class Density:
    """A target of known log Z in place of a model."""

    def __init__(self, addition: float = LOG_Z) -> None:
        self.addition = addition

    def log_target(self, rows: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        return TARGET.log_density_of(rows) + self.addition


@pytest.mark.parametrize("kind", ["student", "normal"])
def test_log_z_is_exact(kind: str) -> None:
    """Would catch draws of one proposal with the density of the other."""
    density: Any = Density()
    estimate = importance(density, PROPOSAL, kind, 4000, make_rng("importance", kind))
    assert estimate.status == "ok"
    assert abs(estimate.log_z - LOG_Z) < 5 * estimate.mcse < 0.1


def test_the_two_proposals_differ() -> None:
    """Would catch an argument that nobody reads."""
    density: Any = Density()
    found = [
        importance(density, PROPOSAL, kind, 500, make_rng("same")).log_z
        for kind in ("student", "normal")
    ]
    assert found[0] != found[1]


def test_an_infinite_density_is_refused() -> None:
    """Would catch an infinite log Z that passes as a number."""
    with pytest.raises(ModelError, match="infinite at a proposed draw"):
        bounded(np.array([-1.0, np.inf]))
    assert np.all(bounded(np.full(3, -np.inf)) == -np.inf)
