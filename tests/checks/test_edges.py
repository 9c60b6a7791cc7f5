"""Rows that stop short of mass next to them, and rows that do not."""

import numpy as np
import pymc as pm
import pytest
from support.checks import make_rng

from pymc_logz.checks.edges import LOOKS, Look, edge_doubts
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.planning import block_for
from pymc_logz.models.known_priors import is_centred_hierarchy
from pymc_logz.models.preparation import prepare

N_EFFECTS = 9


def neals_funnel() -> pm.Model:
    """Effects whose spread is one entry, and a datum that says next to nothing."""
    with pm.Model() as model:
        v = pm.Logistic("v", 0, 1)
        x = pm.Normal("x", 0, pm.math.exp(v), shape=N_EFFECTS)
        pm.Normal("y", x[0], 1e3, observed=0.0)
    return model


def draws_of_the_funnel(n: int, rng: np.random.Generator) -> np.ndarray:
    """Of its prior, which is its posterior as good as."""
    v = rng.logistic(size=n)
    return np.column_stack([v, np.exp(v)[:, None] * rng.standard_normal((n, N_EFFECTS))])


@pytest.mark.parametrize(
    ("least", "looks", "is_short"),
    [
        (-np.inf, LOOKS, False),
        (-0.5, LOOKS, True),
        (-np.inf, LOOKS[1:], False),
        (-2.2, LOOKS[1:], True),
    ],
)
def test_a_neck_that_one_spread_leads_to(
    least: float, looks: tuple[Look, ...], is_short: bool
) -> None:
    """Catches rows without the neck that pass where the spread is alone: 1 nat off with ok.

    Rows that have all of it are told by the first look, and cost no more. The second one tells
    those that lack a tenth.
    """
    rng = make_rng("neck", least)
    prepared = prepare(neals_funnel(), rng)
    block = block_for(prepared, HaisSettings(), None)
    rows = draws_of_the_funnel(4000, rng)
    rows = rows[rows[:, 0] > least][:1024]
    before = block.work.done
    found = edge_doubts(prepared, block, rows, rng, looks)
    assert [one.status for one in found] == ["lagging_rows"] * is_short
    if is_short:
        assert "of the posterior has v below -" in found[0].reason
    elif looks is LOOKS:
        assert block.work.done - before < 10_000


def test_what_is_a_centred_hierarchy() -> None:
    """Catches a look for a neck at every line with a noise of its own, and none at a hierarchy."""

    def with_effects(centred: bool) -> pm.Model:
        with pm.Model() as model:
            tau = pm.HalfNormal("tau", 1)
            x = pm.Normal("x", 0, tau if centred else 1, shape=3)
            pm.Normal("y", x if centred else tau * x, 1, observed=np.zeros(3))
        return model

    with pm.Model() as line:
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", pm.Normal("a", 0, 1), sigma, observed=np.zeros(3))
    with pm.Model() as walk:
        s = pm.HalfNormal("s", 1)
        x = pm.GaussianRandomWalk("x", 0.0, s, init_dist=pm.Normal.dist(), steps=4)
        pm.Normal("y", x[-1], 1, observed=0.0)
    models = [with_effects(True), with_effects(False), line, walk]
    flats = [prepare(model, make_rng("kinds")).flat for model in models]
    assert [is_centred_hierarchy(flat) for flat in flats] == [True, False, False, True]
