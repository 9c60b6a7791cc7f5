"""The restricted Boltzmann machine: its log Z, density and draws against the units themselves."""

from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp
from support.checks import check_means, make_rng

from pymc_logz.energies import gaussian_rbm, gaussian_rbm_log_z

W = np.array([[1.2, -0.7, 0.3], [0.1, 0.8, -1.5]])
B, C = np.array([0.4, -0.2]), np.array([-0.5, 0.3, 1.1])
ENERGY = gaussian_rbm(W, B, C, 2.0)


def log_f(v: np.ndarray) -> np.ndarray:
    """Log of the unnormalised density (n,), the hidden units summed out one state at a time."""
    states = [np.array(h) for h in product((0.0, 1.0), repeat=3)]
    return logsumexp([-((v - B) ** 2).sum(axis=1) / 2 + (v @ W + C) @ h for h in states], axis=0)


def test_log_z_on_a_grid() -> None:
    """Catches a wrong mass of a hidden state."""
    axis, spacing = np.linspace(-12, 12, 401, retstep=True)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    exact = float(logsumexp(log_f(grid)) + 2 * np.log(spacing))
    assert ENERGY.log_z == pytest.approx(exact, abs=1e-8)
    assert gaussian_rbm_log_z(W, B, C) == ENERGY.log_z


def test_model_is_the_density_with_whatever_data() -> None:
    """Catches a reference left in the density, and parameters that do not enter by `set_data`."""
    model = gaussian_rbm(0 * W, 0 * B, 0 * C, 2.0).model
    pm.set_data({"weights": W, "visible_bias": B, "hidden_bias": C}, model=model)
    v = make_rng("rbm").normal(size=(5, 2))
    logp = model.compile_logp(mode="FAST_COMPILE")
    np.testing.assert_allclose([logp({"v": row}) for row in v], log_f(v), rtol=1e-10)


def test_draws_have_the_law() -> None:
    """Catches centres or masses of other states: moments by quadrature."""
    draws = ENERGY.sample_posterior(make_rng("rbm draws"), 50_000)["v"]
    axis = np.linspace(-12, 12, 401)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    weight = np.exp(log_f(grid) - logsumexp(log_f(grid)))
    functions = {"v0": lambda v: v[:, 0], "v1^2": lambda v: v[:, 1] ** 2}
    functions["both"] = lambda v: stats.norm.cdf(v.sum(axis=1))
    check_means({name: f(draws) - weight @ f(grid) for name, f in functions.items()})


def test_shapes_that_do_not_fit() -> None:
    """Catches weights passed the other way round, and a sum over too many states."""
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*\(visible, hidden\)"):
        gaussian_rbm_log_z(W.T, B, C)
    with pytest.raises(ValueError, match="at most 16"):
        gaussian_rbm_log_z(np.zeros((2, 17)), B, np.zeros(17))
