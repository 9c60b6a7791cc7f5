"""Draws that stop short of mass next to them, and draws that do not."""

import numpy as np
import pymc as pm
import pytest
from support.checks import make_rng

from pymc_logz.checks import necks
from pymc_logz.checks.necks import edge_doubts
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.planning import block_for
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


@pytest.mark.parametrize(("least", "is_short"), [(-np.inf, False), (-2.2, True)])
def test_a_neck_that_one_spread_leads_to(least: float, is_short: bool) -> None:
    """Catches draws without the neck, a tenth of the posterior, that pass."""
    rng = make_rng("neck", least)
    prepared = prepare(neals_funnel(), rng)
    block = block_for(prepared, HaisSettings(), None)
    rows = draws_of_the_funnel(4000, rng)
    rows = rows[rows[:, 0] > least][:2048]
    found = edge_doubts(prepared, block, rows, rng)
    assert [one.status for one in found] == ["uncovered"] * is_short
    if is_short:
        assert "of the posterior has v below -" in found[0].reason


def test_noise_that_more_coefficients_than_data_can_do_without() -> None:
    """Catches rows without small noise that pass: 2.7 nats too low with ok where it was met."""
    rng = make_rng("interpolated")
    n, p = 6, 12
    design = rng.normal(size=(n, p))
    y = 0.1 * rng.normal(size=n)
    with pm.Model() as model:
        sigma = pm.LogNormal("sigma", 0, 2)
        pm.Normal("y", design @ pm.Normal("b", 0, 0.5, shape=p), sigma, observed=y)
    prepared = prepare(model, rng)
    block = block_for(prepared, HaisSettings(), None)
    log_sd = np.linspace(-12, 4, 4000)
    whole = 0.25 * design @ design.T
    values, axes = np.linalg.eigh(whole)
    variance = values + np.exp(2 * log_sd)[:, None]
    log_p = -0.5 * np.sum(np.log(variance) + (axes.T @ y) ** 2 / variance, axis=1)
    log_p -= log_sd**2 / 8
    weight = np.exp(log_p - log_p.max())
    drawn = rng.choice(log_sd, size=2048, p=weight / weight.sum())
    precision = design.T @ design * np.exp(-2 * drawn)[:, None, None] + 4 * np.eye(p)
    mean = np.linalg.solve(precision, (design.T @ y * np.exp(-2 * drawn)[:, None])[..., None])
    noise = rng.normal(size=(len(drawn), p, 1))
    root = np.linalg.cholesky(precision).transpose(0, 2, 1)
    rows = np.column_stack([drawn, (mean + np.linalg.solve(root, noise))[..., 0]])
    edge = np.quantile(drawn, 0.3)
    assert edge_doubts(prepared, block, rows, rng) == []
    (doubt,) = edge_doubts(prepared, block, rows[drawn > edge], rng)
    assert doubt.status == "uncovered"
    assert "of the posterior has sigma below" in doubt.reason


def test_laplace_is_corrected_where_rows_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches right rows accused where coefficients of binary data are far from normal."""
    rng = make_rng("binary")
    n, p = 10, 40
    design, y = rng.normal(size=(n, p)), np.arange(n) % 2
    with pm.Model() as model:
        t = pm.HalfNormal("t", 3)
        b = pm.Normal("b", 0, 1, shape=p)
        pm.Bernoulli("y", logit_p=t * (design @ b), observed=y)
    prepared = prepare(model, rng)
    block = block_for(prepared, HaisSettings(), None)
    prior = prepared.prior(rng, 400_000)
    logit = np.exp(prior[:, :1]) * (prior[:, 1:] @ design.T)
    log_p = -np.logaddexp(0, np.where(y, -logit, logit)).sum(axis=1)
    weight = np.exp(log_p - log_p.max())
    rows = prior[rng.choice(len(prior), size=1024, p=weight / weight.sum())]
    assert edge_doubts(prepared, block, rows, rng) == []
    monkeypatch.setattr(necks, "_off_inside", lambda *_: 0.0)
    assert edge_doubts(prepared, block, rows, rng) != []
