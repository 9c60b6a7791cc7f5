"""The script for the RTS paper's own size: data, what is kept, and ratios of sweeps."""

import json
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from support.scripts import load


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The script."""
    return load("examples/papers/rts_at_size.py")


@pytest.mark.parametrize(("name", "sizes"), [("digits", (1500, 297)), ("mnist", (4500, 500))])
def test_digits_are_bits_of_the_size(
    example: ModuleType, name: str, sizes: tuple[int, int]
) -> None:
    """Catches pixels out of order: neighbours in a row are alike."""
    train, test = getattr(example, name)(np.random.default_rng(0))
    assert train.shape == (sizes[0], 784)
    assert test.shape == (sizes[1], 784)
    assert set(np.unique(train)) == {0.0, 1.0}
    image = train.reshape(-1, 28, 28)
    assert np.mean(image[:, :, 1:] == image[:, :, :-1]) > 0.9
    assert np.mean(image[:, 1:] == image[:, :-1]) > 0.9


def test_what_is_kept_is_read_and_held_to_its_settings(example: ModuleType, tmp_path: Path) -> None:
    """Catches units that are lost, and numbers of other settings among them."""
    store = tmp_path / "results" / "kept.json"
    results = example.Results(store, {"hidden": 5})
    results.keep("AIS, summed", 1000, 0, {"log_z": 1.0, "seconds": 2.0})
    results.keep("AIS, summed", 1000, 1, {"log_z": 3.0, "seconds": 4.0})
    again = example.Results(store, {"hidden": 5})
    assert again.table() == {("AIS, summed", 1000): [1.0, 3.0]}
    assert again.seconds() == {("AIS, summed", 1000): 3.0}
    with pytest.raises(SystemExit, match="move it away"):
        example.Results(store, {"hidden": 6})


def test_ratio_of_sweeps(example: ModuleType) -> None:
    """Catches a ratio upside down: errors of one that needs four times the sweeps."""
    rows = {
        (name, n): {"rmse": scale / np.sqrt(n)}
        for name, scale in (("RTS", 1.0), ("AIS", 2.0))
        for n in (1000, 4000, 16000)
    }
    table = pd.DataFrame(rows).T
    table.index.names = ["method", "sweeps"]
    found = example.ratio_of_sweeps(table)
    assert found[1000] == pytest.approx(4.0)
    assert found[4000] == pytest.approx(4.0)
    assert np.isnan(found[16000])


def test_errors_over_errors_of_ten_times_the_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a ratio upside down, and a truth whose own error the interval leaves out."""
    measured = load("examples/papers/measured.py")
    monkeypatch.setattr(measured, "RESULTS", tmp_path)
    assert measured.ten_times_fewer_sweeps("RTS", "AIS", 1000) == (None, None, None)
    units = {f"RTS 1000 {i}": {"log_z": 7 + 0.1 * (-1) ** i} for i in range(10)}
    units |= {f"AIS {n} {i}": {"log_z": 7.2} for n in (100, 10_000) for i in range(10)}
    ends = []
    for mcse in (1e-9, 0.1):
        truth = {name: {"log_z": 7.0, "mcse": mcse} for name in ("RTS", "bar")}
        kept = {"settings": {}, "truth": truth, "units": units}
        (tmp_path / "rts_at_size_mnist.json").write_text(json.dumps(kept))
        value, *interval = measured.ten_times_fewer_sweeps("RTS", "AIS", 1000)
        assert value == pytest.approx(0.5)
        ends.append(interval)
        assert measured.ten_times_fewer_sweeps("RTS", "AIS", 100) == (None, None, None)
    (low, high), (wider, higher) = ends
    np.testing.assert_allclose([low, high], 0.5, rtol=1e-6)
    assert wider < 0.4
    assert higher > 0.7


def test_the_page_has_the_errors(example: ModuleType) -> None:
    """Catches numbers that were made again without the page."""
    results = example.Results(example.MNIST_RESULTS, example.MNIST_SIZES)
    assert abs(example.apart(results)) < 3
    log_z = example.pooled(results["truth"])[0]
    page = (example.RESULTS.parents[3] / "docs" / "theory" / "rts_paper.md").read_text()
    table = results.table()
    for method in ("AIS", "RTS", "BAR", "TS", "RAISE"):
        off = (np.array(table[method, n]) - log_z for n in (1000, 10_000, 100_000))
        cells = (f"{np.sqrt((one**2).mean()):.2f}, {one.mean():+.2f}" for one in off)
        assert f"| {' | '.join(cells)} |" in page


def test_the_long_runs_of_the_page(example: ModuleType) -> None:
    """Catches numbers that were made again without the page: the long runs do not agree."""
    results = example.Results(example.RESULTS, example.SIZES)
    assert abs(example.apart(results)) > 3
    page = (example.RESULTS.parents[3] / "docs" / "theory" / "rts_paper.md").read_text()
    for value in example.long_runs(results["truth"])[0]:
        assert f"{value:.2f}" in page


@pytest.mark.parametrize(
    "name",
    [
        "plain, 5000 updates, 300 temperatures 500 0",
        "CD-1 alone, 1000 updates, 500 temperatures 500 0",
    ],
)
def test_the_page_has_what_mixing_was_seen(name: str) -> None:
    """Catches numbers that were made again without the page."""
    kept = load("examples/papers/rts_mixing.py")
    unit = kept.Results(kept.RESULTS, kept.SETTINGS)["units"][name]
    page = (kept.RESULTS.parents[3] / "docs" / "theory" / "rts_paper.md").read_text()
    assert unit["round trips"] == 0
    for estimator in ("RTS", "bar"):
        one = unit[estimator]
        assert f"{one['log_z']:.2f} ± {one['mcse']:.2f} | `{one['status']}`" in page
    assert unit["hais"]["status"] == unit["hais_reverse"]["status"] == "degenerate"
    assert f"| {unit['plain mean weight']:.2f} |" in page
    assert f"| {unit['sd of log weights']:.1f} |" in page
    assert re.search(rf"R-hat of [^:]*{unit['rhat']:.2f}", page)


def test_tracking_goes_on_where_it_was(tmp_path: Path) -> None:
    """Would catch updates that are made twice, and a machine that does not learn."""
    script = load("examples/papers/rts_tracking.py")
    sizes = script.SIZES | {"hidden": 8, "walkers": 200, "between": 20, "pretrained": 20}
    sizes |= {"updates": 4, "checks": 2, "temperatures": 30}
    results = script.Results(tmp_path / "results.json", sizes)
    for last in (1, None):
        script.learned(sizes, results, tmp_path / "machine.npz", last, every=2)
    found = script.read(results)
    assert found["tracked"].shape == (5, 4)
    assert list(found["checks"][:, 0]) == [0, 2, 4]
    assert np.all(np.isfinite(found["checks"]))
    assert np.all(np.abs(found["tracked"][[0, 2, 4], 2] - found["checks"][:, 3]) < 2)
    assert script.dna(np.random.default_rng(0))[0].shape == (1400, 180)
