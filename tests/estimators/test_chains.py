"""What draws of chains are worth."""

import numpy as np
import pytest
from support.checks import make_rng

from pymc_logz.estimators.draws import MIN_CHAIN, check_chains, effective_draws


def chains(correlation: float, shape: tuple[int, int] = (4, 2000)) -> np.ndarray:
    """Autoregressive chains with standard normal draws."""
    noise = make_rng("chains", correlation).normal(size=shape)
    rows = [noise[:, 0]]
    for column in noise.T[1:]:
        rows.append(correlation * rows[-1] + np.sqrt(1 - correlation**2) * column)
    return np.stack(rows, axis=1)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_size_of_autoregressive_chains(correlation: float) -> None:
    """Would catch the number of draws in place of what they are worth."""
    exact = 8000 * (1 - correlation) / (1 + correlation)
    assert effective_draws(chains(correlation)) == pytest.approx(exact, rel=0.25)


def test_a_gain_is_not_trusted() -> None:
    """Would catch more draws than there are."""
    assert effective_draws(chains(-0.7)) == 8000


def test_equal_values_are_all_worth_their_number() -> None:
    """Would catch the autocorrelation of rounding errors."""
    assert effective_draws(np.full((2, 50), 3.0)) == 100
    rounding = 1 + 1e-15 * np.arange(100).reshape(2, 50)
    assert effective_draws(rounding) == 100


def test_what_cannot_be_told_is_worth_one_draw() -> None:
    """Would catch NaN that passes as a number."""
    values = chains(0.0, (2, 50))
    values[0, 0] = np.inf
    with np.errstate(invalid="ignore"):
        assert effective_draws(values) == 1


def test_slow_tails_count() -> None:
    """Would catch chains that are slow in their spread only: signs that jump hide it."""
    size = np.exp(chains(0.97))
    values = size * make_rng("signs").choice([-1.0, 1.0], size=size.shape)
    plain, with_tails = (effective_draws(values, tails=tails) for tails in (False, True))
    assert with_tails < 0.2 * plain


def test_short_chains_are_refused() -> None:
    """Would catch an error told from three draws."""
    check_chains(a=np.zeros((2, MIN_CHAIN)), b=np.zeros(MIN_CHAIN))
    with pytest.raises(ValueError, match=r"b has shape \(2, 3\); each chain needs at least 4"):
        check_chains(a=np.zeros((2, 4)), b=np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"shape \(0, 9\)"):
        check_chains(a=np.zeros((0, 9)))
