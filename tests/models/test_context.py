"""Calls that Python or PyTensor would refuse in words of their own."""

from typing import Any

import numpy as np
import pymc as pm
import pytest
from support import pymc_models as models

import pymc_logz as lz

MODEL = pm.Model()
CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (lz.sample_hais, (MODEL,), {"draws": 20}, r"'draws'.*: write sample_hais\(model=model\)"),
    (lz.sample_hais, (MODEL,), {}, r"draws is a pm.Model: write sample_hais\(model=model\)"),
    (lz.sample_hais, (), {"draw": 20}, r"^sample_hais\(\) .*'draw' \(did you"),
    (lz.sample_tempered, (MODEL,), {"draws": 20}, r"write sample_tempered\(model=model\)"),
    (lz.sandwich, (20,), {"model": MODEL}, r"'model'.*write sandwich\(model\)"),
    (lz.evidence, (MODEL, None, "all"), {}, r"write evidence\(model\), or evidence\(idata"),
    (lz.evidence, (MODEL,), {"seed": 1}, r"^evidence\(\) .* \(did you mean 'random_seed'\?\)$"),
    (lz.sample_hmc, (), {"n_temperatures": 9}, r"^sample_hmc\(\) got an .* 'n_temperatures'$"),
    (lz.sandwich, (), {"n_temperatures": 9}, r"'n_temperatures' \(did you mean 'betas'\?\)$"),
    (lz.bayes_factor, ({},), {}, r"'b': .*compare_evidence\(trees\) for a dictionary$"),
    (lz.evidence, (MODEL,), {"foo": 1}, r"^evidence\(\) got an unexpected .* 'foo'$"),
    (
        lz.evidence,
        (MODEL,),
        {"walkers": 8},
        r"'walkers': it is one of sample_tempered\(\), whose tree evidence\(\) takes too$",
    ),
    (
        lz.sample_hais,
        (),
        {"model": MODEL, "compile_kwargs": {"modus": "JAX"}},
        r"^compile_kwargs=\{'modus': 'JAX'\}: pytensor.function.*'modus' \(did you mean 'mode'",
    ),
    (lz.bridge_sampling, (), {"model": MODEL}, r"'idata'.*write bridge_sampling\(idata, model\)"),
    (lz.evidence_sensitivity, (MODEL,), {}, r"write evidence_sensitivity\(idata, model, alt"),
    (lz.marginal_log_likelihood, (MODEL,), {}, r"'data': write marginal_log_likelihood\(model, d"),
    (
        lz.LogZTracker,
        (),
        {"date": ["x"]},
        r"^LogZTracker\(\) got an .* 'date' \(did you mean 'data'\?\)$",
    ),
]
STEPS = [lz.HAIS, lz.SimulatedTempering, lz.PartialMomentumHMC, lz.ConstrainedHMC]


@pytest.mark.parametrize(("function", "args", "kwargs", "message"), CALLS)
def test_arguments_that_do_not_fit_say_how_to_write_the_call(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    """Would catch Python's own words, which know nothing of models and posteriors."""
    with pytest.raises(TypeError, match=message):
        function(*args, **kwargs)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_method_is_not_given_the_model_first(step: Any) -> None:
    """Would catch "no model on context stack" for a model that is there."""
    with pytest.raises(TypeError, match=rf"vars is a pm.Model: write {step.__name__}\(model=mo"):
        step(MODEL)


@pytest.mark.parametrize(
    "function", [lz.sample_hais, lz.sample_tempered, lz.sandwich, lz.LogZTracker, *STEPS]
)
def test_a_mode_is_not_given_alone(function: Any) -> None:
    """Would catch a message about items of a string."""
    with pytest.raises(TypeError, match=r"compile_kwargs='NUMBA' must be a dict.*'mode': 'NUMBA'"):
        function(model=MODEL, compile_kwargs="NUMBA")


def test_data_that_are_no_numbers_are_named() -> None:
    """Would catch a search for the fault in the model where the data have it."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), 1, observed=[0.5, np.inf])
    with pytest.raises(lz.ModelError, match=r"^the observed data contain inf or NaN: y\[1\]=inf$"):
        models.quick(model)
