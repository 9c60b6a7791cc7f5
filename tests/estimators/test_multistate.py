"""MBAR and the chain of BAR: against other solvers, without overlap, in parallel tempering."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from support.checks import make_rng
from support.tempered_draws import PoissonPath, ladder, sticky_draws

from pymc_logz.estimators import (
    METHODS,
    TemperedDraws,
    bar_chain,
    bar_log_z,
    check_agreement,
    mbar,
    rts,
)
from pymc_logz.estimators import draws as draws_module
from pymc_logz.estimators.tempering import solve_odds

PATH = PoissonPath()


def self_consistent(draws: TemperedDraws) -> np.ndarray:
    """MBAR by its fixed point alone, eq. 11 of Shirts & Chodera (2008)."""
    log_f = draws.log_ratio.ravel()[:, None] * draws.betas
    log_z = np.zeros(draws.n_levels)
    for _ in range(20_000):
        log_mixture = logsumexp(log_f + np.log(draws.visits) - log_z, axis=1, keepdims=True)
        new = logsumexp(log_f - log_mixture, axis=0)
        new -= new[0]
        if np.abs(new - log_z).max() < 1e-13:
            break
        log_z = new
    return log_z


def parallel_draws(label: object, shape: tuple[int, int], guess: float = 0.0) -> TemperedDraws:
    """Parallel tempering: at each time one walker is at each level."""
    rng = make_rng("parallel", label)
    betas = ladder(shape[0])
    level = rng.permuted(np.tile(np.arange(shape[0]), (shape[1], 1)), axis=1).T
    log_ratio = PATH.log_ratio(PATH.draw(rng, betas[level]))
    log_z_hat = PATH.log_z(betas) + guess * betas
    return TemperedDraws(level, log_ratio, betas, np.zeros(shape[0]), log_z_hat)


@pytest.mark.parametrize("n_levels", [2, 3, 9])
def test_mbar_is_the_fixed_point(n_levels: int) -> None:
    """Catches a solver that stops early or solves other equations."""
    rng = make_rng("fixed point", n_levels)
    draws = sticky_draws(PATH, rng, betas=ladder(n_levels), shape=(4, 150))
    assert mbar(draws).log_z == pytest.approx(self_consistent(draws), abs=1e-9)


@pytest.mark.parametrize(
    "n_levels", [pytest.param(n, marks=[pytest.mark.slow] * (n != 5)) for n in (2, 5, 12)]
)
def test_mbar_is_that_of_pymbar(n_levels: int) -> None:
    """Catches another estimator, error or overlap than the one of the source."""
    pymbar = pytest.importorskip("pymbar", reason="pymbar is not installed: nothing to compare to")
    rng = make_rng("pymbar", n_levels)
    draws = sticky_draws(PATH, rng, betas=ladder(n_levels), shape=(4, 2000))
    order = np.argsort(draws.level.ravel(), kind="stable")
    reduced = -draws.betas[:, None] * draws.log_ratio.ravel()[order]
    theirs = pymbar.MBAR(reduced, draws.visits, solver_protocol="robust")
    differences = theirs.compute_free_energy_differences()
    ours = mbar(draws)
    assert ours.log_z == pytest.approx(-differences["Delta_f"][0], abs=1e-8)
    # draws are independent; the autocorrelations, all zero, are estimated too
    assert ours.mcse[1:] == pytest.approx(differences["dDelta_f"][0, 1:], rel=0.15)
    assert ours.details["overlap"] == pytest.approx(theirs.compute_overlap()["matrix"], abs=1e-6)


def test_two_levels_are_bar() -> None:
    """Catches a chain or a multistate estimate that is not Bennett's for two states."""
    draws = sticky_draws(PATH, make_rng("two"), betas=ladder(2), shape=(4, 400))
    bar = bar_log_z(draws.log_ratio[draws.level == 0], -draws.log_ratio[draws.level == 1])
    for curve in (mbar(draws), bar_chain(draws)):
        assert curve.log_z[1] == pytest.approx(bar.log_z, abs=1e-8)
        assert curve.mcse[1] == pytest.approx(bar.mcse, rel=0.15)
    assert mbar(draws).contributions == pytest.approx(bar_chain(draws).contributions, abs=1e-9)


def test_overlap_matrix() -> None:
    """Catches rows taken for columns, and a bridge that counts draws far from the step."""
    draws = sticky_draws(PATH, make_rng("overlap"), betas=ladder(6), shape=(4, 500))
    details = mbar(draws).details
    assert details["overlap"].sum(axis=1) == pytest.approx(np.ones(6))
    balance = draws.visits[:, None] * details["overlap"]
    assert balance == pytest.approx(balance.T)
    above = details["overlap"][:3, 3:].sum(axis=1)
    assert details["bridge"][2] == pytest.approx(4 * (draws.visits[:3] * above).sum())


@pytest.mark.parametrize("method", [mbar, bar_chain])
def test_levels_without_overlap_give_no_number(method) -> None:
    """Catches a number, with an error of zero, for levels that no draw links."""
    path = PoissonPath(total=2000.0, n=100.0)
    draws = sticky_draws(path, make_rng("far"), betas=ladder(3, 1.0), shape=(4, 300))
    curve = method(draws)
    assert curve.status == "no_overlap"
    assert np.isnan(curve.log_z[1:]).all()
    assert np.isnan(curve.estimate.log_z)


def test_a_level_without_visits() -> None:
    """Catches a log of zero visits; MBAR needs no neighbour, the chain does."""
    draws = sticky_draws(PATH, make_rng("gap"), betas=ladder(5), shape=(8, 400))
    seen = draws.level != 2
    kept = replace(draws, level=draws.level[:, :], log_ratio=draws.log_ratio)
    kept = TemperedDraws(
        draws.level[seen][:2000].reshape(4, 500),
        draws.log_ratio[seen][:2000].reshape(4, 500),
        draws.betas,
        kept.log_prior,
        kept.log_z_hat,
    )
    curve = mbar(kept)
    assert np.isnan(curve.log_z[2])
    assert np.isnan(curve.mcse[2])
    exact = PATH.log_z(draws.betas)
    for k in (1, 3, 4):
        assert abs(curve.log_z[k] - exact[k]) < 5 * curve.mcse[k]
    assert bar_chain(kept).status == "unvisited_level"


def test_chunks_of_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a Hessian of the last chunk only."""
    draws = sticky_draws(PATH, make_rng("mbar chunks"), betas=ladder(4), shape=(3, 333))
    whole = mbar(draws)
    monkeypatch.setattr(draws_module, "CHUNK_ELEMENTS", 400)
    assert mbar(draws).log_z == pytest.approx(whole.log_z, abs=1e-11)
    assert mbar(draws).mcse == pytest.approx(whole.mcse, rel=1e-9)


def test_parallel_tempering() -> None:
    """Catches a method that needs random levels taken for one that does not, and unnoticed."""
    draws = parallel_draws("right", (8, 800), guess=2.0)
    exact = PATH.log_z(draws.betas)
    names = ("mbar", "bar_chain", "stepping_stone")
    curves = [METHODS[name](draws) for name in names]
    for curve in curves:
        assert np.all(np.abs(curve.log_z - exact)[1:] < 5 * curve.mcse[1:])
    assert check_agreement(curves).agree
    wrong = check_agreement([rts(draws), *curves])
    assert wrong.departing == ("rts",)


def test_a_start_far_off_is_recovered_from() -> None:
    """Catches Newton steps that run away where self-consistent ones would not."""
    draws = sticky_draws(PATH, make_rng("start"), betas=ladder(4), shape=(4, 200))
    log_f = draws.log_ratio.ravel()[:, None] * draws.betas

    def mean_probabilities(odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = log_f + odds
        p = np.exp(p - logsumexp(p, axis=1, keepdims=True))
        return p.mean(axis=0), p.T @ p / p.shape[0]

    target = draws.visits / draws.n_draws
    near = solve_odds(target, mean_probabilities, np.zeros(4))
    far = solve_odds(target, mean_probabilities, np.array([0.0, 40.0, -60.0, 25.0]))
    assert near.converged
    assert far.converged
    assert far.log_odds == pytest.approx(near.log_odds, abs=1e-9)
    assert near.share == pytest.approx(target, abs=1e-6)
