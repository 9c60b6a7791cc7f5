"""The benchmark of ordinary models: counts, agreement, goals, and runs that are cut."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from side_by_side import processes, tables
from side_by_side.tables import Compared

GOOD = {
    "pm.sample": {"seconds": 10.0, "cpu_seconds": 9.0, "evaluations": 50_000},
    "bridge": {"seconds": 1.0, "log_z": -3.0, "mcse": 0.003, "status": "ok"},
    "sample_hais": {
        "seconds": 5.0,
        "cpu_seconds": 5.0,
        "evaluations": 40_000,
        "log_z": -3.01,
        "mcse": 0.01,
        "status": "ok",
    },
}


def compared(changes: dict | None = None) -> Compared:
    """A model on which all is well, but for what is changed of `sample_hais`."""
    records = [{"model": "line", "method": "exact", "call": "cold", "log_z": -3.002}]
    for method, values in GOOD.items():
        values = {**values, **(changes or {} if method == "sample_hais" else {})}
        records += [
            {"model": "line", "method": method, "call": call, **values} for call in ("cold", "warm")
        ]
    return Compared("line", records)


def test_a_cheap_run_that_agrees_is_within() -> None:
    model = compared()
    assert tables.is_within(model, "sample_hais")
    assert model.disagreements() == []
    assert model.off("sample_hais") == pytest.approx(0.8)
    assert "1 of 1 within all" in tables.summary([model])


@pytest.mark.parametrize(
    "changes",
    [
        {"seconds": 11.0},
        {"evaluations": 60_000},
        {"evaluations": None},
        {"mcse": 0.06},
        {"status": "high_khat"},
    ],
)
def test_a_run_that_breaks_one_goal_is_not_within(changes: dict) -> None:
    """Would catch a goal that is not looked at, and a cost that nobody counted taken for none."""
    assert not tables.is_within(compared(changes), "sample_hais")


def test_numbers_that_disagree_are_named() -> None:
    """Would catch a wrong number that the table is silent about."""
    model = compared({"log_z": -2.9})
    assert model.off("sample_hais") == pytest.approx(10.2)
    found = " ".join(model.disagreements())
    assert "sample_hais off by 10.2" in found
    assert "bridge and sample_hais 9.6 apart" in found
    assert found.split("off")[0].strip() in tables.summary([model])


def test_a_cost_above_three_times_is_named() -> None:
    assert tables.summary([compared({"evaluations": 160_000})]).count("line") == 1
    assert "line" not in tables.summary([compared({"evaluations": 140_000})])


def test_rows_of_the_table_are_aligned_and_go_into_commas() -> None:
    lines = tables.aligned(tables.COLUMNS, compared().rows()).splitlines()
    assert len({len(line) for line in lines}) == 1
    rows = tables.comma_separated([compared()]).splitlines()
    assert '"50,000"' in rows[1]


def test_page_shows_what_has_no_number_and_what_is_not_ok() -> None:
    """Would catch a status, or a method that failed, that the documentation is silent about."""
    records = compared({"status": "high_khat"}).records
    model = Compared("line", [record for record in records if record["method"] != "bridge"])
    line = tables.page_table([model]).splitlines()[-1]
    assert "-3.010 ± 0.010 `high_khat`" in line
    assert "none" in line
    assert "10.0 / 5.0" in line
    assert "50 / 40" in line


def test_results_are_continued(tmp_path: Path) -> None:
    """Would catch a long run that starts again from its first model."""
    path = tmp_path / "results.jsonl"
    processes.Results(path).add([{"model": "a", "method": "b", "call": "cold", "log_z": -1.0}])
    again = processes.Results(path)
    assert again.has("a", "b")
    assert not again.has("a", "c")
    again.add([{"model": "a", "method": "c", "call": "cold", "error": "x"}])
    assert [json.loads(line)["method"] for line in path.read_text().splitlines()] == ["b", "c"]


def test_a_run_without_end_and_one_that_fails_leave_a_record() -> None:
    """Would catch one hang, or one crash, that stops the rest."""
    [cut] = processes.measured("quickstart", "sample_hais", 0.2)
    assert cut["error"] == "no end within 0 s"
    assert (cut["model"], cut["method"], cut["call"]) == ("quickstart", "sample_hais", "cold")
    [failed] = processes.measured("no such model", "sample_hais", 60)
    assert "KeyError" in failed["error"]


def test_likelihoods_and_chains_of_smc_are_counted() -> None:
    """Against a count by hand: a stage of 3 steps holds the start and two moves."""
    from side_by_side import methods

    stats = xr.DataTree(
        xr.Dataset({"n": ("chain", np.array([[10, 20], [30]], dtype=object))}, {"chain": [0, 1]})
    )
    assert [float(np.sum(chain)) for chain in methods.by_chain(stats, "n")] == [30.0, 30.0]
    kernel = methods.CountedIMH.__new__(methods.CountedIMH)
    kernel.draws, kernel.n_steps, kernel.beta, kernel.acc_rate = 7, 3, 0.5, 0.9
    assert kernel.sample_stats()["n_likelihoods"] == 14
