"""Rows within a support that is next to nothing of the prior, and as the prior is there."""

import numpy as np
import pymc as pm
from scipy import stats

from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.planning import block_for
from pymc_logz.models.flat import constrain
from pymc_logz.models.preparation import prepare
from pymc_logz.pilot.within import rows_within


def found(model: pm.Model, seed: int = 1) -> dict[str, np.ndarray]:
    """Variables at the rows that are found."""
    rng = np.random.default_rng(seed)
    prepared = prepare(model, rng)
    rows = rows_within(prepared, block_for(prepared, HaisSettings(), None), rng)
    return constrain(prepared.flat, rows)


def test_rows_are_as_the_prior_is_within_the_support() -> None:
    """Catches rows that stay as far out as they were looked for."""
    high = np.array([20.0, 4.0, 10.0])
    with pm.Model() as model:
        end = pm.Pareto("end", 2.0, 0.5, shape=3)
        pm.Uniform("y", 0.0, end[:, None], observed=high[:, None] * np.linspace(0.2, 1.0, 9))
    excess = 2.0 * np.log(found(model)["end"] / high)
    assert len(excess) == 1024
    assert excess.min() > 0
    # rows that share ancestors are worth fewer
    for column in excess.T:
        assert stats.kstest(column, "expon").statistic < 0.25


def test_nothing_is_found_where_the_data_are_impossible() -> None:
    """Catches a search without an end, and rows that leave out a datum."""
    with pm.Model() as model:
        pm.Exponential("y", pm.Gamma("rate", 2.0, 1.0), observed=[1.0, -1.0])
    assert found(model)["rate"].size == 0
    with pm.Model() as model:
        end = pm.Pareto("end", 2.0, 0.5)
        pm.Uniform("y", 0.0, end, observed=[1.0, 20.0, -1.0])
    assert found(model)["end"].size == 0
