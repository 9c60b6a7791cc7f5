"""Takes the posterior out of a tree, after checking that it is one of this model.

A tree may be transposed, sorted or selected from before it comes here; positions then say nothing,
and draws and data are put in the order in which the model has them, by dimensions and labels.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_logz.errors import warn
from pymc_logz.models.context import model_data
from pymc_logz.models.density import ROWS_PER_CALL, RowDensity
from pymc_logz.models.exact import exact_observations
from pymc_logz.models.flat import FlatModel, flatten_model, unconstrain
from pymc_logz.models.preparation import summed_out
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.rows import natural_shapes
from pymc_logz.paths.elliptical import check_enough
from pymc_logz.trees.chains import MIN_DRAWS_PER_CHAIN, check_chains, check_stored_density
from pymc_logz.trees.doubts import Doubt, doubts_of_tree, warn_of_doubts
from pymc_logz.trees.kinds import EXACT, KINDS, ROWS, SOME_DRAWS, kind_of
from pymc_logz.trees.layout import SAMPLES, with_dims

if TYPE_CHECKING:
    import pymc as pm


def posterior_of(tree: xr.DataTree, argument: str) -> xr.Dataset:
    """Group ``posterior`` of a tree that a user passed; raises if there is none."""
    kind_of(tree, argument)
    if "posterior" not in tree.children:
        raise ValueError(
            f"{argument} must be a DataTree with a group 'posterior'; it has "
            f"{sorted(tree.children)}"
        )
    return tree["posterior"].to_dataset()


@dataclass(frozen=True)
class PosteriorRows:
    """Draws of a posterior in the unconstrained space."""

    rows: np.ndarray
    """Shape (chains, draws, d)."""
    on_boundary: np.ndarray
    """Draws whose unconstrained value is infinite, shape (chains, draws)."""
    doubts: tuple[Doubt, ...] = ()
    """What speaks against the draws."""


def posterior_rows(
    tree: xr.DataTree, flat: FlatModel, resolution: np.ndarray | float = 0.0
) -> PosteriorRows:
    """Unconstrained draws of a tree's group ``posterior``; raises if they are not of this model."""
    # with standard deviations up to the resolution of a dimension chains cannot disagree in it
    posterior = posterior_of(tree, "tree")
    if KINDS[kind_of(tree)].draws != "posterior" or "log_weight" in posterior:
        raise ValueError(
            "the posterior was resampled from weighted particles, so draws repeat; the weights "
            "give a better log Z than a bridge: pymc_logz.evidence(tree)"
        )
    check_data(tree, flat)
    posterior = checked_variables(posterior, flat.model, flat.shapes)
    n_chains, n_draws = posterior.sizes["chain"], posterior.sizes["draw"]
    _check_draws(tree, n_chains, n_draws, flat.n_dims)
    rows = unconstrain(flat, posterior).reshape(n_chains, n_draws, flat.n_dims)
    on_boundary = ~np.all(np.isfinite(rows), axis=2)
    _check_boundary(rows, on_boundary, posterior, flat)
    doubts = [*doubts_of_tree(tree), *check_chains(rows, on_boundary, flat, resolution)]
    warn_of_doubts(doubts)
    return PosteriorRows(rows, on_boundary, tuple(doubts))


def checked_variables(
    posterior: xr.Dataset,
    model: "pm.Model",
    known: Collection[str] = (),
    *,
    what: str = "the posterior",
) -> xr.Dataset:
    """Free variables of a posterior as the model has them, refused if others."""
    names = sorted(rv.name for rv in model.free_RVs)
    missing = sorted(set(names) - set(map(str, posterior)))
    if missing:
        raise ValueError(
            f"{what} has no variable {missing} (it has {sorted(map(str, posterior))}), so "
            "it is of another model or was stored without them; keep all free variables, such as "
            "Bambi's fit(omit_offsets=False)"
        )
    unknown = sorted(set(map(str, posterior)) - set(model.named_vars) - set(known) - {"log_weight"})
    if known and unknown:
        warn(
            f"{what} has variables {unknown} that the model does not know: if they were "
            "not computed afterwards, the posterior is of another model"
        )
    found = aligned(posterior, model, names, what=what)
    shapes = natural_shapes(model)
    for name in names:
        shape = found[name].shape[2:]
        if shape != shapes[name]:
            raise ValueError(
                f"the draws of {name!r} have shape {shape}, but the model has {shapes[name]}: "
                f"{what} is of another model, or the data have changed since"
            )
    return found


def checked_draws(tree: xr.DataTree, model: "pm.Model", argument: str) -> xr.DataTree:
    """Draws that a user passed as this argument, as the model has them; nothing is compiled."""
    what = f"{argument}['posterior']"
    found = checked_variables(posterior_of(tree, argument), model, what=what)
    flat = flatten_model(model)
    check_data(tree, flat)
    rows = unconstrain(flat, found)
    bad = ~np.isfinite(rows)
    if np.any(bad):
        variable = flat.owners[int(np.argmax(bad.sum(axis=0)))]
        raise ValueError(
            f"{what} has {bad.any(axis=1).sum()} of {len(rows)} draws that are not finite, or on "
            f"the boundary of the support of {variable!r}; leave them out"
        )
    if argument == "reference":
        check_enough(rows)
    return xr.DataTree.from_dict({"posterior": found})


def checked_reference(
    reference: "str | xr.DataTree | None", model: "pm.Model"
) -> "str | xr.DataTree | None":
    """What a path starts from: draws as of `checked_draws`, or what else it may be."""
    if not isinstance(reference, xr.DataTree):
        return reference
    return checked_draws(reference, model, "reference")


def check_same_model(
    tree: xr.DataTree, model: "pm.Model", compile_kwargs: Mapping[str, Any] | None = None
) -> None:
    """A ValueError if a tree has log Z of other data or of another density than the model's now."""
    if exact_observations(model):  # it has no density of rows
        return
    kind, flat = kind_of(tree), flatten_model(model, integers=True)
    check_data(tree, flat)
    of_others = KINDS[kind].material == ROWS
    if SOME_DRAWS in tree.children:
        some = tree[SOME_DRAWS].to_dataset()
        stats = xr.Dataset({"lp": (SAMPLES, np.reshape(some.attrs["lp"], (1, -1)))})
        parts = {"posterior": some, "sample_stats": stats}
        tree = tree.assign({name: xr.DataTree(part) for name, part in parts.items()})
    if "posterior" not in tree.children or (flat.sites and of_others):
        return
    posterior = checked_variables(tree["posterior"].to_dataset(), model)
    settings = {} if of_others else json.loads(tree.attrs.get("settings", "{}"))
    if flat.sites and kind != EXACT and settings.get("summed_out"):
        part = summed_out(flat)
        flat = part if isinstance(part, FlatModel) else flat
    density, rows = RowDensity(flat, compile_kwargs), unconstrain(flat, posterior)
    looked_at = np.linspace(0, len(rows) - 1, min(len(rows), ROWS_PER_CALL), dtype=int)
    looked_at = looked_at[np.isfinite(rows[looked_at]).all(axis=1)]

    def log_target() -> np.ndarray:
        found = np.full(len(rows), np.nan)
        found[looked_at] = density.log_target(rows[looked_at])
        return found.reshape(posterior.sizes["chain"], posterior.sizes["draw"])

    # the constant is that of the model, unless another sampler left one out, or a prior that is
    # restricted, which step methods do not note, was renormalised
    has_constant = not of_others and settings.get("prior_finite_share", 1.0) == 1.0
    if has_constant and "prior_finite_share" not in settings:
        has_constant = PriorDraws(model, needed=False).log_mass()[0] == 0.0
    again, own = log_target if has_constant else None, log_target()
    check_stored_density(tree, own, flat.log_turns(rows).reshape(own.shape), again)


def check_data(tree: xr.DataTree, flat: FlatModel) -> None:
    """A ValueError if the data that a tree holds are not those that the model has now."""
    observed, constant = model_data(flat.model, flat.observed)
    for group, data in (("observed_data", observed), ("constant_data", constant)):
        if group not in tree.children:
            continue
        present = tree[group].to_dataset()
        names = [str(name) for name in present.data_vars if name in data]
        what = f"the group {group!r}"
        stored = aligned(present, flat.model, names, samples=(), what=what)
        for name in names:
            if not _same(np.asarray(stored[name]), np.asarray(data[name])):
                raise ValueError(
                    f"the draws were made with other data: {name!r} in the group {group!r} is "
                    "not what the model has now. Set it back (pm.set_data), or sample again"
                )


def _same(stored: np.ndarray, own: np.ndarray) -> bool:
    if stored.shape != own.shape:
        return False
    if stored.dtype.kind in "fiub" and own.dtype.kind in "fiub":
        # a file may hold single precision
        return bool(np.allclose(stored, own, rtol=1e-5, atol=1e-8, equal_nan=True))
    return bool(np.all(stored == own))


def _check_draws(tree: xr.DataTree, n_chains: int, n_draws: int, n_dims: int) -> None:
    """Whether there are enough draws, of several chains, none of them of the warm-up."""
    # fewest draws to fit a proposal to; in many dimensions two for each
    wanted = max(100, 2 * n_dims)
    if n_draws < MIN_DRAWS_PER_CHAIN or n_chains * n_draws < wanted:
        raise ValueError(
            f"the posterior has {n_chains} chains of {n_draws} draws; a bridge in {n_dims} "
            f"dimensions needs at least {wanted} draws, {MIN_DRAWS_PER_CHAIN} in each chain. "
            "Sample more, such as pm.sample(draws=1000)"
        )
    if n_chains == 1:
        warn(
            "the posterior has only one chain, so convergence cannot be checked; use "
            "pm.sample(chains=4)"
        )
    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree.children else {}
    for flag in ("tune", "tuning"):  # as PyMC and nutpie call it
        if flag in stats and stats[flag].dtype.kind == "b" and bool(stats[flag].any()):
            n_tune = int(stats[flag].sum("draw").max())
            raise ValueError(
                f"the posterior still has its warm-up (sample_stats[{flag!r}] is true for "
                f"{n_tune} draws of a chain), which are not draws of the posterior; leave them "
                f"out: tree.isel(draw=slice({n_tune}, None))"
            )


def _check_boundary(
    rows: np.ndarray, on_boundary: np.ndarray, posterior: xr.Dataset, flat: FlatModel
) -> None:
    share = float(on_boundary.mean())
    if share == 0:
        return
    variable = flat.owners[int(np.argmax(np.sum(~np.isfinite(rows), axis=(0, 1))))]
    if not np.all(np.isfinite(posterior[variable])):
        raise ValueError(f"the draws of {variable!r} are not all finite; sample the model again")
    message = (
        f"{on_boundary.sum()} of {on_boundary.size} draws of {variable!r} lie on the boundary of "
        "its support, where its unconstrained value is infinite"
    )
    if share > 0.01:  # rounding puts a few draws there, and no more
        raise ValueError(
            f"{message}: either they were rounded when stored, or the posterior is piled up there. "
            "Keep double precision, or use a prior that stays away from the boundary"
        )
    warn(f"{message}; they count as draws where the proposal is zero")


def aligned(
    dataset: xr.Dataset,
    model: "pm.Model",
    names: Collection[str],
    *,
    samples: Sequence[str] = SAMPLES,
    what: str = "the posterior",
) -> xr.Dataset:
    """Those of some variables that the dataset has, dimensions and entries as in the model."""
    if samples:
        dataset = with_dims(dataset, samples, what)
    found = {}
    for name in names:
        if name not in dataset:
            continue
        array = dataset[name]
        if missing := [dim for dim in samples if dim not in array.dims]:
            raise ValueError(f"{what} has {name!r} without the dimension {missing}; sample again")
        found[name] = _as_in_model(array, model, name, samples, what)
    coords = {dim: dataset[dim] for dim in samples if dim in dataset.coords}
    # under dimensions of their own, since each has its entries in an order of its own
    return xr.Dataset(found, coords=coords)


def _as_in_model(
    array: xr.DataArray, model: "pm.Model", name: str, samples: Sequence[str], what: str
) -> xr.DataArray:
    stored = [str(dim) for dim in array.dims if dim not in samples]
    named = tuple(model.named_vars_to_dims.get(name) or ())
    if len(named) != len(stored):
        named = (None,) * len(stored)
    # those without a name as ArviZ calls them
    own = [f"{name}_dim_{i}" if dim is None else str(dim) for i, dim in enumerate(named)]
    # in the model's order; those that it does not know fill the gaps
    unknown = iter([dim for dim in stored if dim not in own])
    ordered = [dim if dim in stored else next(unknown) for dim in own]
    array = array.transpose(*samples, *ordered)
    for dim, own_dim in zip(array.dims[len(samples) :], own, strict=True):
        if dim == own_dim and dim in array.coords:
            given = model.coords.get(own_dim)
            where = f"{what}, {name!r}, dimension {dim!r}"
            array = array.isel({dim: _order(np.asarray(array[dim]), given, where)})
    values = array.to_numpy()
    return xr.DataArray(values, dims=[*samples, *(f"{name}_{i}" for i in range(len(own)))])


def _order(labels: np.ndarray, given: Sequence[object] | None, where: str) -> np.ndarray:
    """Positions of the stored entries that make the model's order."""
    for same in (list, _as_text) if given is not None else ():
        here, there = (pd.Index(same(one), dtype=object) for one in (labels, given or ()))
        if here.equals(there):
            return np.arange(len(here))
        if here.is_unique and there.is_unique and set(here) == set(there):
            return here.get_indexer(there)
    # what has no labels of a model's own is counted from zero, or from one
    first = labels.min() if labels.dtype.kind in "iu" and labels.size else -1
    if first in (0, 1) and np.array_equal(np.sort(labels) - first, np.arange(labels.size)):
        return np.argsort(labels)
    if given is None:
        return np.arange(labels.size)
    stored, own = set(_as_text(labels)), set(_as_text(given))
    differing = {"missing": own - stored, "not in the model": stored - own}
    found = [f"{what}: {sorted(names)[:5]}" for what, names in differing.items() if names]
    raise ValueError(
        f"these draws look like those of another model: {where}, has labels that are not those of "
        f"the model ({'; '.join(found) or 'some repeat'}). Keep the tree whole, or give it the "
        "model's labels (assign_coords)"
    )


def _as_text(labels: Iterable[object]) -> list[str]:
    """Labels as text, since a file may hold dates and numbers in another type."""
    dated = (np.datetime64(one, "ns") if hasattr(one, "day") else one for one in labels)  # type: ignore[call-overload]
    return [str(one) for one in dated]
