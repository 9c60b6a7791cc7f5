"""HAIS runs: their rows in one direction or both, what these say of log Z, and groups of a tree."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.errors import logger
from pymc_logz.estimators import LogZEstimate, bar_log_z, importance_log_z, reverse_log_z
from pymc_logz.estimators.bridge import above_upper_end
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.models.context import ForeignModel, is_model, model_labels
from pymc_logz.models.flat import constrain, flatten_model, function_of_rows
from pymc_logz.models.preparation import NotSummed, summed_out
from pymc_logz.references.reference import ERROR_FACTOR, REFERENCE_MCSE, Reference
from pymc_logz.runners.anneal import Annealed, Plan, of_rows
from pymc_logz.runners.moves_of_rows import Stopwatch
from pymc_logz.seeds import generators_from
from pymc_logz.trees.doubts import (
    MAX_DISAGREEMENT,
    Doubt,
    stored_doubts,
    warn_of_status,
    with_doubts,
)
from pymc_logz.trees.kinds import EXACT, HAIS, kind_of
from pymc_logz.trees.layout import (
    ESTIMATOR,
    data_datasets,
    dataset_of,
    evidence_dataset,
    log_weights,
    make_tree,
    with_evidence,
    with_units,
)
from pymc_logz.wings import from_wing

if TYPE_CHECKING:
    import pymc as pm


@dataclass
class Directions:
    """Weighted rows of a run: forward always, reverse if asked for."""

    forward: list[Annealed]
    reference: Reference
    """What forward rows start from."""
    reverse: list[Annealed] | None = None
    exact_starts: bool = False
    """Whether the reverse rows started at draws of the target that the run did not make."""


def forward_estimate(runs: Sequence[Annealed], reference: Reference) -> LogZEstimate:
    """Log Z from all forward rows."""
    estimate = importance_log_z(of_rows("log_weight", runs), method="hais")
    return with_error(estimate, reference.error_factor, reference.mcse)


def with_error(
    estimate: LogZEstimate, factor: float = 1.0, reference_mcse: float = 0.0
) -> LogZEstimate:
    """The estimate with a factor in its error, and that of the reference's own constant."""
    # of n rows that are not all alike none may have come to where a share of 1 / n of the reference
    # has hardly any weight, or none, so the error is that at least
    n_rows = estimate.details.get("n_rows", np.inf)
    unseen = 1 / n_rows if estimate.mcse > 0 else 0.0
    mcse = np.hypot(max(factor * estimate.mcse, unseen), reference_mcse)
    return replace(estimate, mcse=float(mcse))


def estimates_of(directions: Directions) -> list[LogZEstimate]:
    """Estimates of a run, the recommended one first."""
    reference = directions.reference
    forward = forward_estimate(directions.forward, reference)
    if directions.reverse is None:
        return [forward]
    ends = of_rows("log_weight", directions.forward), of_rows("log_weight", directions.reverse)
    found = (reverse_log_z(ends[1]), bar_log_z(*ends))
    reverse, bar = (with_error(one, reference.error_factor, reference.mcse) for one in found)
    if directions.exact_starts:
        if reverse.status == "ok":
            reverse = replace(reverse, status="upper_end")
        return [bar, forward, reverse] if bar.usable else [forward, reverse, bar]
    both = [
        replace(estimate, status="approximate_starts") if estimate.status == "ok" else estimate
        for estimate in (reverse, bar)
    ]
    return [forward, *both]


def doubts_of_ends(directions: Directions) -> list[Doubt]:
    """Whether log Z from both directions is above its own upper end: starts were no such draws."""
    if directions.reverse is None or not directions.exact_starts:
        return []
    forward, reverse = (
        of_rows("log_weight", runs) for runs in (directions.forward, directions.reverse)
    )
    bar = bar_log_z(forward, reverse)
    if not bar.usable:
        return []
    above, error = above_upper_end(forward, reverse, bar.log_z)
    if not above > MAX_DISAGREEMENT[0] * error:
        return []
    reason = (
        f"log Z of both directions is {above:.3g} ± {error:.2g} nats above that of the reverse "
        "particles alone, which is its upper end where they start at draws of the posterior"
    )
    return [Doubt("disagrees", reason)]


def of_model(run: Annealed, reference: Reference) -> Annealed:
    """Rows as the model has them, if they were whitened while they moved."""
    log_reference = run.log_reference - reference.log_volume(run.position)
    position = reference.restored(run.position)
    return run._replace(position=position, log_reference=log_reference)


def of_weights(tree: xr.DataTree) -> xr.DataTree:
    """The tree with log Z from the log weights that it holds; a whole run keeps its estimate."""
    # some rows of it have all that spoke against the run, and an error of their own
    estimate = importance_log_z(log_weights(tree), method="hais")
    if kind_of(tree) != HAIS or "evidence" not in tree.children:
        return with_evidence(tree, evidence_dataset([with_error(estimate)], {}))
    stored = tree["evidence"].to_dataset()
    if estimate.method in stored[ESTIMATOR]:
        of_run = stored.sel({ESTIMATOR: [estimate.method]})
        if np.isclose(estimate.log_z, of_run["log_z"].item(), rtol=1e-6, equal_nan=True):
            return with_evidence(tree, of_run)
    errors = stored.attrs.get(ERROR_FACTOR, 1.0), stored.attrs.get(REFERENCE_MCSE, 0.0)
    estimates, notes = with_doubts([with_error(estimate, *errors)], stored_doubts(stored))
    return with_evidence(tree, evidence_dataset(estimates, {**stored.attrs, **notes}))


def bayes_factor(before: Sequence[Annealed], after: Sequence[Annealed]) -> LogZEstimate:
    """Log of the ratio of the mean weights of the same rows at two models, the first one before."""
    # its error is that of a ratio of two means of the same rows (delta method)
    log_weights = [of_rows("log_weight", runs) for runs in (before, after)]
    first, second = (importance_log_z(weights, method="hais") for weights in log_weights)
    worse = second if second.status != "ok" else first
    if not (first.usable and second.usable):
        return replace(worse, log_z=np.nan, mcse=np.nan)
    relative = [
        np.exp(weights - estimate.log_z)
        for weights, estimate in zip(log_weights, (first, second), strict=True)
    ]
    mcse = float((relative[1] - relative[0]).std(ddof=1) / np.sqrt(relative[0].size))
    return replace(second, log_z=second.log_z - first.log_z, mcse=mcse, status=worse.status)


def factor_dataset(factor: LogZEstimate, other: LogZEstimate) -> xr.Dataset:
    """Group ``bayes_factor``: log of the ratio, and log Z of what the path starts at."""
    return xr.Dataset(
        {
            "log_bayes_factor": factor.log_z,
            "log_bayes_factor_mcse": factor.mcse,
            "status": factor.status,
            "log_z_other": other.log_z,
            "mcse_other": other.mcse,
        }
    )


def onward_run(
    target: ForeignModel | None, reference: Any, direction: str, sum_out: bool | None
) -> Callable[..., xr.DataTree] | None:
    """What runs a target, or a PyMC model if None, from another one; None if there is none."""
    if target is not None:
        return target.runs.between(target, reference, direction)
    if not is_model(reference):
        return None
    if direction != "forward":
        raise ValueError(
            f"direction={direction!r} does not apply where reference is a model: swap the two "
            "models to go the other way"
        )
    if sum_out:
        raise ValueError(
            f"sum_out={sum_out!r} does not apply where reference is a model: its integers move"
        )
    return partial(from_wing("run_between"), other=reference)


def annealing_dataset(runs: Sequence[Annealed], plan: Plan) -> xr.Dataset:
    """Group ``annealing``: what happened at each inverse temperature of each chain."""
    step_size = plan.step_size.copy()
    step_size[[0, -1]] = np.nan  # nothing moves at the two ends
    per_chain = {
        "acceptance_rate": [run.stage_acceptance_rate for run in runs],
        "mean_log_ratio": [run.stage_mean_log_ratio for run in runs],
        "weight_ess": [run.stage_weight_ess for run in runs],
    }
    dataset = xr.Dataset(
        {name: (("chain", "stage"), np.stack(values)) for name, values in per_chain.items()},
        coords={
            "chain": np.arange(len(runs)),
            "stage": np.arange(plan.betas.size),
            "beta": ("stage", plan.betas),
        },
    )
    dataset["step_size"] = ("stage", step_size)
    dataset["n_nan_log_ratio"] = ("chain", np.array([run.n_nan for run in runs]))
    return dataset


def draw_datasets(
    runs: Sequence[Annealed], values: Mapping[str, np.ndarray], chosen: np.ndarray, **labels: Any
) -> dict[str, xr.Dataset]:
    """Groups of draws; ``values`` are those of all rows, ``chosen`` the equally weighted ones."""
    shape = (len(runs), runs[0].log_weight.size)

    def labelled(arrays: Mapping[str, np.ndarray], index: Any) -> xr.Dataset:
        chains = {
            name: array[index].reshape(*shape, *array.shape[1:]) for name, array in arrays.items()
        }
        return with_units(dataset_of(chains, **labels))

    log_ratio, acceptance_rate = of_rows("log_ratio", runs), of_rows("acceptance_rate", runs)
    if all(np.isnan(run.stage_acceptance_rate).all() for run in runs):
        acceptance_rate = np.full_like(acceptance_rate, np.nan)  # one temperature: nothing moved
    stats = {
        "lp": of_rows("log_reference", runs) + log_ratio,
        "log_ratio": log_ratio,
        "acceptance_rate": acceptance_rate,
    }
    weighted = {**values, "log_weight": of_rows("log_weight", runs)}
    return {
        "posterior": labelled(values, chosen),
        "sample_stats": labelled(stats, chosen),
        "weighted_posterior": labelled(weighted, slice(None)),
    }


def exact_tree(model: "pm.Model", settings: HaisSettings, random_seed: Any) -> xr.DataTree | None:
    """Log Z as a sum over all values, and draws; None if a variable is continuous or not summed."""
    whole = flatten_model(model, integers=True)
    if not whole.sites or whole.continuous.size:
        return None
    watch = Stopwatch()
    found = summed_out(whole, whatever_is_left=True)
    if isinstance(found, NotSummed):
        return None
    assert found.summed is not None
    summed, route = found.summed, found.summed.plan.route
    logger.info("All variables are discrete, and summed out: %s.", route)
    watch.end("compile_time")
    log_z = summed.log_target(np.empty(0))
    shape = settings.chains, settings.draws
    rng = generators_from(random_seed).run
    rows = summed.filled(np.empty((shape[0] * shape[1], 0)), rng)
    values = constrain(whole, rows.reshape(*shape, -1))
    [log_density] = function_of_rows(model, [model.varlogp + model.datalogp])(rows)
    stats = {"lp": log_density.reshape(shape)}
    estimate = exact_estimate(log_z, len(rows))
    watch.end("sampling_time")
    attrs = {"summed_out": route, "prior_finite_share": 1.0, **watch.seconds}
    groups = {
        "posterior": with_units(dataset_of(values, **model_labels(model))),
        "sample_stats": with_units(dataset_of(stats)),
        "evidence": evidence_dataset([estimate], attrs),
        **data_datasets(whole.model, whole.observed),
    }
    return make_tree(groups, {**settings.record(), **attrs}, EXACT)


def exact_estimate(log_z: float, n_draws: int = 0) -> LogZEstimate:
    """A sum over all values, or a log likelihood without unknowns."""
    estimate = LogZEstimate("exact", log_z, 0.0, float(n_draws), np.nan, "ok")
    if not np.isfinite(log_z):
        estimate = LogZEstimate("exact", np.nan, np.nan, 0.0, np.nan, "no_support")
    warn_of_status(estimate)
    return estimate
