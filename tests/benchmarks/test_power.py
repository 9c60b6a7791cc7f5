"""The model of the power benchmark has the basin that it promises."""

import numpy as np
import power
import pytest
from support.checks import make_rng


@pytest.mark.parametrize(
    ("basin", "mass", "dims"), [(0.03, 0.03, 1), (0.01, 0.5, 4), (0.03, 0.03, 16)]
)
def test_share_of_the_prior(basin: float, mass: float, dims: int) -> None:
    """Would catch a wrong ball, and draws of the broad mode alone that pass for a find."""
    target, rng, n = power.Target(basin, mass, dims), make_rng("share of the prior"), 40_000
    parts = target.log_parts(rng.normal(size=(n, dims)))
    share = (parts[:, 1] > parts[:, 0]).mean()
    assert abs(share - basin) < 4 * np.sqrt(basin / n)
    broad = power.BROAD * rng.normal(size=(n, dims))
    assert target.seen(broad) < power.FOUND / 4
    weights = np.full(n, 1 / n)
    narrow = target.modes[0][1] + target.width * rng.normal(size=(n, dims))
    both = np.concatenate([broad, narrow])
    shares = np.concatenate([(1 - mass) * weights, mass * weights])
    assert target.seen(both, shares) == pytest.approx(1, abs=0.05)


def test_rate() -> None:
    """Would catch an interval that is not Wilson's."""
    records = [{"seen": 1.0}] * 9 + [{"seen": 0.1}]
    assert power.rate(records) == pytest.approx((0.9, 0.5958, 0.9821), abs=1e-3)
