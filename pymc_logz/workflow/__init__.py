"""How log Z and Bayes factors change with the parameters of the prior, without another run."""

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from pytensor.graph.traversal import ancestors

from pymc_logz.checks.missed_modes import is_large, larger, walked_log_z
from pymc_logz.errors import STATUS_SENTENCES, EvidenceWarning, ModelError, warn
from pymc_logz.estimators import LogZEstimate, reweighted_log_z
from pymc_logz.models.context import check_no_model, model_from, written_as
from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import FlatModel, flatten_model, unconstrain
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.rows import check_order, data_variable, own_data
from pymc_logz.runners.progress import progress_bar, report_count
from pymc_logz.trees.chains import check_possible, check_stored_density
from pymc_logz.trees.comparison import evidence_of
from pymc_logz.trees.doubts import DOUBTS, STATUSES, Doubt, doubted, noted, warn_of_doubts
from pymc_logz.trees.layout import ESTIMATOR, along, evidence_dataset, weighted_draws, with_units
from pymc_logz.trees.posterior import check_same_model, checked_variables, posterior_rows

if TYPE_CHECKING:
    import pymc as pm

type Data = Mapping[str, np.ndarray]
"""Values of data by name."""


@written_as("evidence_sensitivity(idata, model, alternatives)")
def evidence_sensitivity(
    idata: xr.DataTree,
    model: "pm.Model",
    alternatives: Mapping[str, Any],
    *,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """A copy of the tree with log Z under other prior parameters, from the draws of its run.

    The stored draws are re-weighted: the ratio of the new log Z to the old one is the mean, over
    draws of the old posterior, of the new joint density over the old one. It takes no sampling, and
    is reported as far as Pareto k-hat shows that the old draws cover the new posterior; beyond
    that, there is no number.

    Parameters
    ----------
    idata
        DataTree with draws and the group ``evidence``: of `bridge_sampling`, `sample_hais`,
        `sample_tempered` or `evidence`.
    model
        Model of those draws, with its prior parameters as ``pm.Data``.
    alternatives
        Values of these data, by name: A values for each, which are taken together, so that arrays
        of shape ``(A, *shape)``, with the shape of the data, make A alternatives.
    progressbar, compile_kwargs
        As in `sample_hais`.

    Returns
    -------
    xarray.DataTree
        A shallow copy with a group ``sensitivity`` along ``alternative``: ``log_z`` and ``mcse``;
        ``log_bayes_factor`` against the prior as it is, and its error ``log_bayes_factor_mcse``;
        ``weight_ess``, ``khat`` and ``status``. The changed parameters are coordinates, their
        present values attributes.

    Raises
    ------
    ValueError
        If a name is no ``pm.Data`` of the model or has no influence on it, values have another
        shape or make no prior, or the draws are not of this model as it is.

    Warns
    -----
    EvidenceWarning
        If some alternatives are out of reach.

    See Also
    --------
    plot_sensitivity : its curve.
    bayes_factor

    Notes
    -----
    Draws keep their positions in the unconstrained space, so that a bound of a prior may change
    too. A prior that a transform restricts is renormalised under each alternative.

    References
    ----------
    Sinharay & Stern (2002), On the sensitivity of Bayes factors to the prior distributions, doi
    10.1198/000313002137; Kallioinen et al. (2024), arXiv 2107.14054, for k-hat as the gate.

    Examples
    --------
    .. code-block:: python

        import numpy as np
        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as model:
            width = pm.Data("width", 1.0)
            mu = pm.Normal("mu", 0, width)
            pm.Normal("y", mu, 1, observed=[1.0, 2.0, 0.5])

        tree = lz.bridge_sampling(pm.sample(model=model), model)
        tree = lz.evidence_sensitivity(tree, model, {"width": np.geomspace(0.1, 100, 30)})
        lz.plot_sensitivity(tree)
    """
    call = "evidence_sensitivity(idata, model, alternatives)"
    check_no_model(call, idata=idata)
    model = model_from(model, call)
    base = evidence_of(idata, "idata")
    values = _checked_values(model, alternatives)
    flat = flatten_model(model, data=values)
    density = RowDensity(flat, compile_kwargs)
    present = {name: own_data(model, name) for name in values}
    rows, log_weight, doubts = _draws(idata, flat, compile_kwargs)
    if (status := str(base["status"].item())) in STATUSES:
        doubts.append(Doubt(status, str(base.attrs.get(DOUBTS, "of the log Z that is changed"))))
    every_row = rows.reshape(-1, rows.shape[-1])

    def log_joint(data: Data) -> np.ndarray:
        return density.log_target(every_row, _one_vector(data)).reshape(rows.shape[:-1])

    target = log_joint(present)
    check_possible(target if log_weight is None else target[np.isfinite(log_weight)])
    if log_weight is None:
        check_stored_density(idata, target, flat.log_turns(rows))
    prior = _PriorUnder(model, values)
    changes, found, notes = [], list[LogZEstimate](), list(doubts)
    n_alternatives = len(next(iter(values.values())))
    with progress_bar(progressbar):
        report = report_count("Alternatives", n_alternatives)
        for i in range(n_alternatives):
            data = {name: array[i] for name, array in values.items()}
            of_prior = prior.change_of_log_mass(data)
            changes.append(log_joint(data) - target)
            one = reweighted_log_z(changes[-1], log_weight).less(*of_prior)
            mcse = float(np.hypot(one.mcse, float(base["mcse"])))
            whole = replace(one, log_z=one.log_z + float(base["log_z"]), mcse=mcse)
            own = prior.modes(density, data, whole) if one.usable and not doubts else []
            found += doubted([one], [*doubts, *own])
            notes += [Doubt(doubt.status, f"alternative {i}: {doubt.reason}") for doubt in own]
            report(1)
    differs = any(np.any(array != present[name]) for name, array in values.items())
    if differs and not any(np.any(change) for change in changes):
        raise ValueError(
            f"alternatives={sorted(values)} change nothing in the log density of the model; give "
            "data that a prior depends on"
        )
    warn_of_doubts(notes[len(doubts) :])
    group = _dataset(found, base, values, present)
    group.attrs |= {"base_estimator": str(base[ESTIMATOR].item()), **noted(notes)}
    result = idata.copy()
    result["sensitivity"] = xr.DataTree(group)
    n_far = sum(not one.usable for one in found)
    if n_far:
        warn(f"{n_far} of {len(found)} alternatives: {STATUS_SENTENCES['too_far']}")
    return result


def _checked_values(model: "pm.Model", alternatives: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if not isinstance(alternatives, Mapping) or not alternatives:
        raise ValueError(
            f"alternatives={alternatives!r:.100} must be a dictionary from names of pm.Data to "
            "values, such as {'width': [0.5, 1, 2]}"
        )
    names = sorted(var.name for var in model.data_vars)
    of_data = set(ancestors([model.rvs_to_values[rv] for rv in model.observed_RVs]))
    values = {}
    for name, given in alternatives.items():
        if name not in names:
            raise ValueError(
                f"alternatives[{name!r}] is no pm.Data of the model (it has {names}); write the "
                f"parameter of the prior as pm.Data({name!r}, ...)"
            )
        if data_variable(model, name) in of_data:
            raise ValueError(
                f"alternatives[{name!r}] is observed data: a Bayes factor between different data "
                "means nothing. Give data of a prior"
            )
        array, own = np.asarray(given), own_data(model, name)
        if array.ndim == 0 or array.shape[1:] != own.shape or len(array) == 0:
            wanted = f"(A, {', '.join(map(str, own.shape))})" if own.ndim else "(A,)"
            raise ValueError(
                f"alternatives[{name!r}] has shape {array.shape}, but must have {wanted}: one "
                f"value of the data, of shape {own.shape}, for each of A alternatives; one alone "
                f"is written {{{name!r}: [value]}}"
            )
        check_order(model, name, given, f"alternatives[{name!r}]", "alternatives")
        if not np.array_equal(array.astype(own.dtype), array) and own.dtype.kind in "iub":
            raise ValueError(
                f"alternatives[{name!r}] has values that are not whole, but pm.Data({name!r}) "
                f"holds {own.dtype}; make it floating point in the model"
            )
        if np.isnan(array := array.astype(float)).any():
            raise ValueError(f"alternatives[{name!r}] has NaN")
        values[name] = array
    if len({len(array) for array in values.values()}) > 1:
        lengths = {name: len(array) for name, array in values.items()}
        raise ValueError(f"alternatives have {lengths} values; give each name as many")
    return values


def _draws(
    tree: xr.DataTree, flat: FlatModel, compile_kwargs: Mapping[str, Any] | None
) -> tuple[np.ndarray, np.ndarray | None, list[Doubt]]:
    """Unconstrained draws (chains, draws, d), their log weights if any, and doubts about them."""
    weighted = weighted_draws(tree)
    if weighted is not None:
        check_same_model(tree, flat.model, compile_kwargs)
        log_weight = weighted["log_weight"].transpose("chain", "draw").to_numpy()
        values = checked_variables(weighted, flat.model, what="the group of weighted draws")
        return unconstrain(flat, values).reshape(*log_weight.shape, -1), log_weight, []
    posterior = posterior_rows(tree, flat)
    if np.any(posterior.on_boundary):
        raise ValueError(
            f"{posterior.on_boundary.sum()} draws lie on the boundary of a variable's support, "
            "where they cannot be re-weighted; sample again in double precision"
        )
    return posterior.rows, None, list(posterior.doubts)


class _PriorUnder:
    """The prior of a model with other data in place of its own."""

    def __init__(self, model: "pm.Model", names: Collection[str]) -> None:
        self.model, self.own = model, PriorDraws(model, needed=False)
        self.places = {name: data_variable(model, name) for name in names}
        in_containers = all(hasattr(place, "set_value") for place in self.places.values())
        self.is_known = in_containers and self.own.obstacle is None
        self._log_mass, self._mass_error = self.own.log_mass()
        if not in_containers and self._log_mass != 0.0:
            raise ValueError(
                f"alternatives={sorted(names)} are constants of a model whose transforms restrict "
                "the prior, so that what is left of it under other values is not known; give the "
                "model before its data were frozen"
            )

    @contextmanager
    def _holding(self, data: Data) -> Iterator[None]:
        before = {name: place.get_value() for name, place in self.places.items()}
        try:
            for name, place in self.places.items():
                place.set_value(np.asarray(data[name], dtype=before[name].dtype))
            yield
        finally:
            for name, place in self.places.items():
                place.set_value(before[name])

    def change_of_log_mass(self, data: Data) -> tuple[float, float]:
        """What `PriorDraws.log_mass` gains by it, and its error; a ValueError if it is no prior."""
        if not self.is_known:
            return 0.0, 0.0
        try:
            with self._holding(data), warnings.catch_warnings():
                warnings.simplefilter("ignore", EvidenceWarning)  # of how much is left
                log_mass, error = PriorDraws(self.model).log_mass()
        except (ValueError, ModelError) as reason:
            given = {name: data[name].tolist() for name in self.places}
            raise ValueError(
                f"there is no prior with {given}, an alternative: {reason}"
            ) from reason
        return log_mass - self._log_mass, float(np.hypot(error, self._mass_error))

    def modes(self, density: RowDensity, data: Data, estimate: LogZEstimate) -> list[Doubt]:
        """Modes under these data that no row is in, though weights may be even."""
        if not self.is_known or density.flat.sites or is_large(density.flat):
            return []
        densities, rng = partial(density, data=_one_vector(data)), np.random.default_rng(0)
        with self._holding(data):
            found = walked_log_z(densities, self.own, rng)
        return larger(found, estimate)


def _one_vector(data: Data) -> np.ndarray:
    """Data side by side, as a density takes them."""
    return np.concatenate([np.ravel(data[name]) for name in data])


def _dataset(
    found: list[LogZEstimate], base: xr.Dataset, values: Data, present: Data
) -> xr.Dataset:
    """Group ``sensitivity``."""
    group = along("alternative", evidence_dataset(found, {}))
    group["log_bayes_factor"] = group["log_z"]
    group["log_bayes_factor_mcse"] = group["mcse"]
    group["log_z"] = group["log_bayes_factor"] + float(base["log_z"])
    group["mcse"] = np.hypot(group["log_bayes_factor_mcse"], float(base["mcse"]))
    for name, array in values.items():
        dims = ["alternative", *(f"{name}_dim_{i}" for i in range(array.ndim - 1))]
        group = group.assign_coords({name: (dims, array)})
    group.attrs = {
        f"present_{name}": array.item() if array.size == 1 else np.ravel(array)
        for name, array in present.items()
    }
    return with_units(group)
