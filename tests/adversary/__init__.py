"""A standing search for wrong numbers: models with known log Z, all routes to it, one rule."""

from adversary import (
    models_bounds,
    models_conjugate,
    models_data,
    models_discrete,
    models_exact_observations,
    models_funnels,
    models_heavy_tails,
    models_modes,
    models_potentials,
    models_priors,
    models_spikes,
)
from adversary.cases import CASES, Case

__all__ = [
    "CASES",
    "Case",
    "models_bounds",
    "models_conjugate",
    "models_data",
    "models_discrete",
    "models_exact_observations",
    "models_funnels",
    "models_heavy_tails",
    "models_modes",
    "models_potentials",
    "models_priors",
    "models_spikes",
]
