"""Another route to log Z, where annealing was not good enough."""

import numpy as np
import pymc as pm
import xarray as xr
from pymc.exceptions import SamplingError

from pymc_logz.choosing.shared import (
    How,
    chosen_by,
    estimate_of,
    logger,
    spent_before,
    spent_on,
)
from pymc_logz.errors import ModelError, PilotError
from pymc_logz.estimators import LogZEstimate
from pymc_logz.models.discrete import discrete_names
from pymc_logz.models.posterior_draws import n_gradients_of
from pymc_logz.posterior.bridging import bridge_sampling
from pymc_logz.tempered.sampling import sample_tempered
from pymc_logz.trees.doubts import DOUBTS, Doubt, doubted, noted, warn_of_doubts
from pymc_logz.trees.layout import evidence_dataset, with_evidence

OF_MODES = "missed_mode"
"""Status that tempering may settle: its walkers cross between modes all the time."""
LACKING = frozenset({OF_MODES, "lagging_rows"})
"""Statuses that say that mass is missing, which another method may miss too."""
OF_WEIGHTS = frozenset({"few_rows", "low_weight_ess", "high_khat", "degenerate"})
"""Statuses of weights, about which another method knows nothing."""
APART = 4.0
"""Joint errors by which two routes disagree."""


def with_another_route(tree: xr.DataTree, model: pm.Model, how: How) -> xr.DataTree:
    """The tree of a HAIS run, or where its status is not ok one that another method made of it.

    Posterior draws of ``pm.sample`` and a bridge, which know nothing of a path and its weights; or
    tempering, where modes are in question, or whole numbers move. Its number comes first if it is
    ok, and not at odds with what HAIS has found. Evaluations of both count.
    """
    group = tree["evidence"].to_dataset()
    first = estimate_of(group)
    if first.status not in LACKING | OF_WEIGHTS:
        return tree
    name = "tempering" if first.status == OF_MODES or discrete_names(model) else "bridge"
    logger.info(
        "HAIS ended with status %r, so %s follows, which takes longer (cross_check=False leaves it "
        "out).",
        first.status,
        "simulated tempering" if name == "tempering" else "pm.sample with a bridge",
    )
    try:
        other = _tempered(model, how) if name == "tempering" else _bridged(model, how)
    except (ModelError, PilotError, SamplingError, RuntimeError, ValueError) as error:
        logger.info("There is no other route: %s", error)
        return tree
    own = estimate_of(other["evidence"].to_dataset())
    doubts = _at_odds(first, own)
    warn_of_doubts(doubts)
    [own] = doubted([own], doubts)
    why = f"HAIS had status {first.status!r}; {group.attrs['reason']}"
    if own.status != "ok":
        attrs = {**group.attrs, "reason": f"{why}; {own.method} had status {own.status!r}"}
        both = evidence_dataset([first, own], {**attrs, **noted(doubts, attrs)})
        return spent_before(with_evidence(tree, both), spent_on(other))
    attrs = {k: v for k, v in other["evidence"].attrs.items() if k != DOUBTS}
    other = with_evidence(other, evidence_dataset([own, first], attrs))
    return chosen_by(spent_before(other, spent_on(tree)), own.method, why)


def _tempered(model: pm.Model, how: How) -> xr.DataTree:
    return sample_tempered(model=model, sum_out=None, **how._asdict())


def _bridged(model: pm.Model, how: How) -> xr.DataTree:
    """Draws of PyMC's own sampler, and a bridge."""
    seen = {"random_seed": how.random_seed, "progressbar": how.progressbar}
    sampled = pm.sample(model=model, discard_tuned_samples=False, **seen)
    spent = {"row_gradients": n_gradients_of(sampled)}
    drawn = sampled.filter(lambda group: not group.path.startswith("/warmup"))
    bridged = bridge_sampling(drawn, model, cross_check=None, **how._asdict())
    return spent_before(bridged, spent)


def _at_odds(first: LogZEstimate, own: LogZEstimate) -> list[Doubt]:
    """What speaks against the second of two routes, beside what it says itself.

    That it disagrees with the first; or, where that one lacks something, that it has found no
    more, and may lack the same.
    """
    if not own.usable:
        return []
    apart, error = own.log_z - first.log_z, float(np.hypot(first.mcse, own.mcse))
    both = (
        f"hais ({first.log_z:.3f} ± {first.mcse:.3f}, {first.status}) and {own.method} "
        f"({own.log_z:.3f} ± {own.mcse:.3f})"
    )
    if first.status in LACKING:
        if apart > APART * error:
            return []
        if apart > -APART * error:
            return [Doubt(first.status, f"{both} agree, so that neither has what is in question")]
    if not first.usable or abs(apart) <= APART * error:
        return []
    return [Doubt("disagrees", f"{both} disagree by {apart:+.3g} nats")]
