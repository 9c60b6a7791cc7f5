"""Figures 2 to 4 of the HAIS paper at size: what is expected far out, and what the page says."""

import re
from types import ModuleType

import numpy as np
import pytest
from support.scripts import load


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The script."""
    return load("examples/papers/hais_at_size.py")


def test_responses_expected_far_out(example: ModuleType) -> None:
    """Catches tails of other degrees of freedom: with an exponent of one they are Cauchy."""
    parts = {"log_exponents": np.full(36, np.log(0.5))}
    expected = [36 * (1 - 2 * np.arctan(u) / np.pi) for u in example.FAR]
    np.testing.assert_allclose(example.expected_far("experts, Student-t", parts), expected)


def test_the_page_has_the_numbers(example: ModuleType) -> None:
    """Catches numbers that were made again without the page."""
    kept = example.Results(example.RESULTS / "hais_at_size.json", example.SETTINGS)
    page = (example.RESULTS.parents[2] / "docs" / "theory" / "natural_images.md").read_text()
    table = example.table(kept)
    sizes = [1000, 10_000, 100_000]
    for name, rows in table.groupby(level=0):
        model, _, moves = name.rpartition(", ")
        if model == "experts, Laplace":
            assert " | ".join([f"| {moves}", *(f"{one:.2g}" for one in rows["rmse"])]) in page
        for (_, n), row in rows.iterrows():
            if name == example.LINEAR:
                assert f"| {n:,} | {row['mean error']:.2g} | {row['rmse']:.2g} |" in page
            elif model == "experts, Student-t":
                columns = ["mean error", "rmse", *(f"lacks beyond {u}" for u in example.FAR)]
                numbers = " | ".join(f"{row[column]:.2f}" for column in columns)
                n_ok = row["runs"] - sum(map(int, re.findall(r"\((\d+)\)", row["status"])))
                assert f"| {moves} | {n:,} | {numbers} | {n_ok} |" in page
        assert list(rows.index.get_level_values(1)) == sizes


def test_the_page_has_how_far_the_mcrbm_is_behind() -> None:
    """Catches numbers that were made again without the page, and patches that are not the same."""
    measured = load("examples/papers/measured.py")
    page = (measured.RESULTS.parents[2] / "docs" / "theory" / "natural_images.md").read_text()
    learned = ("mcRBM, persistent HMC, 3000 updates", 72)
    behind, low, high = (-one for one in measured.ahead_of_experts(*learned, "experts, Student-t"))
    assert f"{behind:.1f} nats ({high:.1f} to {low:.1f}) behind" in page
    kept, units = measured.units_of("mcrbm_learning")
    [unit] = units[learned]
    assert f"end at {unit['log likelihood']:.1f} nats" in page
    assert f"({np.mean(kept['experts']['experts, Student-t']):.2f}, exact)" in page
    lost, low, high = measured.lost_by_lengths()
    assert (
        f"{lost:.1f} nats a test patch less likely than a log-normal one ({low:.1f} to {high:.1f})"
        in page
    )
