"""Tempered runs of which sums are kept in place of draws, killed and added to."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.small_machines import KNOWN

import pymc_logz as lz
from pymc_logz.long_runs import running
from pymc_logz.tempered.chains import TemperJob

pytestmark = pytest.mark.filterwarnings("ignore::pymc_logz.errors.EvidenceWarning")  # short runs


def of_bits(draws: int, keep: str, **kwargs: Any) -> xr.DataTree:
    """A run of a machine, of 2 chains of 16 walkers."""
    given = {"walkers": 16, "betas": 4, "tune": 16, "random_seed": 1, "progressbar": False}
    return lz.sample_tempered(draws, 2, model=KNOWN, keep=keep, **{**given, **kwargs})


def test_killed_and_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches iterations lost between two stretches of a chain, and sums that are begun anew."""
    path = tmp_path / "run.ckpt"
    whole = of_bits(500, "sums")
    monkeypatch.setattr(running, "SECONDS", 0.0)  # a stretch is a block
    advance, n_stretches = TemperJob.advance, []

    def killed(job: TemperJob, *args: Any) -> Any:
        n_stretches.append(job.n_done)
        if len(n_stretches) == 8:
            raise MemoryError
        return advance(job, *args)

    monkeypatch.setattr(TemperJob, "advance", killed)
    with pytest.raises(MemoryError):
        of_bits(500, "sums", checkpoint=path, cores=1)
    again = of_bits(500, "sums", checkpoint=path, cores=1)
    assert len(n_stretches) > 8
    for name in ("log_z", "mcse", "share_sum", "visits", "round_trips"):
        np.testing.assert_array_equal(again["tempering"][name], whole["tempering"][name])
    more = lz.extend(again, KNOWN, draws=301, progressbar=False)
    longer = of_bits(801, "draws")
    assert more["tempering"].attrs["n_draws"] == 801
    for name in ("log_z", "visit_share", "occupancy", "round_trips"):
        np.testing.assert_allclose(more["tempering"][name], longer["tempering"][name], rtol=1e-9)
    errors = [tree["evidence"]["mcse"].item() for tree in (more, longer)]
    assert errors[0] == pytest.approx(errors[1], rel=0.2)  # blocks are shorter
    with pytest.raises(lz.CheckpointError, match="keep"):
        of_bits(500, "draws", checkpoint=path)
