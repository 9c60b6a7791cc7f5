"""Verdicts on the papers' claims: what the page says is what the numbers say."""

from pathlib import Path
from types import ModuleType

import pytest
from support.scripts import load

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The script."""
    return load("examples/papers/claims.py")


def test_the_page_has_the_table_of_the_numbers(example: ModuleType) -> None:
    """Catches a number or a verdict that was changed on one side only."""
    page = example.PAGE.read_text()
    assert example.written(page) == page, "run examples/papers/claims.py"
    changed = page.replace("refuted | `", "reproduced | `", 1)
    assert changed != page
    assert example.written(changed) == page


@pytest.mark.parametrize(
    ("value", "low", "high", "more", "expected"),
    [
        (None, None, None, {}, "not tested"),
        (12, 11, 13, {}, "reproduced"),
        (12, None, None, {}, "reproduced"),
        (12, 9, 13, {}, "partly"),
        (8, 7, 9, {}, "refuted"),
        (8, 7, 11, {}, "not"),
        (8, None, None, {}, "not"),
        (8, 7, 9, {"too_small": True}, "not at this size"),
    ],
)
def test_verdicts_follow_from_numbers(
    example: ModuleType, value: float, low: float, high: float, more: dict, expected: str
) -> None:
    """Catches a side that is taken for the other."""
    claim = {"value": value, "low": low, "high": high, **more}
    assert example.verdict({**claim, "at_least": 10}) == expected
    mirrored = {
        name: -number if name in ("value", "low", "high") and number is not None else number
        for name, number in claim.items()
    }
    assert example.verdict({**mirrored, "at_most": -10}) == expected


def test_scripts_exist_and_each_claim_is_whole(example: ModuleType) -> None:
    """Catches a claim without a script, and a threshold on both sides or none."""
    for claim in example.claims():
        assert (ROOT / claim["script"]).exists()
        assert ("at_least" in claim) != ("at_most" in claim)
