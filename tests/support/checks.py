"""Statistical assertions: their tolerance is the run's own standard error.

Every check holds its false alarm probability at ``ALPHA``, whatever the number of comparisons in
it (Bonferroni). One seed by default, any seed from the environment:
``PYMC_LOGZ_TEST_SEED=7 pytest``.
"""

import os
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import stats

ALPHA = 1e-6
"""False alarm probability of one check: one run in a few thousand of the whole suite."""
SEED_VARIABLE = "PYMC_LOGZ_TEST_SEED"


class CheckFailedError(AssertionError):
    """A statistical check rejected its hypothesis, as opposed to a test that broke down."""


def make_rng(*labels: object) -> np.random.Generator:
    """Generator for these labels: other labels, other numbers, under the suite's one seed."""
    seed = int(os.environ.get(SEED_VARIABLE, "20120522"))
    return np.random.default_rng([seed, zlib.crc32(repr(labels).encode())])


def check_means(
    samples: Mapping[str, np.ndarray], expected: float = 0.0, alpha: float = ALPHA
) -> None:
    """Fail unless each array of independent values (n,) has the expected mean (z-test)."""
    z = {name: z_score(values, expected) for name, values in samples.items()}
    limit = stats.norm.isf(alpha / 2 / len(z))
    _report("standard errors off", z, {name: abs(value) > limit for name, value in z.items()})


def z_score(values: np.ndarray, expected: float = 0.0) -> float:
    """Distance of the mean of independent values from the expected one, in standard errors."""
    values = np.asarray(values, dtype=float)
    if not np.all(np.isfinite(values)):
        raise CheckFailedError(f"{np.sum(~np.isfinite(values))} values are not finite")
    error = values.std(ddof=1) / np.sqrt(values.size)
    distance = values.mean() - expected
    # values that are all alike have no error of their own: allow for rounding
    rounding = 1e-12 * max(1.0, abs(expected))
    return float(distance / max(error, rounding))


def check_same_law(
    pairs: Mapping[str, tuple[np.ndarray, np.ndarray]], alpha: float = ALPHA
) -> None:
    """Fail unless each pair of independent samples has one law (Kolmogorov-Smirnov)."""
    p = {}
    for name, (left, right) in pairs.items():
        if np.any(np.isnan(left)) or np.any(np.isnan(right)):
            raise CheckFailedError(f"{name} has NaN in it")
        p[name] = float(stats.ks_2samp(left, right, method="asymp").pvalue)
    _report("p-values", p, {name: value < alpha / len(p) for name, value in p.items()})


def check_coverage(
    covered: np.ndarray, least: float = 0.90, most: float = 0.99, alpha: float = 0.01
) -> None:
    """Fail if the number of intervals that cover is improbable under each coverage allowed.

    Parameters
    ----------
    covered
        Whether each replicate's interval covers the exact value, shape (n,).
    least, most
        Smallest and largest coverage allowed.
    alpha
        False alarm probability where the coverage is exactly ``least`` or ``most``.
    """
    n, count = covered.size, int(covered.sum())
    low, high = stats.binom.ppf(alpha, n, least), stats.binom.isf(alpha, n, most)
    if not low <= count <= high:
        raise CheckFailedError(
            f"{count} of {n} intervals cover ({count / n:.1%}): between {low:.0f} and {high:.0f} "
            f"are expected of a coverage between {least} and {most}"
        )


def check_own_density(part: Any, target: Any, n: int, some: int, rtol: float) -> None:
    """Fail unless n rows of a part have the density they were drawn by, in any company."""
    rows, own = part.draw(target, make_rng("own"), n)
    order = make_rng("order").permutation(n)
    for chosen in (order[:1], order[:some], order):
        found = part.log_density_of(target, rows[chosen], np.zeros(len(chosen)))
        np.testing.assert_allclose(found, own[chosen], rtol=rtol)


def assert_detects[T](check: Callable[[T], None], broken: T) -> None:
    """Fail unless the check fails on the broken variant: a check that cannot fail is worthless."""
    try:
        check(broken)
    except CheckFailedError:
        return
    raise AssertionError(f"the check passed although its subject is broken: {broken!r:.300}")


def _report(what: str, values: Mapping[str, float], failed: Mapping[str, bool]) -> None:
    wrong = [f"{name}: {values[name]:.3g}" for name in values if failed[name]]
    if wrong:
        raise CheckFailedError(f"{what}, {len(wrong)} of {len(values)}: " + ", ".join(wrong))
