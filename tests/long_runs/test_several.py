"""Data rows and models as units of work: the same numbers whoever finds them."""

from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import numpy as np
import pymc as pm
import pytest
from support.executors import Sends
from support.long_runs import differing, numbers_of

import pymc_logz as lz
from pymc_logz.hais import per_datum

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore::pymc_logz.errors.EvidenceWarning"),
]
DATA = {"y": np.linspace(-2, 2, 14)}


def one_datum() -> pm.Model:
    with pm.Model() as model:
        z = pm.Normal("z", 0, 1)
        pm.Normal("y", z, 0.5, observed=0.0)
    return model


def coin(a: float) -> pm.Model:
    with pm.Model() as model:
        pm.Binomial("y", n=20, p=pm.Beta("p", a, a), observed=14)
    return model


@pytest.mark.parametrize("executor", [ThreadPoolExecutor(2), Sends(lost=(2,))])
def test_data_rows_by_others(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch data of another batch, and batches that are left out at the end."""
    monkeypatch.setattr(per_datum, "ROWS_PER_BATCH", 64)
    monkeypatch.setattr(per_datum, "AHEAD", 1)
    options: dict[str, Any] = {"draws": 32, "random_seed": 2, "progressbar": False}
    trees = [
        lz.marginal_log_likelihood(one_datum(), DATA, **options, **how)
        for how in ({"cores": 1}, {"executor": executor})
    ]
    assert differing(*map(numbers_of, trees)) == []
    exact = -0.5 * DATA["y"] ** 2 / 1.25 - 0.5 * np.log(2 * np.pi * 1.25)
    found = trees[1]["evidence"]
    error = (found["log_z"] - exact) / found["mcse"]
    assert np.abs(error).max() < 5


def test_models_by_others() -> None:
    """Would catch models that change places, and a seed that depends on who finds which."""
    models = {"narrow": coin(20.0), "flat": coin(1.0)}
    options: dict[str, Any] = {"random_seed": 2, "progressbar": False, "cross_check": False}
    here = lz.evidence_of_models(models, **options)
    assert list(here) == ["narrow", "flat"]
    assert float(here["flat"]["evidence"]["log_z"][0]) == pytest.approx(-np.log(21), abs=0.1)
    sent = Sends(lost=(1,))
    there = lz.evidence_of_models(models, executor=sent, **options)
    assert sent.n == 3
    for name in models:
        assert differing(numbers_of(here[name]), numbers_of(there[name])) == []
    with pytest.raises(TypeError, match="models is a list; give PyMC models by name"):
        lz.evidence_of_models(list(models.values()))  # type: ignore[arg-type]


def test_warnings_and_errors_of_others_come_back() -> None:
    """Would catch a warning that nobody sees, and an error that does not say of which model."""
    with pm.Model() as improper:
        pm.Normal("y", pm.Flat("x"), 1, observed=0.0)
    options: dict[str, Any] = {"random_seed": 2, "progressbar": False, "cross_check": False}
    with pytest.raises(lz.ImproperPriorError) as caught:
        lz.evidence_of_models({"bad": improper}, executor=Sends(), **options)
    assert caught.value.__notes__ == ["This was the model 'bad'."]
    with pm.Model() as with_potential:
        x = pm.Normal("x", 0, 1)
        pm.Normal("y", x, 1, observed=0.0)
        pm.Potential("p", -(x**2))
    with pytest.warns(lz.EvidenceWarning, match="potentials"):
        lz.evidence_of_models({"p": with_potential}, executor=Sends(), **options)
