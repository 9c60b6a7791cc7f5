"""Parts that a search takes in where its blend is good already: those that show what it lacks."""

import numpy as np
import pytest
from support.checks import make_rng
from support.learned_references import N_LOOKS, N_ROWS, Known, known

from pymc_logz.loop.search import Search
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.references.blend import Component, Target


def fit(rows: np.ndarray, width: float = 1.2) -> Component:
    """A component with the covariance of rows, in these units."""
    factor = np.linalg.cholesky(width * np.cov(rows.T))
    return Component(Elliptical(rows.mean(axis=0), factor, 5.0))


def searched(of: Known, part: Component, witnesses: np.ndarray) -> Search:
    """One round with one part."""
    target = Target(of.prepared, of.block)
    search = Search(target, make_rng("needed"))
    search.add_parts([part])
    search.add_witnesses(target(witnesses))
    search.draw()
    return search


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_part_is_needed_where_it_shows_what_is_missing(sign: float) -> None:
    """Catches a part that seems needless since no known row is there, and one that brings nothing.

    All rows that are known are in one of two modes.
    """
    of = known("two modes")
    rows = of.rows("pilot", N_LOOKS * N_ROWS)
    own, others = (rows[np.sign(rows[:, 0]) == one] for one in (sign, -sign))
    search = searched(of, fit(own), own)
    assert search.effective_fraction(search.shares()) > 0.5
    assert search.needs(fit(others))
    assert not search.needs(fit(own))
    # where the blend is bad any part is of use
    search = searched(of, fit(own, 0.1), own)
    assert search.effective_fraction(search.shares()) < 0.5
    assert search.needs(fit(own))
