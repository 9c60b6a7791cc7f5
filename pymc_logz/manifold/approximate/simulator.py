"""A model with exact observations as a simulator: distances of outputs, and the log prior."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from scipy.special import gammaln

from pymc_logz.arguments import check_positive
from pymc_logz.errors import ModelError, PilotError
from pymc_logz.graphs.kept import Kept
from pymc_logz.manifold.forms.relax import relax
from pymc_logz.models.density import RowDensity
from pymc_logz.models.exact import exact_observations
from pymc_logz.models.flat import constrain, flatten_model, unconstrain
from pymc_logz.models.labels import model_data, model_labels
from pymc_logz.models.prior import PriorDraws
from pymc_logz.trees.layout import dataset_of

if TYPE_CHECKING:
    import pymc as pm

ROWS_AT_A_TIME = 10_000
"""Prior draws that are simulated together."""


class Simulator:
    """Outputs of a model, and how far they are from what was observed.

    The model has exact observations, and neither a likelihood nor potentials besides; ``epsilon``
    is the distance that is allowed.
    """

    def __init__(
        self, model: "pm.Model", epsilon: float, compile_kwargs: Mapping[str, Any] | None
    ) -> None:
        check_positive(one=True, epsilon=epsilon)
        exact = exact_observations(model)
        others = [*model.observed_RVs, *(one for one in model.potentials if one not in exact)]
        if not exact or others:
            raise ModelError(
                "the model must have exact observations (lz.ExactObservation) and neither "
                f"likelihoods nor potentials besides, but it has {[one.name for one in others]}"
                if exact
                else "the model has no exact observation (lz.ExactObservation) to be near to"
            )
        # whose log likelihood is half of the squared distance, and a constant; in units of epsilon,
        # since small distances would round away beside the constant
        self.model, self.epsilon = relax(model, epsilon), float(epsilon)
        self.flat = flatten_model(self.model)
        self.prior = PriorDraws(self.model)
        self.n_outputs = sum(int(np.size(value)) for value in self.flat_data.values())
        self.density = RowDensity(self.flat, compile_kwargs)
        self.compile_kwargs = compile_kwargs
        self.n_simulations = 0

    @cached_property
    def flat_data(self) -> dict[str, np.ndarray]:
        """What was observed, by name."""
        return {name: np.asarray(value) for name, value in model_data(self.flat)[0].items()}

    @property
    def log_volume(self) -> float:
        """Log volume of the ball of radius epsilon."""
        m = self.n_outputs
        return float(m * (0.5 * np.log(np.pi) + np.log(self.epsilon)) - gammaln(0.5 * m + 1))

    def simulate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distance and log prior of rows (n, d); infinite where the output is not finite."""
        log_prior, log_likelihood = self.density(rows)
        self.n_simulations += len(rows)
        with np.errstate(all="ignore"):
            constant = np.log(2 * np.pi) + 2 * np.log(self.epsilon)
            square = -2 * log_likelihood - self.n_outputs * constant
            found = self.epsilon * np.sqrt(np.maximum(square, 0.0))
        return np.where(np.isfinite(found), found, np.inf), log_prior

    @cached_property
    def _prior_density(self) -> RowDensity:
        alone = replace(self.flat, log_ratio=self.flat.log_prior, kept=Kept())
        return RowDensity(alone, self.compile_kwargs)

    def log_prior(self, rows: np.ndarray) -> np.ndarray:
        """Log prior of rows (n, d), which runs no simulation."""
        return self._prior_density(rows)[0]

    def moments(
        self, rng: np.random.Generator, columns: np.ndarray | slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviations of columns of the prior, by 2,000 draws."""
        rows = self.prior(rng, 2000)[:, columns]
        return rows.mean(axis=0), rows.std(axis=0)

    def near(self, n: int, rng: np.random.Generator, max_tries: int = 1_000_000) -> np.ndarray:
        """Prior draws within epsilon, shape (n, d); the same several times if there are few."""
        found: list[np.ndarray] = []
        nearest, tried = np.inf, 0
        while tried < max_tries and sum(len(rows) for rows in found) < n:
            rows = self.prior(rng, ROWS_AT_A_TIME)
            distance, _ = self.simulate(rows)
            found.append(rows[distance < self.epsilon])
            nearest, tried = min(nearest, float(distance.min())), tried + ROWS_AT_A_TIME
        rows = np.concatenate(found)
        if not len(rows):
            raise PilotError(
                f"none of {tried} prior draws came within epsilon={self.epsilon}, the nearest "
                f"within {nearest:.3g}; pass start= with draws that do (such as those of "
                "ConstrainedHMC), or a larger epsilon"
            )
        return np.resize(rows, (n, rows.shape[1]))

    def starts(self, start: Any, n: int, rng: np.random.Generator) -> np.ndarray:
        """Rows (n, d) within epsilon: from draws of the posterior group, or from the prior."""
        if start is None:
            return self.near(n, rng)
        draws = start["posterior"].to_dataset() if isinstance(start, xr.DataTree) else start
        rows = unconstrain(self.flat, draws)
        rows = rows[self.simulate(rows)[0] < self.epsilon]
        if not len(rows):
            raise ValueError(f"start has no draw within epsilon={self.epsilon}")
        return rows[rng.choice(len(rows), n, replace=len(rows) < n)]

    def dataset(self, rows: np.ndarray) -> xr.Dataset:
        """Variables of rows (chains, draws, d) on their natural scale."""
        chains, draws, d = rows.shape
        values = constrain(self.flat, rows.reshape(-1, d))
        coords, dims = model_labels(self.model)
        shaped = {
            name: value.reshape(chains, draws, *value.shape[1:]) for name, value in values.items()
        }
        return dataset_of(shaped, coords=dict(coords), dims=dims, check_conventions=False)
