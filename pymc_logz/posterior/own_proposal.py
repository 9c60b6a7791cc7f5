"""Importance sampling from a proposal that the user has, and its resampled posterior."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.arguments import check_flag, check_integer
from pymc_logz.checks.missed_modes import larger, log_z_from_prior
from pymc_logz.checks.symmetry import symmetry_doubts
from pymc_logz.checks.tails import tail_doubts
from pymc_logz.errors import ModelError
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.models.beyond_draws import moved_on
from pymc_logz.models.context import model_from, model_labels, written_as
from pymc_logz.models.density import ROWS_PER_CALL, RowDensity
from pymc_logz.models.flat import constrain, unconstrained
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.models.proposals import Proposed, natural_density, proposed
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.runners.moves_of_rows import Stopwatch
from pymc_logz.seeds import generators_from
from pymc_logz.trees.chains import says_result
from pymc_logz.trees.doubts import Doubt, prior_doubts, warn_of_status, with_doubts
from pymc_logz.trees.kinds import IMPORTANCE
from pymc_logz.trees.layout import (
    data_datasets,
    dataset_of,
    evidence_dataset,
    make_tree,
    run_attrs,
    with_units,
)
from pymc_logz.weights import MIN_ROWS_FOR_KHAT, resampled

if TYPE_CHECKING:
    import pymc as pm


def importance(
    density: RowDensity, proposal: Elliptical, kind: str, n: int, rng: np.random.Generator
) -> LogZEstimate:
    """Smoothed importance sampling by n draws of a fitted normal, or of a wider ``"student"``."""
    source = proposal.with_heavy_tails() if kind == "student" else proposal
    rows = source(rng, n)
    log_target = bounded(density.log_target(rows))
    return importance_log_z(log_target - source.log_density_of(rows), smooth=True)


def bounded(log_target: np.ndarray) -> np.ndarray:
    """The same log densities at proposed draws; a ModelError if one of them is infinite."""
    if np.any(log_target == np.inf):
        raise ModelError(
            "the posterior density is infinite at a proposed draw, so log Z may be infinite; bound "
            "the likelihood and the potentials"
        )
    return log_target


@written_as("importance_sampling(proposal, model)")
@says_result
def importance_sampling(
    proposal: Any,
    model: "pm.Model | None" = None,
    draws: int | None = None,
    *,
    smooth: bool = True,
    random_seed: Any = None,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Log Z and a resampled posterior by importance sampling from a proposal of your own.

    Draws of the proposal are weighted by prior times likelihood times potentials over their own
    density; the mean weight is Z, and particles resampled by their weights are posterior draws
    (sampling importance resampling). The estimate is only as good as the proposal's cover of the
    posterior; `sample_hais` finds a proposal by itself.

    Parameters
    ----------
    proposal
        - A PyMC model with the same free variables: its prior draws. What it observes is not used.
        - A dict of frozen ``scipy.stats`` distributions by name of the free variable, independent
          of each other: one that all entries of a variable share, or one of the whole variable
          (``multivariate_normal``). For a model with one free variable the distribution alone.
        - A pair: draws, as a dict of arrays of shape (n, ...), or a Dataset or DataTree with chain
          and draw; and the normalised log density that they were drawn from, n values in nats.

        All on the natural scale of the variables, as in ``model``.
    model
        PyMC model; None takes the one on the context stack.
    draws
        Number of draws, where they are not given, at least 2. None makes 4,000.
    smooth
        Whether to replace the largest weights by what their generalised Pareto fit expects of them
        (PSIS). The resampled posterior takes the weights as they are.
    random_seed, compile_kwargs
        As in `sample_hais`.

    Returns
    -------
    xarray.DataTree
        ``posterior`` (resampled), ``sample_stats``, ``weighted_posterior`` with ``log_weight``,
        ``evidence`` with weight ESS, k-hat and status, the data.

    Raises
    ------
    ModelError
        If log Z of the model is undefined.
    TypeError
        If the proposal is none of the above.
    ValueError
        If variables are missing, of another shape, or have no finite log density.

    Warns
    -----
    EvidenceWarning
        If the status is not ``"ok"``.

    See Also
    --------
    bridge_sampling, sample_hais

    Notes
    -----
    Parts of the posterior without draws get no weight, and the weights do not show it. So 512 of
    the resampled draws are moved by steps that leave the posterior invariant: if they get to where
    the proposal has no density (or, if draws were passed, beyond all of them), the status is
    ``"uncovered"``. In up to 16 dimensions, with up to 5,000 data, as many from the prior look for
    another mode (``"missed_mode"``), as for `bridge_sampling`. A prior that a transform restricts
    is renormalised, as there.

    References
    ----------
    Rubin (1987), The calculation of posterior distributions by data augmentation: comment, J. Am.
    Stat. Assoc. 82, 543 (sampling importance resampling). Vehtari, Simpson, Gelman, Yao & Gabry
    (2024), Pareto smoothed importance sampling, arXiv 1507.02646.

    Examples
    --------
    >>> import pymc as pm
    >>> from scipy import stats
    >>> import pymc_logz as lz
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0, 1)
    ...     y = pm.Normal("y", x, 1, observed=1.0)
    >>> tree = lz.importance_sampling(stats.norm(0.5, 1), model, random_seed=1)
    >>> tree["evidence"]["status"].item()
    'ok'
    """
    if draws is not None and isinstance(proposal, tuple):
        raise ValueError(f"draws={draws!r} has no effect where draws are given: leave it out")
    draws = 4000 if draws is None else draws
    check_integer(2, draws=draws)
    check_flag(smooth=smooth)
    model = model_from(model, "importance_sampling(proposal, model)")
    watch, rngs = Stopwatch(), generators_from(random_seed)
    prepared = prepare(model, rngs.checks, needs_prior_draws=False)
    flat = prepared.flat
    density = RowDensity(flat, compile_kwargs)
    watch.end("compile_time")
    given = proposed(proposal, flat, draws, rngs.run)
    rows = unconstrained(flat.model, given.draws)
    log_target, natural = natural_density(density, rows)
    log_weight = bounded(natural) - given.log_density
    estimate = importance_log_z(log_weight, smooth=smooth)
    log_mass, mass_error = prepared.prior.log_mass(rngs.checks)
    normalised = estimate.less(log_mass, mass_error)
    alive, found = log_weight > -np.inf, list[Doubt]()
    if estimate.usable and alive.sum() >= MIN_ROWS_FOR_KHAT:
        of_proposal = rows[alive], log_weight[alive]
        of_posterior = np.unique(rows[alive][resampled(log_weight[alive], rngs.checks)], axis=0)
        found += coverage_doubts(density, *of_proposal, given, estimate.mcse, rngs.checks)
        held = prepared, density, of_posterior, normalised, rngs.checks
        _, found = held_against_the_model(*held, found)
    known = prior_doubts(prepared.prior_doubt)
    estimates, notes = with_doubts([normalised], [*found, *known], known)
    if not found:
        warn_of_status(estimate)
    watch.end("sampling_time")
    cost = {**watch.seconds, "row_evaluations": density.n_evaluated}
    share = float(np.exp(log_mass))
    attrs = run_attrs(density.compiled, density.batching, share, cost, **notes)
    alive = np.all(np.isfinite(rows), axis=1)
    values = constrain(flat, np.where(alive[:, None], rows, 0.0))
    labels = model_labels(model)
    chosen = resampled(log_weight, rngs.run, shuffled=True)
    drawn = {name: array[chosen][None] for name, array in values.items()}
    weighted = {name: array[None] for name, array in (values | {"log_weight": log_weight}).items()}
    stats = {"lp": log_target[chosen][None], "log_ratio": log_weight[chosen][None]}
    groups = {
        "posterior": dataset_of(drawn, **labels),
        "sample_stats": with_units(dataset_of(stats)),
        "weighted_posterior": with_units(dataset_of(weighted, **labels)),
        "evidence": evidence_dataset(estimates, attrs),
        **data_datasets(flat.model, flat.observed),
    }
    requested = {"method": "importance", "draws": len(rows), "smooth": smooth}
    return make_tree(groups, {**requested, **attrs}, IMPORTANCE)


def held_against_the_model(
    prepared: Prepared,
    density: RowDensity,
    rows: np.ndarray,
    estimate: LogZEstimate,
    rng: np.random.Generator,
    found: Sequence[Doubt],
) -> tuple[LogZEstimate | None, list[Doubt]]:
    """Log Z by rows from the prior, if it was looked for, and doubts after those that were found.

    ``rows`` (n, d) are draws of the posterior.
    """
    doubts = [*found, *tail_doubts(prepared.flat, density, rows, rng)]
    if estimate.usable:
        doubts += symmetry_doubts(prepared.flat, density, rows)
    if doubts:
        return None, doubts
    own = log_z_from_prior(prepared, estimate, rng, density.compile_kwargs)
    return own, larger(own, estimate)


def coverage_doubts(
    density: RowDensity,
    rows: np.ndarray,
    log_weight: np.ndarray,
    proposed: Proposed,
    mcse: float,
    rng: np.random.Generator,
) -> list[Doubt]:
    """Whether posterior draws, moved on, leave where a proposal has density, or draws ``rows``.

    Where the density of the proposal is not known, rows are beyond it that exceed all its draws in
    one of the d dimensions; of n independent draws of one distribution another one does so with a
    probability of at most 2 d / (n + 1). More rows than expected have to be beyond by 4 standard
    deviations, and their fraction has to be twice the error of log Z to matter.
    """
    n_rows = ROWS_PER_CALL
    start = rows[resampled(log_weight, rng, n_rows)]
    moved = moved_on(density, start, 16, rng)
    if proposed.log_density_of is None:
        beyond = ((moved < rows.min(axis=0)) | (moved > rows.max(axis=0))).any(axis=1)
        expected = 2.0 * n_rows * rows.shape[1] / (len(rows) + 1)
        where = "where no draw of the proposal is"
    else:
        beyond = np.isneginf(proposed.log_density_of(constrain(density.flat, moved)))
        expected, where = 0.0, "where the proposal has no density"
    n_beyond = int(beyond.sum())
    fraction = (n_beyond - expected) / n_rows
    if n_beyond <= expected + 4.0 * np.sqrt(expected) or fraction <= 2.0 * mcse:
        return []
    reason = f"of {n_rows} posterior draws that moved on {n_beyond} ended {where}"
    return [Doubt("uncovered", reason)]
