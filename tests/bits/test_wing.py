"""Bits are a wing: their names are where users look for them, and nothing else needs them."""

import json
import subprocess
import sys
import textwrap

import pytest

import pymc_logz as lz

SCRIPT = """
    import json, sys
    import pymc_logz as lz
    for name in lz.__all__:
        if name != "raise_log_likelihood":
            getattr(lz, name)
    print(json.dumps([name for name in sys.modules if name.startswith("pymc_logz.bits")]))
"""


def test_nothing_else_loads_bits() -> None:
    """Catches an import of the wing by what every user needs."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_names_of_bits_are_where_they_were() -> None:
    """Catches a public name that its namespace no longer shows, or shows and does not have."""
    for space in (lz.energies, lz.kernels):
        assert dir(space) == sorted(space.__all__)
        of_bits = [name for name in space.__all__ if name not in vars(space)]
        homes = [getattr(space, name).__module__ for name in of_bits]
        assert of_bits
        assert all(home.startswith("pymc_logz.bits.") for home in homes)


@pytest.mark.parametrize("space", ["energies", "kernels"])
def test_a_name_that_is_none_is_an_attribute_error(space: str) -> None:
    """Catches a namespace that answers to every name."""
    with pytest.raises(AttributeError, match=f"'pymc_logz.{space}' has no attribute 'nothing'"):
        getattr(lz, space).nothing  # noqa: B018
