"""Funnels: found where a prior has one that the target keeps, and whitened by an exact map."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.special import ndtr, ndtri
from support.checks import make_rng

from pymc_logz.paths.funnels import (
    Features,
    Funnel,
    fitted_funnel,
    funnels_of_target,
    spreads_that_follow,
)
from pymc_logz.paths.geometric import Evaluation
from pymc_logz.paths.mixture import MixtureTerms, from_mixture, prior_alone

PARENTS = np.eye(4)[[0, 1]]
BENT = Funnel(
    np.array([0.3, -1.0, 0.5, 2.0]),
    PARENTS,
    Features.linear(2),
    np.array([[0, 0], [0, 0], [0.3, -0.5], [0.2, 0.1]]),
    np.array([[0, 0], [0, 0], [0.7, 0.0], [0.5, -0.4]]),
)


def turned() -> Funnel:
    """A map with all there is: products of parents, and a turn that follows them."""
    rng = make_rng("turned")
    lean, slope = 0.2 * rng.normal(size=(2, 4, 9))
    lean[:2] = slope[:2] = 0.0
    turn = np.zeros((10, 4, 4))
    turn[0, :2, :2], turn[0, 2:, 2:] = 0.3 * rng.normal(size=(2, 2, 2))
    basis = np.eye(4) + turn[0]
    # the turn is that basis times a unit triangular matrix, so that its volume is the basis's own
    turn[1:, 2:, 3] = 0.4 * rng.normal(size=(9, 1)) * basis[2:, 2]
    turning = Features(*(np.vstack([np.eye(1, 3), part]) for part in Features.cubic(2)))
    volume = float(np.linalg.slogdet(basis)[1])
    centre = np.array([0.3, -1.0, 0.5, 2.0])
    maps = Features.cubic(2), lean, slope
    return Funnel(centre, PARENTS, *maps, turning, turn, volume, reach=1.5)


MAPS = pytest.mark.parametrize("funnel", [BENT, turned()], ids=["bent", "turned"])


def hierarchy(label: str, n: int, tau: float = 1.5, n_groups: int = 6) -> np.ndarray:
    """Draws of a location, the log of a spread, and groups of that location and spread."""
    rng = make_rng("hierarchy", label)
    mu, log_tau = rng.normal(0, 5, n), rng.normal(0, tau, n)
    groups = mu[:, None] + np.exp(log_tau)[:, None] * rng.normal(size=(n, n_groups))
    return np.column_stack([mu, log_tau, groups])


@MAPS
def test_rows_come_back(funnel: Funnel) -> None:
    """Catches an inverse of the wrong order, or with another centre."""
    rows = make_rng("rows").normal(size=(50, 4))
    np.testing.assert_allclose(funnel.restored(funnel.whitened(rows)), rows, atol=1e-12)
    flat = Funnel.none(4)
    np.testing.assert_array_equal(flat.whitened(rows), rows)
    np.testing.assert_array_equal(flat.log_volume(rows), 0.0)


@MAPS
def test_volume_is_that_of_the_jacobian(funnel: Funnel) -> None:
    """Catches a volume of the wrong sign, or of the map the other way round."""
    at = make_rng("volume").normal(size=4)
    step = 1e-6
    columns = [
        (funnel.restored((at + step * e)[None]) - funnel.restored((at - step * e)[None]))[0]
        for e in np.eye(4)
    ]
    jacobian = np.array(columns).T / (2 * step)
    expected = np.linalg.slogdet(jacobian)[1]
    assert funnel.log_volume(at[None])[0] == pytest.approx(expected, abs=1e-6)


@MAPS
def test_densities_of_evened_rows_have_their_gradients(funnel: Funnel) -> None:
    """Catches a chain rule that leaves a parent, or the volume, out."""
    rows = pt.tensor("rows", dtype="float64", shape=(None, 4))

    def of_prior(x: pt.TensorVariable) -> Evaluation:
        prior, ratio = -0.5 * (x**2).sum(axis=1), -pt.exp(x[:, 2]) - (x[:, 0] - x[:, 3]) ** 2
        return Evaluation(prior, ratio, *(pt.grad(value.sum(), x) for value in (prior, ratio)))

    terms = MixtureTerms(*[pt.constant(np.asarray(t, dtype=float)) for t in prior_alone(4)])
    point = pt.tensor("point", dtype="float64", shape=(None, 4))
    inner = of_prior(point)
    found = from_mixture(
        terms,
        funnel,
        rows,
        lambda x: Evaluation(*pytensor.graph.clone_replace(list(inner), {point: x})),
    )
    function = pytensor.function([rows], list(found), mode="FAST_COMPILE")
    at = make_rng("gradients").normal(size=(3, 4))
    values = function(at)
    model_rows = funnel.restored(at)
    expected = -0.5 * (model_rows**2).sum(axis=1) + funnel.log_volume(at)
    np.testing.assert_allclose(values[0], expected)
    step = 1e-6
    for i, e in enumerate(np.eye(4)):
        up, down = function(at + step * e), function(at - step * e)
        for value, gradient in ((0, 2), (1, 3)):
            slope = (up[value] - down[value]) / (2 * step)
            np.testing.assert_allclose(values[gradient][:, i], slope, rtol=1e-4, atol=1e-5)


def test_the_funnel_of_a_hierarchy_is_found() -> None:
    """Catches parents mistaken for children, and coefficients in the wrong units."""
    found = fitted_funnel(hierarchy("target", 768, tau=0.8), hierarchy("prior", 2048))
    assert found is not None
    assert found.parents.argmax(axis=1)[0] == 1
    np.testing.assert_allclose(found.slope[2:, 0], 1.0, atol=0.1)
    location = found.lean[2:] @ found.parents[:, 0]
    np.testing.assert_allclose(location, 1.0, atol=0.05)
    np.testing.assert_array_equal(found.slope[:2], 0.0)
    rows = hierarchy("fresh", 5_000)
    whitened = found.whitened(rows)
    assert np.abs(spreads_that_follow(whitened)).max() < 0.1


@pytest.mark.parametrize("tails", [np.inf, 3.0])
def test_clouds_have_no_funnel(tails: float) -> None:
    """Catches a funnel made of noise, of correlations or of heavy tails."""
    rng = make_rng("clouds", tails)
    factor = np.tril(rng.normal(size=(8, 8)))
    stretch = 1.0 if np.isinf(tails) else np.sqrt(tails / rng.chisquare(tails, size=(768, 1)))
    rows = stretch * rng.normal(size=(768, 8)) @ factor.T
    assert fitted_funnel(rows, 3 * rng.normal(size=(2048, 8))) is None


def test_a_funnel_that_the_data_closed_is_left_alone() -> None:
    """Catches rows whitened where the groups are known well: that would bend what was even."""
    rng = make_rng("closed")
    rows = np.column_stack([rng.normal(size=(768, 2)), 0.1 * rng.normal(size=(768, 6))])
    assert fitted_funnel(rows, hierarchy("prior", 2048)) is None


def test_what_is_noise_of_a_location_does_not_leave_the_narrow_end() -> None:
    """Would catch locations that follow five scales by chance: off by hundreds of spreads."""
    rng = make_rng("narrow ends")
    scale = np.abs(rng.standard_cauchy((4000, 5)))
    prior = np.concatenate([np.log(scale), scale * rng.normal(size=scale.shape)], axis=1)
    funnel = fitted_funnel(prior[:512], prior[512:])
    assert funnel is not None
    log_scale, noise = rng.uniform(-7, -2, (1000, 5)), rng.normal(size=(1000, 5))
    narrow = np.concatenate([log_scale, np.exp(log_scale) * noise], axis=1)
    assert np.quantile(np.abs(funnel.whitened(narrow)[:, 5:]), 0.99) < 50


def test_a_location_that_follows_a_parent_is_kept() -> None:
    """Would catch groups that no longer follow their common location."""
    rows = hierarchy("kept", 3000)
    funnel = fitted_funnel(rows[:600], rows)
    assert funnel is not None
    whitened = funnel.whitened(hierarchy("fresh", 2000))
    assert np.abs(np.corrcoef(whitened.T)[0, 2:]).max() < 0.1


@pytest.mark.parametrize("after", [True, False])
def test_a_funnel_of_the_likelihood_is_found(after: bool) -> None:
    """Would catch one order of the variables alone, or coefficients of other columns."""
    rng = make_rng("ends that are free", after)
    log_width = rng.gumbel(size=(1024, 1))
    middle = [3.0, -2.0, 5.0] + np.exp(-log_width) * rng.uniform(-1, 1, (1024, 3))
    rows = np.hstack([middle, -log_width] if after else [-log_width, middle])
    found = next(funnels_of_target(rows))
    parent = 3 if after else 0
    assert found.parents.argmax() == parent
    np.testing.assert_allclose(np.delete(found.slope[:, 0], parent), 1.0, atol=0.1)
    whitened = found.whitened(rows)
    assert (
        max(np.abs(spreads_that_follow(part)).max() for part in (whitened, whitened[:, ::-1])) < 0.2
    )
    np.testing.assert_allclose(found.restored(whitened), rows)


def test_no_order_hides_the_other() -> None:
    """Would catch a search that ends with the first, where a value seems to drive the width."""
    rng, first = make_rng("both orders"), set[bool]()
    data, sd = np.array([-14.6, -2.6, -1.9, -16.6]), 10.0
    for _ in range(12):
        width = np.exp(rng.normal(1.7, 0.6, size=(1024, 1)))
        low, high = ndtr((data - width) / sd), ndtr((data + width) / sd)
        middle = sd * ndtri(rng.uniform(low, high))
        rows = np.hstack([middle, np.log(width)])
        is_parent = [one.parents[:, -1].any() for one in funnels_of_target(rows)]
        assert any(is_parent)
        first.add(is_parent[0])
    assert False in first


def test_clouds_have_no_funnel_of_their_own() -> None:
    """Would catch a funnel made of noise, or of heavy tails."""
    rng = make_rng("clouds of their own")
    stretch = np.sqrt(3.0 / rng.chisquare(3.0, size=(1024, 1)))
    rows = stretch * rng.normal(size=(1024, 8)) @ np.tril(rng.normal(size=(8, 8))).T
    assert not list(funnels_of_target(rows))


def test_spikes_and_slabs_are_no_funnel() -> None:
    """Would catch a spread that follows which of two clusters a row is in."""
    rng = make_rng("spikes and slabs")
    is_slab = rng.random((1024, 1)) < 0.4
    rows = np.where(is_slab, rng.normal([2.0, 0.0, 0.0], size=(1024, 3)), 0.0)
    rows += 1e-4 * rng.normal(size=rows.shape)
    assert not list(funnels_of_target(rows))
    assert fitted_funnel(rows, rows) is None
