"""Bridge, HAIS and RTS agree with each other and with the exact log Z, within joint errors."""

import pytest
from tables.three_ways import CASES, measure

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.mark.parametrize("name", CASES)
def test_three_methods_agree(name: str) -> None:
    """Would catch two conventions of log Z, or an error bar that one of them gets wrong."""
    found = measure(name)
    print(found.row())
    assert all(status == "ok" for status in found.status), found.status
    assert found.mcse.max() < 0.15
    assert found.distances.max() < 4
