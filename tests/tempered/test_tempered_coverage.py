"""Error bars of whole tempered runs: how often the 95% interval of each method covers log Z."""

import numpy as np
import pytest
from support.checks import CheckFailedError, assert_detects, check_coverage
from tables.tempered_coverage import CASES, RULES, Found, replicates

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:the model has potentials"),
]
HEAVY = {"stepping_stone_reverse"}
"""At the mercy of the tail of the log ratio at the prior."""


def check(found: Found) -> None:
    """Fail unless intervals cover as they should: those of a rule too, or more."""
    try:
        if found.method in RULES:
            missed = 1 - found.covered.mean()
            if missed > 0.05 + 4 * np.sqrt(0.05 * 0.95 / found.z.size):
                raise CheckFailedError(f"{missed:.1%} of the intervals miss")
        else:
            check_coverage(found.covered)
    except CheckFailedError as failure:
        raise CheckFailedError(f"{found.method}: {failure}") from failure


@pytest.mark.parametrize("name", CASES)
def test_intervals_of_whole_runs_cover(name: str) -> None:
    """Catches errors that miss a source of variation, such as walkers that remember."""
    runs = replicates(name)
    for method, found in runs.items():
        print(f"{name}: {method:24s} {found.entry()}")
        if method in HEAVY or not found.counted.any():
            continue
        assert method in RULES or found.ok.mean() > 0.9
        check(found)
    rts = runs["rts"]
    assert_detects(check_coverage, np.abs(rts.z) < 1.96 / 2)
    assert_detects(check_coverage, np.abs(rts.z + 2) < 1.96)
