"""A model with exact observations as a simulator: distances, log prior, rejection sampling."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from scipy.special import gammaln

from pymc_logz.arguments import check_integer, check_positive
from pymc_logz.errors import ModelError, PilotError
from pymc_logz.estimators import LogZEstimate
from pymc_logz.graphs.functions import Kept
from pymc_logz.manifold.generator_form import relax
from pymc_logz.models.context import model_from, model_labels, n_data, written_as
from pymc_logz.models.density import RowDensity
from pymc_logz.models.exact import exact_observations
from pymc_logz.models.flat import constrain, flatten_model, unconstrain
from pymc_logz.models.prior import PriorDraws
from pymc_logz.seeds import generators_from
from pymc_logz.trees.doubts import warn_of_status
from pymc_logz.trees.kinds import ABC
from pymc_logz.trees.layout import data_datasets, dataset_of, evidence_dataset, make_tree
from pymc_logz.trees.posterior import checked_variables


class Simulator:
    """Outputs of a model with exact observations alone, and how far they are from the data."""

    def __init__(
        self, model: pm.Model, epsilon: float, compile_kwargs: Mapping[str, Any] | None
    ) -> None:
        check_positive(one=True, epsilon=epsilon)
        exact = exact_observations(model)
        others = [*model.observed_RVs, *(one for one in model.potentials if one not in exact)]
        if not exact or others:
            raise ModelError(
                "the model must have exact observations (lz.ExactObservation) and neither "
                f"likelihoods nor potentials besides, but it has {[one.name for one in others]}"
                if exact
                else "the model has no exact observation (lz.ExactObservation) to compare with"
            )
        # whose log likelihood is half of the squared distance, and a constant; in units of epsilon,
        # since small distances would round away beside the constant
        self.model, self.epsilon = relax(model, epsilon), float(epsilon)
        self.flat = flatten_model(self.model)
        self.prior = PriorDraws(self.model)
        self.n_outputs = n_data(self.flat)
        self.density = RowDensity(self.flat, compile_kwargs)
        self.compile_kwargs = compile_kwargs
        self.n_simulations = 0

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
    def log_prior(self) -> Callable[[np.ndarray], np.ndarray]:
        """Function from rows (n, d) to their log prior, which runs no simulation."""
        alone = replace(self.flat, log_ratio=self.flat.log_prior, kept=Kept())
        density = RowDensity(alone, self.compile_kwargs)
        return lambda rows: density(rows)[0]

    def moments(
        self, rng: np.random.Generator, columns: np.ndarray | slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviations of columns of the prior, by 2,000 draws."""
        rows = self.prior(rng, 2000)[:, columns]
        return rows.mean(axis=0), rows.std(axis=0)

    def near(
        self, rng: np.random.Generator, n_draws: int, n_wanted: float = np.inf
    ) -> tuple[np.ndarray, np.ndarray, int, float]:
        """Prior draws within epsilon, their distances, how many were tried, least distance."""
        found: list[tuple[np.ndarray, np.ndarray]] = []
        nearest, tried = np.inf, 0
        while tried < n_draws and sum(len(rows) for rows, _ in found) < n_wanted:
            rows = self.prior(rng, min(10_000, n_draws - tried))
            distance, _ = self.simulate(rows)
            hit = distance < self.epsilon
            found.append((rows[hit], distance[hit]))
            nearest, tried = min(nearest, float(distance.min())), tried + len(rows)
        rows, distance = map(np.concatenate, zip(*found, strict=True))
        return rows, distance, tried, nearest

    def starts(self, start: Any, n: int, rng: np.random.Generator) -> np.ndarray:
        """Rows (n, d) within epsilon: from draws of the posterior group, or from the prior."""
        if start is None:
            rows, _, n_tried, nearest = self.near(rng, 1_000_000, n)
            if not len(rows):
                raise PilotError(
                    f"none of {n_tried} prior draws came within epsilon={self.epsilon}, the "
                    f"nearest within {nearest:.3g}; pass start= with draws that do (such as "
                    "those of ConstrainedHMC), or a larger epsilon"
                )
            # the same several times if there are few
            return np.resize(rows, (n, self.flat.n_dims))
        draws = start["posterior"].to_dataset() if isinstance(start, xr.DataTree) else start
        rows = unconstrain(self.flat, checked_variables(draws, self.model, what="start"))
        rows = rows[self.simulate(rows)[0] < self.epsilon]
        if not len(rows):
            raise ValueError(f"start has no draw within epsilon={self.epsilon}")
        return rows[rng.choice(len(rows), n, replace=len(rows) < n)]

    def dataset(self, rows: np.ndarray) -> xr.Dataset:
        """Variables of rows (chains, draws, d) on their natural scale."""
        values = constrain(self.flat, rows)
        return dataset_of(values, **model_labels(self.model), check_conventions=False)


@written_as("abc_rejection(model, epsilon)")
def abc_rejection(
    model: pm.Model | None,
    epsilon: float,
    draws: int = 100_000,
    *,
    random_seed: Any = None,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Prior draws of a simulator whose output is within a distance of what was observed.

    Approximate Bayesian computation at its simplest, to compare with: an output counts as observed
    if its Euclidean distance is below epsilon. The fraction of draws that are accepted, divided by
    the volume of the ball, is Z of the simulator with added noise that is uniform in the ball. As
    epsilon goes to zero, this goes to Z of the exact observations, and the fraction goes to zero.

    Parameters
    ----------
    model
        Model with `ExactObservation`, and no other likelihoods or potentials; None takes the one on
        the context stack.
    epsilon
        Euclidean distance, in units of the outputs, below which an output counts as observed.
    draws
        Prior draws, each a run of the simulator.
    random_seed, compile_kwargs
        As in `sample_hais`.

    Returns
    -------
    xarray.DataTree
        ``posterior`` with the accepted draws as one chain, ``sample_stats`` with their
        ``distance``, ``evidence``, the data. Its status is ``tolerance`` at best: log Z is that of
        exact observations only as far as epsilon does not matter.

    Raises
    ------
    ModelError
        If the model is not of this kind, or no draw is accepted: the message gives the distance of
        the nearest one, and the resulting bound on log Z.

    Warns
    -----
    EvidenceWarning
        Of the status.

    See Also
    --------
    abc_mcmc, abc_slice : chains, which waste fewer simulations.
    relax : a normal kernel, for samplers that follow gradients.

    References
    ----------
    Pritchard, Seielstad, Perez-Lezaun & Feldman (1999), Population growth of human Y chromosomes,
    Mol. Biol. Evol. 16, 1791; Graham & Storkey (2017), section 2.2, arXiv 1605.07826.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as simulator:
            rate, noise = pm.LogNormal("rate"), pm.Normal("noise")
            lz.ExactObservation("y", rate + 0.3 * noise, observed=2.0)

        tree = lz.abc_rejection(simulator, epsilon=0.5)
        tree["evidence"]["log_z"]
    """
    check_integer(1, draws=draws)
    rngs = generators_from(random_seed)
    model = model_from(model, "abc_rejection(model, epsilon)")
    simulator = Simulator(model, epsilon, compile_kwargs)
    rows, distance, _, nearest = simulator.near(rngs.run, draws)
    m = simulator.n_outputs
    log_volume = float(m * (0.5 * np.log(np.pi) + np.log(epsilon)) - gammaln(0.5 * m + 1))
    if not len(rows):
        # three in n is the upper end of a 95% interval for a share of which nothing was seen
        bound = np.log(3 / draws) - log_volume
        raise ModelError(
            f"none of draws={draws} came within epsilon={epsilon}, the nearest within "
            f"{nearest:.3g}: log Z is below {bound:.4g} (95%). Use a larger epsilon, more draws, "
            "or pm.sample(step=ConstrainedHMC()), which needs no distance"
        )
    share = len(rows) / draws
    estimate = LogZEstimate(
        "abc_rejection",
        float(np.log(share) - log_volume),
        float(np.sqrt((1 - share) / len(rows))),
        float(len(rows)),
        np.nan,
        # of fewer the number says little of its own error
        "tolerance" if len(rows) >= 20 else "few_rows",
    )
    warn_of_status(estimate)
    attrs = {"epsilon": epsilon, "accepted_share": share, "n_simulations": draws}
    groups = {
        "posterior": simulator.dataset(rows[None]),
        "sample_stats": dataset_of({"distance": distance[None]}),
        "evidence": evidence_dataset([estimate], attrs),
        **data_datasets(simulator.flat.model, simulator.flat.observed),
    }
    return make_tree(groups, {"method": "abc_rejection", "draws": draws, **attrs}, ABC)
