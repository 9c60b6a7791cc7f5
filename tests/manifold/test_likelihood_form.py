"""Simulators with noise of a simple kind get the likelihood that one would write by hand."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_logz.errors import DiscreteVariableError, ModelError
from pymc_logz.manifold.generator_form import ExactObservation, generator_form
from pymc_logz.manifold.likelihood_form import likelihood_form
from pymc_logz.models.exact import exact_observations

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
    assert np.all(np.isfinite(pm.draw(ours["y"], random_seed=1, mode="FAST_COMPILE")))


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


OUTPUTS = {
    "nonlinear": lambda v, n: v + n + 0.1 * n**2,
    "mixed": lambda v, n: v + n + n[::-1],
    "a kink": lambda v, n: v + pt.abs(n),
    "a kink in disguise": lambda v, n: v + pt.sqrt(n**2),
    "without noise at first": lambda v, n: v + n**3,
}


@pytest.mark.parametrize("offset", [0.0, 101325.0])
@pytest.mark.parametrize("unit", [1.0, 1e-10])
@pytest.mark.parametrize("name", OUTPUTS)
def test_other_noise_is_refused(name, unit, offset):
    """In any units: what departs may be small beside the output, but not beside the noise."""
    unit = unit if offset == 0 else 1e-5 * unit**0.1
    with pm.Model() as model:
        v, n = pm.Normal("v"), pm.Normal("n", np.float64(1.5), np.float64(1.0), shape=3)
        ExactObservation("y", offset + np.float64(unit) * OUTPUTS[name](v, n), unit * DATA + offset)
    with pytest.raises(ModelError, match="no noise variable of the exact observation 'y'"):
        likelihood_form(model)


@pytest.mark.parametrize(("unit", "offset"), [(1e-10, 0.0), (1e-5, 101325.0)])
def test_units_do_not_matter(unit, offset):
    observed = offset + unit * DATA
    with pm.Model() as model:
        v, n = pm.Normal("v"), pm.Normal("n", shape=3)
        ExactObservation("y", offset + np.float64(unit) * (v + 0.5 * n), observed)
    with pm.Model() as by_hand:
        v = pm.Normal("v")
        pm.Normal("y", offset + unit * v, np.float64(0.5 * unit), observed=observed)
    ours, theirs = (
        model.compile_logp(mode="FAST_COMPILE")({"v": 0.3})
        for model in (likelihood_form(model), by_hand)
    )
    # what rounding leaves of an offset of 1e5 is 1e-6 of a unit
    assert float(ours) == pytest.approx(float(theirs), abs=1e-4)


def test_a_loop_over_the_noise_of_two_states():
    """Would catch noise taken for that of both, since the number of steps is the shorter one's."""
    data = [np.array(DATA), np.array(X)]
    with pm.Model() as simulator:
        rate = pm.Normal("rate")
        noises = [pm.Normal(f"n{i}", shape=3) for i in range(2)]

        def step(first, second, x, y, rate):
            return x + rate * y + 0.3 * first, y - rate * x + 0.2 * second

        states = pytensor.scan(
            step,
            sequences=noises,
            outputs_info=[pt.constant(np.float64(1)), pt.constant(np.float64(0.5))],
            non_sequences=[rate],
            return_updates=False,
        )
        for name, state, observed in zip("xy", states, data, strict=True):
            ExactObservation(name, state, observed)
    before = [np.r_[start, one[:-1]] for start, one in zip((1.0, 0.5), data, strict=True)]
    with pm.Model() as by_hand:
        rate = pm.Normal("rate")
        pm.Normal("x", before[0] + rate * before[1], 0.3, observed=data[0])
        pm.Normal("y", before[1] - rate * before[0], 0.2, observed=data[1])
    same_density(likelihood_form(simulator), by_hand)


def test_initial_values_do_not_matter():
    with pm.Model() as model:
        v, n = pm.Normal("v", initval=1.0), pm.Normal("n", shape=3)
        ExactObservation("y", v + n, DATA)
    with pm.Model() as by_hand:
        pm.Normal("y", pm.Normal("v"), np.float64(1.0), observed=DATA)
    same_density(likelihood_form(model), by_hand)
    assert model.rvs_to_initial_values[v] == 1.0


def test_data_may_be_exchanged():
    with pm.Model() as model:
        data = pm.Data("data", DATA)
        v, n = pm.Normal("v"), pm.Normal("n", shape=3)
        ExactObservation("y", v + n, data)
    with pm.Model() as by_hand:
        pm.Normal("y", pm.Normal("v"), np.float64(1.0), observed=DATA + 1.0)
    ours = likelihood_form(model)
    pm.set_data({"data": DATA + 1.0}, model=ours)
    same_density(ours, by_hand)


def test_noise_that_is_needed_elsewhere_is_named():
    with pm.Model() as model:
        v, n = pm.Normal("v"), pm.Normal("n", shape=3)
        ExactObservation("y", v + n, DATA)
        pm.Deterministic("total", n.sum())
    with pytest.raises(ModelError, match=r"'n' is needed by \['total'\] too"):
        likelihood_form(model)


def test_another_noise_takes_its_place():
    """The last one that would do is needed elsewhere; the first one is not."""
    with pm.Model() as model:
        n, u = pm.Normal("n", shape=3), pm.Normal("u", shape=3)
        pm.Normal("w", u, np.float64(1.0), observed=DATA)
        ExactObservation("y", n + u, DATA)
    assert "n" not in likelihood_form(model).named_vars


def test_shared_noise_is_refused():
    with pm.Model() as model:
        v, n = pm.Normal("v"), pm.Normal("n", shape=3)
        ExactObservation("y", v + n, DATA)
        ExactObservation("z", v - n, DATA)
    with pytest.raises(ModelError, match=r"'n' is needed by \['z'\] too"):
        likelihood_form(model)


def test_a_discrete_input_is_refused():
    """Prior draws may never show what it does."""
    with pm.Model() as model:
        k, n = pm.Bernoulli("k", 0.001), pm.Normal("n", shape=3)
        ExactObservation("y", n + k * n**3, DATA)
    with pytest.raises(DiscreteVariableError, match="k"):
        likelihood_form(model)


def test_an_output_that_is_never_finite_is_refused():
    with pm.Model() as model:
        v, n = pm.Normal("v", 10.0), pm.Normal("n", shape=3)
        ExactObservation("y", pt.exp(pt.exp(v)) + n, DATA)
    with pytest.raises(ModelError, match="finite at 0 of 32 prior draws"):
        likelihood_form(model)


def test_a_plain_model_is_refused():
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(ModelError, match="no exact observation"):
        likelihood_form(model)
