"""Models that other packages build, or that PyMC makes of another model."""

import numpy as np
import pymc as pm
import pytest
from scipy.stats import multivariate_normal, norm

import pymc_logz as lz

pytestmark = pytest.mark.usefixtures("no_look_in_this_file")

X = np.linspace(-1, 1, 20)
Y = 0.5 + X + 0.5 * np.random.default_rng(1).normal(size=20)
FAST = {"random_seed": 1, "progressbar": False}


def line() -> pm.Model:
    with pm.Model() as model:
        intercept, slope = pm.Normal("intercept", 0, 2), pm.Normal("slope", 0, 2)
        pm.Normal("y", intercept + slope * X, 0.5, observed=Y)
    return model


def log_z_of_line(cov: np.ndarray) -> float:
    """Log Z of a straight line through data (n,) whose coefficients have covariance (2, 2)."""
    design = np.stack([np.ones_like(X), X], axis=1)
    return multivariate_normal(cov=0.25 * np.eye(20) + design @ cov @ design.T).logpdf(Y)


def is_near(tree, exact: float) -> bool:
    entry = tree["evidence"].isel(estimator=0)
    assert entry["status"].item() == "ok"
    return abs(entry["log_z"].item() - exact) < 4 * entry["mcse"].item() + 1e-3


def test_bambi() -> None:
    """Would catch a model of Bambi's, or its fit, that is not recognised."""
    bambi = pytest.importorskip("bambi")
    import pandas as pd

    priors = {name: bambi.Prior("Normal", mu=0, sigma=2) for name in ("Intercept", "x")}
    model = bambi.Model(
        "y ~ x",
        pd.DataFrame({"x": X, "y": Y}),
        priors={**priors, "sigma": 0.5},
        center_predictors=False,
    )
    with pytest.raises(TypeError, match="build"):
        lz.evidence(model)
    model.build()
    exact = log_z_of_line(4.0 * np.eye(2))
    assert is_near(lz.evidence(model, **FAST), exact)
    fit = model.fit(draws=500, tune=500, chains=2, cores=1, **FAST)
    assert is_near(lz.evidence(fit, model, **FAST), exact)


def test_a_marginalised_model_of_pymc_extras() -> None:
    """Would catch discrete variables that are summed out twice, or not at all."""
    extras = pytest.importorskip("pymc_extras")
    with pm.Model() as model:
        far = pm.Bernoulli("far", 0.3)
        at = pm.Normal("at", pm.math.where(far, 2.0, -1.0), 1.0)
        pm.Normal("y", at, 1.0, observed=[0.5])
    exact = np.logaddexp(
        np.log(0.3) + norm.logpdf(0.5, 2.0, np.sqrt(2.0)),
        np.log(0.7) + norm.logpdf(0.5, -1.0, np.sqrt(2.0)),
    )
    marginal = extras.marginalize(model, ["far"])
    try:
        marginal.logp()
    except AttributeError as error:
        pytest.skip(f"pymc_extras cannot compute the log density of its own model: {error}")
    assert is_near(lz.evidence(marginal, **FAST), float(exact))


@pytest.mark.filterwarnings("ignore:No time index:UserWarning")
def test_a_state_space_model_of_pymc_extras() -> None:
    """Would catch a Kalman filter's scan that a backend cannot batch."""
    pytest.importorskip("pymc_extras")
    from pymc_extras.statespace import structural

    level = structural.LevelTrend(order=1, innovations_order=1, name="level")
    parts = level + structural.MeasurementError(name="error")
    space = parts.build(verbose=False)
    steps = np.cumsum(0.3 * np.random.default_rng(2).normal(size=12))
    with pm.Model(coords=space.coords) as model:
        pm.Normal("initial_level", 0, 1, dims=space.param_dims["initial_level"])
        pm.Deterministic("P0", pm.math.constant(np.eye(space.k_states)) * 1.0)
        pm.HalfNormal("sigma_level", 0.5, dims=space.param_dims["sigma_level"])
        pm.HalfNormal("sigma_error", 0.5)
        space.build_statespace_graph(steps[:, None])
    entry = lz.sample_hais(model=model, **FAST)["evidence"].isel(estimator=0)
    assert entry["status"].item() == "ok"
    assert np.isfinite(entry["log_z"].item())


def test_a_model_with_an_intervention_or_an_observation() -> None:
    """Would catch data or values that are still those of the model before."""
    fixed = pm.do(line(), {"slope": 1.0})
    design = np.ones((20, 1))
    cov = 0.25 * np.eye(20) + 4.0 * design @ design.T
    exact = multivariate_normal(X, cov).logpdf(Y)
    assert is_near(lz.evidence(fixed, **FAST), exact)
    observed = pm.observe(line(), {"slope": 1.0})
    assert is_near(lz.evidence(observed, **FAST), exact + norm.logpdf(1.0, 0.0, 2.0))
