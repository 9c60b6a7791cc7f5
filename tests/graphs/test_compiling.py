"""Which backend is taken, and what is said about it."""

import logging
import os
import subprocess
import sys

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph

from pymc_logz.graphs import compiling
from pymc_logz.graphs.compiling import (
    MOST_FUSED,
    Choice,
    bytes_computed,
    choose_backend,
    compile_function,
    n_operations,
    xla_options,
)
from pymc_logz.graphs.functions import mode_for

GAIN = "saves an hour"


def choice_itself(choice: Choice) -> Choice:
    """The choice, as if everything could run."""
    return choice


def all_but_jax(choice: Choice) -> Choice:
    """The choice, unless it is JAX."""
    if choice.is_jax:
        raise TypeError("no rule for Op")
    return choice


def test_an_unknown_mode_is_refused_with_names():
    """Would catch PyTensor's own words, which name neither the argument nor what may be."""
    with pytest.raises(ValueError, match=r"^compile_kwargs=\{'mode': 'jaxx'\}: .*'JAX', 'NUMBA'"):
        mode_for("jaxx")


def test_users_mode_decides():
    """Would catch a mode that is tried and then replaced, or passed on twice."""
    given = {"mode": "FAST_COMPILE", "name": "f"}
    choice = choose_backend(choice_itself, given, GAIN)
    assert choice == Choice("FAST_COMPILE", {"name": "f"}, "compile_kwargs['mode'] asked for it")
    assert not choice.is_jax
    assert given == {"mode": "FAST_COMPILE", "name": "f"}
    assert choose_backend(choice_itself, {"mode": "JAX"}, GAIN).is_jax
    # who asks for JAX hears why it cannot
    with pytest.raises(TypeError, match="no rule for Op"):
        choose_backend(all_but_jax, {"mode": "JAX"}, GAIN)


def test_jax_is_taken_where_it_can():
    choice = choose_backend(choice_itself, None, GAIN)
    assert choice.is_jax
    assert choice.reason == "JAX is installed and the model converts"


def test_default_is_taken_where_jax_cannot(caplog):
    """Would catch a fallback without a word."""
    with caplog.at_level(logging.INFO, logger=compiling.logger.name):
        choice = choose_backend(all_but_jax, {"name": "f"}, GAIN)
    reason = "JAX could not run this model (TypeError: no rule for Op)"
    assert choice == Choice(None, {"name": "f"}, reason)
    assert f"Compiled with PyTensor's default backend: {reason}." in caplog.text


def test_default_is_taken_where_jax_is_missing(monkeypatch, caplog):
    """Would catch a remedy that names another gain than the caller's, and that is said again."""
    monkeypatch.setattr(compiling, "find_spec", lambda name: None)
    with caplog.at_level(logging.INFO, logger=compiling.logger.name):
        choice = choose_backend(choice_itself, None, GAIN)
        choose_backend(choice_itself, None, GAIN)
    assert choice.mode is None
    assert choice.reason == "JAX is not installed, which saves an hour: python -m pip install jax"
    assert caplog.text.count(choice.reason) == 1


def test_nothing_is_said_of_jax_where_nothing_is_compiled(monkeypatch, caplog):
    """Would catch advice to install JAX for what NumPy computes as it is."""
    monkeypatch.setattr(compiling, "find_spec", lambda name: None)
    x = pt.dvector("x")
    with caplog.at_level(logging.INFO, logger=compiling.logger.name):
        made = compile_function([x], [x + 1], few_calls=True)
    assert made.backend == "numpy"
    assert not caplog.text


WITHOUT_PYMC = """
import sys
import pytensor.tensor as pt
from pymc_logz.graphs.compiling import compile_function
x = pt.dvector("x")
compile_function([x], [x + 1.0], {"mode": "FAST_COMPILE"})
assert "pymc" not in sys.modules
import pymc
"""


def test_pymc_can_be_imported_after_something_was_compiled():
    """Would catch a rewrite of PyMC's asked for before PyMC is there, which takes its name."""
    subprocess.run([sys.executable, "-c", WITHOUT_PYMC], check=True)


SECOND_PROCESS = """
import sys, warnings
from pathlib import Path

warnings.simplefilter("ignore")
import pymc as pm
import pymc_logz as lz

with pm.Model() as model:
    pm.Normal("y", pm.Normal("mu", 0, 10), 1, observed=[1.0, 2.0])
tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
print(tree["evidence"]["log_z"].item().hex(), len(list(Path(sys.argv[1]).glob("*-cache"))))
"""


@pytest.mark.slow
def test_a_second_process_finds_what_jax_compiled(tmp_path):
    """Would catch moves that JAX compiles anew in each process, or that come back as others."""
    pytest.importorskip("jax")
    kept = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    kept["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    command = [sys.executable, "-c", SECOND_PROCESS, str(tmp_path)]
    said = [
        subprocess.run(
            command, env=os.environ | kept, capture_output=True, text=True, check=True
        ).stdout.splitlines()[-1]
        for _ in range(2)
    ]
    assert said[0] == said[1]
    assert int(said[0].split()[1]) > 0


def solver_written_out() -> tuple[Variable, list[Variable]]:
    """Forty steps of a solver and their gradient, by the rates."""
    x = pt.vector("x", shape=(2,))
    susceptible, infected = 1 - x[0], x[0]
    for _ in range(40):
        new = x[1] * susceptible * infected / 20
        susceptible, infected = susceptible - new, infected + new - infected / 40
    return x, [infected, pt.grad(infected, x)]


def test_solvers_written_out_compile_operation_by_operation() -> None:
    """Catches XLA's fusion of recurrences: of forty steps of a solver it took minutes."""
    x, outputs = solver_written_out()
    large, small = (FunctionGraph([x], of, clone=True) for of in (outputs, outputs[:1]))
    assert n_operations(large) > MOST_FUSED > n_operations(small)
    assert "xla_disable_hlo_passes" in xla_options(large)
    assert "xla_disable_hlo_passes" not in xla_options(small)


@pytest.mark.slow
def test_what_is_compiled_operation_by_operation_is_right() -> None:
    """Catches options that XLA takes for others."""
    pytest.importorskip("jax", reason="needs the jax extra")
    x, outputs = solver_written_out()
    point = np.array([0.1, 0.7])
    compiled = compile_function([x], outputs, None, [point])
    assert compiled.backend == "jax"
    _, slope = compiled.call(point)
    ends = [compiled.call(point + sign * 1e-6 * np.eye(2)[1])[0] for sign in (1, -1)]
    np.testing.assert_allclose(slope[1], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("join", [pt.add, pt.mul])
def test_bytes_of_more_terms_than_an_interpreter_takes(join):
    """Catches a model of 33 variables and more, whose densities are added up in one operation."""
    terms = [pt.dvector(f"x{i}") for i in range(40)]
    found = bytes_computed(terms, [join(*terms)], [np.ones(3)] * 40)
    assert found >= 41 * 3 * 8
