"""Bad arguments end at the door: the message names the argument, its value and what is allowed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest

import pymc_logz as lz
from pymc_logz.arguments import check_room, listed

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
QUIET: dict[str, Any] = {"progressbar": False, "compile_kwargs": {"mode": "FAST_COMPILE"}}
WALKERS = {"walkers": 10**12, "kernel": "random_walk", "betas": [0, 1]}
MODE = {"compile_kwargs": {"mode": 5}}


def model() -> pm.Model:
    with pm.Model() as model:
        t = pm.Normal("t", pm.Data("m", 0.0), shape=2)
        pm.Normal("y", t, 1, observed=[1.0, 2.0])
    return model


def tree() -> Any:
    return lz.sample_tempered(32, 2, model=model(), walkers=2, betas=[0, 1], random_seed=1, **QUIET)


REFUSED: dict[str, tuple[Callable[[pm.Model], Any], type[Exception], str]] = {
    "chains of sample_hais": (
        lambda m: lz.sample_hais(model=m, chains="4"),  # type: ignore[arg-type]
        ValueError,
        "chains='4' must be an integer",
    ),
    "chains of sample_tempered": (
        lambda m: lz.sample_tempered(model=m, chains=None),  # type: ignore[arg-type]
        ValueError,
        "chains=None must be an integer",
    ),
    "chains of sandwich": (
        lambda m: lz.sandwich(m, chains=[1]),  # type: ignore[arg-type]
        ValueError,
        r"chains=\[1\] must be an integer",
    ),
    "walkers": (
        lambda m: lz.sample_tempered(model=m, **WALKERS, **QUIET),
        ValueError,
        "walkers=1000000000000, chains=4 need at least .* GB of memory, and this machine has",
    ),
    "proposal": (lambda m: lz.importance_sampling({}, m), TypeError, "proposal={} must be"),
    "mode": (
        lambda m: lz.sample_hais(model=m, progressbar=False, **MODE),
        ValueError,
        "{'mode': 5}: PyTensor has no such mode; use 'JAX'",
    ),
    "scale of sample_hmc": (
        lambda m: lz.sample_hmc(model=m, scale="a"),  # type: ignore[arg-type]
        ValueError,
        "scale='a' must be positive",
    ),
    "scale of a step": (
        lambda m: lz.PartialMomentumHMC(model=m, scale="a"),
        ValueError,
        "scale='a' must be positive",
    ),
    "data": (
        lambda m: lz.LogZTracker(m, data=5),  # type: ignore[arg-type]
        ValueError,
        r"data=5 must name pm.Data containers .*\['m'\]",
    ),
    "alpha": (
        lambda m: lz.LogZTracker(m, alpha="a"),  # type: ignore[arg-type]
        ValueError,
        r"alpha='a' must lie in \(0, 1\]",
    ),
    "relax": (lambda _: lz.relax(5, 0.1), TypeError, r"write relax\(model, tolerance\)"),
    "likelihood_form": (lambda _: lz.likelihood_form(5), TypeError, "model is of type int"),
    "generator_form": (lambda _: lz.generator_form(5), TypeError, "model is of type int"),
    "var_names": (
        lambda m: lz.generator_form(m, var_names=5),  # type: ignore[arg-type]
        lz.ModelError,
        r"var_names=\[5\] are not observed",
    ),
    "resume": (
        lambda _: lz.resume(None),  # type: ignore[arg-type]
        TypeError,
        "path=None must be a path",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_arguments_end_at_the_door(what: str) -> None:
    """Catches the TypeError or AttributeError of other code, a bare StopIteration, and a kill."""
    call, error, words = REFUSED[what]
    with pytest.raises(error, match=words):
        call(model())


def test_bad_arguments_beside_a_tree() -> None:
    """Catches the messages of float, of iteration, and of NumPy's indices."""
    found = tree()
    with pytest.raises(ValueError, match=r"points of 't' have shape \(\)"):
        lz.log_density(found, model(), "a", compile_kwargs=QUIET["compile_kwargs"])
    with pytest.raises(ValueError, match="methods=5 must be 'all' or among"):
        lz.plot_thermo(found, methods=5)  # type: ignore[arg-type]
    for size in (5, (1,), ("a", 2)):
        with pytest.raises(ValueError, match=r"figsize=.* must be .* inches"):
            lz.plot_thermo(found, figsize=size)  # type: ignore[arg-type]


def test_what_fits_in_memory_passes() -> None:
    """Catches a bound that is of something else than bytes, or of one of the numbers."""
    check_room(8, draws=1024, chains=4)
    with pytest.raises(ValueError, match="draws=1073741824, chains=1048576 need at least 8,388,60"):
        check_room(8, draws=2**30, chains=2**20)


def test_names_are_listed() -> None:
    """Catches text that is taken letter by letter."""
    assert listed("ab") == ["ab"]
    assert listed(("a", "b")) == ["a", "b"]
    assert listed(5) == [5]
    assert listed(np.array(["a"])) == ["a"]
