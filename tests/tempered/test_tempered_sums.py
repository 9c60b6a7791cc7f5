"""Runs of which sums are kept in place of draws: the same log Z, and memory that does not grow."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.small_machines import KNOWN

import pymc_logz as lz
from pymc_logz.energies import thinned_poisson
from pymc_logz.kernels import IntegerWalk
from pymc_logz.runners.arrays import leaves
from pymc_logz.tempered.chains import TemperJob

pytestmark = [
    pytest.mark.filterwarnings("ignore::pymc_logz.errors.EvidenceWarning"),  # short runs
    pytest.mark.usefixtures("no_look_in_this_file"),
]
BETAS = np.array([0.0, 0.3, 1.0])
counted = cache(thinned_poisson)
BOTH = ("log_z", "mcse", "log_z_bias", "log_z_covariance", "visit_share", "occupancy")
ALIKE = (*BOTH, "acceptance_rate", "round_trips", "round_trip_rate", "round_log_z_hat")


def of_bits(draws: int, keep: str, **kwargs: Any) -> xr.DataTree:
    """A run of a machine, of 2 chains of 16 walkers."""
    given = {"walkers": 16, "betas": 4, "tune": 16, "random_seed": 1, "progressbar": False}
    return lz.sample_tempered(draws, 2, model=KNOWN, keep=keep, **{**given, **kwargs})


def of_model(draws: int, keep: str, **kwargs: Any) -> xr.DataTree:
    """The same of a PyMC model, of a whole number."""
    given = {"model": counted().model, "betas": BETAS, "kernel": IntegerWalk(), "tune": 16}
    given |= {"walkers": 16, "random_seed": 2, "progressbar": False}
    return lz.sample_tempered(draws, 2, keep=keep, **{**given, **kwargs})


@pytest.mark.parametrize(("run", "draws"), [(of_bits, 1501), (of_bits, 30), (of_model, 1501)])
def test_the_same_answer_as_of_draws(run: Callable[..., xr.DataTree], draws: int) -> None:
    """Catches draws left out or counted twice, blocks of other lengths, a last block too long."""
    stored, summed = run(draws, "draws"), run(draws, "sums")
    for name in ALIKE:
        one, other = (tree["tempering"][name].to_numpy() for tree in (stored, summed))
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-12, err_msg=name)
    for name in ("log_z", "mcse", "weight_ess"):
        assert summed["evidence"][name].item() == pytest.approx(stored["evidence"][name].item())
    assert summed["evidence"]["status"].item() == stored["evidence"]["status"].item()
    # halves of walkers are whole blocks, which moves their border by one of them
    np.testing.assert_allclose(
        summed["tempering"]["rhat"], stored["tempering"]["rhat"], rtol=0, atol=2e-3
    )
    n_levels = summed["tempering"].sizes["stage"]
    level = stored["tempering"]["level"].to_numpy()
    visits = [np.bincount(chain.ravel(), minlength=n_levels) for chain in level]
    np.testing.assert_array_equal(summed["tempering"]["visits"], visits)
    share = summed["tempering"]["share_sum"].sum(("chain", "walker")) / (2 * 16 * draws)
    np.testing.assert_allclose(share, summed["tempering"]["occupancy"].mean("chain"))


def test_memory_does_not_grow_with_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a draw, a position or a block that is kept for each iteration."""
    in_work: list[int] = []
    summed = TemperJob.summed

    def weighed(job: TemperJob, course: Any) -> TemperJob:
        found = summed(job, course)
        state = (job.left, found.sums, found.left)
        in_work.append(sum(np.asarray(array).nbytes for array in leaves(state)))
        return found

    monkeypatch.setattr(TemperJob, "summed", weighed)
    most, trees = [], []
    for draws in (4096, 16384):
        in_work.clear()
        trees.append(of_bits(draws, "sums"))
        most.append(max(in_work))
    assert most[1] < 1.05 * most[0]  # how many walkers are at beta = 1 when they are looked at
    assert trees[0].nbytes == trees[1].nbytes < 20_000
    for tree in trees:
        assert set(tree.children) == {"tempering", "evidence"}
        assert "draw" not in tree["tempering"].dims


def test_what_sums_cannot_do_is_told() -> None:
    """Catches a traceback from inside, or an estimator that reads what is not there."""
    tree = of_bits(64, "sums")
    assert lz.evidence(tree)["evidence"]["log_z"].item() == tree["evidence"]["log_z"].item()
    assert "carlson2016" in str(lz.cite(tree))
    with pytest.raises(ValueError, match=r"kept their sums.*keep='draws'"):
        lz.evidence(tree, methods="all")
    with pytest.raises(ValueError, match=r"comes from sample_tempered\(keep='sums'\)"):
        lz.plot_tempering(tree)
    with pytest.raises(ValueError, match=r"keep='sums' works only with RTS"):
        of_bits(64, "sums", exchange="swap")
    with pytest.raises(ValueError, match="keep='log_z' must be one of"):
        of_bits(64, "log_z")
    with pytest.raises(ValueError, match=r"thin=5 has no effect.*keep='draws'"):
        of_bits(64, "sums", thin=5)


def test_one_walker_and_an_odd_number_of_draws() -> None:
    """Catches a last stretch of a single draw, and an end of the ladder that nobody saw."""
    tree = of_bits(2049, "sums", walkers=1)
    assert tree["tempering"]["visits"].sum() == 2 * 2049
    few = of_bits(2, "sums", walkers=1, betas=9)
    assert few["evidence"]["status"].item() == "unvisited_level"
    assert np.isnan(few["evidence"]["log_z"].item())
