"""No wrong number with a clean status, and no error that is not of our own making."""

from collections import Counter

import numpy as np
import pytest

import pymc_logz as lz
from adversary import CASES
from adversary.routes import ROUTES, is_ours, judged, outcomes

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
]
FAULTS = {"wrong", "crashed"}
QUICK = [
    ("half_is_impossible", "sample_hais"),
    ("nearly_singular_sum", "laplace"),
    ("prior_in_conflict", "sample_hais"),
    ("flat_prior", "sample_hais"),
    ("spike_of_one_dimension", "tempered"),
    ("spread_far_below_its_prior", "sample_hais"),
    ("cauchy_of_a_cauchy", "both_directions"),
    ("spins_that_only_turn_together", "small_settings"),
]
"""What runs by default, one seed of each: `test_search` has them too."""


def found(name: str, route: str, seeds: int) -> list[str]:
    """Faults of one case by one route."""
    case, one = CASES[name], ROUTES[route]
    model, exact = case.build(), float(case.exact())
    seen = [out for seed in range(seeds) for out in outcomes(case, one, model, exact, seed)]
    assert seen
    return [str(out) for out in seen if out.verdict in FAULTS]


@pytest.mark.parametrize(("name", "route"), QUICK)
def test_quick_search(name: str, route: str) -> None:
    """Would catch a kind of wrong number that was mended once."""
    assert found(name, route, 1) == []


def _all_pairs() -> list:
    """All cases with all routes that take them; needles are known to be wrong."""
    pairs = []
    for case in CASES.values():
        marks = [pytest.mark.xfail(strict=False, reason=case.needle)] if case.needle else []
        pairs += [
            pytest.param(case.name, route.name, marks=marks)
            for route in ROUTES.values()
            if route.takes(case)
        ]
    return pairs


@pytest.mark.slow
@pytest.mark.parametrize(("name", "route"), _all_pairs())
def test_search(name: str, route: str) -> None:
    """Would catch a wrong number with a clean status, by any route."""
    assert found(name, route, ROUTES[route].seeds) == []


def test_the_search_is_wide() -> None:
    """Would catch cases that no route takes, and a search that has shrunk."""
    assert len(CASES) >= 60
    assert all(any(route.takes(case) for route in ROUTES.values()) for case in CASES.values())
    kinds = Counter(case.kind for case in CASES.values())
    assert len(kinds) == 11
    assert min(kinds.values()) >= 8


@pytest.mark.parametrize(
    ("log_z", "mcse", "status", "exact", "verdict"),
    [
        (1.0, 0.1, "ok", 1.39, "right"),
        (1.0, 0.1, "ok", 1.41, "wrong"),
        (1.0, 0.1, "ok", np.inf, "wrong"),
        (1.0, 0.1, "ok", np.nan, "wrong"),
        (1.0, 0.1, "high_khat", 1.29, "false alarm"),
        (1.0, 0.1, "high_khat", 1.31, "doubted"),
        (1.0, 0.1, "high_khat", np.inf, "doubted"),
        (np.nan, np.nan, "degenerate", 1.0, "no number"),
        (np.nan, np.nan, "ok", 1.0, "wrong"),
    ],
)
def test_the_rule(log_z: float, mcse: float, status: str, exact: float, verdict: str) -> None:
    """Would catch a rule that lets a wrong number pass."""
    assert judged(log_z, mcse, status, exact) == verdict


def test_whose_error_it_is() -> None:
    """Would catch an error from the depths that passes for a refusal."""
    with pytest.raises(ValueError, match="draws") as ours:
        lz.sample_hais(draws=0, model=CASES["beta_binomial"].build())
    assert is_ours(ours.value)
    with pytest.raises(ZeroDivisionError) as foreign:
        1 / 0  # noqa: B018
    assert not is_ours(foreign.value)
