"""A second estimate that is cheap and of another method: importance sampling from a fit."""

from dataclasses import replace

import numpy as np
import pymc as pm
import xarray as xr

from pymc_logz.checks.necks import is_funnel
from pymc_logz.choosing.shared import How, estimate_of
from pymc_logz.errors import ModelError, warn
from pymc_logz.estimators import LogZEstimate
from pymc_logz.models.density import RowDensity
from pymc_logz.models.exact import exact_observations
from pymc_logz.models.flat import FlatModel, flatten_model, unconstrain
from pymc_logz.models.normal_parts import normal_columns
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.summing import NotSummed, summed_out
from pymc_logz.paths.fitting import fitted_normal
from pymc_logz.posterior.own_proposal import importance
from pymc_logz.runners.progress import progress_bar, report_count
from pymc_logz.seeds import random_generator
from pymc_logz.trees.doubts import disagreements, doubted, noted, second_opinions, warn_of_doubts
from pymc_logz.trees.layout import ESTIMATOR, evidence_dataset
from pymc_logz.trees.posterior import check_data, checked_variables
from pymc_logz.wings import from_wing

OF_TARGET = ("maybe_infinite", "missed_mode", "unchecked_prior")
"""Statuses of a model, or of draws, that a second estimate from the same draws shares."""
SECOND_OPINION_DRAWS = 2000
"""Draws of the second estimate: an error of a few hundredths where the fit is fair."""


def with_second_opinion(tree: xr.DataTree, model: pm.Model, how: How) -> xr.DataTree:
    """The tree with importance sampling from a fit to its posterior as last entry."""
    group = tree["evidence"].to_dataset()
    if group[ESTIMATOR].size > 1 or "posterior" not in tree.children:
        return tree  # it has second estimates of its own, or is of many data rows
    if _is_restricted(group, model, how):
        return tree  # the constant of a restricted prior is known to the first method only
    first = estimate_of(group)
    if exact_observations(model):
        try:
            model = from_wing("likelihood_form")(model)
        except ModelError:
            return tree  # it has no likelihood that could be written down
    if isinstance(continuous_part(model), NotSummed):
        return tree  # a fit has no whole numbers
    try:
        with progress_bar(how.progressbar) as progress:
            report = report_count(progress, "Second estimate", 1)
            second = _second_opinion(tree, model, how)
            report(1)
    except (ModelError, ValueError) as error:
        warn(f"there is no second estimate to check {first.method!r} against: {error}")
        return tree
    if second.status == "ok" and first.status in OF_TARGET:
        second = replace(second, status=first.status)
    doubts = disagreements(first, [second]) if first.usable else []
    if not doubts:  # too close to accuse the first one, and maybe too far to be right itself
        [second] = second_opinions(first, [second], [])
    warn_of_doubts(doubts)
    [first] = doubted([first], doubts)
    ordered = [second, first] if second.status == "ok" and not first.usable else [first, second]
    attrs = {**group.attrs, **noted(doubts, group.attrs)}
    tree["evidence"] = xr.DataTree(evidence_dataset(ordered, attrs))
    return tree


def _is_restricted(group: xr.Dataset, model: pm.Model, how: How) -> bool:
    """Whether transforms restrict the prior; step methods do not note it, so it is looked at."""
    share = group.attrs.get("prior_finite_share")
    if share is None:
        prior = PriorDraws(model, needed=False)
        share = np.exp(prior.log_share(random_generator(how.random_seed))[0])
    return bool(share < 1.0)


def continuous_part(model: pm.Model) -> FlatModel | NotSummed:
    """The model with its discrete variables summed out, if it has any."""
    flat = flatten_model(model, integers=True)
    return summed_out(flat) if flat.sites else flat


def _second_opinion(tree: xr.DataTree, model: pm.Model, how: How) -> LogZEstimate:
    rng = random_generator(how.random_seed)
    flat = continuous_part(model)
    assert not isinstance(flat, NotSummed)
    check_data(tree, flat)
    rows = unconstrain(flat, checked_variables(tree["posterior"].to_dataset(), model))
    rows = rows[np.all(np.isfinite(rows), axis=1)]
    density = RowDensity(flat, how.compile_kwargs)
    [fresh] = rng.spawn(1)
    found = importance(density, fitted_normal(rows), "student", SECOND_OPINION_DRAWS, fresh)
    # what is fitted to a funnel has few draws in its neck, and their weights do not tell
    narrow = found.status == "ok" and is_funnel(rows, normal_columns(flat))
    return replace(found, status="uncovered") if narrow else found
