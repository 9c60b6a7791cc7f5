"""Boltzmann machines of bits: log Z, density and draws against sums over all states."""

import numpy as np
import pytest
from scipy.special import logsumexp
from support.checks import check_means, make_rng
from support.small_machines import (
    ALL_TO_ALL,
    BASE,
    HIDDEN,
    KNOWN,
    MACHINES,
    VISIBLE,
    WEIGHTS,
    all_states,
    expectations,
    log_densities,
)

from pymc_logz import energies
from pymc_logz.bits.machines import torus_log_z
from pymc_logz.models.discrete import colours


def test_the_machine_whose_log_z_is_known() -> None:
    """Catches biases of the two layers that have changed places."""
    assert KNOWN.log_z == pytest.approx(14.37919794, abs=1e-8)
    turned = energies.bernoulli_rbm(KNOWN.weights.T, KNOWN.hidden_bias, KNOWN.visible_bias)
    assert turned.log_z == pytest.approx(14.37919794, abs=1e-8)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_log_z_is_the_sum_over_all_states(name: str, beta: float) -> None:
    """Catches a block that is summed out wrongly, and a reference that is not normalised."""
    energy = MACHINES[name]
    exact = logsumexp(log_densities(energy, beta)[1])
    assert energy.log_z_at(beta)[0] == pytest.approx(exact, abs=1e-10)
    if beta == 0.0:
        assert exact == pytest.approx(0.0, abs=1e-12)
    if beta == 1.0:
        assert energy.log_z == pytest.approx(exact, abs=1e-10)


def test_densities_are_what_the_formulas_say() -> None:
    """Catches rows in another order than the values, and pairs that count twice."""
    rng = make_rng("densities")
    v, h = rng.integers(2, size=(6, 5)), rng.integers(2, size=(6, 4))
    direct = v @ VISIBLE + np.einsum("ni,ij,nj->n", v, WEIGHTS, h) + h @ HIDDEN
    rbm = MACHINES["rbm"]
    np.testing.assert_allclose(rbm.log_density({"visible": v, "hidden": h}), direct, atol=1e-12)
    x = rng.integers(2, size=(6, 7))
    pairs = [
        sum(ALL_TO_ALL[i, j] * one[i] * one[j] for i in range(7) for j in range(i)) for one in x
    ]
    direct = x @ (0.5 * np.sin(np.arange(7))) + pairs
    np.testing.assert_allclose(MACHINES["all_to_all"].log_density({"x": x}), direct, atol=1e-12)
    s = 2 * rng.integers(2, size=(6, 4, 4)) - 1
    bonds = (s * np.roll(s, 1, 1) + s * np.roll(s, 1, 2)).sum((1, 2))
    direct = 0.4 * bonds - 0.1 * s.sum((1, 2))
    np.testing.assert_allclose(
        MACHINES["checkerboard"].log_density({"spin": s}), direct, atol=1e-12
    )


def test_hidden_units_are_summed_out() -> None:
    """Catches a log likelihood of data with the wrong constant."""
    rbm = MACHINES["rbm"]
    visible = all_states(rbm)[:: 2**4, :5]
    assert logsumexp(rbm.log_visible(visible)) == pytest.approx(rbm.log_z, abs=1e-10)


@pytest.mark.parametrize("name", MACHINES)
def test_draws_have_the_law(name: str) -> None:
    """Catches draws of the layer that is not summed over from the wrong odds."""
    energy, n = MACHINES[name], 4000
    rows = energy.sample_rows(make_rng("draws", name), 0.7, n)
    mean, products = expectations(energy, 0.7)
    check_means({f"x{i}": rows[:, i] - mean[i] for i in range(energy.n_sites)})
    pairs = [(i, j) for i in range(energy.n_sites) for j in range(i)]
    check_means({f"{i}, {j}": rows[:, i] * rows[:, j] - products[i, j] for i, j in pairs})
    np.testing.assert_array_equal(energy.rows(energy.named(rows)), rows)


@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (4, 4)])
def test_the_transfer_matrix_of_a_torus(shape: tuple[int, int]) -> None:
    """Catches bonds around the torus that are missing or count twice."""
    torus = energies.ising_torus(shape, 0.35, 0.2)
    exact = logsumexp(log_densities(torus, 1.0)[1])
    assert torus.log_z == pytest.approx(exact, abs=1e-10)
    assert torus_log_z(shape[::-1], 0.35, 0.2) == pytest.approx(exact, abs=1e-10)


def test_a_large_torus_against_onsager() -> None:
    """Catches powers of the transfer matrix: log Z per site in the limit, 1 / K = 3, h = 0."""
    coupling, angle = 1 / 3, np.linspace(0, np.pi, 20001)
    modulus = 2 * np.sinh(2 * coupling) / np.cosh(2 * coupling) ** 2
    inner = np.log((1 + np.sqrt(1 - modulus**2 * np.sin(angle) ** 2)) / 2)
    limit = np.log(2 * np.cosh(2 * coupling)) + np.trapezoid(inner, angle) / (2 * np.pi)
    found = energies.ising_torus((10, 40), coupling).log_z / 400
    assert found == pytest.approx(limit, abs=2e-3)


def test_blocks_do_not_interact() -> None:
    """Catches a colouring that puts neighbours into one block, or needs more than it must."""
    assert MACHINES["checkerboard"].path.sizes == (8, 8)
    assert len(MACHINES["three_blocks"].path.sizes) == 3
    assert MACHINES["all_to_all"].path.sizes == (1,) * 7
    interact = make_rng("colours").random((30, 30)) < 0.1
    interact = np.triu(interact, 1) | np.triu(interact, 1).T
    colour = colours([np.flatnonzero(row).tolist() for row in interact])
    assert not np.any(interact & (colour[:, None] == colour))


def test_other_parameters_share_what_is_compiled() -> None:
    """Catches a machine that keeps its old bias, or compiles for each step of learning."""
    rbm = MACHINES["rbm"]
    moved = rbm.at(2 * WEIGHTS, VISIBLE - 1, HIDDEN + 1)
    fresh = energies.bernoulli_rbm(2 * WEIGHTS, VISIBLE - 1, HIDDEN + 1, BASE)
    np.testing.assert_allclose(moved.log_z_at([0.3, 1.0]), fresh.log_z_at([0.3, 1.0]))
    assert np.isnan(moved.log_z)
    np.testing.assert_array_equal(moved.hidden_bias, HIDDEN + 1)
    assert moved.path.kept is rbm.path.kept is fresh.path.kept


def test_what_is_wrong_is_said() -> None:
    """Catches shapes that are broadcast, and sums over more states than there is time for."""
    with pytest.raises(ValueError, match=r"hidden_bias has shape .5,., and must have"):
        energies.bernoulli_rbm(WEIGHTS, VISIBLE, VISIBLE)
    with pytest.raises(ValueError, match="weights has entries that are not finite"):
        energies.bernoulli_rbm(np.nan * WEIGHTS, VISIBLE, HIDDEN)
    with pytest.raises(ValueError, match="must be symmetric, with zeros on the diagonal"):
        energies.boltzmann_machine(ALL_TO_ALL + np.eye(7), np.zeros(7))
    with pytest.raises(ValueError, match=r"must be at least \(3, 3\)"):
        energies.ising_torus((2, 4), 1.0)
    large = energies.bernoulli_rbm(np.zeros((21, 22)), np.zeros(21), np.zeros(22))
    assert np.isnan(large.log_z)
    with pytest.raises(ValueError, match=r"21 bits whose states .* sample_tempered"):
        large.log_z_at(1.0)
    with pytest.raises(ValueError, match="'hidden' is missing"):
        MACHINES["rbm"].rows({"visible": np.zeros((2, 5))})
    with pytest.raises(ValueError, match=r"values among \(-1, 1\)"):
        MACHINES["torus"].rows({"spin": np.zeros((2, 3, 4))})


def test_base_rates() -> None:
    """Catches odds that are infinite where all rows agree, or the odds of zero."""
    data = np.array([[0, 1, 1], [0, 1, 0], [0, 1, 0]])
    expected = np.log([0.5 / 3.5, 3.5 / 0.5, 1.5 / 2.5])
    np.testing.assert_allclose(energies.base_log_odds(data), expected)
    assert BASE.size == MACHINES["rbm"].weights.shape[0]
