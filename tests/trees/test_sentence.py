"""The sentence of result at the end of a call, and errors that say what was meant."""

import logging
import re
from functools import cache

import pymc as pm
import pytest
import xarray as xr

import pymc_logz as lz
from pymc_logz.models.context import pymc_model_of

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
coin = cache(lz.energies.beta_bernoulli)


def said_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.message for one in caplog.records if re.match("(no )?log Z", one.message)]


def test_one_call_says_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    """Would catch a call without a word, a sentence for each call inside, and "1 temperature"."""
    model = coin().model
    with caplog.at_level(logging.INFO, logger="pymc.pymc_logz"):
        tree = lz.evidence(model, random_seed=1, progressbar=False)
    [said] = said_of(caplog)
    pattern = (
        r"log Z (-\d+\.\d+) ± \d+\.\d+ \(ok\), [\d.]+ s; "
        r"4 x 256 particles; importance sampling from a learned reference"
    )
    found = re.fullmatch(pattern, said)
    assert found, said
    log_z, mcse = (float(tree["evidence"][name][0]) for name in ("log_z", "mcse"))
    assert abs(float(found[1]) - log_z) <= mcse, "it is rounded to the digit of its error"
    assert "no posterior" in tree["evidence"].attrs["reason"]


def test_a_run_without_a_number_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Would catch "log Z nan"."""
    model = lz.energies.two_gaussians(20).model
    kernel = lz.kernels.Hamiltonian(step_size=0.5, scale=1.0)
    with caplog.at_level(logging.INFO, logger="pymc.pymc_logz"), pytest.warns(lz.EvidenceWarning):
        lz.sample_hais(
            32,
            2,
            model=model,
            betas=1,
            kernel=kernel,
            reference="prior",
            random_seed=1,
            progressbar=False,
        )
    [said] = said_of(caplog)
    assert said.startswith("no log Z (degenerate), ")


def test_a_typing_error_is_understood() -> None:
    """Would catch a list of everything that does not say which name was meant."""
    model = coin().model
    said = r"\(\) got an .*'draw' \(did you mean 'draws'\?\)$"
    with pytest.raises(TypeError, match="^evidence" + said):
        lz.evidence(model, draw=100)
    with pytest.raises(TypeError, match="^sample_hais" + said):
        lz.sample_hais(model=model, draw=100)


def test_one_tree_is_no_comparison() -> None:
    """Would catch a tree that is taken for a dictionary of its groups."""
    tree = xr.DataTree.from_dict({"evidence": xr.Dataset(), "posterior": xr.Dataset()})
    for call in (lz.compare_evidence, lz.plot_evidence):
        with pytest.raises(ValueError, match="trees is one DataTree"):
            call(tree)


def test_draws_without_a_model_ask_for_it() -> None:
    """Would catch a hint at another method where only the model is missing."""
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw"), [[1.0]])})})
    with pytest.raises(ValueError, match=r"evidence\(idata, model\), or call it inside"):
        lz.evidence(tree)


def test_a_model_of_bambi_is_the_pymc_model_in_it() -> None:
    """Would catch a Bambi model that is refused; a class of its module stands for it."""

    class Backend:
        model = pm.Model()

    class Model:
        backend: Backend | None = None

    Model.__module__ = "bambi.models"
    given = Model()
    with pytest.raises(TypeError, match=r"call its method build\(\) first"):
        pymc_model_of(given)
    given.backend = Backend()
    assert pymc_model_of(given) is Backend.model
    assert pymc_model_of(None) is None
