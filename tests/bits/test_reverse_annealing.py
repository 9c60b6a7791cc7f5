"""RAISE: a log likelihood of data that errs on the low side."""

import numpy as np
import pytest
from support.small_machines import KNOWN, MACHINES

import pymc_logz as lz

QUIET = {"progressbar": False}


def test_it_is_low_and_comes_closer() -> None:
    """Catches weights with the wrong sign, and rows that start elsewhere than at their datum."""
    data = KNOWN.sample(np.random.default_rng(1), 300)["visible"]
    exact = KNOWN.log_visible(data).mean() - KNOWN.log_z
    found = [
        lz.raise_log_likelihood(KNOWN, data, draws=2, betas=k, random_seed=2, **QUIET)["evidence"]
        for k in (3, 300)
    ]
    gap = [exact - one.attrs["mean_log_likelihood"] for one in found]
    assert gap[0] > 4 * found[0].attrs["mean_mcse"] > 0
    assert -4 * found[1].attrs["mean_mcse"] < gap[1] < 0.05
    assert set(found[1]["status"].values.ravel()) == {"lower_end"}
    upper = found[0].attrs["log_z_upper"]
    assert upper - KNOWN.log_z == pytest.approx(gap[0], abs=1e-9)


def test_each_datum_has_its_own_likelihood() -> None:
    """Catches data whose rows have changed places: many draws for few data."""
    rbm = MACHINES["rbm"]
    data = np.array([[0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 1, 0, 0]])
    tree = lz.raise_log_likelihood(rbm, data, draws=4000, betas=100, random_seed=3, **QUIET)
    log_p, mcse = (tree["evidence"][name].to_numpy()[0] for name in ("log_z", "mcse"))
    exact = rbm.log_visible(data) - rbm.log_z
    assert np.all(np.abs(log_p - exact) < 4 * mcse + 0.01)
    assert tree["annealing"]["beta"].to_numpy()[[0, -1]].tolist() == [1.0, 0.0]
    assert np.ptp(exact) > 1


def test_what_is_wrong_is_said() -> None:
    """Catches data that are no bits, and machines without hidden units."""
    with pytest.raises(TypeError, match=r"energies.bernoulli_rbm\(...\)"):
        lz.raise_log_likelihood(MACHINES["torus"], np.zeros((2, 12)))
    with pytest.raises(ValueError, match="must be zeros and ones"):
        lz.raise_log_likelihood(KNOWN, np.full((2, 12), 0.5))
    with pytest.raises(ValueError, match=r"must have shape \(N, 12\)"):
        lz.raise_log_likelihood(KNOWN, np.zeros((2, 8)))
    with pytest.raises(ValueError, match="there is no pilot"):
        lz.raise_log_likelihood(KNOWN, np.zeros((2, 12)), betas="adaptive")
