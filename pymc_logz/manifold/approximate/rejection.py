"""ABC rejection: prior draws whose output is near what was observed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.arguments import check_whole
from pymc_logz.errors import ModelError
from pymc_logz.estimators import LogZEstimate
from pymc_logz.manifold.approximate.simulator import ROWS_AT_A_TIME, Simulator
from pymc_logz.models.context import model_from, written_as
from pymc_logz.seeds import generators_from
from pymc_logz.trees.doubts import warn_of_status
from pymc_logz.trees.kinds import ABC
from pymc_logz.trees.layout import data_datasets, dataset_of, evidence_dataset, make_tree

if TYPE_CHECKING:
    import pymc as pm


@written_as("abc_rejection(model, epsilon)")
def abc_rejection(
    model: "pm.Model | None",
    epsilon: float,
    draws: int = 100_000,
    *,
    random_seed: Any = None,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Prior draws of a simulator whose output is within a distance of what was observed.

    Approximate Bayesian computation at its simplest, to compare with: an output counts as observed
    if its Euclidean distance is below epsilon. The share of the draws that are accepted, over the
    volume of the ball, is Z of the simulator with noise added that is uniform in the ball; it goes
    to that of the exact observations as epsilon goes to zero, and the share to nothing.

    Parameters
    ----------
    model
        Model with `ExactObservation`, and neither likelihoods nor potentials besides; None takes
        the one on the context stack.
    epsilon
        Euclidean distance of outputs that counts as none, in their units.
    draws
        Prior draws, each a run of the simulator.
    random_seed
        Anything that ``pm.sample`` takes.
    compile_kwargs
        Keyword arguments of ``pytensor.function``; by default JAX is used if it is installed and
        the model converts.

    Returns
    -------
    xarray.DataTree
        ``posterior`` with the accepted draws as one chain, ``sample_stats`` with their
        ``distance``, ``evidence``, the data. Its status is ``tolerance`` at best: log Z is that of
        exact observations only as far as epsilon does not matter.

    Raises
    ------
    ModelError
        If the model is not of this kind, or no draw is accepted: the message says how near the
        nearest was, and what bound on log Z follows.

    Warns
    -----
    EvidenceWarning
        Of the status.

    See Also
    --------
    abc_mcmc, abc_slice : chains, which lose fewer simulations.
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
    check_whole(1, draws=draws)
    rngs = generators_from(random_seed)
    model = model_from(model, "abc_rejection(model, epsilon)")
    simulator = Simulator(model, epsilon, compile_kwargs)
    kept, distances, nearest = [], [], np.inf
    for start in range(0, draws, ROWS_AT_A_TIME):
        rows = simulator.prior(rngs.run, min(ROWS_AT_A_TIME, draws - start))
        distance, _ = simulator.simulate(rows)
        hit = distance < epsilon
        kept.append(rows[hit])
        distances.append(distance[hit])
        nearest = min(nearest, float(distance.min()))
    rows, distance = np.concatenate(kept), np.concatenate(distances)
    if not len(rows):
        # three in n is the upper end of a 95% interval for a share of which nothing was seen
        bound = np.log(3 / draws) - simulator.log_volume
        raise ModelError(
            f"none of draws={draws} came within epsilon={epsilon}, the nearest within "
            f"{nearest:.3g}: log Z is below {bound:.4g} (95%). Use a larger epsilon, more draws, "
            "or pm.sample(step=ConstrainedHMC()), which needs no distance"
        )
    share = len(rows) / draws
    estimate = LogZEstimate(
        "abc_rejection",
        float(np.log(share) - simulator.log_volume),
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
        **data_datasets(simulator.flat),
    }
    return make_tree(groups, {"method": "abc_rejection", "draws": draws, **attrs}, ABC)
