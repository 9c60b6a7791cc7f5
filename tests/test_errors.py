"""Each warning of a run that is not to be trusted says what to do about it, by argument."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz.errors import STATUS_SENTENCES
from pymc_logz.estimators import importance_log_z
from pymc_logz.kernels import Hamiltonian
from pymc_logz.trees.layout import evidence_dataset

pytestmark = [
    pytest.mark.filterwarnings("ignore:the model has potentials"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
]
PLAIN = {"betas": 1, "kernel": Hamiltonian(step_size=0.5, scale=1.0)}
"""Importance sampling from the prior, without a pilot."""


def few_in_the_support() -> pm.Model:
    """A likelihood that is the same for 2% of the prior draws, and zero for all others."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Uniform("y", x, x + 0.05, observed=0.025)
    return model


def heavy_weights() -> pm.Model:
    """Weights from the prior are Pareto of shape 0.9."""
    with pm.Model() as model:
        x = pm.Exponential("x", 1)
        pm.Potential("tilt", 0.9 * x)
    return model


def narrow_likelihood() -> pm.Model:
    """A likelihood a thousand times narrower than the prior, in three dimensions."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=3)
        pm.Normal("y", x, 1e-3, observed=np.ones(3))
    return model


def warned(model: pm.Model, status: str, **kwargs: object) -> tuple[xr.DataTree, str]:
    """A run that ends in this status, and its warning."""
    with pytest.warns(lz.EvidenceWarning, match=f"has status '{status}'") as caught:
        tree = models.quick(model, **{**PLAIN, **kwargs})
    [message] = [str(w.message) for w in caught if f"'{status}'" in str(w.message)]
    return tree, message


def test_an_error_from_two_numbers() -> None:
    """Would catch `ok` beside an error that is a third of what it should be in one run of four."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Normal("y", x, 1.0, observed=0.5)
    tree, message = warned(model, "few_rows", draws=2, chains=1, betas=4)
    assert np.isfinite(models.log_z_of(tree)[0])
    assert "draws=" in message


def test_a_prior_that_could_not_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a doubt that only a warning has, which is gone when the tree is read."""
    monkeypatch.setattr("pymc_logz.models.preparation.check_priors", lambda *_: "cannot be told")
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Normal("y", x, 1.0, observed=0.5)
    tree = models.quick(model, betas=4)
    assert models.log_z_of(tree)[2] == "unchecked_prior"
    assert tree["evidence"].attrs["doubts"] == "cannot be told"


def test_few_effective_rows() -> None:
    """Would catch a sentence that says what is wrong, and not what to do."""
    tree, message = warned(few_in_the_support(), "low_weight_ess", draws=500)
    assert models.log_z_of(tree)[2] == "low_weight_ess"
    for remedy in ("betas=", "n_steps=", "reference=", "draws="):
        assert remedy in message


def test_heavy_tail() -> None:
    """Would catch a wrong interval that calls itself ok, and a remedy that is none."""
    tree, message = warned(heavy_weights(), "high_khat", draws=500)
    assert models.log_z_of(tree)[2] == "high_khat"
    for remedy in ("betas=", "n_steps=", "reference="):
        assert remedy in message
    models.assert_log_z(models.quick(heavy_weights(), betas=128), np.log(10))


def test_nothing_left_of_the_rows_or_of_their_overlap() -> None:
    """Would catch a number from weights that one row carries, or from sets that do not meet."""
    model = narrow_likelihood()
    with pytest.warns(lz.EvidenceWarning) as caught:
        tree = models.quick(model, direction="both", **PLAIN)
    messages = {str(w.message).split(" has status")[0]: str(w.message) for w in caught}
    statuses = dict(
        zip(tree["evidence"]["estimator"].values, tree["evidence"]["status"].values, strict=True)
    )
    assert statuses["hais"] == "degenerate"
    assert "betas=" in messages["hais"]
    assert "reference=" in messages["hais"]
    assert statuses["bar"] == "no_overlap"
    assert "betas=" in messages["bar"]
    assert "posterior_draws=" in messages["bar"]


def test_no_row_in_the_support() -> None:
    """Would catch a guess: of the draws looked at first some lie inside, of the two run none."""
    tree, message = warned(few_in_the_support(), "no_support", draws=2, chains=1)
    assert np.isnan(models.log_z_of(tree)[0])
    assert "draws=" in message
    assert "reference=" in message


def test_table_of_models_names_the_remedy_too() -> None:
    """Would catch a comparison that ranks an infinite log Z without a word."""
    trees = {
        name: xr.DataTree.from_dict({"evidence": evidence_dataset([importance_log_z(weights)], {})})
        for name, weights in (("a", np.zeros(50)), ("b", np.append(np.zeros(50), np.inf)))
    }
    with pytest.warns(lz.EvidenceWarning, match="'b' has status 'infinite_weight'.*bound it"):
        lz.compare_evidence(trees)


def test_starts_of_the_reverse_rows() -> None:
    """Would catch a status without a warning of its own that has no remedy in its sentence."""
    assert "posterior_draws=" in STATUS_SENTENCES["approximate_starts"]
