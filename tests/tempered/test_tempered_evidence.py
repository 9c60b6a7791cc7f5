"""`evidence(tree, methods=...)` on stored tempered runs with exact draws."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from support.tempered_draws import PoissonPath, ladder, stored_run

import pymc_logz as lz
from pymc_logz.errors import EvidenceWarning
from pymc_logz.estimators import METHODS

PATH = PoissonPath()
SOUND = ("rts", "mbar", "ts", "bar_chain", "stepping_stone", "ti_corrected", "ti_rb")


@pytest.fixture(scope="module")
def fine() -> xr.DataTree:
    return lz.evidence(stored_run(40, "fine"), methods=[*SOUND, "ti_trapezoid"])


def test_methods_are_right_at_every_beta(fine: xr.DataTree) -> None:
    """Catches draws handed over in the wrong order, or a ladder of another run."""
    group = fine["evidence"].to_dataset()
    assert group["estimator"].values[0] == "rts"
    error = group["log_z_curve"].values - PATH.log_z(ladder(40))
    mcse = group["mcse_curve"].values
    assert np.all(np.abs(error[:, 1:]) < 5 * mcse[:, 1:] + 0.01)
    np.testing.assert_array_equal(group["log_z_curve"][:, -1], group["log_z"])
    noise = np.sqrt(np.diag(group["covariance"]))
    assert np.all(noise <= group["mcse"] * (1 + 1e-6))
    correlation = group["covariance"].values / np.outer(noise, noise)
    # they see the same draws
    assert correlation[0, 1] > 0.5
    assert not group["departs"].any()


def test_the_tree_that_is_passed_keeps_its_evidence() -> None:
    """Catches a result written into the argument."""
    tree = stored_run(8, "kept")
    lz.evidence(tree, methods="rts")
    assert tree["evidence"]["log_z"].values == [0.0]


def test_a_coarse_ladder_gives_integration_away() -> None:
    """Catches a warning that does not name the one that departs."""
    with pytest.warns(EvidenceWarning, match="do not agree: .*ti_left.*more of them"):
        tree = lz.evidence(stored_run(8, "coarse"), methods="all")
    group = tree["evidence"].to_dataset()
    assert set(group["estimator"].values) == set(METHODS)
    departs = group["estimator"].values[group["departs"]]
    assert {"ti_left", "ti_right"} <= set(departs)
    assert not {"rts", "mbar", "stepping_stone"} & set(departs)
    status = dict(zip(group["estimator"].values, group["status"].values, strict=True))
    assert {status[name] for name in ("ti_left", "ti_right")} <= {"rule_error", "coarse_ladder"}
    assert {status[name] for name in ("rts", "mbar", "stepping_stone")} == {"ok"}
    assert "ti_left by" in group.attrs["doubts"]


def test_the_group_survives_a_file(fine: xr.DataTree, tmp_path) -> None:
    """Catches an array that has no form on disk."""
    fine.to_netcdf(tmp_path / "run.nc")
    again = xr.open_datatree(tmp_path / "run.nc")
    np.testing.assert_array_equal(again["evidence"]["covariance"], fine["evidence"]["covariance"])


@pytest.mark.parametrize("methods", ["tarot", ["rts", "tarot"], []])
def test_unknown_methods_are_refused(methods: str | list[str]) -> None:
    """Catches a name that is silently dropped."""
    with pytest.raises(ValueError, match=r"must be 'all' or among \['bar_chain'"):
        lz.evidence(stored_run(8, "unknown"), methods=methods)


def test_methods_need_a_tempered_run() -> None:
    """Catches methods that are ignored."""
    with pytest.raises(ValueError, match="applies to a DataTree of sample_tempered"):
        lz.evidence(xr.DataTree(), methods="all")
    with pytest.raises(ValueError, match="applies to a tempered run"):
        lz.evidence(pm.Model(), methods="all")
