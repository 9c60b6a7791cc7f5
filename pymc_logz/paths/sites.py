"""Discrete entries of a row, and what values they may have."""

from typing import Any, NamedTuple

WIDE = 128
"""Values from which on an entry is walked along rather than scored at each of them."""


class Site(NamedTuple):
    """One discrete entry of a row."""

    column: int
    """Where it is in the row."""
    lower: int | None = None
    """Smallest value; None if that is not known, or depends on other variables."""
    upper: int | None = None
    """Largest value; None likewise."""
    tied: int | None = None
    """Number of the group of entries that it shares a fixed sum with; None if it has none."""

    @property
    def n_values(self) -> int | None:
        """Number of values; None if that is not known."""
        if self.lower is None or self.upper is None:
            return None
        return self.upper - self.lower + 1

    @property
    def is_narrow(self) -> bool:
        """Whether its values are known, and few enough to score each."""
        return self.n_values is not None and self.n_values <= WIDE


class Entries(NamedTuple):
    """What the densities of a path are, apart, for entries that are independent given the rest.

    With m of them, each of at most K values, a row has the log density ``rest + sum_i piece[k_i,
    i]``. The pieces may be evaluated at any values of these entries.
    """

    sites: tuple[Site, ...]
    """The entries, of length m."""
    reference: tuple[Any, Any]
    """Rest of the log density of the reference, and its pieces, shape (K * m,), symbolic."""
    ratio: tuple[Any, Any]
    """The same of the log ratio."""

    @property
    def n_values(self) -> int:
        """K, as many as any entry has."""
        return max(site.n_values or 1 for site in self.sites)
