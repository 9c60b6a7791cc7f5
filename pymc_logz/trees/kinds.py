"""What a tree is: written at its root when it is made, and read here.

Every tree of this package has two attributes at its root, `KIND` and `LAYOUT`. A tree of
``pm.sample`` has neither: its step method is known by the statistics that it alone declares
(`STEP_STATISTICS`), and without one of those it is a posterior from elsewhere. Everything that
depends on what a tree is asks `KINDS`, not which groups happen to be there.
"""

from collections.abc import Collection
from os import PathLike
from typing import Any, NamedTuple

import xarray as xr

from pymc_logz.models.context import check_no_model

KIND, LAYOUT = "pymc_logz_kind", "pymc_logz_layout"
LAYOUT_VERSION = 1
"""One more each time that a group, a name or a dimension changes its meaning."""

HAIS, HAIS_BOTH, PER_DATUM = "hais", "hais_both", "per_datum"
TEMPERED, TEMPERED_SUMS = "tempered", "tempered_sums"
TRACKED, TRACKED_MOMENT = "tracked", "tracked_moment"
BRIDGED, MANIFOLD_BRIDGED = "bridged", "manifold_bridged"
HAIS_STEP, TEMPERED_STEP, CONSTRAINED_STEP = "hais_step", "tempered_step", "constrained_step"
HMC, IMPORTANCE, ABC = "hmc", "importance", "abc"
POSTERIOR, OTHER = "posterior", "other"
EXACT = "exact"

LOG_WEIGHTS = "log weights"
LEVELS = "levels"
ROWS = "rows"
STORED = "stored"


class Kind(NamedTuple):
    """What log Z of a tree is made of, and where that is."""

    made_by: str
    """What makes such trees."""
    material: str
    """What a fresh log Z is made of: `LOG_WEIGHTS` of independent rows; `LEVELS` and log ratios of
    tempered draws; `ROWS` of a posterior, along with its model; or none, and it stays as it is
    `STORED`."""
    held_in: str
    """Group that holds it."""
    draws: str | None = "posterior"
    """Group of the draws that stand for the posterior best; those of another than ``posterior``
    have a ``log_weight``."""


KINDS = {
    HAIS: Kind("sample_hais", LOG_WEIGHTS, "weighted_posterior", "weighted_posterior"),
    HAIS_BOTH: Kind("sample_hais(direction='both')", STORED, "evidence", "weighted_posterior"),
    PER_DATUM: Kind("marginal_log_likelihood", STORED, "evidence", None),
    TEMPERED: Kind("sample_tempered", LEVELS, "tempering", "tempered_posterior"),
    TEMPERED_SUMS: Kind("sample_tempered(keep='sums')", STORED, "evidence", None),
    TRACKED: Kind("LogZTracker.tree", STORED, "evidence", None),
    TRACKED_MOMENT: Kind("LogZTracker.update", STORED, "evidence", "tempered_posterior"),
    BRIDGED: Kind("bridge_sampling", ROWS, "posterior"),
    MANIFOLD_BRIDGED: Kind("bridge_sampling of exact observations", ROWS, "posterior"),
    HAIS_STEP: Kind("pm.sample(step=HAIS())", LOG_WEIGHTS, "sample_stats"),
    TEMPERED_STEP: Kind("pm.sample(step=SimulatedTempering())", LEVELS, "sample_stats"),
    CONSTRAINED_STEP: Kind("pm.sample(step=ConstrainedHMC())", ROWS, "posterior"),
    HMC: Kind("sample_hmc", ROWS, "posterior"),
    IMPORTANCE: Kind("importance_sampling", STORED, "evidence", "weighted_posterior"),
    EXACT: Kind("sample_hais(sum_out=True) of discrete variables alone", STORED, "evidence"),
    ABC: Kind("abc_rejection, abc_mcmc or abc_slice", STORED, "evidence"),
    POSTERIOR: Kind("another sampler", ROWS, "posterior"),
    OTHER: Kind("a source that left no posterior", STORED, "evidence", None),
}
"""The one table that `pymc_logz.evidence`, the bridge, the sensitivity and the figures go by."""

STEP_STATISTICS = {
    HAIS_STEP: {"log_weight", "log_ratio", "accepted"},
    TEMPERED_STEP: {"walker_level", "walker_log_ratio", "beta", "log_prior", "log_z_hat"},
    CONSTRAINED_STEP: {"n_newton", "residual", "failures"},
}
"""Statistics by which a run of ``pm.sample`` tells its step method: each set is declared by one."""

SOME_DRAWS = "some_draws"
"""Group of a few draws (``lp``: their log density), by which the model of sums can be told."""
OWN_GROUPS = {
    "weighted_posterior",
    "tempered_posterior",
    SOME_DRAWS,
    "annealing",
    "reverse_annealing",
    "tempering",
    "tracking",
}
"""Groups that only trees with a kind at their root have."""


def kind_of(tree: Any, name: str = "tree") -> str:
    """Kind of a tree of this package or of another sampler, a key of `KINDS`; raises for others."""
    check_no_model("lz.evidence(model) first", **{name: tree})
    if not isinstance(tree, xr.DataTree):
        wanted = "an xarray.DataTree, such as pm.sample or pymc_logz.sample_hais returns"
        if isinstance(tree, str | PathLike):
            wanted = "the DataTree in that file, az.from_netcdf(path) or xarray.open_datatree(path)"
        elif isinstance(tree, xr.Dataset | xr.DataArray):
            wanted = "the whole DataTree, not one group of it, nor stacked or extracted draws"
        raise TypeError(f"{name} is of type {type(tree).__name__}; give {wanted}")
    layout = int(tree.attrs.get(LAYOUT, LAYOUT_VERSION))
    if layout > LAYOUT_VERSION:
        raise ValueError(
            f"{name} has layout {layout} (tree.attrs[{LAYOUT!r}]), but this version of pymc_logz "
            f"knows layouts up to {LAYOUT_VERSION}: install the version that made it, or a newer "
            "one"
        )
    if KIND not in tree.attrs:
        return _kind_of_unmarked(tree, name)
    kind = str(tree.attrs[KIND])
    if kind not in KINDS:
        raise ValueError(f"{name}.attrs[{KIND!r}]={kind!r} must be one of {sorted(KINDS)}")
    _check_one_run(tree, kind, name)
    return kind


def material_of(tree: Any, name: str = "tree") -> str:
    """What log Z of a tree can be made of: as `Kind.material`, if the tree still has it."""
    kind = KINDS[kind_of(tree, name)]
    return kind.material if kind.held_in in tree.children else STORED


def marked(tree: xr.DataTree, kind: str) -> xr.DataTree:
    """The same tree, its kind written at the root, unless it is not of this package."""
    if kind not in (POSTERIOR, OTHER):
        tree.attrs = {**tree.attrs, KIND: kind, LAYOUT: LAYOUT_VERSION}
    return tree


def check_kind(tree: Any, group: str, kinds: Collection[str]) -> str:
    """Kind of a user's tree that must be one of several; else it is said what made this one."""
    is_tree = isinstance(tree, xr.DataTree)
    if is_tree and (kind := kind_of(tree)) in kinds:
        return kind
    makers = [KINDS[one].made_by for one in kinds if one not in STEP_STATISTICS]
    needs = f"a group {group!r}, as {' or '.join(makers)} returns it"
    for one in kinds:
        if one in STEP_STATISTICS:
            needs += f", or the statistics of {KINDS[one].made_by}"
    found = f"comes from {KINDS[kind].made_by}" if is_tree else f"is of type {type(tree).__name__}"
    message = f"this needs a DataTree with {needs}; what was given {found}"
    raise ValueError(message) if is_tree else TypeError(message)


def group_of(tree: xr.DataTree, group: str) -> xr.Dataset:
    """Group that a tree of this kind has; a ValueError if it was dropped."""
    if group not in tree.children:
        raise ValueError(
            f"the tree comes from {KINDS[kind_of(tree)].made_by}, but its group {group!r} was "
            "dropped, or not stored; keep it, or run again"
        )
    return tree[group].to_dataset()


def _check_one_run(tree: xr.DataTree, kind: str, name: str) -> None:
    """Whether the draws beside weights or levels are of the same run, as far as they tell."""
    if KINDS[kind].draws == "posterior":
        return
    posterior, stats = tree.children.get("posterior"), tree.children.get("sample_stats")
    sampler = None if posterior is None else posterior.attrs.get("inference_library")
    if sampler is None and (stats is None or not stats.data_vars or "log_ratio" in stats):
        return
    raise ValueError(
        f"{name} says that it comes from {KINDS[kind].made_by}, but its posterior is of another "
        f"run{f', by {sampler}' if sampler else ''}, as tree.update leaves it. Pass the trees of "
        "the two runs apart; what both share, such as predictions, may be in either"
    )


def _kind_of_unmarked(tree: xr.DataTree, name: str) -> str:
    """Kind of a tree whose root says nothing, as that of ``pm.sample``."""
    lost = sorted(OWN_GROUPS & set(tree.children))
    if lost:
        raise ValueError(
            f"{name} has the groups {lost} of a run of pymc_logz, but its root does not say which. "
            "If it was put together from parts, give it the attributes of the run "
            "(new.attrs = old.attrs); if it is of an earlier version, run again"
        )
    statistics = set(map(str, tree["sample_stats"])) if "sample_stats" in tree.children else set()
    for kind, declared in STEP_STATISTICS.items():
        if declared <= statistics:
            return kind
    return POSTERIOR if "posterior" in tree.children else OTHER
