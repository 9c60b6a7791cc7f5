"""Models of discrete variables alone whose sum can be written down: exact log Z and draws."""

import logging
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from pymc_logz.estimators import LogZEstimate
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.models.context import model_labels
from pymc_logz.models.flat import constrain, flatten_model
from pymc_logz.models.preparation import NotSummed, summed_out
from pymc_logz.runners.moves_of_rows import Stopwatch
from pymc_logz.seeds import Generators
from pymc_logz.trees.kinds import EXACT
from pymc_logz.trees.layout import (
    data_datasets,
    dataset_of,
    evidence_dataset,
    make_tree,
    with_units,
)

if TYPE_CHECKING:
    import pymc as pm

logger = logging.getLogger("pymc.pymc_logz")


def exact_tree(model: "pm.Model", settings: HaisSettings, rngs: Generators) -> xr.DataTree | None:
    """Log Z as a sum over all values, and draws; None if a variable is continuous or not summed."""
    whole = flatten_model(model, integers=True)
    if not whole.sites or whole.continuous.size:
        return None
    watch = Stopwatch()
    found = summed_out(whole, whatever_is_left=True)
    if isinstance(found, NotSummed):
        return None
    assert found.summed is not None
    summed, route = found.summed, found.summed.route
    logger.info("All variables are discrete, and summed out: %s.", route)
    watch.end("compile_time")
    log_z = summed.log_target(np.empty(0))
    shape = settings.chains, settings.draws
    rows = summed.filled(np.empty((shape[0] * shape[1], 0)), rngs.run)
    values = constrain(whole, rows.reshape(*shape, -1))
    estimate = LogZEstimate("exact", log_z, 0.0, float(len(rows)), np.nan, "ok")
    if not np.isfinite(log_z):
        estimate = LogZEstimate("exact", np.nan, np.nan, 0.0, np.nan, "no_support")
    watch.end("sampling_time")
    attrs = {"summed_out": route, "prior_finite_share": 1.0, **watch.seconds}
    groups = {
        "posterior": with_units(dataset_of(values, **model_labels(model))),
        "evidence": evidence_dataset([estimate], attrs),
        **data_datasets(whole),
    }
    return make_tree(groups, {**settings.record(), **attrs}, EXACT)
