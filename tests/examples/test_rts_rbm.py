"""The RTS paper's figures in small: parts that compute are right, and everything draws."""

from types import ModuleType

import matplotlib.pyplot as plt
import numpy as np
import pytest
from support.checks import make_rng
from support.scripts import load
from support.small_machines import KNOWN

from pymc_logz.estimators import importance_log_z

SIZES = {"sweeps": (650, 750), "replicates": 3, "truth": 1000, "updates": 4}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The script."""
    return load("examples/papers/rts_rbm.py")


def test_annealing_with_hidden_units_summed_out(example: ModuleType) -> None:
    """Catches weights at the wrong beta, and a base that is left out of the normalisation."""
    estimate = importance_log_z(example.summed_out(KNOWN, 60, make_rng("summed"), 4000))
    assert estimate.mcse < 0.01
    assert abs(estimate.log_z - KNOWN.log_z) < 4 * estimate.mcse


def test_rounds_find_log_z(example: ModuleType) -> None:
    """Catches levels drawn by another log Z than that of the round before."""
    found = example.rounds_study(KNOWN, make_rng("rounds"))
    error = np.abs(found["averaged_log_z"] - found["exact"]).max(axis=1)
    assert error[0] > 0.08
    assert np.all(error[-3:] < 0.08)
    assert np.abs(found["averaged_share"][-1] * 100 - 1).max() < 0.1
    plt.close(example.figures.draw_rounds(found))


@pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning")
def test_methods_agree_on_a_small_machine(example: ModuleType, capsys) -> None:
    """Catches a method that is measured against another log Z, or has another budget."""
    rng = make_rng("methods")
    data = KNOWN.sample(rng, 200)["visible"]
    found = example.annealed(KNOWN, data, SIZES, rng) | example.tempered(KNOWN, SIZES, rng)
    table = example.figures.errors(found, example.truth(KNOWN, SIZES, rng)["log_z"])
    assert set(table.index.unique("method")) == {
        "AIS",
        "AIS, summed",
        "RAISE",
        "RTS",
        "TS",
        "BAR",
        "MBAR",
    }
    assert np.all(table["rmse"].drop("TS") < 0.2)
    assert np.all(table["n"] == SIZES["replicates"])
    plt.close(example.figures.draw_errors({8: table}))


@pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning")
def test_likelihoods_while_learning(example: ModuleType, monkeypatch, capsys) -> None:
    """Catches walkers that stay in the machine they started with."""
    train, test = example.digits(make_rng("digits"))
    assert set(np.unique(train)) == {0.0, 1.0}
    monkeypatch.setitem(example.SIZES, "walkers", 200)
    found = example.tracking_study(train, test, 6, SIZES["updates"], make_rng("tracking"))
    tracked, checks = found["tracked"], found["checks"]
    at = checks[:, 0].astype(int)
    assert np.abs(tracked[at, 2] - checks[:, 3]).max() < 1.0
    assert len(tracked) == SIZES["updates"] + 1
    plt.close(example.figures.draw_tracking(found))
    assert "highest at update" in capsys.readouterr().out


def test_the_benchmark_compares_the_same_thing() -> None:
    """Catches a side that draws levels by another log ratio, or moves at another beta."""
    benchmark = load("benchmarks/boltzmann.py")
    speed, _, log_z, share = benchmark.side_by_side(KNOWN, 10, 100, 200, 2)
    for name, estimate in log_z.items():
        assert estimate.status == "ok", name
        assert abs(estimate.log_z - KNOWN.log_z) < 4 * estimate.mcse < 0.1
        assert speed[name] > 0
    assert 0 < share < 1


@pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning")
def test_a_stopped_study_goes_on(example: ModuleType, tmp_path) -> None:
    """Catches replicates that are made again, or otherwise, after a stop between two of them."""
    sizes = {"sweeps": (650,), "replicates": 2, "truth": 100, "updates": 1}
    data = KNOWN.sample(make_rng("stopped"), 200)["visible"]
    whole = example.both({}, "3 8", KNOWN, data, sizes)
    kept = example.figures.Kept(tmp_path / "kept.npz")
    example.both(kept, "3 8", KNOWN, data, sizes | {"replicates": 1})
    again = example.figures.Kept(tmp_path / "kept.npz")
    assert set(again) == {"3 8, annealed 0", "3 8, tempered 0"}
    found = example.both(again, "3 8", KNOWN, data, sizes)
    assert found.keys() == whole.keys()
    for name, values in whole.items():
        np.testing.assert_array_equal(found[name], values)
    assert len(found["RTS", 650]) == 2
