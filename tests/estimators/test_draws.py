"""The record of a tempered run: what it refuses, and sums in chunks."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from support.checks import make_rng
from support.tempered_draws import PoissonPath, ladder, sticky_draws

from pymc_logz.estimators import METHODS, TemperedDraws
from pymc_logz.estimators import draws as module

GOOD = {
    "level": np.array([[0, 1, 2, 1]]),
    "log_ratio": np.array([[-np.inf, 0.0, 1.0, 2.0]]),
    "betas": np.array([0.0, 0.3, 1.0]),
    "log_prior": np.zeros(3),
    "log_z_hat": np.zeros(3),
}


def test_a_good_record_is_taken() -> None:
    """Catches a check that refuses -inf at the reference, or the stored shape of log_z_hat."""
    draws = TemperedDraws(**GOOD)
    assert (draws.n_levels, draws.n_draws, draws.log_z_hat.shape) == (3, 4, (1, 3))
    assert draws.visits.tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("betas", [0.1, 0.3, 1.0], "it must go from 0 to 1"),
        ("betas", [0.0, 0.3, 0.9], "it must go from 0 to 1"),
        ("betas", [0.0, 0.0, 1.0], "increase strictly"),
        ("level", [[0, 1, 2]], "reshape a single walker"),
        ("level", [[0, 1, 3, 1]], r"integers in 0\.\.2"),
        ("level", [[0, 1, -1, 1]], r"integers in 0\.\.2"),
        ("level", [[0.0, 1.0, 2.0, 1.0]], "dtype float64"),
        ("level", [[1, 1, 2, 1]], "1 of 4 draws have log_ratio=-inf at a level above 0"),
        ("log_ratio", [[0.0, np.nan, 1.0, 2.0]], "1 of 4 entries of log_ratio are NaN"),
        ("log_prior", [0.0, -np.inf, 0.0], "log_prior has shape"),
        ("log_z_hat", [0.0, 0.0], "log_z_hat has shape"),
        ("log_z_hat", [[0.0, 0.0, 0.0]] * 2, "log_z_hat has 2 rows; give segment="),
        ("segment", [0, 0, 1, 1], r"integers in 0\.\.0"),
        ("segment", [0, 0, 0], "one entry per draw"),
    ],
)
def test_wrong_arguments_are_refused(name: str, value: object, message: str) -> None:
    """Catches a wrong argument that turns into a wrong number."""
    with pytest.raises(ValueError, match=message):
        TemperedDraws(**{**GOOD, name: np.asarray(value)})


def test_zero_times_minus_infinity_is_zero() -> None:
    """Catches NaN at the reference for draws outside the support, which only the reference has."""
    draws = TemperedDraws(**GOOD)
    tilt = draws.log_tilt(np.array([-np.inf, 2.0]))
    assert tilt[0].tolist() == [0.0, -np.inf, -np.inf]
    assert tilt[1].tolist() == [0.0, 0.6, 2.0]
    assert draws.level_given(np.array([-np.inf]), np.array([0])).tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize("shape", [(3, 701), (90, 13), (1, 1500)])
def test_chunks_change_nothing(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches draws lost or counted twice at the edges of chunks and blocks."""
    rng = make_rng("chunks", shape)
    draws = sticky_draws(PoissonPath(), rng, betas=ladder(5), shape=shape, stay=0.5)
    whole = {name: method(draws) for name, method in METHODS.items()}
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 200)
    monkeypatch.setattr(module, "MAX_BLOCKS", 400)
    draws = replace(draws)  # what was made of them in other blocks does not count
    assert draws.block_length > 1
    for name, method in METHODS.items():
        curve = method(draws)
        assert curve.log_z == pytest.approx(whole[name].log_z, abs=1e-9)
        assert curve.contributions.sum(axis=(0, 1)) == pytest.approx(np.zeros(5), abs=1e-9)
        # the same error from 400 blocks, which know it to about a tenth
        assert curve.mcse == pytest.approx(whole[name].mcse, rel=0.4)


@pytest.mark.parametrize("width", [1, 3])
def test_block_sums_are_sums(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches blocks that are shifted between walkers."""
    monkeypatch.setattr(module, "MAX_BLOCKS", 8)
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 7)
    rng = make_rng("block sums", width)
    draws = sticky_draws(PoissonPath(), rng, betas=ladder(3), shape=(3, 11))
    statistic: Callable = lambda log_ratio, _: log_ratio[:, None] ** np.arange(width)  # noqa: E731
    sums = draws.block_sums(statistic, width)
    length = draws.block_length
    assert length == 6
    expected = [
        [(walker[start : start + length, None] ** np.arange(width)).sum(0) for start in (0, 6)]
        for walker in draws.log_ratio
    ]
    assert sums == pytest.approx(np.array(expected))
    of_levels = draws.level_block_sums(draws.log_ratio).sum(axis=2)
    assert of_levels == pytest.approx(
        np.array(draws.block_sums(lambda r, _: r[:, None], 1))[..., 0]
    )
