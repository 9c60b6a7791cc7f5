"""Models turned into simulators keep their posterior and their log Z."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from support.flat_rows import named_values

from pymc_logz.errors import ModelError
from pymc_logz.manifold.generator import make_generator
from pymc_logz.manifold.generator_form import generator_form
from pymc_logz.manifold.missed_modes import find_start
from pymc_logz.manifold.model import make_constrained_model
from pymc_logz.models.exact import exact_observations

DATA = np.array([0.5, 1.2, 0.3])
LOG_SCALE = 0.2
CASES = {
    pm.Normal: lambda s: {"mu": 1.0, "sigma": s},
    pm.Laplace: lambda s: {"mu": 1.0, "b": s},
    pm.Logistic: lambda s: {"mu": 1.0, "s": s},
    pm.Cauchy: lambda s: {"alpha": 1.0, "beta": s},
    pm.Gumbel: lambda s: {"mu": 1.0, "beta": s},
    pm.StudentT: lambda s: {"nu": 2.0 + s, "mu": 1.0, "sigma": s},
    pm.LogNormal: lambda s: {"mu": 0.3, "sigma": s},
    pm.Exponential: lambda s: {"scale": s},
    pm.Weibull: lambda s: {"alpha": 1.0 + s, "beta": s},
    pm.Pareto: lambda s: {"alpha": s, "m": 0.2},
    pm.Uniform: lambda s: {"lower": -s, "upper": 3.0 * s},
}


FEW = {pm.Normal, pm.StudentT, pm.LogNormal, pm.Weibull, pm.Uniform}
"""One for each kind of range and noise; the others are slow."""


@pytest.mark.parametrize(
    "distribution",
    [pytest.param(dist, marks=[pytest.mark.slow] * (dist not in FEW)) for dist in CASES],
    ids=lambda dist: dist.__name__,
)
def test_density_of_the_output_is_the_likelihood(distribution):
    """Change of variables from noise to output, at the noise that gives the data."""
    with pm.Model(coords={"row": range(3)}) as model:
        s = pm.HalfNormal("s")
        distribution("y", **CASES[distribution](s), observed=DATA, dims="row")
    generator = make_generator(generator_form(model))
    noise = list(generator.noise)
    assert len(noise) == 3
    assert set(generator.flat.shapes) == {"y_noise", "s_log__"}
    point = generator.flat.point
    jacobian = pytensor.gradient.jacobian(generator.residual, point, vectorize=True)
    outputs = [generator.residual, generator.log_density, jacobian]
    function = pytensor.function([point], outputs, mode="FAST_COMPILE")
    u = np.full(4, LOG_SCALE)
    u[noise] = 0.0
    for _ in range(100):
        residual, log_density, matrix = function(u)
        u[noise] -= np.clip(np.linalg.solve(matrix[:, noise], residual), -0.5, 0.5)
    np.testing.assert_allclose(residual, 0.0, atol=1e-12)
    ours = float(log_density) - np.linalg.slogdet(matrix[:, noise])[1]
    theirs = model.compile_logp(mode="FAST_COMPILE")({"s_log__": LOG_SCALE})
    assert ours == pytest.approx(float(theirs), abs=1e-6)


def hierarchical() -> pm.Model:
    """Two likelihoods that share a level."""
    with pm.Model() as model:
        level = pm.Normal("level")
        pm.Normal("y", level, 0.5, observed=DATA)
        pm.Poisson("count", pm.math.exp(level), observed=[2, 3])
    return model


def test_some_variables_may_stay_as_they_are():
    model = hierarchical()
    form = generator_form(model, ["y"])
    assert [rv.name for rv in form.observed_RVs] == ["count"]
    assert [term.name for term in exact_observations(form)] == ["y"]
    assert not exact_observations(model)
    constrained = make_constrained_model(form, compile_kwargs={"mode": "FAST_COMPILE"})
    start = constrained.scale * find_start(constrained, np.random.default_rng(1))
    start = named_values(constrained.generator.flat, start)
    np.testing.assert_allclose(start["level"] + 0.5 * start["y_noise"], DATA, atol=1e-8)


def test_what_has_no_form_is_refused():
    with pytest.raises(ModelError, match=r"'count' is PoissonRV.*Leave it out"):
        generator_form(hierarchical())
    with pytest.raises(ModelError, match=r"\['z'\] are not observed"):
        generator_form(hierarchical(), ["z"])
    with pm.Model() as nothing:
        pm.Normal("x")
    with pytest.raises(ModelError, match="no observed variable"):
        generator_form(nothing)
    with pm.Model() as chained:
        first = pm.Normal("first", pm.Normal("level"), observed=DATA)
        pm.Normal("second", first, observed=DATA)
    with pytest.raises(ModelError, match="depend on the observed variable 'first'"):
        generator_form(chained, ["first"])
