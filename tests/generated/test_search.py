"""A small sample of the generated search with fixed seeds, and the rule that it is held to."""

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytest

from generated import FAMILIES, generate
from generated.cases import Generated
from generated.search import Outcome, plan, table, tried
from generated.watched import table_of_checks

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
]
SAMPLE = [
    "gamma_poisson",
    pytest.param("two_levels", marks=pytest.mark.slow),
    pytest.param("sign_modes", marks=pytest.mark.slow),
    pytest.param("spike_and_slab", marks=pytest.mark.slow),
    pytest.param("quadratic_potential", marks=pytest.mark.slow),
]


@cache
def built(name: str) -> tuple[Generated, pm.Model]:
    """A case and its model, compiled once."""
    case = generate(name, 20)
    return case, case.build()


@cache
def called(name: str, seed: int) -> Outcome:
    """What the default call makes of a case."""
    return tried(*built(name), "sample_hais", seed, limit=60)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SAMPLE)
def test_default_call_of_a_sample(name: str, seed: int) -> None:
    """Would catch a wrong number with a clean status on a model that is not of the catalogue."""
    found = called(name, seed)
    assert not found.is_wrong
    assert not found.status.startswith("crashed")
    assert np.isfinite(found.log_z)


ONE = Outcome("squares", 1, 2, "evidence", 3, -1.0, 0.1, "ok", -1.1, 1e-9, 0.5, {})


@pytest.mark.parametrize(
    ("change", "wrong", "covered", "alarm"),
    [
        ({}, False, True, False),
        ({"exact": -1.41}, True, False, False),
        ({"exact": -1.39}, False, False, False),
        ({"exact": -1.41, "accuracy": 0.02}, False, False, False),
        ({"mcse": 0.001, "exact": -1.015}, False, False, False),
        ({"mcse": 0.001, "exact": -1.021}, True, False, False),
        ({"status": "high_khat"}, False, True, True),
        ({"status": "high_khat", "exact": -1.31}, False, False, False),
        ({"log_z": np.nan, "mcse": np.nan, "status": "degenerate"}, False, False, False),
        ({"log_z": np.nan, "mcse": np.nan}, True, False, False),
    ],
)
def test_the_rule(change: dict, wrong: bool, covered: bool, alarm: bool) -> None:
    """Would catch a rule that lets a wrong number pass, or that calls a right one wrong."""
    one = replace(ONE, **change)
    assert (one.is_wrong, one.is_covered, one.is_false_alarm) == (wrong, covered, alarm)


def test_a_search_is_repeated_by_its_seed() -> None:
    """Would catch models that depend on what ran before, and families that are left out."""
    families = list(FAMILIES)
    first = [plan(7, families, index) for index in range(2 * len(families))]
    assert first[5] == plan(7, families, 5)
    assert first != [plan(8, families, index) for index in range(2 * len(families))]
    assert sorted(name for name, *_ in first) == sorted(2 * families)
    assert len({seed for _, seed, _ in first}) == len(first)


def test_the_table_counts() -> None:
    """Would catch columns that are mixed up."""
    slow = replace(ONE, log_z=np.nan, mcse=np.nan, status="slow")
    found = [ONE, replace(ONE, exact=-2.0), replace(ONE, status="high_khat"), slow]
    row = next(line for line in table(found) if "`squares`" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:5] == ["4", "2", "1", "50%"]
    assert cells[7:10] == ["1", "0", "1"]


def test_the_table_of_checks_counts() -> None:
    """Would catch a check that is credited with what another one saw too."""
    alone = {"tail_doubts": [1, 1, 0.1], "walker_doubts": [1, 0, 0.0]}
    both = {"tail_doubts": [1, 1, 0.1], "walker_doubts": [1, 1, 0.0]}
    off = replace(ONE, exact=-2.0)
    found = [replace(off, checks=alone), replace(off, checks=both), replace(ONE, checks=alone)]
    cells = [[cell.strip(" `") for cell in row.split("|")] for row in table_of_checks(found)]
    rows = {row[1]: row[2:7] for row in cells}
    assert rows["tail_doubts"] == ["3", "3", "2", "1", "1"]
    assert rows["walker_doubts"] == ["3", "1", "1", "0", "0"]


def test_checks_of_a_call_are_seen() -> None:
    """Would catch checks that moved to where they are no longer counted."""
    found = called("gamma_poisson", 1)
    assert found.checks["tail_doubts"][:2] == [1, 0]
    assert found.checks["exceeds"][0] >= 1
