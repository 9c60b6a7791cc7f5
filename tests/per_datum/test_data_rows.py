"""What `marginal_log_likelihood` refuses at the door, and how data rows are labelled."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr
from scipy import stats
from support import latent_models as latent

import pymc_logz as lz
from pymc_logz.models.flat import flatten_model
from pymc_logz.per_datum.data_rows import read_data_rows


def awkward(kind: str) -> pm.Model:
    """A model whose data enter where they must not."""
    with pm.Model() as model:
        x, unused = pm.Data("x", np.ones(2)), pm.Data("unused", np.ones(2))
        size = pm.Data("size", np.array(2))
        mu = x.sum() if kind == "prior" else 0.0
        z = pm.Normal("z", mu, 1.0, shape=(size,) if kind == "shape" else None)
        pm.Deterministic("twice", 2 * unused)
        pm.Normal("y", z.sum() + x, 1.0, observed=x if kind == "twins" else [0.5, 1.0])
    return model


X2 = np.ones((4, 2))
NAN2 = np.where(np.arange(8).reshape(4, 2) == 5, np.nan, 1.0)
WRONG: dict[str, tuple[str, Any, type[Exception], list[str]]] = {
    "none": ("", None, TypeError, ["data=None", "['x', 'unused', 'size']", "['y']"]),
    "empty": ("", {}, TypeError, ["data={}", "dictionary"]),
    "unknown": ("", {"X": X2}, lz.ModelError, ["data['X'] is unknown", "'x'", "pm.Data"]),
    "free": ("", {"z": X2}, lz.ModelError, ["data['z'] is a free variable", "'y'"]),
    "deterministic": ("", {"twice": X2}, lz.ModelError, ["data['twice'] is unknown"]),
    "in the prior": ("prior", {"x": X2}, lz.ModelError, ["data['x'] enters the prior", "z ~"]),
    "shape": ("shape", {"size": [2, 2]}, lz.ModelError, ["data['size'] enters", "the shape"]),
    "unused": ("", {"unused": X2}, lz.ModelError, ["data['unused'] does not", "leave it out"]),
    "twins": ("twins", {"x": X2, "y": X2}, lz.ModelError, ["data['x'] and data['y']", "one"]),
    "trailing": ("", {"x": np.ones((4, 3))}, ValueError, ["(4, 3)", "(2,)", "('rows', 2)"]),
    "single": ("", {"x": np.ones(2)}, ValueError, ["shape (2,)", "value[None]"]),
    "lengths": ("", {"x": X2, "y": X2[:3]}, ValueError, ["{'x': 4, 'y': 3}", "same number"]),
    "no rows": ("", {"x": X2[:0]}, ValueError, ["data['x'] has no rows", "(0, 2)"]),
    "nan": ("", {"x": NAN2}, ValueError, ["data['x']", "1 of 4 rows", "row 2", "drop"]),
    "masked": ("", {"x": np.ma.masked_equal(2 * X2, 2)}, ValueError, ["4 of 4 rows", "masked"]),
    "strings": ("", {"x": X2.astype(str)}, ValueError, ["data['x'] has dtype <U", "real numbers"]),
    "objects": ("", {"x": X2.astype(object)}, ValueError, ["dtype object"]),
    "draws": ("", {"x": X2}, ValueError, ["draws=1", "at least 2"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_data(name: str) -> None:
    """Would catch wrong data that run, or a message without argument, value or remedy."""
    kind, data, error, parts = WRONG[name]
    with pytest.raises(error) as caught:
        latent.run(awkward(kind), data, draws=1 if name == "draws" else 2)
    for part in parts:
        assert part in str(caught.value)


def test_values_that_the_models_dtype_cannot_hold() -> None:
    """Would catch counts that are cut to whole numbers without a word."""
    with pytest.raises(ValueError, match=r"data\['counts'\].*0.5.*int64.*whole numbers"):
        read_data_rows(latent.survey(), {"counts": np.full((3, 2), 0.5)})


def picture(*dims: str, **coords: Any) -> xr.DataArray:
    """Five pictures of five pixels, whatever the order of the dimensions."""
    return xr.DataArray(np.zeros((5, 5)), dims=dims, coords=coords)


WRONG_LABELS = [
    pytest.param(picture("pixel", "image"), "put the data rows first", id="order"),
    pytest.param(picture("image", "pixel", pixel=latent.PIXELS[::-1]), "other labels", id="labels"),
    pytest.param(picture("estimator", "pixel"), "called 'estimator'.*rename", id="taken"),
]


@pytest.mark.parametrize(("value", "message"), WRONG_LABELS)
def test_wrong_labels(value: xr.DataArray, message: str) -> None:
    """Would catch labelled data that are read by position against their own labels."""
    with pytest.raises(ValueError, match=message):
        read_data_rows(latent.factor_analysis(np.zeros(5)), {"x": value})


def test_labels_that_differ_between_data() -> None:
    """Would catch rows that are paired by position although their labels say otherwise."""
    x = xr.DataArray(latent.PEOPLE["x"], dims=("person", "item"), coords={"person": np.arange(12)})
    counts = xr.DataArray(latent.PEOPLE["counts"], dims=("person", "time"))
    other = counts.assign_coords(person=np.arange(12)[::-1])
    for wrong in (other, counts.rename(person="image")):
        with pytest.raises(ValueError, match="same leading dimension and coordinate"):
            read_data_rows(latent.survey(), {"x": x, "counts": wrong})
    rows = read_data_rows(latent.survey(), {**latent.PEOPLE, "x": x, "counts": counts})
    assert rows.dim == "person"
    assert rows.values.shape == (12, 8)


def test_shapes_of_latent_variables_may_follow_the_shape_of_a_datum() -> None:
    """Would catch a refusal of dims that a data container defines."""
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(4), dims="obs")
        noise = pm.Normal("noise", 0, 1, dims="obs")
        pm.Normal("y", noise, 0.5, observed=x, dims="obs")
    rows = read_data_rows(model, {"x": np.ones((3, 4))})
    assert flatten_model(model, data=rows.names).n_dims == 4


@pytest.mark.parametrize("own", [2.0, 0.37])
def test_data_stand_in_for_what_was_observed_alone(own: float) -> None:
    """Would catch a number of the likelihood that changes with data, as it equals the model's own.

    PyMC has one constant for all that are equal.
    """
    with pm.Model() as model:
        z = pm.Normal("z")
        pm.Normal("y", 2.0 * z, 1.0, observed=own)
    assert read_data_rows(model, {"y": np.array([0.5])}).names == ("y",)
    stands_in = flatten_model(model, {"y": np.array(0.5)})
    brought = flatten_model(model, data=["y"])
    for flat, more in ((stands_in, [stands_in.inputs[0]]), (brought, [brought.data])):
        at = pytensor.function([flat.point, *more], flat.log_ratio, mode="FAST_COMPILE")
        given = 0.5 if more[0].ndim == 0 else [0.5]
        assert at([1.0], given) == pytest.approx(stats.norm.logpdf(0.5, 2.0, 1.0))
