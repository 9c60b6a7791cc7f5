"""What is compiled for a model is kept: used again where it fits, never where it does not."""

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from support.compilations import counted_compilations

from pymc_logz.models.cache import decide_on_shapes, kept_for
from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import FlatModel, constrain, flatten_model
from pymc_logz.models.preparation import prepare
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.rows import own_data, starting_point

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
X = np.array([0.3, -1.2, 0.7, 2.0])
Y = np.array([1.0, 0.0, 2.0, 3.0])
FAST = {"mode": "FAST_COMPILE"}


def regression(x: Any = X, y: Any = Y) -> pm.Model:
    """Three parameters, with covariates and observations in containers."""
    with pm.Model() as model:
        x, y = pm.Data("x", x), pm.Data("y_data", y)
        slope = pm.Normal("slope", 0, 2)
        sigma = pm.HalfNormal("sigma", 3)
        pm.Deterministic("mean", slope * x)
        pm.Normal("y", slope * x, sigma, observed=y)
    return model


def numbers(model: pm.Model) -> list[np.ndarray]:
    """What depends on the model: densities, draws of the prior, and named values at fixed rows."""
    flat, prior = flatten_model(model), PriorDraws(model)
    rows = np.random.default_rng(3).normal(size=(5, flat.n_dims))
    values = constrain(flat, rows)
    return [
        *RowDensity(flat, FAST)(rows),
        prior(np.random.default_rng(4), 6),
        *(values[name] for name in sorted(values)),
        *(np.asarray(own_data(model, var.name)) for var in model.data_vars),
    ]


def assert_as_fresh(changed: pm.Model, fresh: pm.Model) -> None:
    """Numbers of a model that was used and then changed are those of one that is like that."""
    got, expected = numbers(changed), numbers(fresh)
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        # the same operations on the same numbers
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_the_same_model_is_compiled_once() -> None:
    """Catches a fingerprint that differs from itself, and whatever is compiled past it."""
    model = regression()
    numbers(model)
    with counted_compilations() as again:
        numbers(model)
        prepare(model, np.random.default_rng(1))
    assert again.total == 0


def test_new_data_of_the_same_shape_compile_nothing() -> None:
    """Catches data that became constants of a graph, and numbers of the old data."""
    model = regression()
    numbers(model)
    with counted_compilations() as again:
        with model:
            pm.set_data({"x": 2 * X, "y_data": Y + 1})
        numbers(model)
    assert again.total == 0
    assert_as_fresh(model, regression(2 * X, Y + 1))


def test_data_of_another_shape_are_taken() -> None:
    """Catches graphs of the old length."""
    model = regression()
    numbers(model)
    pm.set_data({"x": X[:3], "y_data": Y[:3]}, model=model)
    assert_as_fresh(model, regression(X[:3], Y[:3]))


def test_a_variable_is_added() -> None:
    """Catches densities and draws without it."""

    def add(model: pm.Model) -> pm.Model:
        with model:
            pm.Exponential("rate", 2)
        return model

    model = regression()
    numbers(model)
    assert_as_fresh(add(model), add(regression()))


def test_a_deterministic_is_added() -> None:
    """Catches names that are looked up in an old list."""

    def add(model: pm.Model) -> pm.Model:
        with model:
            pm.Deterministic("square", model["slope"] ** 2)
        return model

    model = regression()
    numbers(model)
    assert_as_fresh(add(model), add(regression()))


def test_a_potential_is_added() -> None:
    """Catches a log ratio without it."""

    def add(model: pm.Model) -> pm.Model:
        with model:
            pm.Potential("penalty", -(model["slope"] ** 4))
        return model

    model = regression()
    numbers(model)
    add(model)
    with pytest.warns(UserWarning, match="penalty"):
        numbers(model)
    with pytest.warns(UserWarning, match="penalty"):
        assert_as_fresh(model, add(regression()))


def test_a_transform_is_replaced() -> None:
    """Catches Jacobians and draws of the old one."""

    def change(model: pm.Model) -> pm.Model:
        sigma = model["sigma"]
        value = sigma.type(name="sigma_interval__")
        old = model.rvs_to_values[sigma]
        model.rvs_to_transforms[sigma] = pm.distributions.transforms.Interval(0, None)
        del model.values_to_rvs[old]
        model.rvs_to_values[sigma], model.values_to_rvs[value] = value, sigma
        return model

    model = regression()
    numbers(model)
    assert_as_fresh(change(model), change(regression()))


def fixed(x: np.ndarray, y: np.ndarray) -> pm.Model:
    """A regression on a user's own arrays, which PyTensor's constants are views of."""
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 2)
        pm.Deterministic("mean", slope * x)
        pm.Normal("y", slope * x, 1, observed=y)
    return model


def test_an_observed_constant_is_replaced() -> None:
    """Catches a likelihood of the old observations."""
    model = fixed(X.copy(), Y)
    numbers(model)
    rv = model["y"]
    old, new = model.rvs_to_values[rv], pt.constant(Y + 1, name="y")
    model.rvs_to_values[rv] = new
    model.values_to_rvs[new] = model.values_to_rvs.pop(old)
    assert_as_fresh(model, fixed(X, Y + 1))


def test_arrays_are_changed_in_place() -> None:
    """Catches constants that are told by their identity: they are views of the user's arrays."""
    x = X.copy()
    model = fixed(x, Y)
    numbers(model)
    x[:2] += 1.0
    assert_as_fresh(model, fixed(x.copy(), Y))
    model.rvs_to_values[model["y"]].data[0] = 5.0
    assert_as_fresh(model, fixed(x.copy(), np.array([5.0, *Y[1:]])))


def test_an_array_inside_a_density_is_changed_in_place() -> None:
    """Catches constants that only the density knows, not the graph of the variables."""

    def centred_at(centre: np.ndarray) -> pm.Model:
        def log_density(value: Any) -> Any:
            return -0.5 * ((value - centre) ** 2).sum() - np.log(2 * np.pi)

        def draw(rng: Any = None, size: Any = None) -> np.ndarray:
            return rng.normal(size=(*(size or ()), 2))

        with pm.Model() as model:
            x = pm.CustomDist("x", logp=log_density, random=draw, shape=2)
            pm.Normal("y", x, 1, observed=np.zeros(2))
        return model

    centre = np.array([0.5, -0.5])
    model = centred_at(centre)
    rows = np.array([[0.1, 0.2]])
    before = RowDensity(flatten_model(model), FAST)(rows)[0]
    centre[:] = 2.0
    after = RowDensity(flatten_model(model), FAST)(rows)[0]
    fresh = RowDensity(flatten_model(centred_at(centre)), FAST)(rows)[0]
    assert before != after
    assert after == fresh


def test_dimensions_change_their_lengths() -> None:
    """Catches rows of the old length where nothing but a length of a dimension has changed."""

    def grouped(n: int) -> pm.Model:
        with pm.Model(coords={"group": list(range(n))}) as model:
            effect = pm.Normal("effect", 0, 1, dims="group")
            pm.Normal("y", effect.sum(), 1, observed=Y)
        return model

    with pm.Model() as model:
        model.add_coord("group", length=pytensor.shared(np.array(3)))
        effect = pm.Normal("effect", 0, 1, dims="group")
        pm.Normal("y", effect.sum(), 1, observed=Y)
    assert_as_fresh(model, grouped(3))
    model.set_dim("group", 5, list(range(5)))
    assert_as_fresh(model, grouped(5))
    # whatever was asked for first
    for n, ask in ((4, starting_point), (6, PriorDraws), (2, flatten_model)):
        model.set_dim("group", n, list(range(n)))
        ask(model)
        model.set_dim("group", n + 1, list(range(n + 1)))
        assert_as_fresh(model, grouped(n + 1))


def test_data_that_decide_on_a_shape_are_baked_in() -> None:
    """Catches a number of terms that stays what it was, and JAX graphs of unknown shape."""

    def sums(n: int) -> pm.Model:
        with pm.Model() as model:
            n_terms = pm.Data("n_terms", n)
            slope = pm.Normal("slope")
            pm.Normal("y", slope * pt.arange(n_terms).sum(), 1, observed=Y)
        return model

    model = sums(3)
    numbers(model)
    pm.set_data({"n_terms": 5}, model=model)
    assert_as_fresh(model, sums(5))
    rows = np.array([[0.4]])
    density = RowDensity(flatten_model(model))
    assert density.compiled.backend == "jax"
    assert density(rows)[1] == pytest.approx(RowDensity(flatten_model(sums(5)), FAST)(rows)[1])


def test_which_data_decide_on_shapes() -> None:
    """Catches indices and counts that would be baked in, and lengths that would not be."""
    index, length, mask = (
        pytensor.shared(np.array(value)) for value in ([0, 2, 1], 3, [True, False, True])
    )
    vector = pt.vector("vector")
    outputs = {
        index: vector[index] * index,
        length: pt.ones(length) * length,
        mask: vector[mask],
    }
    assert decide_on_shapes(list(outputs), list(outputs.values())) == {length, mask}
    switched = pt.switch(mask, vector, length * 1.0).sum()
    assert decide_on_shapes([mask, length], [switched]) == set()


@pytest.mark.parametrize("change", ["float32 data", "floatX"])
def test_types_change(change: str) -> None:
    """Catches functions of the old types."""
    model = regression()
    kept = kept_for(model)
    if change == "floatX":
        with pytensor.config.change_flags(floatX="float32"):
            assert kept_for(model) is not kept
    else:
        model["x"].set_value(X[:2])
        assert kept_for(model) is not kept


def test_nothing_outlives_the_model() -> None:
    """Catches a table or a compiled function that holds the model, or what was compiled for it."""
    model = regression()
    numbers(model)
    density = RowDensity(flatten_model(model))
    density(np.zeros((1, 2)))
    watched = [weakref.ref(thing) for thing in (model, kept_for(model), density.flat.point)]
    del model, density
    gc.collect()
    assert [ref() for ref in watched] == [None, None, None]


def test_copies_and_pickles_start_with_nothing() -> None:
    """Catches a model that cannot travel, or that takes along what fits another."""
    model = regression()
    numbers(model)
    there = cloudpickle.loads(cloudpickle.dumps(model))
    for other in (there, copy.deepcopy(model), model.copy()):
        assert kept_for(other) is not kept_for(model)
        rows = np.zeros((1, 2))
        expected = RowDensity(flatten_model(model), FAST)(rows)
        np.testing.assert_allclose(RowDensity(flatten_model(other), FAST)(rows), expected)
    assert pickle.loads(pickle.dumps(kept_for(model))).get("x", lambda: 1) == 1


def test_threads_may_ask_at_once() -> None:
    """Catches inputs of one caller in the function of another.

    What several threads ask for first, while a model is still being looked at, may be made by more
    than one of them: that costs time, not truth.
    """
    model, made = regression(), []
    rows = {i: np.random.default_rng(i).normal(size=(40, 2)) for i in range(8)}
    expected = {i: numbers_at(flatten_model(regression()), part) for i, part in rows.items()}
    found: dict[int, Any] = {}

    def work(i: int) -> None:
        kept_for(model).get("thing", lambda: made.append(i))
        for _ in range(5):
            found[i] = numbers_at(flatten_model(model), rows[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made
    for i in rows:
        for one, other in zip(found[i], expected[i], strict=True):
            np.testing.assert_array_equal(one, other)


def numbers_at(flat: FlatModel, rows: np.ndarray) -> list[np.ndarray]:
    """Densities and values of rows, and draws of the prior made of them."""
    seed = int(1000 * abs(rows[0, 0]))
    values = constrain(flat, rows)
    draws = PriorDraws(flat.model)(np.random.default_rng(seed), 20)
    return [*RowDensity(flat, FAST)(rows), *(values[name] for name in sorted(values)), draws]


def test_what_cannot_be_a_key_is_made_anew() -> None:
    """Catches settings with arrays, which cannot be compared, and things taken for others."""
    kept = kept_for(regression())
    make: Callable[[], object] = object
    assert kept.get(("a", np.ones(2).tobytes()), make) is kept.get(
        ("a", np.ones(2).tobytes()), make
    )
    assert kept.get(["a"], make) is not kept.get(["a"], make)  # type: ignore[arg-type]
