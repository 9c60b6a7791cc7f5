"""Simulators with noise of a simple kind get the likelihood that one would write by hand."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_logz.constraints import ExactObservation, exact_observations
from pymc_logz.errors import ModelError
from pymc_logz.generator_form import generator_form
from pymc_logz.likelihood_form import likelihood_form

DATA = np.array([0.5, -1.2, 2.3])
X = np.array([0.0, 1.0, -2.0])


def same_density(ours: pm.Model, theirs: pm.Model) -> None:
    """Fail unless two models of the same free variables have one log density."""
    rng = np.random.default_rng(1)
    ours_logp, theirs_logp = (model.compile_logp(mode="FAST_COMPILE") for model in (ours, theirs))
    start = theirs.initial_point(0)
    assert set(ours.initial_point(0)) == set(start)
    for _ in range(3):
        point = {name: rng.normal(size=np.shape(value)) for name, value in start.items()}
        assert float(ours_logp(point)) == pytest.approx(float(theirs_logp(point)), rel=1e-9)


FAMILIES = {
    pm.Normal: {"mu": 0.2, "sigma": 1.5},
    pm.Laplace: {"mu": 0.2, "b": 1.5},
    pm.StudentT: {"nu": 3.0, "mu": 0.2, "sigma": 1.5},
    pm.Gumbel: {"mu": 0.2, "beta": 1.5},  # skewed: shows a sign error
}


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_noise_of_any_family_and_sign(family, sign):
    with pm.Model(coords={"row": range(3)}) as simulator:
        slope, s = pm.Normal("slope"), pm.HalfNormal("s")
        noise = family("noise", **FAMILIES[family], shape=3)
        mean = pm.Deterministic("mean", slope * X)
        ExactObservation("y", mean + np.float64(sign) * s * noise, DATA, dims="row")
    with pm.Model() as by_hand:
        slope, s = pm.Normal("slope"), pm.HalfNormal("s")
        noise = (DATA - slope * X) / (sign * s)
        logp = pm.logp(family.dist(**FAMILIES[family]), noise)
        pm.Potential("y", logp - pt.log(s))
    ours = likelihood_form(simulator)
    same_density(ours, by_hand)
    assert not exact_observations(ours)
    assert [rv.name for rv in ours.observed_RVs] == ["y"]
    assert ours.named_vars_to_dims["y"] == ("row",)
    assert "mean" in ours.named_vars
    assert "noise" in simulator.named_vars
    # it can be simulated too
    assert np.all(np.isfinite(pm.draw(ours["y"], random_seed=1)))


def test_other_inputs_of_any_shape():
    """Would catch a variable of another shape that is tried for noise."""
    with pm.Model() as model:
        n, h = pm.Normal("n", shape=3), pm.Normal("h", shape=5)
        ExactObservation("y", pt.tanh(h[:3]) * h[3] + np.float64(0.3) * n, DATA)
    with pm.Model() as by_hand:
        h = pm.Normal("h", shape=5)
        pm.Normal("y", pt.tanh(h[:3]) * h[3], np.float64(0.3), observed=DATA)
    same_density(likelihood_form(model), by_hand)


def test_it_undoes_generator_form():
    with pm.Model() as model:
        level = pm.Normal("level")
        scale = pm.HalfNormal("scale")
        pm.Normal("y", level + X, scale, observed=DATA)
        pm.Laplace("z", pt.exp(level), 2.0 * scale, observed=DATA)
        pm.Poisson("count", pt.exp(level), observed=2)
    same_density(likelihood_form(generator_form(model, ["y", "z"])), model)


def nonlinear(v, n):
    """The noise is squared."""
    return v + n + 0.1 * n**2


def mixed(v, n):
    """Each entry has the noise of two."""
    return v + n + n[::-1]


def not_analytic(v, n):
    """A kink."""
    return v + pt.abs(n)


@pytest.mark.parametrize("output", [nonlinear, mixed, not_analytic])
def test_other_noise_is_refused(output):
    with pm.Model() as model:
        v, n = pm.Normal("v"), pm.Normal("n", shape=3)
        ExactObservation("y", output(v, n), DATA)
    with pytest.raises(ModelError, match="'y' has no noise variable of its own"):
        likelihood_form(model)


def test_noise_that_is_needed_elsewhere_is_refused():
    with pm.Model() as model:
        v, n = pm.Normal("v"), pm.Normal("n", shape=3)
        ExactObservation("y", v + n, DATA)
        pm.Normal("z", n.sum(), observed=1.0)
    with pytest.raises(ModelError, match="other variables depend on the noise variable 'n'"):
        likelihood_form(model)


def test_shared_noise_is_refused():
    with pm.Model() as model:
        v, n = pm.Normal("v"), pm.Normal("n", shape=3)
        ExactObservation("y", v + n, DATA)
        ExactObservation("z", v - n, DATA)
    with pytest.raises(ModelError, match="no noise variable of its own"):
        likelihood_form(model)


def test_a_plain_model_is_refused():
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(ModelError, match="no exact observation"):
        likelihood_form(model)
