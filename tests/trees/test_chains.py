"""Chains that are told to agree or not."""

import numpy as np
from arviz_stats.base import array_stats
from support.checks import make_rng

from pymc_logz.trees.chains import split_rhat


def test_rhat_is_that_of_arviz() -> None:
    """Would catch halves of chains that overlap or are left out."""
    rows = make_rng("rhat").normal(size=(4, 100, 2)) + 0.2 * np.arange(4)[:, None, None]
    expected = [array_stats.rhat(rows[..., i], method="split") for i in range(2)]
    np.testing.assert_allclose(split_rhat(rows), expected, rtol=1e-6)


def test_rhat_of_what_arviz_leaves_out() -> None:
    """Would catch one chain that drifts, or one draw on a boundary, for which ArviZ's is NaN."""
    rng = make_rng("rhat of one")
    drifting = rng.normal(size=(1, 200, 2)) + np.linspace(0, [3, 0], 200)
    rhat = split_rhat(drifting)
    assert rhat[0] > 1.2
    assert rhat[1] < 1.05
    rows = rng.normal(size=(4, 200, 2))
    with_gap = rows.copy()
    with_gap[0, 7] = np.nan
    assert np.all(np.isnan(array_stats.rhat(with_gap, chain_axis=0, draw_axis=1, method="split")))
    np.testing.assert_allclose(split_rhat(with_gap), split_rhat(rows), atol=0.005)
