"""Rows of a pilot are dealt out over all orders of entries without names, and over no others."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.paths.funnels import Features, Funnel
from pymc_logz.pilot.exchanges import reflected, reordered, slid
from pymc_logz.runners.block import Block

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
N = 600


def mixture(prior_of_means: object = 0.0) -> pm.Model:
    """Three groups with means and spreads of their own, and a variable that is not theirs."""
    with pm.Model() as model:
        mean = pm.Normal("mean", prior_of_means, 3.0, shape=3)
        spread = pm.HalfNormal("spread", 1.0, shape=3)
        shift = pm.Normal("shift")
        pm.NormalMixture("y", np.ones(3) / 3, mean + shift, spread, observed=[-4.0, 0.1, 5.0, 4.5])
    return model


def dealt(model: pm.Model) -> tuple[np.ndarray, np.ndarray, Block]:
    """Rows of which all have their entries in one order, before and after, and their block."""
    rng = np.random.default_rng(1)
    prepared = prepare(model, rng)
    block = block_for(prepared, HaisSettings(), None)
    before = np.sort(rng.normal(size=(N, prepared.n_dims)), axis=1)
    return before, reordered(block, prepared.flat.columns_by_name, before, rng), block


def test_every_order_has_its_share() -> None:
    """Catches entries of one variable that move without those of the other, or that hardly do."""
    before, after, block = dealt(mixture())
    order = np.argsort(after[:, :3], axis=1)
    orders, counts = np.unique(order, axis=0, return_counts=True)
    assert len(orders) == 6
    assert np.all(np.abs(counts - N / 6) < 5 * np.sqrt(N / 6))
    np.testing.assert_array_equal(order, np.argsort(after[:, 3:6], axis=1))
    np.testing.assert_array_equal(after[:, 6], before[:, 6])
    densities = np.stack(block.densities(np.concatenate([before, after])))
    np.testing.assert_allclose(densities[:, N:], densities[:, :N], rtol=1e-9, atol=1e-9)


TILT = np.array([0.4, -0.2, 0.0])
"""Slopes of a density that would be the same for all signs."""


def signed() -> tuple[Block, dict[str, np.ndarray], np.ndarray]:
    """Three entries near one or minus one; columns by name; probability of a positive sign."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 10.0, shape=3)
        pm.Potential("sizes", -0.5 * (((pt.abs(x) - 1) / 0.2) ** 2).sum() + (TILT * x).sum())
    prepared = prepare(model, np.random.default_rng(0))
    block = block_for(prepared, HaisSettings(), None)
    grid = np.linspace(0, 3, 3001)
    of_size = np.exp(-0.5 * ((grid - 1) / 0.2) ** 2 - 0.005 * grid**2)
    positive, negative = (of_size @ np.exp(np.outer(grid, s * TILT)) for s in (1, -1))
    return block, prepared.flat.columns_by_name, positive / (positive + negative)


@pytest.mark.filterwarnings("ignore:the model has potentials")
@pytest.mark.parametrize("always", [False, True], ids=["as it is", "broken"])
def test_every_sign_has_its_probability(always: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches moves to other signs that are accepted whatever the density, as the broken ones."""
    block, columns, probability = signed()
    rng = np.random.default_rng(2)
    rows = 1 + 0.05 * rng.normal(size=(4 * N, 3))
    if always:
        monkeypatch.setattr(Block, "log_target", lambda self, rows: np.zeros(len(rows)))
    after = reflected(block, columns, rows, rng, 60)
    np.testing.assert_array_equal(np.abs(after), np.abs(rows))
    pattern = (after > 0) @ [4, 2, 1]
    each = np.stack([1 - probability, probability])
    expected = 4 * N * np.einsum("a,b,c->abc", *each.T).ravel()
    chi2 = float(((np.bincount(pattern, minlength=8) - expected) ** 2 / expected).sum())
    assert (stats.chi2(7).sf(chi2) < 1e-3) == always


def test_entries_with_names_stay() -> None:
    """Catches rows of one mode that are put where there is none: one mean has another prior."""
    before, after, _ = dealt(mixture(np.array([0.0, 0.0, 1e-3])))
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("k", [2, 3])
def test_weights_follow_their_means(k: int) -> None:
    """Catches a copy of a mixture that is lost where its weights are a simplex."""
    with pm.Model() as model:
        weight = pm.Dirichlet("weight", np.ones(k))
        mean = pm.Normal("mean", 0.0, 3.0, shape=k)
        pm.NormalMixture("y", weight, mean, 1.0, observed=[-4.0, 0.1, 5.0, 4.5])
    before, after, block = dealt(model)
    assert len(np.unique(np.argsort(after[:, k - 1 :], axis=1), axis=0)) == np.prod(range(1, k + 1))
    densities = np.stack(block.densities(np.concatenate([before, after])))
    np.testing.assert_allclose(densities[:, N:], densities[:, :N], rtol=1e-9, atol=1e-9)


class Ends:
    """Pairs of values within ends of which the width is log-normal, and exact rows of them."""

    def __init__(self, k: int) -> None:
        self.k, self.middle = k, np.tile([2.0, -1.0], k)

    def log_target(self, rows: np.ndarray) -> np.ndarray:
        """Log density of rows (n, 3 k): the values, pair by pair, and the logs of the widths."""
        values, log_width = np.split(rows, [2 * self.k], axis=1)
        inside = np.abs(values - self.middle) < np.repeat(np.exp(log_width), 2, axis=1)
        height = (stats.norm.logpdf(log_width) - 2 * log_width).sum(axis=1)
        return np.where(inside.all(axis=1), height, -np.inf)

    def draw(self, log_width: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows of these widths, shape (n, k)."""
        width = np.repeat(np.exp(log_width), 2, axis=1)
        return np.column_stack([self.middle + rng.uniform(-1, 1, width.shape) * width, log_width])

    def funnel(self, off: float, lean: float) -> Funnel:
        """Their funnel, with middles that are off by so much, and lean as widths grow."""
        slope = np.concatenate([np.repeat(np.eye(self.k), 2, axis=0), np.zeros((self.k, self.k))])
        centre = np.r_[self.middle + off, np.zeros(self.k)]
        parents = np.eye(3 * self.k)[2 * self.k :]
        return Funnel(centre, parents, Features.linear(self.k), lean * slope, slope)


@pytest.mark.parametrize("broken", [False, True])
def test_rows_of_a_funnel_stay_rows_of_it(broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact: as many rows are narrower than any width as before, not so if a volume is left out."""
    ends, rng = Ends(1), np.random.default_rng(5)
    rows, funnel = ends.draw(rng.standard_normal((20_000, 1)), rng), ends.funnel(0.2, 0.3)
    if broken:
        monkeypatch.setattr(Funnel, "log_volume", lambda _, rows: 0.1 * rows[:, 2])
    moved = slid(ends, funnel, rows, rng, 10)
    assert np.isfinite(ends.log_target(moved)).all()
    place = (moved[:, :2] - ends.middle) / np.exp(moved[:, 2:])
    assert all(stats.kstest(one, "uniform", (-1, 2)).pvalue > 1e-3 for one in place.T)
    assert (stats.kstest(moved[:, 2], "norm").pvalue > 1e-3) != broken


@pytest.mark.parametrize(("k", "lean"), [(1, 0.0), (1, 0.5), (8, 0.0)])
def test_rows_get_into_narrow_ends_whose_middles_are_not_known(k: int, lean: float) -> None:
    """Would catch moves about the middle of a fit alone, which end where it is off by a width.

    And about one that leans, and about rows that are narrow on the whole, not where they move.
    """
    ends, rng = Ends(k), np.random.default_rng(6)
    rows = ends.draw(np.abs(rng.standard_normal((1_024, k))), rng)
    funnel = ends.funnel(0.5, lean)
    for _ in range(8 * k):
        rows = slid(ends, funnel, rows, rng, 31)
    narrow = np.mean(rows[:, 2 * k :] < -2.0)
    assert abs(narrow - stats.norm.cdf(-2.0)) < 4 * np.sqrt(0.0228 / (1_024 * k))
