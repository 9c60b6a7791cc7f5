"""A search that was cut goes on where it was: whole models are kept, others run again."""

import json
from dataclasses import asdict
from pathlib import Path

import generated_search
import pytest
from generated.search import Outcome

ONE = Outcome("squares", 1, 2, "evidence", 3, -1.0, 0.1, "ok", -1.1, 1e-9, 0.5, {})


@pytest.mark.parametrize(
    ("lines", "kept", "following"), [(0, 0, 0), (2, 2, 1), (3, 2, 1), (4, 4, 2)]
)
def test_where_a_search_goes_on(tmp_path: Path, lines: int, kept: int, following: int) -> None:
    """Would catch a model that is left out, and one whose calls are counted twice."""
    path = tmp_path / "search.jsonl"
    settings = {"seed": 5, "families": ["squares"], "calls": ["sample_hais", "evidence"]}
    records = [settings, *(asdict(ONE) | {"index": i // 2} for i in range(lines))]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    assert generated_search.read(path) == (settings, [ONE] * kept, following)
