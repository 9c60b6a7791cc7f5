"""Bits are a wing: their names are where users look for them, and nothing else needs them."""

import pytest

import pymc_logz as lz


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
