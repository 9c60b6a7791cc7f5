"""The benchmark against others: the same problem for all of them, and tables that say what was."""

import json
from pathlib import Path

import numpy as np
import pytest
import rivals_of_log_z
from rivals.report import at_an_error, matches, rows_of, summary, table
from rivals.targets import TARGETS, conjugate, target
from side_by_side.processes import Results
from support.checks import make_rng

import pymc_logz as lz


@pytest.fixture(scope="module")
def pine():
    return target("pine_density")


def test_targets_are_as_many_and_as_large_as_promised() -> None:
    """Would catch a target that got lost."""
    assert len(TARGETS) >= 12
    energy = conjugate(200)
    assert energy.model.initial_point()["b"].shape == (200,)


def test_map_of_the_cube_draws_the_prior(pine) -> None:
    """Would catch a scale taken for a rate, and parents of another draw."""
    rng = make_rng("cube")
    draws = np.array([pine.from_cube(rng.random(3)) for _ in range(2000)])
    names = [value.name for value in pine.plain.value_vars]
    tau = draws[:, names.index("tau")]
    slope = (draws[:, names.index("slope")] - 185) * np.sqrt(6 * tau)
    # Gamma with shape 3 and rate 180,000; the slope given tau is standard normal
    assert abs(tau.mean() * 180_000 - 3) < 4 * np.sqrt(3 / 2000)
    assert abs(slope.mean()) < 4 / np.sqrt(2000)
    assert abs(slope.var() - 1) < 4 * np.sqrt(2 / 2000)


def test_log_likelihood_is_that_of_the_model(pine) -> None:
    """Would catch a prior or a Jacobian that is counted by one method and not by another."""
    x = pine.from_cube(np.full(3, 0.4))
    values = dict(zip([value.name for value in pine.plain.value_vars], x, strict=True))
    data = lz.energies.radiata_pine_data()
    mean = values["intercept"] + values["slope"] * (data["density"] - data["density"].mean())
    squares = (data["strength"] - mean) ** 2
    expected = (np.log(values["tau"] / (2 * np.pi)) - values["tau"] * squares).sum() / 2
    assert pine.log_likelihood(x) == pytest.approx(expected)


def test_log_z_of_the_regression_is_exact() -> None:
    """Would catch covariates that the closed form does not have."""
    energy = conjugate(3)
    tree = lz.sample_hais(model=energy.model, random_seed=1, progressbar=False)
    first = tree["evidence"].to_dataset().isel(estimator=0)
    assert abs(float(first["log_z"]) - energy.log_z) < 4 * float(first["mcse"])


def record(method: str, error: float, seconds: float, seed: int) -> dict:
    """A run whose error has the sign of its seed; the first one is cold."""
    return {
        "target": "ridge",
        "method": method,
        "seed": seed,
        "call": "warm" if seed > 1 else "cold",
        "dims": 2,
        "exact": -5.0,
        "cpu_seconds": seconds + 10 * (seed == 1),
        "log_z": -5.0 + error * (-1) ** seed,
        "mcse": error,
        "status": "ok",
        "evaluations": 1000,
    }


def records() -> list[dict]:
    """Two methods on one target: errors of 0.1 in 2 s, and of 1 in 1 s; one that failed."""
    ours = [record("evidence", 0.1, 2.0, seed) for seed in (1, 2, 3)]
    theirs = [record("pm.sample_smc", 1.0, 1.0, seed) for seed in (1, 2, 3)]
    failed = {"target": "ridge", "method": "dynesty", "error": "no end within 9 s"}
    return [*ours, *theirs, failed]


def test_price_is_mean_square_error_times_seconds() -> None:
    """Would catch the time of compiling in the price of a warm run, and methods exchanged."""
    ours, theirs = rows_of(records())
    assert (ours.method, theirs.method) == ("evidence", "pm.sample_smc")
    assert (ours.seconds, ours.cold, ours.rmse) == (2.0, 12.0, pytest.approx(0.1))
    assert theirs.price / ours.price == pytest.approx(50)
    said = summary([ours, theirs])
    assert "is ahead of every peer on 1 of 1 targets, and at least 50 times" in said
    [match] = matches([ours, theirs])
    # three errors each: F with 3 and 3 degrees of freedom
    assert match.ahead(theirs) == pytest.approx((50.0, 50 / 9.2766, 50 * 9.2766), rel=1e-3)
    cut = {"target": "ridge", "method": "evidence", "error": "no end within 9 s"}
    said = table([ours, theirs], [*records()[-1:], cut])
    assert "`dynesty`: no end within 9 s (ridge)" in said
    assert "`evidence`: no end within 9 s after the runs in the table (ridge)" in said


def test_page_is_made_from_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Would catch a table that grows with each report, and a run that measures again."""
    page, kept = tmp_path / "page.md", tmp_path / "rivals.jsonl"
    page.write_text("Before.\n<!-- begin rivals -->\nstale\n<!-- end rivals -->\nAfter.\n")
    Results(kept).add(records())
    monkeypatch.setattr(rivals_of_log_z, "PICTURE", tmp_path / "picture.png")
    arguments = ["--results", str(kept), "--page", str(page), "--targets", "ridge"]
    methods = ["--methods", "evidence", "pm.sample_smc", "dynesty"]
    for _ in range(2):
        rivals_of_log_z.main([*arguments, *methods])
    text = page.read_text()
    assert text.startswith("Before.")
    assert text.endswith("After.\n")
    assert "stale" not in text
    numbers = json.loads(page.with_suffix(".json").read_text())
    assert [(row["method"], round(row["rmse"], 3)) for row in numbers["rows"]] == [
        ("evidence", 0.1),
        ("pm.sample_smc", 1.0),
    ]
    assert [one["method"] for one in numbers["without an end"]] == ["dynesty"]
    assert text.count("| ridge (2) |") == 1
    assert (tmp_path / "picture.png").exists()
    assert "ahead of every peer" in capsys.readouterr().out


def test_calls_to_an_error_are_apart() -> None:
    """Would catch longer calls that count as peers of a default one, or ratios upside down."""
    ours, theirs = "evidence to 0.01", "blackjax_smc, 16,000"
    longer = [record(ours, 0.01, 2.0, seed) for seed in (1, 2, 3)]
    longer += [record(theirs, 0.01, 8.0, seed) for seed in (1, 2, 3)]
    rows = rows_of([*records(), *longer])
    [match] = matches(rows)
    assert [row.method for row in match.peers] == ["pm.sample_smc"]
    last = at_an_error(rows).splitlines()[-1]
    assert f"`{theirs}` | 0.01 |" in last
    assert last.endswith("| 4 |")
