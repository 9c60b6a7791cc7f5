"""Takes the posterior out of a tree, after checking that it is one of this model."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from pymc_logz.errors import warn
from pymc_logz.models.flat import FlatModel, model_data, unconstrain


def posterior_of(tree: xr.DataTree, argument: str) -> xr.Dataset:
    """Group ``posterior`` of a tree that a user passed."""
    if not isinstance(tree, xr.DataTree) or "posterior" not in tree.children:
        raise ValueError(f"{argument} must be a DataTree with a group 'posterior'")
    return tree["posterior"].to_dataset()


MIN_DRAWS = 100
MIN_DRAWS_PER_CHAIN = 16
MAX_BOUNDARY_SHARE = 0.01
MAX_REPEATED_SHARE = 0.05
MAX_RHAT = 1.05
WARM_UP_FLAGS = ("tune", "tuning")


@dataclass(frozen=True)
class PosteriorRows:
    """Draws of a posterior in the unconstrained space."""

    rows: np.ndarray
    """Shape (chains, draws, d)."""
    on_boundary: np.ndarray
    """Draws whose unconstrained value is infinite, shape (chains, draws)."""

    @property
    def flat(self) -> np.ndarray:
        """All rows, shape (chains * draws, d)."""
        return self.rows.reshape(-1, self.rows.shape[-1])


def posterior_rows(tree: xr.DataTree, flat: FlatModel) -> PosteriorRows:
    """Unconstrained draws of a tree's posterior, in the order of their chains.

    Raises
    ------
    ValueError
        If the posterior is of another model or of other data, is weighted, still has its warm-up,
        has too few draws, or has draws on the boundary of a variable's support.

    Warns
    -----
    EvidenceWarning
        If there is one chain only, chains disagree, draws diverged, or a few draws lie on a
        boundary.
    """
    posterior = tree["posterior"].to_dataset()
    _check_kind(tree, posterior)
    _check_variables(posterior, flat)
    _check_data(tree, flat)
    n_chains, n_draws = posterior.sizes["chain"], posterior.sizes["draw"]
    _check_size(n_chains, n_draws, flat.n_dims)
    _check_stats(tree)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = unconstrain(flat, posterior).reshape(n_chains, n_draws, flat.n_dims)
    on_boundary = ~np.all(np.isfinite(rows), axis=2)
    _check_boundary(rows, on_boundary, posterior, flat)
    _check_chains(rows, on_boundary, flat)
    return PosteriorRows(rows, on_boundary)


def _check_kind(tree: xr.DataTree, posterior: xr.Dataset) -> None:
    missing = {"chain", "draw"} - set(map(str, posterior.dims))
    if missing:
        raise ValueError(
            f"the posterior has no dimension {sorted(missing)} (it has "
            f"{sorted(map(str, posterior.sizes))}); pass the tree as pm.sample returned it, not "
            "stacked or averaged: the error needs the order of the draws in each chain"
        )
    weighted = {"weighted_posterior", "tempered_posterior"} & set(tree.children)
    if weighted or "log_weight" in posterior:
        raise ValueError(
            "the posterior comes from weighted rows, which repeat: its own weights give log Z "
            "better than a bridge. Use pymc_logz.evidence(tree)"
        )


def _check_variables(posterior: xr.Dataset, flat: FlatModel) -> None:
    model = flat.model
    names = {rv.name for rv in model.free_RVs}
    missing = sorted(names - set(map(str, posterior)))
    if missing:
        raise ValueError(
            f"the posterior has no variable {missing} (it has {sorted(map(str, posterior))}), so "
            "it is of another model or was stored without them; keep all free variables, such as "
            "Bambi's fit(omit_offsets=False)"
        )
    unknown = sorted(set(map(str, posterior)) - set(model.named_vars) - set(flat.value_names))
    if unknown:
        warn(
            f"the posterior has variables {unknown} that the model does not know: if they were "
            "not computed afterwards, the posterior is of another model"
        )
    shapes = model.eval_rv_shapes()
    for name in sorted(names):
        found = posterior[name].transpose("chain", "draw", ...).shape[2:]
        if found != tuple(shapes[name]):
            raise ValueError(
                f"the draws of {name!r} have shape {found}, but the model has "
                f"{tuple(map(int, shapes[name]))}: the posterior is of another model, or the data "
                "have changed since"
            )


def _check_data(tree: xr.DataTree, flat: FlatModel) -> None:
    observed, constant = model_data(flat)
    for group, data in (("observed_data", observed), ("constant_data", constant)):
        if group not in tree.children:
            continue
        for name, stored in tree[group].to_dataset().data_vars.items():
            if name in data and not _same(np.asarray(stored), np.asarray(data[name])):
                raise ValueError(
                    f"the posterior was made with other data: {name!r} in the group {group!r} is "
                    "not what the model has now. Set it back (pm.set_data), or sample again"
                )


def _same(stored: np.ndarray, own: np.ndarray) -> bool:
    if stored.shape != own.shape:
        return False
    if stored.dtype.kind in "fiub" and own.dtype.kind in "fiub":
        # a file may hold single precision
        return bool(np.allclose(stored, own, rtol=1e-5, atol=1e-8, equal_nan=True))
    return bool(np.all(stored == own))


def _check_size(n_chains: int, n_draws: int, n_dims: int) -> None:
    wanted = max(MIN_DRAWS, 2 * n_dims)
    if n_draws < MIN_DRAWS_PER_CHAIN or n_chains * n_draws < wanted:
        raise ValueError(
            f"the posterior has {n_chains} chains of {n_draws} draws; a bridge in {n_dims} "
            f"dimensions needs at least {wanted} draws, {MIN_DRAWS_PER_CHAIN} in each chain. "
            "Sample more, such as pm.sample(draws=1000)"
        )
    if n_chains == 1:
        warn(
            "the posterior has one chain only, so nobody knows whether it has found all of the "
            "posterior; use pm.sample(chains=4)"
        )


def _check_stats(tree: xr.DataTree) -> None:
    if "sample_stats" not in tree.children:
        return
    stats = tree["sample_stats"].to_dataset()
    for flag in WARM_UP_FLAGS:
        if flag in stats and stats[flag].dtype.kind == "b" and bool(stats[flag].any()):
            n_tune = int(stats[flag].sum("draw").max())
            raise ValueError(
                f"the posterior still has its warm-up (sample_stats[{flag!r}] is true for "
                f"{n_tune} draws of a chain), which are not draws of the posterior; leave them "
                f"out: tree.isel(draw=slice({n_tune}, None))"
            )
    if "diverging" in stats and bool(stats["diverging"].any()):
        n_divergent = int(stats["diverging"].sum())
        warn(
            f"{n_divergent} of {stats['diverging'].size} draws diverged: the chains may have "
            "missed a part of the posterior, and log Z then too. Use a larger target_accept or "
            "another parametrisation, and compare with pymc_logz.sample_hais"
        )


def _check_boundary(
    rows: np.ndarray, on_boundary: np.ndarray, posterior: xr.Dataset, flat: FlatModel
) -> None:
    share = float(on_boundary.mean())
    if share == 0:
        return
    variable = _variable_of(flat, int(np.argmax(np.sum(~np.isfinite(rows), axis=(0, 1)))))
    if not np.all(np.isfinite(posterior[variable])):
        raise ValueError(f"the draws of {variable!r} are not all finite; sample the model again")
    message = (
        f"{on_boundary.sum()} of {on_boundary.size} draws of {variable!r} lie on the boundary of "
        "its support, where its unconstrained value is infinite"
    )
    if share > MAX_BOUNDARY_SHARE:
        raise ValueError(
            f"{message}: either they were rounded when stored, or the posterior is piled up there. "
            "Keep double precision, or use a prior that stays away from the boundary"
        )
    warn(f"{message}; they count as draws where the proposal is zero")


def _check_chains(rows: np.ndarray, on_boundary: np.ndarray, flat: FlatModel) -> None:
    values = np.where(on_boundary[..., None], np.nan, rows)
    rhat = split_rhat(values)
    worst = int(np.nanargmax(np.where(np.isnan(rhat), 0.0, rhat)))
    if rhat[worst] > MAX_RHAT:
        warn(
            f"the chains do not agree (R-hat {rhat[worst]:.2f} for "
            f"{_variable_of(flat, worst)!r} on the unconstrained scale), so they are not draws of "
            "one posterior: warm-up may have been left in, or chains are stuck. Sample longer"
        )
    repeated = _repeated_share(rows.reshape(-1, rows.shape[-1]))
    if repeated > MAX_REPEATED_SHARE:
        warn(
            f"{repeated:.0%} of the draws repeat an earlier one that is not their neighbour, as "
            "resampling does: the error of log Z takes them for draws of their own, and is too "
            "small. Pass the draws as the sampler made them"
        )


def split_rhat(rows: np.ndarray) -> np.ndarray:
    """Split R-hat of each dimension of (chains, draws, d), without ranks; shape (d,)."""
    half = rows.shape[1] // 2
    parts = np.concatenate([rows[:, :half], rows[:, -half:]])
    within = np.nanvar(parts, axis=1, ddof=1).mean(axis=0)
    between = np.nanmean(parts, axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((half - 1) / half + between / within)


def _repeated_share(rows: np.ndarray) -> float:
    """Share of rows equal to another one that is not next to it."""
    moved = np.append(True, np.any(rows[1:] != rows[:-1], axis=1))
    stretches = rows[moved]
    return 1.0 - len(np.unique(stretches, axis=0)) / len(stretches)


def _variable_of(flat: FlatModel, column: int) -> str:
    """Name of the free variable that a column of a row belongs to."""
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in flat.shapes])
    value = flat.value_names[int(np.searchsorted(ends, column, side="right"))]
    names = {var.name: rv.name for rv, var in flat.model.rvs_to_values.items()}
    return str(names[value])


def check_stored_density(tree: xr.DataTree, log_target: np.ndarray) -> None:
    """Compare the log density that a sampler stored with the model's own at the same draws.

    Parameters
    ----------
    tree
        The tree.
    log_target
        The model's own, shape (chains, draws).

    Raises
    ------
    ValueError
        If they differ by more than a constant.
    """
    stored = _stored_density(tree, log_target.shape)
    if stored is None:
        return
    finite = np.isfinite(stored) & np.isfinite(log_target)
    stored, own = stored[finite], log_target[finite]
    if stored.size < MIN_DRAWS_PER_CHAIN or np.corrcoef(stored, own)[0, 1] < -0.99:
        return  # some samplers store the potential energy
    spread = (stored - own).std()
    if spread > 0.01 + 1e-3 * own.std():
        raise ValueError(
            "the log density in sample_stats['lp'] is not the model's: at the same draws they "
            f"differ by {spread:.3g} (standard deviation). The posterior is of another model, the "
            "priors or data have changed since, or a variable was transformed afterwards (Bambi "
            "moves the intercept unless center_predictors=False)"
        )


def _stored_density(tree: xr.DataTree, shape: tuple[int, ...]) -> np.ndarray | None:
    if "sample_stats" not in tree.children:
        return None
    stats = tree["sample_stats"].to_dataset()
    for name in ("lp", "logp"):
        if name in stats:
            stored = np.asarray(stats[name], dtype=float)
            return stored if stored.shape == shape else None
    return None


def check_start_of_chains(log_target: np.ndarray) -> None:
    """Warn if chains begin far below where they end, as they do during warm-up.

    Parameters
    ----------
    log_target
        Log density of the draws, shape (chains, draws).
    """
    n_first = max(1, log_target.shape[1] // 20)
    settled = log_target[:, log_target.shape[1] // 2 :]
    low, high = np.quantile(settled, [0.01, 0.99])
    depth = low - 2.0 * (high - low)
    lowest = log_target[:, :n_first].min()
    if lowest < min(depth, settled.min()):
        warn(
            f"the first draws have a log density of {lowest:.4g}, far below the second half of the "
            f"chains ({low:.4g} to {high:.4g}): warm-up may have been left in. They go into the "
            "proposal only, which costs precision"
        )
