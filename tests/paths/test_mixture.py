"""Paths from a mixture of Student-t components and the prior, against SciPy and plain NumPy."""

from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.integrate import trapezoid
from scipy.special import logsumexp
from support.checks import assert_detects, check_means, check_same_law, make_rng
from support.compilations import counted_compilations
from support.kernel_contracts import constant_moves

from pymc_logz.graphs.compiling import compile_function
from pymc_logz.kernels import Hamiltonian
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.funnels import Funnel
from pymc_logz.paths.geometric import AnnealingPath, Evaluation, grad_log_density, log_density
from pymc_logz.paths.mixture import Mixture, MixtureTerms, leaving, mixture_path
from pymc_logz.runners.block import Block

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation")
D, N_ROWS = 2, 32
CENTRE = np.array([0.6, -0.4])
MODES = ["JAX", *(pytest.param(name, marks=pytest.mark.slow) for name in ("CVM", "NUMBA"))]


def draw_prior(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal((n, D))


def log_prior_of(rows: np.ndarray) -> np.ndarray:
    return stats.norm.logpdf(rows).sum(axis=1)


def log_likelihood_of(rows: np.ndarray) -> np.ndarray:
    return -8 * ((rows - CENTRE) ** 2).sum(axis=1) + np.sin(3 * rows[:, 0])


def prior_path(how: str = "auto", dead: bool = False) -> AnnealingPath:
    """From N(0, I) to a bumpy target; with ``dead`` zones of both, and NaN in them."""
    x = pt.tensor("x", dtype="float64", shape=(D,))
    log_prior = -0.5 * (x**2).sum() - D / 2 * np.log(2 * np.pi)
    log_ratio = -8 * ((x - CENTRE) ** 2).sum() + pt.sin(3 * x[0])
    if dead:
        log_prior = pt.switch(x[0] < -3, -np.inf, pt.switch(x[0] > 3, np.nan, log_prior))
        log_ratio = pt.switch(x[1] < -3, -np.inf, pt.switch(x[1] > 3, np.nan, log_ratio))
    return AnnealingPath(x, log_prior, log_ratio, n_dims=D, sample_reference=draw_prior, how=how)


def mixture(n_components: int, share: float = 0.1, log_mass: float = 0.0) -> Mixture:
    """Components of several shapes, tails and shares."""
    rng = make_rng("mixture", n_components)
    factors = np.tril(0.3 * rng.normal(size=(n_components, D, D))) + 0.6 * np.eye(D)
    parts = tuple(
        Elliptical(rng.normal(size=D), factor, df=4.0 + 3 * k) for k, factor in enumerate(factors)
    )
    shares = (1 - share) * rng.dirichlet(2 * np.ones(n_components))
    return Mixture(parts, shares, share, log_mass)


@cache
def evaluator(mode: str, how: str, dead: bool) -> Any:
    """Function of rows and a mixture, None for the prior alone, to an evaluation."""
    path = mixture_path(prior_path(how, dead))
    rows = pt.tensor("rows", dtype="float64", shape=(None, D))
    trial = [
        np.zeros((3, D)),
        *path.along(leaving(path, mixture(2), Funnel.none(D)), draw_prior).values,
    ]
    inputs = [rows, *path.parameters]
    call = compile_function(inputs, list(path.evaluate(rows)), {"mode": mode}, trial).call

    def evaluated(rows: np.ndarray, start: Mixture | None) -> Evaluation:
        along = path if start is None else path.along(leaving(path, start, Funnel.none(D)), start)
        return Evaluation(*(np.asarray(out) for out in call(rows, *along.values)))

    return evaluated


def plain_density(start: Mixture, rows: np.ndarray) -> np.ndarray:
    """Log density of a mixture by SciPy."""
    with np.errstate(divide="ignore"):
        parts = [np.log(start.prior_share) + log_prior_of(rows) - start.log_prior_mass]
    for part, share in zip(start.components, start.shares, strict=True):
        shape = part.factor @ part.factor.T
        law = stats.multivariate_t(part.centre, shape, df=part.df)
        parts.append(np.log(share) + np.atleast_1d(law.logpdf(rows)))
    return np.asarray(logsumexp(parts, axis=0))


def some_rows(n: int = N_ROWS) -> np.ndarray:
    return 1.5 * make_rng("rows").normal(size=(n, D))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["vector", "row"])
@pytest.mark.parametrize("n_components", [1, 3])
def test_values_are_those_of_scipy(n_components: int, how: str, mode: str) -> None:
    """Catches a constant, a share or a component that is left out, on each backend and batching."""
    rows, start = some_rows(), mixture(n_components, log_mass=-0.7)
    found = evaluator(mode, how, False)(rows, start)
    plain = plain_density(start, rows)
    log_target = log_prior_of(rows) + 0.7 + log_likelihood_of(rows)
    np.testing.assert_allclose(found.log_reference, plain, atol=1e-10)
    np.testing.assert_allclose(found.log_ratio, log_target - plain, atol=1e-9)


@pytest.mark.parametrize("n_components", [1, 3])
def test_gradients_are_those_of_the_values(n_components: int) -> None:
    """Catches a gradient of one component in place of all, or of the prior's density too much."""
    rows, start, step = some_rows(), mixture(n_components), 1e-5
    evaluate = evaluator("JAX", "auto", False)
    found = evaluate(rows, start)
    for j in range(D):
        aside = step * np.eye(D)[j]
        up, down = evaluate(rows + aside, start), evaluate(rows - aside, start)
        for value, gradient in (
            ("log_reference", "grad_log_reference"),
            ("log_ratio", "grad_log_ratio"),
        ):
            numeric = (getattr(up, value) - getattr(down, value)) / (2 * step)
            got = getattr(found, gradient)[:, j]
            np.testing.assert_allclose(got, numeric, rtol=1e-5, atol=1e-5, err_msg=gradient)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["vector", "row"])
def test_without_components_it_is_the_path_from_the_prior(how: str, mode: str) -> None:
    """Catches a start from the prior that is not quite that, though nothing was fitted yet."""
    rows, path = some_rows(), prior_path(how)
    symbolic = pt.tensor("rows", dtype="float64", shape=(None, D))
    call = compile_function([symbolic], list(path.evaluate(symbolic)), {"mode": mode}).call
    found = evaluator(mode, how, False)(rows, None)
    for name, got, wanted in zip(Evaluation._fields, found, call(rows), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("start", [None, mixture(2)], ids=["prior", "mixture"])
def test_dead_zones_stay_dead(start: Mixture | None, mode: str) -> None:
    """Catches life where prior or likelihood have none, and NaN where a component has density."""
    rows = np.array([[0.5, 0.1], [0.0, -4.0], [0.0, 4.0], [-4.0, 0.0], [4.0, 0.0], [-4.0, -4.0]])
    found = evaluator(mode, "auto", True)(rows, start)
    columns = [pt.as_tensor(part) for part in found]
    for beta in (0.3, 1.0):
        at_beta = pt.as_tensor(np.float64(beta))
        value, gradient = (
            f(Evaluation(*columns), at_beta).eval(mode="FAST_COMPILE")
            for f in (log_density, grad_log_density)
        )
        np.testing.assert_array_equal(np.isneginf(value), [False, *[True] * 5])
        assert np.all(np.isfinite(gradient))
    assert np.all(np.isneginf(found.log_ratio[[1, 3, 5]]) | np.isnan(found.log_ratio[[1, 3, 5]]))
    assert np.isfinite(found.log_ratio[0])
    if start is not None:
        # beyond the prior's support components have density, and rows that start there count as 0
        assert np.all(np.isfinite(found.log_reference[[0, 1, 2, 3, 5]]))
        assert np.all(np.isneginf(found.log_ratio[[1, 3, 5]]))


def check_normalised(start: Mixture) -> None:
    """Importance sampling from the mixture finds the integral of normals where components are."""
    rows = start(make_rng("integral"), 20_000, draw_prior)
    log_density = evaluator("JAX", "auto", False)(rows, start).log_reference
    laws = [
        stats.multivariate_normal(part.centre, part.factor @ part.factor.T)
        for part in start.components
    ]
    ratios = [np.exp(law.logpdf(rows) - log_density) for law in laws]
    check_means({f"component {k}": ratio for k, ratio in enumerate(ratios)}, 1.0)


def test_draws_follow_the_density() -> None:
    """Catches draws with other shares than the density's, or a density that is not normalised."""
    start = mixture(3)
    check_normalised(start)
    lost = Mixture(start.components, start.shares * [1, 1, 0.5], 0.1)

    class Weightless(Mixture):
        """Draws all components, and leaves the share of one out of its density."""

        def terms(self) -> MixtureTerms:
            return lost.terms()

    broken = Weightless(start.components, start.shares, start.prior_share)
    assert_detects(check_normalised, broken)


def test_draws_have_the_distribution_of_their_density() -> None:
    """Catches a factor that is transposed, or tails of another component."""
    factor = np.array([[1.0, 0.0], [0.9, 0.3]])
    parts = (Elliptical(np.zeros(D), factor, df=5.0), Elliptical(2 * np.ones(D), np.eye(D), df=8.0))
    start = Mixture(parts, np.array([0.6, 0.3]), 0.1)
    grid = np.linspace(-40, 40, 8001)
    margins = {}
    rows = start(make_rng("margin"), 20_000, draw_prior)
    for j in range(D):
        density = start.prior_share * stats.norm.pdf(grid)
        for part, share in zip(start.components, start.shares, strict=True):
            sd = np.sqrt((part.factor @ part.factor.T)[j, j])
            density += share * stats.t.pdf(grid, part.df, part.centre[j], sd)
        assert trapezoid(density, grid) == pytest.approx(1, abs=1e-4)
        cdf = np.cumsum(density) / density.sum()
        exact = np.interp(make_rng("exact", j).random(20_000), cdf, grid)
        margins[f"dimension {j}"] = (rows[:, j], exact)
    check_same_law(margins)
    turned = (Elliptical(np.zeros(D), factor.T, df=5.0), parts[1])
    rows = Mixture(turned, start.shares, 0.1)(make_rng("turned"), 20_000, draw_prior)
    assert_detects(check_same_law, {"turned": (rows[:, 0], margins["dimension 0"][1])})


def test_weights_are_bounded_by_the_share_of_the_prior() -> None:
    """Catches a bound on the weights that is promised and not kept, far from all components."""
    rows = np.array([[9.0, -9.0], [30.0, 0.0], [-1e3, 1e3]])
    found = evaluator("JAX", "auto", False)(rows, mixture(2, share=0.02))
    most = log_likelihood_of(rows) - np.log(0.02)
    assert np.all(found.log_ratio <= most + 1e-9)


def test_a_restricted_prior_counts_with_its_mass() -> None:
    """Catches a log Z off by the mass that a transform cuts off, and a share off by it."""
    rows = some_rows()
    # a share so near to one that the component counts for nothing
    half = evaluator("JAX", "auto", False)(rows, mixture(1, share=1 - 1e-15, log_mass=np.log(0.5)))
    np.testing.assert_allclose(half.log_reference, log_prior_of(rows) + np.log(2), atol=1e-9)
    np.testing.assert_allclose(half.log_ratio, log_likelihood_of(rows), atol=1e-9)


def moved(block: Block) -> list[np.ndarray]:
    """Where a short run of a block ends, and the log ratios on the way."""
    moves = constant_moves(block, beta=0.6, step_size=0.4, scale=1.0, refreshment=0.3)
    state, trace = block.run(block.initial_state(some_rows()), moves, make_rng("noise"))
    return [np.asarray(state.position), np.asarray(trace.log_ratio)]


@pytest.mark.parametrize("how", ["vector", pytest.param("row", marks=pytest.mark.slow)])
def test_other_numbers_of_components_compile_nothing(how: str) -> None:
    """Catches a path that PyTensor compiles again for each reference that is tried."""
    block = Block(mixture_path(prior_path(how)), Hamiltonian(dense=False), N_ROWS, {"mode": "JAX"})
    block.compile()
    with counted_compilations() as count:
        for n in (1, 2, 3):
            start = mixture(n)
            there = block.along(leaving(block.path, start, Funnel.none(D)), sample_reference=start)
            position, log_ratio = moved(there)
            assert np.all(np.isfinite(position))
            last = evaluator("JAX", how, False)(position, start) if n == 2 else None
            if last is not None:
                np.testing.assert_allclose(log_ratio[-1], last.log_ratio, atol=1e-9)
    assert count.by_pytensor == 0


def test_the_first_component_compiles_nothing_at_all() -> None:
    """Catches a usual run, prior first and then one component, that XLA compiles for twice."""
    block = Block(mixture_path(prior_path()), Hamiltonian(dense=False), N_ROWS, {"mode": "JAX"})
    moved(block)
    start = mixture(1)
    with counted_compilations() as count:
        moved(block.along(leaving(block.path, start, Funnel.none(D)), sample_reference=start))
    assert count.total == 0


@pytest.mark.parametrize("other", ["FAST_COMPILE", pytest.param("CVM", marks=pytest.mark.slow)])
def test_a_backend_moves_as_the_others(other: str, request: pytest.FixtureRequest) -> None:
    """Catches a batch of terms that one backend reads in another order."""
    if other == "CVM":
        request.getfixturevalue("c_compiler")
    start = mixture(2)
    ends = []
    for mode in ("JAX", other):
        block = Block(mixture_path(prior_path()), Hamiltonian(dense=False), N_ROWS, {"mode": mode})
        ends.append(
            moved(block.along(leaving(block.path, start, Funnel.none(D)), sample_reference=start))
        )
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
