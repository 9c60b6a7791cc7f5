"""What `evidence` does where annealing was not good enough: another method, and who is believed."""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import pymc as pm
import pytest
import xarray as xr

import pymc_logz as lz
from pymc_logz.choosing import evidence as choosing

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
EXACT = -4.61512
"""Of 50 heads in 100 tosses of a coin about which nothing is known: -log 101."""
Run = Callable[..., tuple[xr.DataTree, str]]


@pytest.fixture(scope="module")
def model() -> pm.Model:
    """A coin."""
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.Binomial("y", n=100, p=p, observed=50)
    return model


@pytest.fixture(scope="module")
def annealed_with(model: pm.Model) -> Run:
    """`evidence` of the coin and what it warned of, as if HAIS had had this status, off by so much.

    Each is run once.
    """
    annealed = choosing.sample_hais

    @cache
    def run(status: str, shift: float = 0.0) -> tuple[xr.DataTree, str]:
        def doubted(**settings: Any) -> xr.DataTree:
            tree = annealed(**settings)
            group = tree["evidence"].to_dataset()
            group["status"] = group["status"].astype("<U20")
            group["status"][:] = status
            group["log_z"] += shift
            group.attrs["doubts"] = "said before"
            tree["evidence"] = xr.DataTree(group)
            return tree

        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", lz.EvidenceWarning)
            patch.setattr(choosing, "sample_hais", doubted)
            tree = lz.evidence(model, random_seed=1, progressbar=False)
        return tree, "\n".join(str(one.message) for one in caught)

    return run


@pytest.mark.parametrize(
    ("status", "shift", "method", "group"),
    [("high_khat", 0.0, "bridge", "posterior"), ("missed_mode", -1.0, "rts", "tempering")],
)
def test_another_method_comes_first_if_it_is_sound(
    annealed_with: Run, status: str, shift: float, method: str, group: str
) -> None:
    """Would catch a doubtful number handed over where another method has a sound one."""
    tree, warned = annealed_with(status, shift)
    assert warned == ""
    evidence = tree["evidence"].to_dataset()
    assert list(evidence["estimator"].values) == [method, "hais"]
    assert list(evidence["status"].values) == ["ok", status]
    assert evidence.attrs["chosen"] == method
    assert status in evidence.attrs["reason"]
    assert group in tree.children
    first = evidence.isel(estimator=0)
    assert abs(float(first["log_z"]) - EXACT) < 4 * float(first["mcse"]) < 0.2
    assert not any(name.startswith("warmup") for name in tree.children)


@pytest.mark.parametrize(("status", "shift"), [("high_khat", 0.0), ("high_khat", 1.0)])
def test_evaluations_of_both_routes_count(
    annealed_with: Run, status: str, shift: float, model: pm.Model
) -> None:
    """Would catch a cost without draws of `pm.sample`, some 10,000 gradients, or without HAIS."""
    found = annealed_with(status, shift)[0]["evidence"].attrs
    alone = lz.sample_hais(model=model, random_seed=1, progressbar=False)["evidence"].attrs
    cost = {
        name: sum(attrs.get(f"{part}_row_gradients", 0) for part in ("pilot", "run"))
        for name, attrs in (("both", found), ("hais", alone))
    }
    assert cost["both"] > cost["hais"] + 4000


def test_two_that_are_at_odds_are_both_doubted(annealed_with: Run) -> None:
    """Would catch the second method believed because it came second."""
    tree, warned = annealed_with("high_khat", 1.0)
    assert "disagree" in warned
    evidence = tree["evidence"]
    assert list(evidence["status"].values) == ["high_khat", "disagrees"]
    assert evidence.attrs["doubts"].startswith("said before; hais (")
    assert "disagree" in evidence.attrs["doubts"]


@pytest.mark.parametrize(("shift", "says"), [(0.0, "neither misses the mass"), (1.0, "disagree")])
def test_tempering_that_finds_no_more_settles_nothing(
    annealed_with: Run, shift: float, says: str
) -> None:
    """Would catch a mode that both methods lack, and `ok` because they agree."""
    tree, warned = annealed_with("missed_mode", shift)
    assert says in warned
    evidence = tree["evidence"]
    assert list(evidence["estimator"].values) == ["hais", "rts"]
    assert "ok" not in evidence["status"].values


def test_what_is_wrong_with_the_target_has_no_other_route(
    annealed_with: Run,
) -> None:
    """An infinite Z is infinite for every method."""
    tree, warned = annealed_with("maybe_infinite")
    assert warned == ""
    evidence = tree["evidence"]
    assert "bridge" not in evidence["estimator"].values
    assert evidence["status"][0] == "maybe_infinite"
