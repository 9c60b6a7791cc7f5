"""ABC chains: random walk with fresh noise, and elliptical slices, both with a uniform ball."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from pytensor.graph.traversal import ancestors

from pymc_logz.arguments import check_positive, check_whole
from pymc_logz.errors import ModelError, warn
from pymc_logz.manifold.approximate.moves import Moves, Slices, Walk
from pymc_logz.manifold.approximate.simulator import Simulator
from pymc_logz.models.context import model_from, written_as
from pymc_logz.seeds import Generators, generators_from
from pymc_logz.trees.kinds import ABC
from pymc_logz.trees.layout import data_datasets, dataset_of, make_tree

if TYPE_CHECKING:
    import pymc as pm


@written_as("abc_mcmc(model, epsilon, var_names)")
def abc_mcmc(
    model: "pm.Model | None",
    epsilon: float,
    var_names: Sequence[str],
    draws: int = 1000,
    *,
    tune: int = 500,
    chains: int = 512,
    step_size: float | None = None,
    start: Any = None,
    random_seed: Any = None,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Chains of a simulator's parameters by a random walk, with noise drawn afresh each time.

    A proposal is accepted by the ratio of the prior of the parameters, if its output is within
    epsilon: Metropolis on parameters and noise together, whose proposal of the noise is its prior.
    Chains stay where they are for long where few outputs are that near.

    Parameters
    ----------
    model, epsilon, random_seed, compile_kwargs
        As of `abc_rejection`.
    var_names
        Free variables that are parameters. All others are noise, whose prior may not depend on
        parameters, nor theirs on noise.
    draws, tune, chains
        Draws of each chain, moves before them, and chains, which are simulated together.
    step_size
        Of the walk, in standard deviations of the prior on the unconstrained scale. None takes the
        one that moves furthest in a fifth of the tuning.
    start
        DataTree or Dataset of draws within epsilon, on the natural scale, to start from, such as
        those of `ConstrainedHMC`. None looks among a million prior draws.

    Returns
    -------
    xarray.DataTree
        ``posterior`` with all free variables, ``sample_stats`` with the ``distance`` and whether a
        move was ``accepted``, the data; attributes of ``sample_stats`` hold ``n_simulations`` and
        ``step_size``. There is no log Z.

    Raises
    ------
    ModelError
        If the model is not of this kind, or noise depends on parameters.
    PilotError
        If no prior draw is within epsilon.
    ValueError
        If a setting is outside its range.

    Warns
    -----
    EvidenceWarning
        If half of the chains or more never moved.

    See Also
    --------
    abc_slice, abc_rejection
    ConstrainedHMC : without a tolerance.

    References
    ----------
    Marjoram, Molitor, Plagnol & Tavare (2003), Markov chain Monte Carlo without likelihoods, doi
    10.1073/pnas.0306899100; Graham & Storkey (2017), section 2.2, arXiv 1605.07826.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as simulator:
            rate, noise = pm.LogNormal("rate"), pm.Normal("noise")
            lz.ExactObservation("y", rate + 0.3 * noise, observed=2.0)

        tree = lz.abc_mcmc(simulator, 0.5, ["rate"], random_seed=1)
    """
    check_positive(one=True, step_size=step_size)
    check_whole(1, draws=draws, tune=tune, chains=chains)
    model = model_from(model, "abc_mcmc(model, epsilon, var_names)")
    simulator, rngs = Simulator(model, epsilon, compile_kwargs), generators_from(random_seed)
    columns = _columns(simulator, var_names)
    _check_independent(simulator, columns)
    moves = Walk(simulator, columns, *simulator.moments(rngs.pilot, columns), step_size)
    return _sampled(moves, draws, tune, chains, start, rngs)


@written_as("abc_slice(model, epsilon, var_names)")
def abc_slice(
    model: "pm.Model | None",
    epsilon: float,
    var_names: Sequence[str],
    draws: int = 1000,
    *,
    tune: int = 200,
    chains: int = 512,
    start: Any = None,
    random_seed: Any = None,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Chains of a simulator's inputs by elliptical slices, of parameters and of noise in turn.

    Each move goes round an ellipse through the present inputs and a draw of the prior, to the first
    point tried whose output is within epsilon, with a bracket that shrinks to the present one. Its
    ellipses are those of a normal distribution with the prior's moments, on the unconstrained
    scale; where the prior is not normal there, the slice follows the ratio of the two.

    Parameters
    ----------
    model, epsilon, draws, tune, chains, start, random_seed, compile_kwargs
        As of `abc_mcmc`.
    var_names
        Free variables that are parameters; all others are noise, and move by themselves.

    Returns
    -------
    xarray.DataTree
        As of `abc_mcmc`; ``accepted`` is the share of the simulations of a draw.

    Raises
    ------
    ModelError, PilotError, ValueError
        As of `abc_mcmc`, but noise may depend on parameters.

    Warns
    -----
    EvidenceWarning
        If half of the chains or more never moved.

    See Also
    --------
    abc_mcmc, abc_rejection
    ConstrainedHMC : without a tolerance.

    References
    ----------
    Murray, Adams & MacKay (2010), Elliptical slice sampling, arXiv 1001.0175; Murray & Graham
    (2016), Pseudo-marginal slice sampling, arXiv 1510.02958; Graham & Storkey (2017), section 5.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as simulator:
            rate, noise = pm.LogNormal("rate"), pm.Normal("noise")
            lz.ExactObservation("y", rate + 0.3 * noise, observed=2.0)

        tree = lz.abc_slice(simulator, 0.5, ["rate"], random_seed=1)
    """
    check_whole(1, draws=draws, tune=tune, chains=chains)
    model = model_from(model, "abc_slice(model, epsilon, var_names)")
    simulator, rngs = Simulator(model, epsilon, compile_kwargs), generators_from(random_seed)
    moves = Slices(simulator, _columns(simulator, var_names), *simulator.moments(rngs.pilot))
    return _sampled(moves, draws, tune, chains, start, rngs)


def _sampled(
    moves: Moves, draws: int, tune: int, chains: int, start: Any, rngs: Generators
) -> xr.DataTree:
    """Start, tune, draw, collect: what all chains have in common."""
    simulator = moves.simulator
    begin = simulator.starts(start, chains, rngs.pilot)
    rows = moves.tuned(begin, tune, rngs.pilot)
    found = moves.run(rows, draws, rngs.run)
    stuck = float((found.rows[-1] == begin).all(axis=1).mean())
    if stuck >= 0.5:
        warn(
            f"{stuck:.0%} of the chains never left where they started, with "
            f"epsilon={simulator.epsilon}: use a larger one, more draws, or "
            "pm.sample(step=ConstrainedHMC()), which needs none"
        )
    stats = {"distance": found.distance.T, "accepted": found.accepted.T.astype(float)}
    attrs = {**moves.record(), "epsilon": simulator.epsilon}
    attrs["n_simulations"] = simulator.n_simulations
    groups = {
        "posterior": simulator.dataset(found.rows.swapaxes(0, 1)),
        "sample_stats": dataset_of(stats, attrs=attrs, check_conventions=False),
        **data_datasets(simulator.flat),
    }
    return make_tree(groups, attrs, ABC)


def _columns(simulator: Simulator, var_names: Sequence[str]) -> np.ndarray:
    """Which columns of a row are parameters, shape (d,)."""
    given = [var_names] if isinstance(var_names, str) else list(var_names or ())
    free = [str(rv.name) for rv in simulator.model.free_RVs]
    if not given or not set(given) <= set(free):
        raise ValueError(f"var_names={given} must name some of the free variables {free}")
    return np.isin(np.array(simulator.flat.owners), given)


def _check_independent(simulator: Simulator, walked: np.ndarray) -> None:
    """Raise if noise depends on parameters, or the other way round."""
    model, parameters = simulator.model, set(np.array(simulator.flat.owners)[walked])
    for rv in model.free_RVs:
        above = {one.name for one in ancestors([rv]) if one in set(model.free_RVs)} - {rv.name}
        mixed = {name for name in above if (name in parameters) != (rv.name in parameters)}
        if mixed:
            raise ModelError(
                f"the prior of {rv.name!r} depends on {sorted(mixed)}, one of which is noise and "
                "the other a parameter: write noise as independent of parameters, such as "
                "mu + sigma * n with n ~ Normal(0, 1), or name both in var_names"
            )
