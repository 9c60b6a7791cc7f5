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


def test_the_page_has_log_likelihoods() -> None:
    """Catches numbers that were made again without the page, and a run that is not ok."""
    measured = load("examples/papers/measured.py")
    page = (measured.RESULTS.parents[2] / "docs" / "theory" / "natural_images.md").read_text()
    _, models = measured.units_of("natural_images")
    for (name, _), [unit] in models.items():
        assert unit["status"] == "ok"
        assert measured.row_of_images(name) in page
    _, ways = measured.units_of("mcrbm_learning")
    for units in ways.values():
        assert measured.row_of_mcrbm(units[0]) in page
    for other in ("experts, Student-t", "bilinear"):
        ahead, low, high = measured.ahead_on_patches("mcRBM", other)
        assert f"{ahead:.1f} nats ({low:.1f} to {high:.1f}) ahead" in page
