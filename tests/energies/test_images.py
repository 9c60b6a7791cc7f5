"""Models of image patches: densities term by term, log Z in closed form or by quadrature."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import expit
from support.checks import make_rng

import pymc_logz as lz
from pymc_logz import energies

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:the model has potentials"),
]
BASES = np.array([[1.0, 0.5, -0.3], [0.2, -1.0, 0.8]])
DATUM = np.array([0.7, -1.2])
FILTERS = np.array([[1.0, 0.3], [-0.4, 1.2], [0.8, -0.9], [0.1, 0.5]])
C = np.array([[1.0, -0.5], [0.3, 2.0], [1.0, 1.0]])
P = -np.array([[1.0, 0.0], [0.5, 0.7], [0.0, 2.0]])
BC = np.array([1.0, 2.0])
W = np.array([[2.0, 0.5], [-1.0, 1.5]])
BM = np.array([-0.5, 0.3])
BV = np.array([0.2, -0.4])
SIGMA = 0.8


def log_z_of(model: pm.Model) -> tuple[float, float]:
    entry = lz.sample_hais(model=model, random_seed=1, progressbar=False)["evidence"]
    first = entry.to_dataset().isel(estimator=0)
    assert str(first["status"].item()) == "ok"
    return float(first["log_z"]), float(first["mcse"])


def on_a_plane(
    density: Callable[[np.ndarray], np.ndarray], reach: float, lowest: float | None = None
) -> float:
    """Log of the integral of a density of rows (n, 2), kinks and all, by a sum over a fine grid."""
    n, least = 640, -reach if lowest is None else lowest
    first = -reach + 2 * reach * (np.arange(n) + 0.5) / n
    second = least + (reach - least) * (np.arange(n) + 0.5) / n
    cell = 2 * reach * (reach - least) / n**2
    total = sum(density(np.column_stack([np.full(n, x), second])).sum() for x in first)
    return float(np.log(total * cell))


@cache
def density_of(model: pm.Model) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    return model.compile_logp(jacobian=False, mode="FAST_COMPILE")


def log_density(model: pm.Model, point: dict[str, np.ndarray]) -> float:
    return float(density_of(model)(point))


def test_linear_generative_with_a_normal_prior() -> None:
    """Catches the noise's variance in place of its standard deviation, and Phi turned round."""
    energy = energies.linear_generative(BASES, DATUM, noise=0.3)
    found, mcse = log_z_of(energy.model)
    assert abs(found - energy.log_z) < 4 * mcse
    covariance = BASES @ BASES.T + 0.09 * np.eye(2)
    exact = stats.multivariate_normal(np.zeros(2), covariance).logpdf(DATUM)
    assert energy.log_z == pytest.approx(exact)
    assert energy.sample_posterior is not None
    draws = energy.sample_posterior(make_rng("posterior"), 20_000)["a"]
    residual = DATUM - draws.mean(axis=0) @ BASES.T
    precision = np.eye(3) + BASES.T @ BASES / 0.09
    np.testing.assert_allclose(draws.mean(axis=0), BASES.T @ residual / 0.09, atol=0.1)
    np.testing.assert_allclose(np.cov(draws.T) @ precision, np.eye(3), atol=0.1)


def two_causes() -> energies.Energy:
    return energies.linear_generative(BASES[:, :2], DATUM, "laplace", noise=0.4)


def joint_of_two_causes(a: np.ndarray) -> np.ndarray:
    likelihood = stats.norm(a @ BASES[:, :2].T, 0.4).pdf(DATUM).prod(axis=1)
    return likelihood * np.exp(-np.abs(a).sum(axis=1)) / 4


def test_linear_generative_with_a_laplace_prior() -> None:
    """Catches the paper's 2 for 2**L: the density of two causes."""
    energy = two_causes()
    assert np.isnan(energy.log_z)
    for a in make_rng("causes").laplace(size=(5, 2)):
        exact = np.log(joint_of_two_causes(a[None])[0])
        assert log_density(energy.model, {"a": a}) == pytest.approx(exact)


def test_linear_generative_for_many_data() -> None:
    """Catches data that cannot be exchanged for others."""
    energy = energies.linear_generative(BASES, DATUM, noise=0.3)
    data = make_rng("data").standard_normal((6, 2))
    group = lz.marginal_log_likelihood(
        energy.model, {"x": data}, draws=128, random_seed=1, progressbar=False
    )["evidence"]
    exact = [energies.linear_generative(BASES, row, noise=0.3).log_z for row in data]
    z = (group["log_z"].values[0] - exact) / group["mcse"].values[0]
    assert np.abs(z).max() < 4.5


FIRST, SECOND = np.array([[1.0], [0.5], [-2.0]]), np.array([[0.7], [1.0], [0.2]])


def bilinear() -> energies.Energy:
    return energies.bilinear_generative(BASES, FIRST, SECOND, DATUM, noise=0.5)


def joint_of_bilinear(rows: np.ndarray) -> np.ndarray:
    c, d = rows.T
    direction = BASES @ (FIRST * SECOND)[:, 0]
    likelihood = stats.norm(np.outer(c * d, direction), 0.5).pdf(DATUM).prod(axis=1)
    return likelihood * np.exp(-np.abs(c) - d) / 2


def test_bilinear_generative() -> None:
    """Catches factors that are added, and a prior of d on the wrong half: one number of each."""
    rng, model = make_rng("factors"), bilinear().model
    for c, d in zip(rng.laplace(size=5), rng.exponential(size=5), strict=True):
        exact = np.log(joint_of_bilinear(np.array([[c, d]]))[0])
        point = {"c": np.array([c]), "d_log__": np.log([d])}
        assert log_density(model, point) == pytest.approx(exact)


def test_experts_with_more_filters_than_dimensions() -> None:
    exponents = np.array([1.0, 2.0, 1.5, 0.8])
    for energy, each in (
        (energies.laplace_experts(FILTERS), np.abs),
        (
            energies.student_t_experts(FILTERS, exponents),
            lambda u: exponents * np.log1p(u**2),
        ),
    ):
        assert np.isnan(energy.log_z)
        assert energy.sample_posterior is None
        x = np.array([0.4, -1.1])
        assert log_density(energy.model, {"x": x}) == pytest.approx(-each(FILTERS @ x).sum())


def energy_of_mcrbm(x: np.ndarray, share: float = 1.0) -> np.ndarray:
    """Equation 40 of rows (n, 2), sum by sum; a share of the squares in the denominator."""
    square = (x**2).sum(axis=1)
    total = square / (2 * SIGMA**2) - x @ BV
    for k in range(2):
        seen = sum(P[j, k] * (x @ C[j]) ** 2 / (share * square + 0.5) for j in range(3))
        total -= np.log(1 + np.exp(0.5 * seen + BC[k]))
    for j in range(2):
        total -= np.log(1 + np.exp(x @ W[j] + BM[j]))
    return total


def mcrbm() -> energies.Energy:
    return energies.mean_covariance_rbm(C, P, BC, W, BM, BV, SIGMA)


def test_mean_covariance_rbm() -> None:
    """Catches a term of the energy, and P turned round."""
    energy = mcrbm()
    assert np.isnan(energy.log_z)
    for x in make_rng("points").standard_normal((5, 2)):
        assert log_density(energy.model, {"x": x}) == pytest.approx(-energy_of_mcrbm(x[None])[0])


def test_mean_covariance_rbm_of_released_code() -> None:
    """Catches a sum of squares where their mean should be."""
    model = energies.mean_covariance_rbm(C, P, BC, W, BM, BV, SIGMA, mean_square=True).model
    x = np.array([0.7, -1.9])
    assert log_density(model, {"x": x}) == pytest.approx(-energy_of_mcrbm(x[None], 0.5)[0])


@pytest.mark.parametrize(
    ("make", "density", "reach", "lowest"),
    [
        (
            lambda: energies.laplace_experts(FILTERS),
            lambda x: np.exp(-np.abs(x @ FILTERS.T).sum(axis=1)),
            20.0,
            None,
        ),
        pytest.param(two_causes, joint_of_two_causes, 12.0, None, marks=pytest.mark.slow),
        pytest.param(bilinear, joint_of_bilinear, 14.0, 0.0, marks=pytest.mark.slow),
        pytest.param(
            mcrbm, lambda x: np.exp(-energy_of_mcrbm(x)), 8.0, None, marks=pytest.mark.slow
        ),
    ],
    ids=["experts", "causes", "bilinear", "mcrbm"],
)
def test_log_z_of_two_dimensions(
    make: Callable[[], energies.Energy],
    density: Callable[[np.ndarray], np.ndarray],
    reach: float,
    lowest: float | None,
) -> None:
    """Catches runs that come to another integral than that of the density: by quadrature."""
    found, mcse = log_z_of(make().model)
    assert abs(found - on_a_plane(density, reach, lowest)) < 4 * mcse


def test_mean_covariance_rbm_without_pooling_is_known() -> None:
    energy = energies.mean_covariance_rbm(C, 0 * P, BC, W, BM, BV, SIGMA)

    def density(x: np.ndarray) -> np.ndarray:
        units = np.prod(1 + np.exp(x @ W.T + BM), axis=1) * np.prod(1 / expit(-BC))
        return units * np.exp(-(x**2).sum(axis=1) / (2 * SIGMA**2) + x @ BV)

    assert energy.log_z == pytest.approx(on_a_plane(density, 10.0), abs=1e-6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: energies.linear_generative(BASES, np.zeros(3)), r"\(2, 3\).*\(3,\)"),
        (lambda: energies.linear_generative(BASES, DATUM, "cauchy"), "prior='cauchy'"),
        (lambda: energies.linear_generative(BASES, DATUM, noise=0.0), r"noise=0\.0"),
        (
            lambda: energies.bilinear_generative(BASES, np.eye(2), np.eye(3), DATUM),
            "each of the 3 columns",
        ),
        (lambda: energies.mean_covariance_rbm(C, P.T, BC, W, BM, BV), r"\(L, K\)"),
        (lambda: energies.laplace_experts(FILTERS.T), "rank"),
        (lambda: energies.laplace_experts(np.array([[1.0, 2.0], [0.5, 1.0]])), "infinite"),
    ],
)
def test_the_door(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_bilinear_generative_centred() -> None:
    """Catches a Jacobian or a determinant that is left out: the same joint density."""
    rng = make_rng("centred")
    first, second = rng.standard_normal((3, 3)), rng.uniform(0.1, 1.0, (3, 2))
    plain, centred = (
        energies.bilinear_generative(BASES, first, second, DATUM, 0.3, centred=choice).model
        for choice in (False, True)
    )
    for _ in range(3):
        c, d = rng.laplace(size=3), rng.exponential(size=2)
        wide = np.sqrt(1 + (second @ d / 0.3) ** 2)
        volume = np.linalg.slogdet(first)[1] + np.log(wide).sum()
        expected = log_density(plain, {"c": c, "d_log__": np.log(d)})
        found = log_density(centred, {"b": (first @ c) * wide, "d_log__": np.log(d)})
        assert found + volume == pytest.approx(expected)
    with pm.Model():
        draws = pm.draw(centred["b"], 4000, random_seed=1, mode="FAST_COMPILE")
    assert np.all(np.abs(draws.mean(axis=0)) < 5 * draws.std(axis=0) / np.sqrt(4000))
    for bad in (first[:, :2], np.ones((3, 3))):
        with pytest.raises(ValueError, match="centred=True"):
            energies.bilinear_generative(BASES, bad, second, DATUM, centred=True)
    with pytest.raises(ValueError, match="centred=True"):
        energies.bilinear_generative(BASES, first, -second, DATUM, centred=True)
