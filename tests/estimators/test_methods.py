"""What holds for every estimator of a tempered run: exact answers, symmetries, failures, errors."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from support.checks import assert_detects, check_coverage, make_rng
from support.tempered_draws import PoissonPath, gibbs_draws, ladder, sticky_draws

from pymc_logz.errors import STATUS_SENTENCES, USABLE_STATUSES
from pymc_logz.estimators import METHODS, LogZEstimate, TemperedDraws

PATH, BETAS = PoissonPath(), ladder(6)
LEVEL_LAW = {"rts", "ts", "ti_rb", "ti_marginal"}
"""Methods that use how levels were drawn, and so log_z_hat and log_prior."""


def simpson(betas: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Integrals over each step of the parabola through its ends and the next level, or the last."""
    parts = []
    for k in range(betas.size - 1):
        first = min(k, betas.size - 3)
        parabola = np.polynomial.Polynomial.fit(
            betas[first : first + 3], mean[first : first + 3], 2
        )
        parts.append(np.diff(parabola.integ()(betas[k : k + 2]))[0])
    return np.array(parts)


def expected_log_z(name: str, betas: np.ndarray) -> np.ndarray:
    """What a method tends to with ever more draws: for TI its rule, applied to exact means."""
    mean, variance = PATH.mean_log_ratio(betas), PATH.variance_log_ratio(betas)
    width = np.diff(betas)
    trapezoid = width * (mean[1:] + mean[:-1]) / 2
    increments = {
        "ti_left": width * mean[:-1],
        "ti_right": width * mean[1:],
        "ti_trapezoid": trapezoid,
        "ti_rb": trapezoid,
        "ti_marginal": trapezoid,
        "ti_simpson": simpson(betas, mean) if betas.size > 2 else trapezoid,
        "ti_corrected": trapezoid - width**2 / 12 * np.diff(variance),
    }.get(name)
    return PATH.log_z(betas) if increments is None else np.append(0.0, np.cumsum(increments))


def run(label: object, shape: tuple[int, int] = (12, 300)) -> TemperedDraws:
    return sticky_draws(PATH, make_rng("methods", label), betas=BETAS, shape=shape, stay=0.5)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("n_levels", [2, 7])
def test_every_level_is_right(name: str, n_levels: int) -> None:
    """Catches a level off by one, and a wrong number at K = 2."""
    path_betas = ladder(n_levels)
    draws = sticky_draws(
        PATH, make_rng("right", name, n_levels), betas=path_betas, shape=(30, 500), stay=0.3
    )
    curve = METHODS[name](draws)
    assert curve.method == name
    if curve.status == "coarse_ladder":  # one step over all of the way
        assert (name, n_levels) in {("ti_left", 2), ("ti_right", 2), ("ti_corrected", 2)}
        return
    assert curve.status in USABLE_STATUSES
    assert (curve.log_z[0], curve.mcse[0]) == (0.0, 0.0)
    off = np.abs(curve.log_z - expected_log_z(name, path_betas))[1:]
    if curve.status == "high_khat":  # reverse stones over one long step
        assert name == "stepping_stone_reverse"
    else:
        assert np.all(off < 5 * curve.mcse[1:])
    assert np.all(curve.noise[1:] < 0.5)


@pytest.mark.parametrize("name", METHODS)
def test_a_constant_shifts_log_z_and_nothing_else(name: str) -> None:
    """Catches overflow, and a constant that changes weights."""
    draws, shift = run("shift"), 7e4
    shifted = replace(
        draws, log_ratio=draws.log_ratio + shift, log_z_hat=draws.log_z_hat + shift * BETAS
    )
    one, other = METHODS[name](draws), METHODS[name](shifted)
    assert other.log_z - shift * BETAS == pytest.approx(one.log_z, abs=1e-7)
    assert other.mcse == pytest.approx(one.mcse, rel=1e-5, abs=1e-12)
    assert other.status == one.status
    guess = replace(draws, log_z_hat=draws.log_z_hat + 3.0, log_prior=draws.log_prior - 2.0)
    assert METHODS[name](guess).log_z == pytest.approx(one.log_z, abs=1e-9)
    reference = METHODS[name](replace(draws, log_z_reference=4.0))
    assert reference.log_z == pytest.approx(one.log_z + 4.0)
    assert reference.mcse == pytest.approx(one.mcse)


@pytest.mark.parametrize("name", METHODS)
def test_order_of_walkers_does_not_matter(name: str) -> None:
    """Catches walkers joined end to end, and draws weighted by where they stand."""
    draws = run("order")
    order = make_rng("order").permutation(12)
    other = replace(draws, level=draws.level[order], log_ratio=draws.log_ratio[order])
    one, other = METHODS[name](draws), METHODS[name](other)
    assert other.log_z == pytest.approx(one.log_z, abs=1e-9)
    assert other.mcse == pytest.approx(one.mcse, rel=1e-6)


@pytest.mark.parametrize("name", sorted(METHODS.keys() - LEVEL_LAW))
def test_methods_that_need_no_law_of_the_levels(name: str) -> None:
    """Catches a method that leans on log_z_hat without saying so."""
    draws = run("law")
    other = replace(draws, log_z_hat=np.arange(6.0), log_prior=np.arange(6.0) ** 2)
    assert METHODS[name](other).log_z == pytest.approx(METHODS[name](draws).log_z)


def broken_runs() -> Iterator[tuple[str, str, TemperedDraws]]:
    """Runs from which no method has a number: a label, the status, the run."""
    draws = run("broken")
    one_level = np.full(draws.level.shape, 3)
    yield "one level", "unvisited_level", replace(draws, level=one_level)
    for lost, instead in ((0, 1), (5, 4)):
        level = np.where(draws.level == lost, instead, draws.level)
        yield f"level {lost} lost", "unvisited_level", replace(draws, level=level)
    log_ratio = draws.log_ratio.copy()
    log_ratio[0, 0] = np.inf
    yield "unbounded", "infinite_weight", replace(draws, log_ratio=log_ratio)
    nowhere = np.full(draws.level.shape, -np.inf)
    yield "nowhere", "no_support", replace(draws, level=0 * draws.level, log_ratio=nowhere)


BROKEN = {label: (status, draws) for label, status, draws in broken_runs()}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("label", BROKEN)
def test_no_number_where_there_is_none(name: str, label: str) -> None:
    """Catches a guess from a run that says nothing about the target."""
    status, draws = BROKEN[label]
    curve = METHODS[name](draws)
    assert curve.status == status
    assert status in STATUS_SENTENCES
    assert not curve.usable
    assert curve.log_z[0] == 0.0
    assert np.isnan(curve.log_z[1:]).all()
    assert np.isnan(curve.mcse[1:]).all()
    assert np.isnan(curve.estimate.log_z)


@pytest.mark.parametrize("name", METHODS)
def test_a_level_never_visited(name: str) -> None:
    """Catches a bridge over a gap: methods that need every level say so, others leave it out."""
    draws = run("gap")
    level = np.where(draws.level == 2, 3, draws.level)
    curve = METHODS[name](replace(draws, level=level))
    if name in {"rts", "ti_rb"}:
        # every level gets its share of every draw
        assert np.isfinite(curve.log_z).all()
    elif name in {"ts", "mbar"}:
        assert np.isfinite(curve.log_z).tolist() == [True, True, False, True, True, True]
        assert curve.usable
    else:
        assert curve.status == "unvisited_level"
        assert np.isnan(curve.log_z[1:]).all()


@pytest.mark.parametrize("name", METHODS)
def test_a_short_run_says_so(name: str) -> None:
    """Catches trust in an error from a handful of independent stretches."""
    draws = sticky_draws(PATH, make_rng("short"), betas=ladder(3), shape=(2, 1500), stay=0.995)
    curve = METHODS[name](draws)
    assert curve.status != "ok"


def test_the_estimate_at_the_target() -> None:
    """Catches details that are arrays in the record that holds numbers."""
    curve = METHODS["mbar"](run("estimate"))
    estimate = curve.estimate
    assert (estimate.log_z, estimate.mcse) == (curve.log_z[-1], curve.mcse[-1])
    assert estimate.status == curve.status
    assert estimate.details["autocorrelation_time"] > 1
    assert "overlap" not in estimate.details
    assert curve.covariance.shape == (6, 6)
    assert np.sqrt(np.diag(curve.covariance)) == pytest.approx(curve.noise)


LAYOUTS = {
    "many short walkers": (gibbs_draws, {"shape": (64, 40)}),
    "few long walkers": (sticky_draws, {"shape": (4, 500), "stay": 0.5}),
}


def replicates_of(maker, n: int, **settings) -> dict[str, list[LogZEstimate]]:
    """Estimates by all methods from each of n runs."""
    estimates: dict[str, list[LogZEstimate]] = {name: [] for name in METHODS}
    for i in range(n):
        rng = make_rng("replicate", maker.__name__, sorted(settings.items()), i)
        draws = maker(PATH, rng, **settings)
        for name, method in METHODS.items():
            estimates[name].append(method(draws).estimate)
    return estimates


def z_scores(name: str, estimates: list[LogZEstimate], betas: np.ndarray) -> np.ndarray:
    expected = expected_log_z(name, betas)[-1]
    noise = [estimate.details.get("noise", estimate.mcse) for estimate in estimates]
    return (np.array([estimate.log_z for estimate in estimates]) - expected) / noise


@pytest.mark.parametrize("layout", LAYOUTS)
def test_intervals_cover(layout: str) -> None:
    """Catches an error for independent draws, or of one method for that of another."""
    maker, settings = LAYOUTS[layout]
    betas = ladder(5)
    replicates = replicates_of(maker, 60, betas=betas, **settings)
    for name, estimates in replicates.items():
        z = z_scores(name, estimates, betas)
        try:
            check_coverage(np.abs(z) < 1.96)
        except AssertionError as failure:
            raise AssertionError(f"{name}: {failure}") from failure
        assert_detects(check_coverage, np.abs(z) < 1.96 / 2)
        if name != "stepping_stone_reverse":  # the tail of its weights is heavy
            assert np.mean(np.abs(z) < 1.96 * 2) > 0.99, "errors twice as large go unnoticed"


SWEEP = {
    "W=4, N=2000, time 1": (sticky_draws, {"shape": (4, 2000)}),
    "W=4, N=4000, time 10": (sticky_draws, {"shape": (4, 4000), "stay": 9 / 11}),
    "W=4, N=8000, time 50": (sticky_draws, {"shape": (4, 8000), "stay": 49 / 51}),
    "W=64, N=100, time 1": (sticky_draws, {"shape": (64, 100)}),
    "W=64, N=100, time 10": (sticky_draws, {"shape": (64, 100), "stay": 9 / 11}),
    "W=64, N=200, time 50": (sticky_draws, {"shape": (64, 200), "stay": 49 / 51}),
    "W=64, N=60, tempering": (gibbs_draws, {"shape": (64, 60)}),
}


@pytest.mark.slow
@pytest.mark.parametrize("label", SWEEP)
def test_coverage_table(label: str) -> None:
    """Prints the table of the theory page; catches errors that fail at some autocorrelation."""
    maker, settings = SWEEP[label]
    betas = ladder(8)
    replicates = replicates_of(maker, 300, betas=betas, **settings)
    print(f"\n{label}: coverage of 95% intervals, standard deviation of z, share with status ok")
    for name, estimates in replicates.items():
        z = z_scores(name, estimates, betas)
        z = z[np.isfinite(z)]
        ok = np.mean([estimate.status == "ok" for estimate in estimates])
        print(f"  {name:24s} {np.mean(np.abs(z) < 1.96):.3f} {z.std():.2f} {ok:.2f}")
        if ok > 0.9:
            check_coverage(np.abs(z) < 1.96)
