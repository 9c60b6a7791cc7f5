"""Whether log Z may be infinite: lines that lead away from draws of the posterior."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytest
from support.checks import make_rng

import pymc_logz as lz
from pymc_logz.checks.tails import _pole_doubts, tail_doubts
from pymc_logz.models.beyond_draws import growing_tail
from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import flatten_model

pytestmark = [
    pytest.mark.filterwarnings("ignore:the model has potentials"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
]
Density = Callable[[np.ndarray], np.ndarray]


def infinite_scale() -> pm.Model:
    """The density of a scale that goes to zero falls as slowly as one over it."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        pm.Normal("y", 0, scale, observed=0.0)
    return model


def test_a_scale_without_a_floor_has_a_status() -> None:
    """Would catch `ok` on the logarithm of the range of floating-point numbers."""
    with pytest.warns(lz.EvidenceWarning, match="'maybe_infinite'"):
        tree = lz.sample_hais(model=infinite_scale(), random_seed=3, progressbar=False, cores=1)
    evidence = tree["evidence"]
    assert str(evidence["status"].values[0]) == "maybe_infinite"
    assert "'scale'" in evidence.attrs["doubts"]


def log_cauchy(x: np.ndarray) -> np.ndarray:
    return -np.log(np.pi) - np.log1p(x**2)


def log_normal(x: np.ndarray) -> np.ndarray:
    return -0.5 * x**2 - 0.5 * np.log(2 * np.pi)


@pytest.mark.parametrize(
    ("prior", "likelihood", "infinite"),
    [
        (log_cauchy, lambda x: np.log1p(np.abs(x)), True),
        (log_cauchy, lambda x: 0.7 * np.log1p(x**2), True),
        (log_cauchy, lambda x: 0.45 * np.log1p(x**2), True),
        (log_cauchy, lambda x: 0.25 * np.log1p(x**2), False),
        (log_cauchy, lambda x: -np.log1p((x - 3) ** 2), False),
        (log_normal, lambda x: 0.4 * x**2, False),
        (log_normal, lambda x: 0.6 * x**2, True),
        (log_normal, lambda x: np.where(x < 1.0, 5.0 * x, -np.inf), False),
    ],
)
def test_tails(prior: Density, likelihood: Density, infinite: bool) -> None:
    """Would catch an accused heavy tail or edge, and a tail index of 0.1 that passes."""
    rng = make_rng("tails")
    rows = np.column_stack([rng.standard_t(1, 500), rng.standard_normal(500)]).clip(-40, 0.9)

    def densities(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return prior(rows[:, 0]) + log_normal(rows[:, 1]), likelihood(rows[:, 0])

    found = growing_tail(densities, rows, np.zeros(2, dtype=bool), rng, np.arange(2))
    assert found == (0 if infinite else None)


@pytest.mark.parametrize(("power", "is_pole"), [(0.8, True), (0.6, True), (0.0, False)])
def test_a_pole_is_seen_from_afar(power: float, is_pole: bool) -> None:
    """Would catch `ok` where a fifth of Z is closer to a point than any draw."""
    rng = make_rng("poles")
    distance = np.sqrt(2 * rng.gamma((1 - power) / 2, size=2000))
    rows = (distance * rng.choice([-1, 1], size=2000))[:, None]

    def densities(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return log_normal(rows[:, 0]), -power * np.log(np.abs(rows[:, 0])) - 0.1 * rows[:, 0] ** 2

    assert bool(_pole_doubts(densities, rows)) == is_pole
    # a prior with the same pole has draws there
    assert not _pole_doubts(lambda rows: densities(rows)[::-1], rows)


@pytest.mark.parametrize(("power", "least", "most"), [(0.8, 18, 20), (0.0, 0, 0)])
def test_a_pole_is_seen_by_few_draws(power: float, least: int, most: int) -> None:
    """Would catch a run of 128 rows that is 5 errors off with `ok`, and one accused by chance."""
    rng, found = make_rng("few-poles", power), 0

    def densities(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return log_normal(rows[:, 0]), -power * np.log(np.abs(rows[:, 0])) - 0.1 * rows[:, 0] ** 2

    for _ in range(20):
        distance = np.sqrt(2 * rng.gamma((1 - power) / 2, size=128))
        rows = (distance * rng.choice([-1, 1], size=128))[:, None]
        found += bool(_pole_doubts(densities, rows))
    assert least <= found <= most


@pytest.mark.parametrize(("transformed", "dimension"), [(True, 0), (False, None)])
def test_draws_that_are_all_where_a_scale_rounds_to_zero(
    transformed: bool, dimension: int | None
) -> None:
    """Would catch `ok` where no line from a draw leads on, since nothing is left there."""
    rng = make_rng("rounds")
    log_scale = -745.0 + rng.exponential(0.5, size=(500, 1))

    def densities(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = rows[:, 0]
        return u, np.where(u < -745.0, -np.inf, -3 * u)

    assert (
        growing_tail(densities, log_scale, np.array([transformed]), rng, np.arange(1)) == dimension
    )


def test_large_values_that_sum_to_zero_have_no_end() -> None:
    """Would catch `maybe_infinite` where a unit is small: their transform is linear."""
    with pm.Model() as model:
        x = pm.ZeroSumNormal("x", 3000.0, shape=3)
        pm.Normal("y", x, 300.0, observed=[2000.0, 1000.0, -3000.0])
    flat, rng = flatten_model(model), make_rng("small unit")
    rows = rng.normal([3000.0, 2000.0], 100.0, size=(500, 2))
    density = RowDensity(flat, {"mode": "FAST_COMPILE"})
    assert tail_doubts(flat, density, rows, rng) == []
