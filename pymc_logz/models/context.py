"""The model that a user means, its labels, and messages for arguments that changed places."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import partial, wraps
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor
from pymc.backends.arviz import coords_and_dims_for_inferencedata, find_constants, find_observations
from pymc.model.transform.conditioning import change_value_transforms

from pymc_logz.errors import ModelError
from pymc_logz.models.cache import kept_for
from pymc_logz.models.flat import FlatModel, constrain, function_of_rows
from pymc_logz.models.guards import ONE_TURN, is_circular
from pymc_logz.models.known_priors import n_factored
from pymc_logz.models.labelled import in_tensors, is_labelled
from pymc_logz.paths.geometric import AnnealingPath, most_values


class ForeignModel:
    """A target with a path and runs of its own, for which samplers have a place but no code.

    Whoever adds a kind of target inherits from it, so that what is common to all targets needs to
    know none of them.
    """

    name: str
    path: AnnealingPath
    summable: ClassVar[tuple[str, ...]] = ()
    """Variables that are summed out of a density where they are not given."""

    @property
    def runs(self) -> Any:
        """How it is sampled: a module of a wing.

        It has ``KERNELS``, which a checkpoint may hold; ``checked``, to a kernel and a reference
        from what was asked for; ``between``, to what runs from other targets, if anything;
        ``run_hais`` and ``run_tempered``, to a tree; and ``followed``, what a tracker follows.
        """
        raise NotImplementedError

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of its variables by name."""
        raise NotImplementedError

    def log_density(self, values: Mapping[str, Any]) -> np.ndarray:
        """Log of the unnormalised density of values by name, `summable` ones or not, (n,)."""
        raise NotImplementedError


def model_from(model: Any, call: str) -> pm.Model:
    """The model given, or that on the context stack; a TypeError says how ``call`` is meant."""
    if model is None:
        model = pm.Model.get_context(error_if_none=False)
        if model is None:
            raise TypeError(f"model is missing: write {call}, or call it inside `with model:`")
    model = pymc_model_of(model)
    check_is_model(model, call)
    return model


def check_is_model(model: Any, call: str) -> None:
    """Raise a TypeError for what is no PyMC model, which says how ``call`` is meant."""
    if not is_model(model):
        kind = type(model).__name__
        raise TypeError(f"model is of type {kind}, but must be a pm.Model: write {call}")


def pymc_model_of(given: Any) -> Any:
    """The PyMC model inside a model of Bambi, if it is built; else what was given.

    Of a model with variables of `pymc.dims` it is a copy of plain tensors. Values of angles that
    PyMC lets wrap around have infinite mass: of a model with such angles it is a copy with the same
    names, data and density, in which they have one turn.
    """
    if type(given).__module__.partition(".")[0] == "bambi":
        given = getattr(getattr(given, "backend", None), "model", None)
        if given is None:
            raise TypeError("this Bambi model has no PyMC model yet: call its method build() first")
    if not isinstance(given, pm.Model):
        return given
    given = without_labels(given)
    angles = [rv.name for rv in given.free_RVs if is_circular(given.rvs_to_transforms[rv])]
    if not angles:
        return given
    kept = kept_for(given)
    kept.bake_in(given.data_vars)  # of which PyMC makes copies
    copied = partial(change_value_transforms, vars_to_transforms=dict.fromkeys(angles, ONE_TURN))
    return kept.get("one turn", lambda: without_initial_values(given, copied))


def without_labels(model: pm.Model) -> pm.Model:
    """The same model, or one of plain tensors if it has variables of `pymc.dims`."""
    if not any(map(is_labelled, model.named_vars.values())):
        return model
    return kept_for(model).get("in tensors", lambda: in_tensors(model))


def without_initial_values[Made](model: pm.Model, copied: Callable[[pm.Model], Made]) -> Made:
    """A copy of a model, without the initial values, that PyMC does not copy."""
    initial = dict(model.rvs_to_initial_values)
    model.rvs_to_initial_values.update(dict.fromkeys(initial))
    try:
        return copied(model)
    finally:
        model.rvs_to_initial_values.update(initial)


def is_model(argument: Any) -> bool:
    """Whether an argument is a PyMC model."""
    return isinstance(argument, pm.Model)


def written_as[**P, R](call: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator of what users call: arguments that do not fit say how it is meant to be written."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = signature(function)

        @wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                given = parameters.bind(*args, **kwargs).arguments
            except TypeError as error:
                failed = str(error)
            else:
                check_compile_kwargs(given.get("compile_kwargs"))
                return function(*args, **kwargs)
            name = call.partition("(")[0]
            check_known(name, function, kwargs)
            raise TypeError(f"{name}() {failed}: write {call}")

        return wrapped

    return decorate


def check_compile_kwargs(given: Any) -> None:
    """Raise a TypeError for ``compile_kwargs`` that ``pytensor.function`` does not take."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(
            f"compile_kwargs={given!r} must be a dict of keyword arguments of pytensor.function, "
            "such as {'mode': 'NUMBA'}"
        )
    check_known(f"compile_kwargs={given!r}: pytensor.function", pytensor.function, given or ())


SYNONYMS = {"seed": "random_seed", "n_temperatures": "betas", "trace": "idata"}
"""Names that other libraries use, where the spelling shows no likeness."""


def check_known(
    call: str,
    function: Callable[..., Any],
    given: Iterable[str],
    others: Iterable[Callable[..., Any]] = (),
) -> None:
    """Raise a TypeError for keywords that a function does not take, which ``call`` was given.

    Those of ``others`` are named with them.
    """
    known = signature(function).parameters
    for name in () if "kwargs" in known else given:
        if name not in known:
            synonym = SYNONYMS.get(name)
            close = [synonym] if synonym in known else get_close_matches(name, known, 1)
            meant = f" (did you mean {close[0]!r}?)" if close else ""
            for other in others:
                if name in signature(other).parameters:
                    meant = f": it is one of {other.__name__}(), whose tree {call}() takes too"
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}{meant}")


def check_no_model(call: str, **given: Any) -> None:
    """Raise a TypeError for an argument that is a model, or some, in the place of others."""
    for name, value in given.items():
        if isinstance(value, pm.Model | ForeignModel):
            kind = "pm.Model" if is_model(value) else type(value).__name__
            raise TypeError(f"{name} is a {kind}: write {call}")
        parts = list(value.values()) if isinstance(value, Mapping) else value
        if isinstance(parts, list | tuple) and parts and all(map(is_model, parts)):
            raise TypeError(f"{name} are models: write lz.evidence_of_models(models) first")


def describe_row(flat: FlatModel, row: np.ndarray) -> str:
    """Parameter values of one row on their natural scale, for messages."""
    values = constrain(flat, row[None], [rv.name for rv in flat.model.free_RVs])
    with np.printoptions(precision=4, threshold=6):
        return ", ".join(f"{name}={_rounded(value[0])}" for name, value in values.items())


def _rounded(value: Any) -> Any:
    """A floating-point number to four digits; anything else as it is."""
    return float(f"{value:.4g}") if isinstance(value, np.floating) else value


def check_infinite(flat: FlatModel, rows: np.ndarray, log_ratio: np.ndarray) -> None:
    """Raise a ModelError if the likelihood of one of these rows (n, d) is infinite."""
    if np.any(log_ratio == np.inf):
        where = describe_row(flat, rows[int(np.argmax(log_ratio == np.inf))])
        raise ModelError(
            "the likelihood (or a potential) is infinite, by a pole or by rounding, at "
            f"{where}, so log Z is infinite; bound it away from there"
        )


def nowhere_finite(flat: FlatModel, rows: np.ndarray) -> str:
    """Message for rows (n, d) without a finite density, with its first bad entries at one row."""
    model, row, entries, bad_data = flat.model, rows[:1], [], []
    if flat.summed is not None:
        row = flat.summed.filled(row, np.random.default_rng(0))
    terms, data = [*model.observed_RVs, *model.potentials], find_observations(model)
    with suppress(Exception):  # of what is computed by another way than the run, for a hint alone
        values = function_of_rows(model, model.logp(terms, sum=False))(row)
        for term, (value,) in zip(terms, values, strict=True):
            for at in map(tuple, np.argwhere(~np.isfinite(value))[:1].tolist()):
                entry, observed = f"{term.name}{list(at) or ''}", data.get(term.name)
                if np.shape(observed) == value.shape and observed is not None:
                    datum = np.asarray(observed)[at]
                    entry += f"={_rounded(datum)}"
                    bad_data += [] if np.isfinite(datum) else [entry]
                entries.append(f"{entry} is {value[at]}")
    if bad_data:
        return f"the observed data contain inf or NaN: {', '.join(bad_data)}"
    where = f", where the log density of {', '.join(entries)}" if entries else ""
    return (
        f"the likelihood (with potentials) is zero or NaN at all of {len(rows):,} prior draws (for "
        f"example {describe_row(flat, rows[0])}{where}): the data are outside the support of the "
        "likelihood, or possible in a tiny part of the prior only (start from posterior draws: "
        "reference=), a covariate or an expression is NaN, or the prior is too far from the data"
    )


def model_labels(model: pm.Model) -> dict[str, Any]:
    """``coords`` and ``dims`` of a model's variables, as xarray's makers of datasets take them."""
    coords, dims = coords_and_dims_for_inferencedata(model)
    return {"coords": dict(coords), "dims": dims}


def n_data(flat: FlatModel) -> int:
    """How many numbers were observed."""
    return sum(np.size(data) for data in model_data(flat.model, flat.observed)[0].values())


def n_numbers(flat: FlatModel, of_call: int = 2**13) -> int:
    """About how many numbers go into the density of a row: a measure of what it costs.

    A black box counts as so many, which take a few microseconds.
    """
    # all data come in as often as a discrete variable that is summed out has values
    summed = () if flat.summed is None else flat.summed.plan.whole.sites
    n_own = most_values(summed) * n_data(flat) + flat.n_dims + n_factored(flat.model) ** 3
    return n_own + of_call * flat.calls_host


def n_affordable(flat: FlatModel, n_rows: int, most: int, n_gradients: int = 1) -> int:
    """Rows to look at, in portions of so many: the most, or fewer where one costs too much."""
    # so many numbers take no time that a user would notice
    portions = 2**22 // (n_numbers(flat) * n_gradients) // n_rows
    return n_rows * int(np.clip(portions, 1, max(1, most // n_rows)))


def model_data(
    model: pm.Model, observed: Mapping[str, np.ndarray] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Observed data, or what stands in for them, and constant data of a model by name."""
    return {**find_observations(model), **(observed or {})}, find_constants(model)
