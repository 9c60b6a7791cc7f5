"""Rows of the target that are annealed back, and the variance of weights that they tell."""

from functools import partial

import numpy as np
import pytest
from scipy import stats
from support.checks import make_rng
from support.learned_references import N_LOOKS, N_ROWS, known

from pymc_logz.pilot.ladder import anneal_back, settled, variance_seen_from_target
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block


@pytest.mark.parametrize("sd", [1.0, 1.3, 2.0])
def test_variance_seen_from_the_target_is_known_for_normals(sd: float) -> None:
    """Catches the wrong sign of a weight, and a variance of the target's rows for the others'.

    For a target N(0, 1) and a reference N(0, sd^2) the mean square of the weights is
    ``sd / sqrt(2 - 1 / sd^2)``, and the weight ESS of their rows one over that.
    """
    x = make_rng("normals", sd).standard_normal(50_000)
    log_weight = stats.norm.logpdf(x) - stats.norm.logpdf(x, scale=sd) + 7.0
    exact = np.log(sd / np.sqrt(2 - 1 / sd**2))
    # the largest hundredth of the weights counts as the next one
    assert variance_seen_from_target(log_weight) == pytest.approx(exact, abs=0.02)


def test_variance_seen_from_the_target_sees_what_the_reference_lacks() -> None:
    """Catches trial rows that stay where the reference is, and say that all is well."""
    lost = np.where(make_rng("lost").random(2000) < 0.1, 15.0, 0.0)
    assert variance_seen_from_target(lost) > 5
    few = np.where(make_rng("few").random(2000) < 0.005, 15.0, 0.0)
    assert variance_seen_from_target(few) < 0.1
    assert variance_seen_from_target(np.array([0.0, np.inf])) == np.inf
    assert variance_seen_from_target(np.full(3, -np.inf)) == np.inf


def test_rows_annealed_back_all_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches rows that are left out, or that make the block compile for another number."""
    of = known("skewed")
    sizes: list[int] = []

    def noted(block: Block, plan: Plan, start: np.ndarray, rng: object) -> object:
        sizes.append(len(start))
        return type("Run", (), {"log_weight": start[:, 0]})

    monkeypatch.setattr("pymc_logz.pilot.ladder.anneal", noted)
    back = partial(
        anneal_back, of.block, settled(of.stages(of.rows("b", N_LOOKS * N_ROWS))).plan(2)
    )
    n = of.block.n_rows
    rows = np.arange(2.5 * n)[:, None]
    assert len(np.unique(back(rows, make_rng("more")))) == 2 * n
    assert sizes == [n] * 2
    assert set(back(rows[:100], make_rng("fewer"))) == set(range(100))
    assert sizes == [n] * 3
