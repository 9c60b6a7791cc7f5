"""Second estimates: importance sampling from a fit, or another method where HAIS is in doubt."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from pymc.exceptions import SamplingError

from pymc_logz.errors import EvidenceWarning, ModelError, PilotError, logger, warn
from pymc_logz.estimators import LogZEstimate
from pymc_logz.models.density import RowDensity, n_gradients_of
from pymc_logz.models.discrete import discrete_names
from pymc_logz.models.exact import exact_observations
from pymc_logz.models.flat import FlatModel, flatten_model, unconstrain
from pymc_logz.models.known_priors import normal_columns
from pymc_logz.models.preparation import NotSummed, summed_out
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.elliptical import fitted_normal
from pymc_logz.posterior.bridging import bridge_sampling
from pymc_logz.posterior.own_proposal import importance
from pymc_logz.runners.progress import progress_bar, report_count
from pymc_logz.seeds import random_generator
from pymc_logz.tempered.sampling import sample_tempered
from pymc_logz.trees.doubts import (
    DOUBTS,
    MAX_DISAGREEMENT,
    Doubt,
    disagreements,
    second_opinions,
    with_doubts,
)
from pymc_logz.trees.layout import ESTIMATOR, estimate_of, evidence_dataset, with_evidence
from pymc_logz.trees.posterior import check_data, checked_variables
from pymc_logz.wings import from_wing


class How(NamedTuple):
    """What all methods take, whatever is chosen."""

    random_seed: Any
    progressbar: bool
    compile_kwargs: Mapping[str, Any] | None


def chosen_by(tree: xr.DataTree, chosen: str, reason: str) -> xr.DataTree:
    """The tree with the choice in the attributes of ``evidence``."""
    group = tree["evidence"].to_dataset()
    return with_evidence(tree, group.assign_attrs(chosen=chosen, reason=reason))


def spent_on(tree: xr.DataTree) -> dict[str, int]:
    """Evaluations of a run by their unit, those of its pilot and its checks among them."""
    attrs = tree["evidence"].attrs
    return {
        unit: sum(int(attrs.get(f"{part}_{unit}", 0)) for part in ("pilot", "run", "check"))
        for unit in ("row_gradients", "row_evaluations")
    }


def spent_before(tree: xr.DataTree, spent: Mapping[str, int]) -> xr.DataTree:
    """The tree, evaluations of what ran before it counted among those of its pilot."""
    group = tree["evidence"].to_dataset()
    before = {f"pilot_{unit}": n for unit, n in spent.items()}
    sums = {name: n + int(group.attrs.get(name, 0)) for name, n in before.items()}
    return with_evidence(tree, group.assign_attrs({name: n for name, n in sums.items() if n}))


OF_TARGET = ("maybe_infinite", "missed_mode", "unchecked_prior")
"""Statuses of a model, or of draws, that a second estimate from the same draws shares."""


def with_second_opinion(tree: xr.DataTree, model: pm.Model, how: How) -> xr.DataTree:
    """The tree with importance sampling from a fit to its posterior as last entry."""
    group = tree["evidence"].to_dataset()
    if group[ESTIMATOR].size > 1 or "posterior" not in tree.children:
        return tree  # it has second estimates of its own, or is of many data rows
    first = estimate_of(group)
    if exact_observations(model):
        try:
            model = from_wing("likelihood_form")(model)
        except ModelError:
            return tree  # it has no likelihood that could be written down
    flat = flatten_model(model, integers=True)
    part = summed_out(flat) if flat.sites else flat
    if isinstance(part, NotSummed):
        return tree  # a fit has no discrete variables
    try:
        with progress_bar(how.progressbar):
            report = report_count("Second estimate", 1)
            second = _second_opinion(tree, model, part, how)
            report(1)
    except (ModelError, ValueError) as error:
        warn(f"there is no second estimate to check {first.method!r} against: {error}")
        return tree
    if second.method == first.method:
        second = replace(second, method=f"{second.method}_student")
    if second.status == "ok" and first.status in OF_TARGET:
        second = replace(second, status=first.status)
    doubts = disagreements(first, [second]) if first.usable else []
    if not doubts:  # too close to accuse the first one, and maybe too far to be right itself
        [second] = second_opinions(first, [second], [])
    [first], notes = with_doubts([first], doubts, attrs=group.attrs)
    ordered = [second, first] if second.status == "ok" and not first.usable else [first, second]
    attrs = {**group.attrs, **notes}
    tree["evidence"] = xr.DataTree(evidence_dataset(ordered, attrs))
    return tree


def _second_opinion(tree: xr.DataTree, model: pm.Model, flat: FlatModel, how: How) -> LogZEstimate:
    """Importance sampling; the flat model has its discrete variables summed out, if any."""
    rng = random_generator(how.random_seed)
    check_data(tree, flat)
    rows = unconstrain(flat, checked_variables(tree["posterior"].to_dataset(), model))
    rows = rows[np.all(np.isfinite(rows), axis=1)]
    density = RowDensity(flat, how.compile_kwargs, few_calls=True)
    [fresh] = rng.spawn(1)
    # of so many draws: an error of a few hundredths where the fit is fair
    found = importance(density, fitted_normal(rows), "student", 2000, fresh)
    with warnings.catch_warnings():
        if "prior_finite_share" in tree["evidence"].attrs:  # it has been said
            warnings.simplefilter("ignore", EvidenceWarning)
        found = found.less(*PriorDraws(model, needed=False).log_mass())
    # what is fitted to a funnel has few draws in its neck, and their weights do not tell
    narrow = found.status == "ok" and _is_funnel(rows, normal_columns(flat))
    return replace(found, status="uncovered") if narrow else found


def _is_funnel(rows: np.ndarray, inner: np.ndarray) -> bool:
    """Whether the widths of some entries of rows (n, d) follow one of the others.

    The correlation of that with the log of how far normal ones are from their middle, of one of
    them or on average, is up to 0.19 and 0.08 in hierarchies that are not centred, and 0.18 and
    0.10 at least in eight schools that are.
    """
    outer = np.setdiff1d(np.arange(rows.shape[1]), inner)
    if not inner.size or not outer.size:
        return False
    distance = np.abs(rows[:, inner] - np.median(rows[:, inner], axis=0))
    width = np.log(np.maximum(distance, 1e-300))
    columns = np.concatenate([rows[:, outer], width], axis=1)
    with np.errstate(invalid="ignore"):
        alike = np.abs(np.corrcoef(columns.T)[: outer.size, outer.size :])
    alike = np.where(np.isnan(alike), 0.0, alike)
    return bool(alike.max() > 0.25 or alike.mean(axis=1).max() > 0.09)


OF_MODES = "missed_mode"
"""Status that tempering may settle: its walkers cross between modes all the time."""
OF_WEIGHTS = frozenset({"few_rows", "low_weight_ess", "high_khat", "degenerate"})
"""Statuses of weights, about which another method knows nothing."""


def with_another_route(tree: xr.DataTree, model: pm.Model, how: How) -> xr.DataTree:
    """The tree of a HAIS run, or where its status is not ok one that another method made of it."""
    # draws of pm.sample and a bridge, which know nothing of a path and its weights; or tempering,
    # where modes are in question, or integers move. Evaluations of both count
    group = tree["evidence"].to_dataset()
    first = estimate_of(group)
    if first.status not in {OF_MODES} | OF_WEIGHTS:
        return tree
    name = "tempering" if first.status == OF_MODES or discrete_names(model) else "bridge"
    logger.info(
        "HAIS ended with status %r, so %s follows, which takes longer (cross_check=False leaves it "
        "out).",
        first.status,
        "simulated tempering" if name == "tempering" else "pm.sample with a bridge",
    )
    try:
        if name == "tempering":
            other = sample_tempered(model=model, **how._asdict())
        else:
            other = _bridged(model, how)
    except (ModelError, PilotError, SamplingError, RuntimeError, ValueError) as error:
        logger.info("There is no other route: %s", error)
        return tree
    own = estimate_of(other["evidence"].to_dataset())
    [own], notes = with_doubts([own], _disagreements(first, own), attrs=group.attrs)
    why = f"HAIS had status {first.status!r}; {group.attrs['reason']}"
    if own.status != "ok":
        attrs = {**group.attrs, "reason": f"{why}; {own.method} had status {own.status!r}"}
        both = evidence_dataset([first, own], {**attrs, **notes})
        return spent_before(with_evidence(tree, both), spent_on(other))
    attrs = {k: v for k, v in other["evidence"].attrs.items() if k != DOUBTS}
    other = with_evidence(other, evidence_dataset([own, first], attrs))
    return chosen_by(spent_before(other, spent_on(tree)), own.method, why)


def _bridged(model: pm.Model, how: How) -> xr.DataTree:
    """Draws of PyMC's own sampler, and a bridge."""
    seen = {"random_seed": how.random_seed, "progressbar": how.progressbar}
    sampled = pm.sample(model=model, discard_tuned_samples=False, **seen)
    spent = {"row_gradients": n_gradients_of(sampled)}
    drawn = sampled.filter(lambda group: not group.path.startswith("/warmup"))
    bridged = bridge_sampling(drawn, model, cross_check=None, **how._asdict())
    return spent_before(bridged, spent)


def _disagreements(first: LogZEstimate, own: LogZEstimate) -> list[Doubt]:
    """What speaks against the second of two routes, beside what it says itself."""
    if not own.usable:
        return []
    # it does not go by these weights, so it may be too high as well as too low
    found = disagreements(first, [replace(own, khat=0.0, weight_ess=np.inf)])
    if first.status != OF_MODES:
        return found
    # where the first lacks something, the second is to have found more
    limit = MAX_DISAGREEMENT[0] * float(np.hypot(first.mcse, own.mcse))
    if own.log_z - first.log_z > limit:
        return []
    both = f"{first.method} ({first.log_z:.3f}) and {own.method} ({own.log_z:.3f})"
    agree = Doubt(first.status, f"{both} agree, so neither misses the mass in question")
    return found or [agree]
