"""One call that does the right thing: chooses the method, cross-checks it, says what and why."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_logz.arguments import check_flag
from pymc_logz.choosing.second_opinion import (
    How,
    chosen_by,
    spent_on,
    with_another_route,
    with_second_opinion,
)
from pymc_logz.estimators import importance_log_z
from pymc_logz.graphs.functions import cheaply_compiled
from pymc_logz.graphs.threads import calls_limited
from pymc_logz.hais.results import exact_estimate, of_weights
from pymc_logz.hais.sampling import sample_hais
from pymc_logz.models.context import (
    ForeignModel,
    check_known,
    check_no_model,
    model_from,
    pymc_model_of,
    written_as,
)
from pymc_logz.models.discrete import discrete_names
from pymc_logz.models.exact import exact_observations
from pymc_logz.models.guards import check_model
from pymc_logz.models.known_priors import log_constant_of_fields
from pymc_logz.posterior.bridging import bridge_sampling
from pymc_logz.runners.progress import progress_bar
from pymc_logz.tempered.evidence import of_levels
from pymc_logz.tempered.sampling import sample_tempered
from pymc_logz.trees import kinds
from pymc_logz.trees.chains import says_result
from pymc_logz.trees.comparison import evidence_of
from pymc_logz.trees.layout import (
    ESTIMATOR,
    data_datasets,
    evidence_dataset,
    log_weights,
    make_tree,
)
from pymc_logz.trees.posterior import check_same_model
from pymc_logz.wings import from_wing


@written_as("evidence(model), or evidence(idata, model)")
@says_result
def evidence(
    idata: xr.DataTree | pm.Model | ForeignModel | None = None,
    model: pm.Model | None = None,
    *,
    methods: str | Sequence[str] | None = None,
    cross_check: bool = True,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> xr.DataTree:
    """Log Z of a model, or of a posterior and its model, by the method that fits.

    - A model: `sample_hais`, which tunes itself, sums discrete variables out where it can, and
      calls ``pm.sample`` where a posterior of many dimensions is out of its pilot's reach. Where
      its status is not ``"ok"``, and only ``model`` was given, another method follows:
      `sample_tempered` if modes may be missing, else ``pm.sample`` and `bridge_sampling`. Its
      number comes first if it is ok and not at odds with the other, or if it has found more
      where the other says that mass is missing.
    - A model without free variables, such as a point null: its log likelihood, which is exact.
    - An energy made of bits: `sample_hais`, by block Gibbs moves.
    - A model with exact observations: ``pm.sample`` with step `ConstrainedHMC`, and a bridge.
    - A posterior and its model: `bridge_sampling`.
    - A run of `sample_hais`, of `sample_tempered`, or of ``pm.sample`` with step `HAIS` or
      `SimulatedTempering`: log Z from the weights or levels that it holds.
    - A tree that already has an ``evidence``, but no data for a better one: that one.

    The result is logged in one sentence; the choice and its reason are in the attributes ``chosen``
    and ``reason`` of the group. If a model is given, a second estimate that is independent of the
    first and cheap (importance sampling from a Student-t fitted to the draws) checks it; for a
    simulator, where `likelihood_form` exists.

    Parameters
    ----------
    idata
        DataTree, or a PyMC model, or an energy such as ``energies.bernoulli_rbm(...)``.
    model
        The model of the tree's posterior. Inside a model's context both can be omitted.
    methods
        Estimators of a tempered run: ``"all"``, or names out of ``"rts"``, ``"mbar"``, ``"ts"``,
        ``"bar_chain"``, ``"stepping_stone"``, ``"stepping_stone_reverse"``, ``"ti_trapezoid"``,
        ``"ti_simpson"``, ``"ti_corrected"``, ``"ti_rb"``, ``"ti_marginal"``, ``"ti_left"``,
        ``"ti_right"``. The group then has the covariance of their errors, log Z at every beta, and
        which of them departs from the others. None keeps the recommended one.
    cross_check
        Whether to add the second estimate. It is entry ``"importance"`` of the group
        (``"importance_student"`` beside one of that name), and never the first one unless the
        first has no number.
    random_seed, progressbar, compile_kwargs
        As in `sample_hais`.
    **kwargs
        Passed to `sample_hais` when a model is given (to ``pm.sample`` if it has exact
        observations), and to `bridge_sampling` when a posterior is given.

    Returns
    -------
    xarray.DataTree
        With the group ``evidence``; the argument itself is not changed.

    Raises
    ------
    TypeError
        If the arguments are swapped, or one does not apply to what was given.
    ValueError
        If the tree has nothing to compute a log Z from, is of another model or of other data, or a
        method is unknown or does not apply.

    Warns
    -----
    EvidenceWarning
        If two estimates do not agree; it names those that depart.

    See Also
    --------
    compare_evidence : models by their log Z, in a table.
    sample_hais, sample_tempered, bridge_sampling
    evidence_of_models : several models in one call.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        model = lz.energies.radiata_pine("density").model
        lz.evidence(model, random_seed=1)  # no posterior yet
        lz.evidence(pm.sample(model=model), model)  # a posterior that exists
    """
    check_flag(cross_check=cross_check)
    how = How(random_seed, progressbar, compile_kwargs)
    if idata is None:
        idata = model if isinstance(model, ForeignModel) else model_from(model, "evidence(model)")
        model = None
    idata = pymc_model_of(idata)
    if isinstance(idata, pm.Model | ForeignModel):
        if model is not None:
            check_no_model("evidence(idata, model), or evidence(model) alone", idata=idata)
        with progress_bar(how.progressbar):
            return _of_model(idata, methods, cross_check, how, kwargs)
    if model is not None:
        model = model_from(model, "evidence(idata, model)")
    of_posterior = pm.Model.get_context(error_if_none=False) if model is None else model
    material = kinds.material_of(idata, "idata")
    if methods is None and of_posterior is not None and material == kinds.ROWS:
        reason = "a posterior was given with its model, and neither weights nor temperatures"
        chosen = "manifold_bridge" if exact_observations(of_posterior) else "bridge"
        check_known("evidence", bridge_sampling, kwargs)
        options = {"cross_check": "student" if cross_check else None, **how._asdict(), **kwargs}
        found = chosen_by(bridge_sampling(idata, of_posterior, **options), chosen, reason)
        return with_second_opinion(found, of_posterior, how) if cross_check else found
    _check_stored(idata, material, methods, kwargs)
    if model is not None:
        check_same_model(idata, model, compile_kwargs)
    found = _OF_MATERIAL.get(material, _as_stored)(idata, methods)
    if model is None or methods is not None or not cross_check:
        return found
    chosen = str(found["evidence"][ESTIMATOR].values[0])
    found = chosen_by(found, chosen, "the tree holds what a run left for it")
    return with_second_opinion(found, model, how)


def _check_stored(idata: xr.DataTree, material: str, methods: Any, kwargs: Any) -> None:
    """Raise for what does not apply to a tree without its model, or a tree without a log Z."""
    if kwargs:
        raise TypeError(
            f"{sorted(kwargs)} apply only when a model is given, not a DataTree with a log Z"
        )
    kind = kinds.kind_of(idata)
    if methods is not None and kind == kinds.TEMPERED_SUMS:
        raise ValueError(
            f"methods={methods!r} needs the draws of a tempered run, and this one kept their sums, "
            "which are enough for RTS alone, the estimate that the tree has: run "
            "sample_tempered(keep='draws')"
        )
    if methods is not None and material != kinds.LEVELS:
        raise ValueError(f"methods={methods!r} applies to a DataTree of sample_tempered only")
    groups = sorted(idata.children)
    if "evidence" in groups:
        return
    if material == kinds.ROWS:
        raise ValueError(
            "no model was given: write evidence(idata, model), or call it inside `with model:`"
        )
    if kind == kinds.OTHER:
        hint = "without draws of a posterior, write evidence(model)"
        if not groups and {"chain", "draw"} <= set(idata.dims):
            hint = "did you pass idata.posterior? Pass the whole tree: evidence(idata, model)"
        raise ValueError(f"idata has no group 'posterior' (its groups are {groups}); {hint}")


def _of_model(
    model: pm.Model | ForeignModel,
    methods: str | Sequence[str] | None,
    cross_check: bool,
    how: How,
    kwargs: Mapping[str, Any],
) -> xr.DataTree:
    """Evidence of a model without a posterior."""
    if methods is not None:
        raise ValueError(
            f"methods={methods!r} applies to a tempered run: evidence(sample_tempered(...))"
        )
    if isinstance(model, ForeignModel):
        check_known("evidence", sample_hais, kwargs, [sample_tempered])
        found = sample_hais(model=model, **how._asdict(), **kwargs)
        return chosen_by(found, "hais", "an energy made of bits was given, which block Gibbs moves")
    if exact_observations(model):
        found = _constrained(model, how, kwargs)
    elif not model.free_RVs:
        check_known("evidence", sample_hais, kwargs, [sample_tempered])
        return chosen_by(_without_unknowns(model), "exact", "the model has no free variables")
    else:
        check_known("evidence", sample_hais, kwargs, [sample_tempered])
        found = sample_hais(model=model, **how._asdict(), **kwargs)
        reason = "there are no posterior draws, and annealed importance sampling needs none; "
        if kinds.kind_of(found) == kinds.EXACT:
            reason += f"it has discrete variables alone, {_route(found)}"
            return chosen_by(found, "exact", reason)
        if names := discrete_names(model):
            reason += f"discrete variables are {_route(found) or f'moved: {names}'}; "
        reason += f"it evaluated the model {sum(spent_on(found).values()):,} times"
        found = chosen_by(found, "hais", reason)
        if cross_check and not kwargs:
            found = with_another_route(found, model, how)
    if not cross_check:
        return found
    with calls_limited(kwargs.get("cores"), kwargs.get("time_limit")):
        return with_second_opinion(found, model, how)


def _without_unknowns(model: pm.Model) -> xr.DataTree:
    """Log Z of a model without free variables, as a point null is: its log likelihood."""
    check_model(model, fixed=True)
    log_z = cheaply_compiled([], model.datalogp)() - log_constant_of_fields(model, observed=True)
    group = evidence_dataset([exact_estimate(float(log_z))], {"prior_finite_share": 1.0})
    return make_tree({"evidence": group, **data_datasets(model)}, {"method": "exact"}, kinds.EXACT)


def _route(found: xr.DataTree) -> str:
    """How discrete variables were summed out, if they were."""
    route = found["evidence"].attrs.get("summed_out")
    return "" if route is None else f"summed out: {route}"


def _constrained(model: pm.Model, how: How, kwargs: Mapping[str, Any]) -> xr.DataTree:
    """A posterior on the level set of the exact observations, and log Z from it."""
    with model:
        step = from_wing("ConstrainedHMC")(compile_kwargs=how.compile_kwargs)
    seen = {"random_seed": how.random_seed, "progressbar": how.progressbar}
    tree = pm.sample(model=model, step=step, **seen, **kwargs)
    reason = "the model has exact observations, which only constrained moves can sample"
    return chosen_by(bridge_sampling(tree, model, **how._asdict()), "manifold_bridge", reason)


def _as_stored(tree: xr.DataTree, _: Any) -> xr.DataTree:
    """The tree itself, if it has an evidence, and that of the rows that it holds; raises if not."""
    evidence_of(tree)
    if kinds.kind_of(tree) == kinds.HAIS_BOTH and "weighted_posterior" in tree.children:
        whole = tree["evidence"]["log_z"].sel({ESTIMATOR: "hais"})
        found = importance_log_z(log_weights(tree))
        if not np.isclose(found.log_z, float(whole), rtol=1e-6, equal_nan=True):
            raise ValueError(
                "the tree holds other particles than its log Z was made of, and a run in both "
                "directions is read as a whole: pass it as it was returned, or run again"
            )
    return tree


_OF_MATERIAL = {kinds.LOG_WEIGHTS: lambda tree, _: of_weights(tree), kinds.LEVELS: of_levels}
"""How log Z is made of what a run left, by `pymc_logz.trees.kinds.Kind.material`."""
