"""What other methods take of a look: references whose draws follow their density."""

import numpy as np
import pymc as pm
import xarray as xr
from support.checks import check_means, make_rng

from pymc_logz.loop.from_prior import look
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.pilot.settings import RunSettings


def funnel() -> pm.Model:
    """Effects whose common scale makes a funnel."""
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0, 1.5)
        effect = pm.Normal("effect", 0, scale, shape=6)
        pm.Normal("y", effect, 1, observed=np.zeros(6))
    return model


def test_draws_of_the_prior_are_in_the_coordinates_of_the_density():
    """Would catch prior rows that are whitened where components are not: levels at 0 are biased."""
    model, rng = funnel(), make_rng("prepare")
    with model:
        tree = pm.sample_prior_predictive(2000, random_seed=1)
    draws = xr.DataTree.from_dict({"posterior": tree["prior"].to_dataset()})
    prepared, settings = prepare(model, rng), RunSettings(reference=draws)
    block = block_for(prepared, settings, None)
    given = look(prepared, block, settings, rng)[1]
    assert given.taken == "draws"

    start = given.start(block)
    rows = start.path.sample_reference(make_rng("rows"), 20_000)
    weight = block.densities(rows)[0] - start.densities(rows)[0]
    check_means({"the prior": np.exp(weight)}, 1.0)
