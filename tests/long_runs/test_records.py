"""Records: they come back as they were, and nothing else is ever read."""

import numpy as np
import pytest

from pymc_logz.errors import CheckpointError
from pymc_logz.long_runs.records import decode, encode
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.runners.anneal import Plan, Underway


def test_a_record_comes_back_with_all_its_bits() -> None:
    """Would catch rounding, types that change, and order that is lost."""
    state = np.random.SFC64(3).state
    rows = np.array([[1 / 3, np.nan], [-np.inf, -0.0]])
    record = {
        "rng": state,
        "nested": [(rows, None), {"x": True, "n": 2**100, "f": 1 / 3, "inf": -np.inf}],
        "fit": Elliptical(np.zeros(2), np.eye(2), df=5.0),
        "underway": Underway(8, (), np.arange(3.0), np.zeros(3), rows, 4),
        "whole": np.arange(4, dtype=np.int32),
        "number": np.asarray(0.1),
        "text": np.array([b"one", b"two"]),
        "words": np.array([["one", ""], ["three", "ü"]]),
        "dates": np.array("2020-02-03", dtype="datetime64[D]"),
    }
    found = decode(*encode(record))
    np.testing.assert_equal(found["rng"], state)
    assert found["nested"][0][0].tobytes() == rows.tobytes()
    assert found["nested"][1] == record["nested"][1]  # type: ignore[index]
    assert isinstance(found["fit"], Elliptical)
    assert found["underway"].n_nan == 4
    assert found["whole"].dtype == np.int32
    assert type(found["nested"][0]) is tuple
    assert found["number"].shape == ()
    np.testing.assert_array_equal(found["words"], record["words"])
    np.testing.assert_array_equal(found["dates"], record["dates"])
    assert found["dates"].dtype == "datetime64[D]"


def test_one_row_that_stands_for_many_stays_one_row() -> None:
    """Would catch a plan of very many temperatures that fills memory when it is written."""
    plan = Plan(np.linspace(0, 1, 5000), np.ones(5000), np.full(10, 2.0))
    tree, arrays = encode(plan)
    assert sum(array.size for array in arrays) < 11_000
    found = decode(tree, arrays).scales(slice(None))
    np.testing.assert_array_equal(found, np.full((5000, 10), 2.0))


@pytest.mark.parametrize("thing", [object(), {1, 2}, np.array([None]), CheckpointError, lambda: 1])
def test_only_numbers_and_arrays_are_written(thing: object) -> None:
    """Would catch a record that needs code to be read."""
    with pytest.raises(TypeError, match="no part of a record"):
        encode({"thing": thing})


@pytest.mark.parametrize(
    "tree",
    [
        {"class": "Popen", "fields": {"args": "ls"}},
        {"class": "runners.anneal.Plan", "code": "x"},
        {"class": "long_runs.checkpoint.Keeper", "fields": {}},
        {"class": "long_runs.checkpoint.Path", "fields": {}},
        {"class": "weights.normalise", "fields": {"log_weight": 1}},
        {"array": 3},
        {"pickle": "gASV"},
        {"dict": "x"},
    ],
)
def test_anything_else_is_refused_on_reading(tree: object) -> None:
    """Would catch a checkpoint that could make something of its own choice."""
    with pytest.raises(CheckpointError, match="no checkpoint has"):
        decode(tree, [])
