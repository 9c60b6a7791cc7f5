"""ExactObservation as a component of a model; relaxed models; what is refused, and how."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor import wrap_py
from scipy import stats
from support.step_chains import FAST, QUIET

import pymc_logz as lz
from pymc_logz.errors import DiscreteVariableError, ModelError
from pymc_logz.manifold.generator import make_generator
from pymc_logz.manifold.generator_form import ExactObservation, relax
from pymc_logz.manifold.model import make_constrained_model
from pymc_logz.models.exact import exact_observations

UNKNOWN = "exact observation"


@wrap_py(itypes=[pt.dvector], otypes=[pt.dvector])
def black_box(values):
    """An operation without a gradient."""
    return values[:1]


def simulator() -> pm.Model:
    """Two outputs with dimensions, beside an ordinary likelihood and a potential."""
    with pm.Model(coords={"time": ["early", "late"]}) as model:
        scale = pm.HalfNormal("scale")
        noise = pm.Normal("noise", dims="time")
        drift = pm.Normal("drift")
        ExactObservation("y", drift + scale * noise, [0.5, 1.5], dims="time", noise=noise)
        pm.Normal("z", drift, 2.0, observed=1.0)
        pm.Potential("extra", -0.1 * drift**2)
    return model


def test_it_lives_in_the_model():
    model = simulator()
    assert model["y"] in model.potentials
    for copy in (
        model,
        model.copy(),
        pm.do(model, {"scale": 0.5}),
        pm.observe(model, {"drift": 1}),
    ):
        [observation] = exact_observations(copy)
        assert observation.name == "y"
        assert copy.named_vars_to_dims["y"] == ("time",)
        assert observation.owner.op.noise == ("noise",)
    assert "y" in model.str_repr()


@pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning")
def test_generator_has_every_term_of_the_model():
    model = simulator()
    generator = make_generator(model)
    assert generator.labels == ("y[0]", "y[1]")
    assert generator.noise == (1, 2)
    u = np.array([0.3, -0.4, 0.8, 0.6])
    s = np.exp(0.3)
    function = pytensor.function(
        [generator.flat.point], [generator.residual, generator.log_density], mode="FAST_COMPILE"
    )
    value, log_density = function(u)
    np.testing.assert_allclose(value, [0.6 - 0.4 * s - 0.5, 0.6 + 0.8 * s - 1.5])
    expected = stats.halfnorm.logpdf(s) + 0.3 + stats.norm.logpdf([-0.4, 0.8, 0.6]).sum()
    expected += stats.norm.logpdf(1.0, 0.6, 2.0) - 0.1 * 0.6**2
    assert float(log_density) == pytest.approx(expected)


def test_data_container_as_observed():
    with pm.Model() as model:
        data = pm.Data("data", np.array([1.0, 2.0]))
        v = pm.Normal("v", shape=3)
        ExactObservation("y", v[:2] + v[2], data)
        pm.set_data({"data": np.array([3.0, 4.0])})
    np.testing.assert_array_equal(make_generator(model).observed, [3.0, 4.0])


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    "sample",
    [
        lambda: pm.sample(nuts_sampler="pymc", **QUIET),
        lambda: pm.sample(step=pm.Metropolis(compile_kwargs=FAST), chains=1, cores=1, **QUIET),
        lambda: pm.sample_smc(10, chains=1, cores=1, progressbar=False, compile_kwargs=FAST),
        lambda: pm.find_MAP(progressbar=False),
        lambda: pm.fit(10, progressbar=False),
        lambda: lz.sample_hais(),
        lambda: lz.sample_tempered(),
        lambda: pm.sample(step=lz.HAIS(), **QUIET),
        lambda: pm.sample(step=lz.PartialMomentumHMC(compile_kwargs=FAST), **QUIET),
    ],
    ids=["nuts", "metropolis", "smc", "map", "advi", "hais", "tempered", "HAIS", "partial"],
)
def test_samplers_that_do_not_know_it_stop(sample):
    with simulator(), pytest.raises(ModelError, match=UNKNOWN):
        sample()


def test_relaxed_model_has_a_normal_likelihood_in_its_place():
    model = simulator()
    relaxed = relax(model, 0.1)
    assert not exact_observations(relaxed)
    assert sorted(rv.name for rv in relaxed.observed_RVs) == ["y", "z"]
    assert relaxed.named_vars_to_dims["y"] == ("time",)
    values = {"scale_log__": 0.3, "noise": np.array([-0.4, 0.8]), "drift": 0.6}
    outputs = 0.6 + np.exp(0.3) * values["noise"]
    expected = stats.norm.logpdf([0.5, 1.5], outputs, 0.1).sum()
    got = relaxed.compile_logp(vars=[relaxed["y"]], mode="FAST_COMPILE")(values)
    assert got == pytest.approx(expected)
    # the old model is as it was
    assert exact_observations(model)
    assert exact_observations(relax(model, {"y": [0.1, 0.2]})) == []


@pytest.mark.parametrize(
    ("tolerance", "message"),
    [
        (0.0, "positive"),
        (np.nan, "positive"),
        ({"x": 1.0}, "'y'"),
        ({"y": -1.0}, "positive"),
        ({"y": 0.1, "zz": 3.0}, r"\['y', 'zz'\].*\['y'\], and for no others"),
        ("x", "tolerance of 'y' is 'x'"),
        ([0.1, 0.2, 0.3], r"shape \(3,\), but its output has \(2,\): give one"),
        (np.ones((2, 2)), r"shape \(2, 2\)"),
    ],
)
def test_relax_refuses(tolerance, message):
    with pytest.raises(ValueError, match=message):
        relax(simulator(), tolerance)


def test_relax_needs_an_exact_observation():
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(ModelError, match="no exact observation"):
        relax(model, 0.1)


def declared(output, observed, **kwargs) -> pm.Model:
    """Model of three normal inputs with one exact observation."""
    with pm.Model() as model:
        v = pm.Normal("v", shape=3)
        ExactObservation("y", output(v), observed, **kwargs)
    return model


@pytest.mark.parametrize(
    ("output", "observed", "message"),
    [
        (lambda v: v[:2], [1.0, np.nan], "finite"),
        (lambda v: v[:2], [1.0], "shape"),
        (lambda v: v[:2], 1.0, "shape"),
        (lambda v: pt.gt(v, 0).astype(int), [1, 0, 1], "continuous output"),
    ],
)
def test_declaration_is_checked(output, observed, message):
    with pytest.raises(ModelError, match=message):
        declared(output, observed)


@pytest.mark.parametrize(
    ("output", "observed", "message"),
    [
        (lambda v: v + 1.0, [1.0, 2.0, 3.0], "leaves no freedom"),
        (lambda v: v[:1] + pm.Normal.dist(), [1.0], "random"),
        (lambda v: pt.as_tensor(np.ones(1)), [1.0], "do not depend"),
        (black_box, [1.0], "not differentiable"),
    ],
)
def test_generator_is_checked(output, observed, message):
    with pytest.raises(ModelError, match=message):
        make_generator(declared(output, observed))


def test_discrete_inputs_are_refused():
    with pm.Model() as model:
        count = pm.Poisson("count", 2)
        ExactObservation("y", pm.Normal("v") + count, 1.0)
    with pytest.raises(DiscreteVariableError, match="count"):
        make_generator(model)


def test_no_exact_observation():
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(ModelError, match="no exact observation"):
        make_generator(model)


@pytest.mark.parametrize(
    ("output", "observed", "message"),
    [
        (lambda v: pt.stack([v[0], v[0] + 0 * v[1]]), [1.0, 1.0], "full rank"),
        (lambda v: v[:2] ** 2, [-1.0, 4.0], r"off by 1.*1 of 2.*y\[0\]"),
        (lambda v: pt.log(-(v[:1] ** 2)), [1.0], "NaN or infinite"),
        (lambda v: pt.stack([v[0], pt.floor(v[1])]), [1.0, 0.5], r"y\[1\] did not move"),
    ],
    ids=["rank", "unreachable", "NaN", "flat"],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_unmatched_outputs_are_named(output, observed, message):
    model = declared(output, observed)
    with pytest.raises(ModelError, match=message):
        make_constrained_model(model, compile_kwargs=FAST)


def test_declared_noise_is_checked():
    model = declared(lambda v: v[:2] + v[2], [1.0, 2.0], noise="v")
    with pytest.raises(ModelError, match="declared noise reaches 2 entries"):
        make_constrained_model(model, compile_kwargs=FAST)
    with pytest.raises(ModelError, match="no variables of the model"):
        make_generator(declared(lambda v: v[:2], [1.0, 2.0], noise="w"))
