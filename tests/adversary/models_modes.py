"""More than one mode: far, uneven, symmetric, curved, and labels that switch."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import logsumexp

from adversary.cases import case
from adversary.integrals import interval, line, log_integral

Modes = list[tuple[float, float, float]]
"""Share, place (of every coordinate) and width of each."""


def _log_mixture(x: pt.TensorVariable, modes: Modes) -> pt.TensorVariable:
    """Log of a mixture of round normal densities at a vector."""
    terms = [
        np.log(share) + pm.logp(pm.Normal.dist(place, width), x).sum()
        for share, place, width in modes
    ]
    return pm.math.logsumexp(pt.stack(terms))


def _modes(modes: Modes, d: int, prior_sd: float) -> pm.Model:
    with pm.Model() as model:
        x = pm.Normal("x", 0, prior_sd, shape=d)
        pm.Potential("modes", _log_mixture(x, modes))
    return model


def _modes_exact(modes: Modes, d: int, prior_sd: float) -> float:
    return float(
        logsumexp(
            [
                np.log(share) + d * stats.norm.logpdf(place, 0, np.hypot(width, prior_sd))
                for share, place, width in modes
            ]
        )
    )


def _mode_draws(modes: Modes, d: int, prior_sd: float):
    masses = np.array([np.exp(_modes_exact([mode], d, prior_sd)) for mode in modes])

    def draws(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        which = rng.choice(len(modes), p=masses / masses.sum(), size=n)
        _, place, width = np.array(modes)[which].T
        precision = 1 / width**2 + 1 / prior_sd**2
        mean = place / width**2 / precision
        return {"x": mean[:, None] + rng.normal(size=(n, d)) / np.sqrt(precision)[:, None]}

    return draws


EVEN = [(0.5, -10.0, 0.5), (0.5, 10.0, 0.5)]
UNEVEN = [(0.95, -6.0, 0.5), (0.05, 6.0, 0.5)]
FIVE = [(0.7, -3.0, 0.3), (0.3, 3.0, 0.3)]
WIDTHS = [(0.5, -5.0, 3.0), (0.5, 8.0, 0.05)]
FAR = [(0.8, -50.0, 1.0), (0.2, 80.0, 1.0)]


@case(
    lambda: _modes_exact(EVEN, 1, 10.0), draws=_mode_draws(EVEN, 1, 10.0), nuts=True, tempered=True
)
def two_even_modes() -> pm.Model:
    """Two modes 40 of their widths apart."""
    return _modes(EVEN, 1, 10.0)


@case(
    lambda: _modes_exact(UNEVEN, 2, 5.0),
    draws=_mode_draws(UNEVEN, 2, 5.0),
    nuts=True,
    tempered=True,
)
def two_uneven_modes() -> pm.Model:
    """95% and 5%, far apart, in two dimensions."""
    return _modes(UNEVEN, 2, 5.0)


@case(lambda: _modes_exact(FIVE, 5, 3.0), draws=_mode_draws(FIVE, 5, 3.0), tempered=True)
def two_modes_in_five_dimensions() -> pm.Model:
    """70% and 30%, in five dimensions."""
    return _modes(FIVE, 5, 3.0)


@case(lambda: _modes_exact(WIDTHS, 1, 10.0), draws=_mode_draws(WIDTHS, 1, 10.0), tempered=True)
def wide_and_narrow_mode() -> pm.Model:
    """Half of the likelihood in a mode that is 60 times as narrow as the other."""
    return _modes(WIDTHS, 1, 10.0)


@case(
    lambda: _modes_exact(WIDTHS, 2, 10.0),
    draws=_mode_draws(WIDTHS, 2, 10.0),
    needle="the basin of the narrow mode holds 4e-4 of the prior: most runs have no row there",
)
def wide_and_narrow_mode_of_two_dimensions() -> pm.Model:
    """The same in two dimensions: the narrow mode draws few rows in."""
    return _modes(WIDTHS, 2, 10.0)


@case(lambda: _modes_exact(FAR, 3, 100.0), draws=_mode_draws(FAR, 3, 100.0))
def modes_130_widths_apart() -> pm.Model:
    """80% and 20%, 225 widths apart, in three dimensions."""
    return _modes(FAR, 3, 100.0)


RING_RADIUS, RING_WIDTH = 5.0, 0.1


def _ring_exact(d: int) -> float:
    norm = stats.chi(d, scale=3.0)
    log_f = lambda r: norm.logpdf(r) - 0.5 * ((r - RING_RADIUS) / RING_WIDTH) ** 2  # noqa: E731
    return log_integral(log_f, interval(0, 4, 5, 6, 12))


def _ring(d: int) -> pm.Model:
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3, shape=d)
        r = pt.sqrt((x**2).sum())
        pm.Potential("ring", -0.5 * ((r - RING_RADIUS) / RING_WIDTH) ** 2)
    return model


@case(lambda: _ring_exact(2), nuts=True, tempered=True)
def ring() -> pm.Model:
    """A thin ring in the plane."""
    return _ring(2)


@case(lambda: _ring_exact(6))
def shell() -> pm.Model:
    """A thin shell in six dimensions."""
    return _ring(6)


def _banana_exact() -> float:
    def log_f(x: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(x, 0, 2) + stats.norm.logpdf(x**2 - 2, 0, np.hypot(3, 0.02))

    return log_integral(log_f, interval(-20, 0, 20))


@case(_banana_exact, nuts=True, tempered=True)
def banana() -> pm.Model:
    """A parabola of width 0.02."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 2)
        y = pm.Normal("y", 0, 3)
        pm.Normal("z", x**2 - y, 0.02, observed=2.0)
    return model


@case(
    lambda: log_integral(
        lambda x: stats.norm.logpdf(x, 0, 3) + 8 * np.cos(20 * x), interval(-30, -15, 0, 15, 30)
    )
)
def two_hundred_modes() -> pm.Model:
    """A comb of modes, 16 nats deep."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3)
        pm.Potential("comb", 8 * pm.math.cos(20 * x))
    return model


@case(
    lambda: (
        3
        * log_integral(
            lambda x: stats.norm.logpdf(x, 0, 3) + 6 * np.cos(3 * x), interval(-30, -15, 0, 15, 30)
        )
    )
)
def comb_in_three_dimensions() -> pm.Model:
    """Some 150 modes that count, 12 nats deep."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3, shape=3)
        pm.Potential("comb", (6 * pm.math.cos(3 * x)).sum())
    return model


@case(
    lambda: log_integral(
        lambda x: stats.norm.logpdf(x) + stats.norm.logpdf(4.0, x**2, 0.1), interval(-9, 0, 9)
    ),
    nuts=True,
    tempered=True,
)
def square() -> pm.Model:
    """A datum of a square: two signs."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Normal("y", x**2, 0.1, observed=4.0)
    return model


def _squares_exact() -> float:
    one = lambda y: log_integral(  # noqa: E731
        lambda x: stats.norm.logpdf(x) + stats.norm.logpdf(y, x**2, 0.1), interval(-9, 0, 9)
    )
    return sum(one(y) for y in (4.0, 2.0, 1.0, 3.0, 0.5, 1.5))


@case(_squares_exact)
def sixty_four_signs() -> pm.Model:
    """Six data of squares: 64 modes of the same mass."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=6)
        pm.Normal("y", x**2, 0.1, observed=np.array([4.0, 2.0, 1.0, 3.0, 0.5, 1.5]))
    return model


def _product_exact() -> float:
    log_f = lambda a, b: (  # noqa: E731
        stats.norm.logpdf(a) + stats.norm.logpdf(b) + stats.norm.logpdf(1.0, a * b, 0.05)
    )
    parts = interval(-9, -3, 0, 3, 9, n=400)
    return log_integral(log_f, parts, parts)


@case(_product_exact, tempered=True)
def product_of_two() -> pm.Model:
    """A datum of a product: two hyperbolas."""
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1)
        b = pm.Normal("b", 0, 1)
        pm.Normal("y", a * b, 0.05, observed=1.0)
    return model


TWO_GROUPS = np.array([-4.1, -3.8, 4.0, 4.3, 3.9, -4.4])


def _labels_exact(y: np.ndarray, k: int, sd: float, prior_sd: float) -> float:
    """Sum over which datum is of which component; the means are then normal."""
    terms = []
    for labels in product(range(k), repeat=y.size):
        design = np.eye(k)[list(labels)]
        cov = sd**2 * np.eye(y.size) + prior_sd**2 * design @ design.T
        square = y @ np.linalg.solve(cov, y)
        terms.append(-0.5 * (square + np.linalg.slogdet(2 * np.pi * cov)[1]))
    return float(logsumexp(terms) - y.size * np.log(k))


@case(lambda: _labels_exact(TWO_GROUPS, 2, 0.5, 5.0), nuts=True, tempered=True)
def two_labels() -> pm.Model:
    """A mixture of two, labels free."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5, shape=2)
        pm.NormalMixture("y", np.full(2, 0.5), mu, 0.5, observed=TWO_GROUPS)
    return model


THREE_GROUPS = np.array([-4.1, -3.8, 0.0, 0.3, 3.9, 4.4])


@case(lambda: _labels_exact(THREE_GROUPS, 3, 0.5, 5.0), tempered=True)
def three_labels() -> pm.Model:
    """A mixture of three, labels free: six modes, and smaller ones."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5, shape=3)
        pm.NormalMixture("y", np.full(3, 1 / 3), mu, 0.5, observed=THREE_GROUPS)
    return model


@case(lambda: _labels_exact(TWO_GROUPS, 2, 0.5, 5.0))
def two_labels_in_order() -> pm.Model:
    """A mixture of two, kept in order: the prior is renormalised, so Z is that without order."""
    with pm.Model() as model:
        ordered = pm.distributions.transforms.ordered
        mu = pm.Normal("mu", 0, 5, shape=2, transform=ordered, initval=[-1.0, 1.0])
        pm.NormalMixture("y", np.full(2, 0.5), mu, 0.5, observed=TWO_GROUPS)
    return model


def _cauchy_exact() -> float:
    log_f = lambda x: (  # noqa: E731
        stats.norm.logpdf(x, 0, 100) + stats.cauchy.logpdf(x, -30) + stats.cauchy.logpdf(x, 30)
    )
    return log_integral(log_f, line(0, 10))


@case(_cauchy_exact, tempered=True)
def two_cauchy_data() -> pm.Model:
    """The location of Cauchy data at -30 and 30."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 100)
        pm.Cauchy("y", x, 1, observed=np.array([-30.0, 30.0]))
    return model


def _eight_exact() -> float:
    angles = np.arange(8) * np.pi / 4
    var = 36 + 0.01
    place = 8 * np.column_stack([np.cos(angles), np.sin(angles)])
    log_p = -0.5 * (place**2).sum(axis=1) / var - np.log(2 * np.pi * var)
    return float(logsumexp(log_p) - np.log(8))


@case(_eight_exact, tempered=True)
def eight_modes_on_a_circle() -> pm.Model:
    """Eight narrow modes around an empty centre."""
    angles = np.arange(8) * np.pi / 4
    place = 8 * np.column_stack([np.cos(angles), np.sin(angles)])
    with pm.Model() as model:
        x = pm.Normal("x", 0, 6, shape=2)
        log_p = pm.logp(pm.Normal.dist(place, 0.1), x[None, :]).sum(axis=1)
        pm.Potential("modes", pm.math.logsumexp(log_p) - np.log(8))
    return model


def _sinusoid_exact() -> float:
    t = np.arange(8.0)
    y = np.sin(2.3 * t)
    log_f = lambda w: stats.norm.logpdf(y, np.sin(w[:, None] * t), 0.1).sum(axis=1) - np.log(10)  # noqa: E731
    return log_integral(log_f, interval(*np.linspace(0, 10, 21), n=200))


@case(_sinusoid_exact, tempered=True)
def frequency() -> pm.Model:
    """The frequency of a wave sampled at whole numbers: aliases."""
    t = np.arange(8.0)
    with pm.Model() as model:
        w = pm.Uniform("w", 0, 10)
        pm.Normal("y", pm.math.sin(w * t), 0.1, observed=np.sin(2.3 * t))
    return model
