"""Compares models by their evidence: Bayes factors, posterior probabilities, and warnings."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import log_softmax, ndtri

from pymc_logz.arguments import check_probability, numbers_of
from pymc_logz.errors import STATUS_SENTENCES, warn
from pymc_logz.models.context import check_no_model, written_as
from pymc_logz.trees.doubts import DOUBTS
from pymc_logz.trees.kinds import kind_of
from pymc_logz.trees.layout import ESTIMATOR


def evidence_of(tree: xr.DataTree, name: str = "tree") -> xr.Dataset:
    """Recommended entry of a tree's group ``evidence``, scalars only; raises if there is none."""
    kind_of(tree, name)
    if "evidence" not in tree.children:
        raise ValueError(
            f"{name} has no log Z yet: write lz.evidence({name}, model) first ({name} has the "
            f"groups {sorted(tree.children)})"
        )
    group = tree["evidence"].to_dataset()
    if ESTIMATOR not in group.dims:
        raise ValueError(
            f"{name}['evidence'] has dimensions {list(group.dims)}, not {ESTIMATOR!r}: it is of "
            "an earlier version of pymc_logz; run again"
        )
    entry = group.isel({ESTIMATOR: 0})
    if entry["log_z"].ndim:
        raise ValueError(
            f"{name} has the log Z of each {entry['log_z'].dims[0]!r}, not one number; compare "
            "differences of tree['evidence']['log_z'] by hand, or their sum over data rows, which "
            "is in tree['evidence'].attrs['sum_log_z']"
        )
    return entry


def compare_evidence(
    trees: Mapping[str, xr.DataTree],
    prior_odds: Mapping[str, float] | Sequence[float] | None = None,
) -> pd.DataFrame:
    """Table that ranks models by their log evidence.

    Parameters
    ----------
    trees
        DataTrees with a group ``evidence``, by the name of the model.
    prior_odds
        Prior odds of the models, by name or in the order of ``trees``; any positive numbers, which
        are normalised to probabilities. None gives each model the same.

    Returns
    -------
    pandas.DataFrame
        One row per model, the best first, with columns ``rank``; ``log_bayes_factor`` against the
        best model (0 for the best, negative for the others); posterior model ``probability``; the
        error ``log_bayes_factor_mcse``; ``log_z`` and its ``mcse`` in nats; ``weight_ess``,
        ``khat``, ``estimator`` and ``status``. Models without a usable log Z come last, with NaN.
        Where data differ, ``status`` says ``other data`` of each model that has some; the numbers
        stay, since they hold for a response that was transformed, with its Jacobian.

    Raises
    ------
    ValueError
        If there are fewer than two models, a tree has no evidence, or the prior odds do not fit.

    Warns
    -----
    EvidenceWarning
        If an error is as large as a difference that may be one of a nat, if a log Z is not to be
        trusted, or if the models were given different observed data, or some of them none.

    See Also
    --------
    bayes_factor : two models, with an interval.
    model_weights : weights to average predictions by.
    plot_evidence : the same as a picture.

    References
    ----------
    Kass & Raftery (1995), doi 10.1080/01621459.1995.10476572, eq. 1.

    Examples
    --------
    .. code-block:: python

        import pymc_logz as lz

        models = {name: lz.energies.radiata_pine(name).model for name in ("density", "adjusted")}
        trees = {name: lz.sample_hais(model=model, random_seed=1) for name, model in models.items()}
        lz.compare_evidence(trees)
    """
    check_no_model("lz.evidence_of_models(models) first", trees=trees)
    if isinstance(trees, xr.DataTree):
        raise ValueError(
            "trees is one DataTree, and a comparison is of two or more: give them in a dictionary, "
            "such as {'a': tree_a, 'b': tree_b}"
        )
    if not isinstance(trees, Mapping):
        kind = type(trees).__name__
        raise ValueError(
            f"trees is of type {kind}, so the models have no names: write a dictionary, "
            "{'a': tree_a, 'b': tree_b}"
        )
    if len(trees) < 2:
        raise ValueError(f"trees has only {list(trees)}; a comparison needs at least two models")
    entries = {name: evidence_of(tree, f"trees[{name!r}]") for name, tree in trees.items()}
    stored = ("log_z", "mcse", "weight_ess", "khat", ESTIMATOR, "status")
    rows = {name: [entry[key].item() for key in stored] for name, entry in entries.items()}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=stored)
    table["log_prior_odds"] = np.log(_check_prior_odds(prior_odds, list(trees)))
    table = table.sort_values("log_z", ascending=False, kind="stable", na_position="last")
    numbers = table[["log_z", "mcse"]].astype(float)
    best = numbers.iloc[0]
    table["log_bayes_factor"] = numbers["log_z"] - best["log_z"]
    error = np.hypot(numbers["mcse"], best["mcse"])
    error.iloc[0] = 0.0 if np.isfinite(best["log_z"]) else np.nan
    table["log_bayes_factor_mcse"] = error
    log_odds = (numbers["log_z"] + table.pop("log_prior_odds")).to_numpy(dtype=float)
    known = np.isfinite(log_odds).all()
    table["probability"] = np.exp(log_softmax(log_odds)) if known else np.nan
    table.insert(0, "rank", np.arange(len(table)))
    table["status"] = pd.Series(_judged(entries, trees))
    factors = table[["log_bayes_factor", "log_bayes_factor_mcse"]].iloc[1:]
    _warn_if_close(table.index[0], {name: (-a, b) for name, a, b in factors.itertuples()})
    # what matters most at both ends, since the middle is left out where a wide table is printed
    shown = ["rank", "log_bayes_factor", "probability", "log_bayes_factor_mcse", "log_z", "mcse"]
    return table[[*shown, "weight_ess", "khat", "estimator", "status"]]


def model_weights(
    trees: Mapping[str, xr.DataTree] | pd.DataFrame,
    prior_odds: Mapping[str, float] | Sequence[float] | None = None,
) -> pd.Series:
    """Posterior model probabilities, as ArviZ needs them to average predictions over models.

    Parameters
    ----------
    trees
        DataTrees with a group ``evidence`` by the name of the model, or the table that
        `compare_evidence` made of them.
    prior_odds
        As in `compare_evidence`; not with a table, which has its own.

    Returns
    -------
    pandas.Series
        Probabilities that sum to one, by model, in the order of ``trees``.

    Raises
    ------
    ValueError
        If a model has no usable log Z, so that no probability is known.

    See Also
    --------
    compare_evidence

    References
    ----------
    Hoeting, Madigan, Raftery & Volinsky (1999), Bayesian model averaging: a tutorial, doi
    10.1214/ss/1009212519, eq. 1-2.

    Examples
    --------
    .. code-block:: python

        import arviz as az
        import pymc as pm
        import pymc_logz as lz

        trees = {}
        for scale in (1.0, 5.0):
            with pm.Model():
                pm.Normal("y", pm.Normal("mean", 0, scale), 1, observed=[1.0, 2.0])
                tree = trees[f"scale {scale}"] = lz.sample_hais(random_seed=1)
                predictions = pm.sample_posterior_predictive(tree)
                tree["posterior_predictive"] = predictions["posterior_predictive"]
        weights = lz.model_weights(trees)
        az.weight_predictions([trees[name] for name in weights.index], weights=weights)
    """
    if isinstance(trees, pd.DataFrame):
        if prior_odds is not None:
            raise ValueError("prior_odds belong to compare_evidence, whose table was given")
        weights = trees["probability"].copy()
    else:
        weights = compare_evidence(trees, prior_odds)["probability"].loc[list(trees)]
    if weights.isna().any():
        raise ValueError(
            "a model has no usable log Z, so the probabilities of all of them are unknown; run it "
            "again as its status says, or leave it out"
        )
    return weights.rename("weight")


@written_as("bayes_factor(tree_a, tree_b), or compare_evidence(trees) for a dictionary")
def bayes_factor(a: xr.DataTree, b: xr.DataTree, *, ci_prob: float | None = None) -> xr.Dataset:
    """Log Bayes factor of model ``a`` against model ``b``, with its error and an interval.

    Parameters
    ----------
    a, b
        DataTrees with a group ``evidence``.
    ci_prob
        Probability of the interval; None takes ArviZ's ``stats.ci_prob``.

    Returns
    -------
    xarray.Dataset
        ``log_bayes_factor``, its ``mcse`` and ``interval`` (dimension ``bound``: lower, upper) in
        nats, and ``bayes_factor``. Positive values favour ``a``. The statuses of the two log Z are
        the attributes ``status_a`` and ``status_b``, which also say ``other data`` if these differ.

    Raises
    ------
    ValueError
        If a tree has no evidence or ``ci_prob`` is not in (0, 1).

    See Also
    --------
    compare_evidence : a table of any number of models.
    evidence_sensitivity : how it depends on the prior.

    References
    ----------
    Kass & Raftery (1995), doi 10.1080/01621459.1995.10476572, eq. 1.

    Examples
    --------
    .. code-block:: python

        import pymc_logz as lz

        a, b = (lz.energies.radiata_pine(name).model for name in ("density", "adjusted"))
        lz.bayes_factor(lz.sample_hais(model=a), lz.sample_hais(model=b))
    """
    ci_prob, errors = interval(ci_prob)
    first, second = evidence_of(a, "a"), evidence_of(b, "b")
    difference = float(first["log_z"] - second["log_z"])
    mcse = float(np.hypot(first["mcse"], second["mcse"]))
    half_width = errors * mcse
    entries = {"a": first, "b": second}
    statuses = _judged(entries, {"a": a, "b": b})
    _warn_if_close("a", {"b": (difference, mcse)})
    dataset = xr.Dataset(
        {
            "log_bayes_factor": difference,
            "mcse": mcse,
            "interval": ("bound", [difference - half_width, difference + half_width]),
            "bayes_factor": np.exp(difference),
        },
        coords={"bound": ["lower", "upper"]},
        attrs={"ci_prob": ci_prob} | {f"status_{name}": statuses[name] for name in entries},
    )
    for name in ("log_bayes_factor", "mcse", "interval"):
        dataset[name].attrs["units"] = "nats"
    return dataset


def interval(ci_prob: float | None) -> tuple[float, float]:
    """Probability of an interval, ArviZ's where none is given, and half its width in errors."""
    if ci_prob is None:
        from arviz_base import rcParams  # when first used, see trees.layout.dataset_of

        ci_prob = rcParams["stats.ci_prob"]
    check_probability(ci_prob=ci_prob)
    return ci_prob, float(ndtri(0.5 + 0.5 * ci_prob))


def _check_prior_odds(
    prior_odds: Mapping[str, float] | Sequence[float] | None, names: list[str]
) -> np.ndarray:
    if prior_odds is None:
        return np.ones(len(names))
    if isinstance(prior_odds, Mapping):
        if set(prior_odds) != set(names):
            raise ValueError(
                f"prior_odds names {sorted(prior_odds)}, but the models are {sorted(names)}"
            )
        prior_odds = [prior_odds[name] for name in names]
    odds = numbers_of(prior_odds)
    if odds.shape != (len(names),) or not np.all((odds > 0) & np.isfinite(odds)):
        raise ValueError(
            f"prior_odds={prior_odds!r} must be {len(names)} positive numbers, one per model; "
            "None gives each model the same"
        )
    return odds


def _warn_if_close(best: Any, others: Mapping[Any, tuple[float, float]]) -> None:
    """One warning of all whose order is not known, if more than a bare mention is at stake."""
    close = [
        f"against {name!r} is {apart:.3g} ± {mcse:.3g}"
        for name, (apart, mcse) in others.items()
        # exactly zero is of a tree and itself
        if 0 < abs(apart) <= mcse and abs(apart) + 2 * mcse > 1.0
    ]
    if close:
        warn(
            f"the log Bayes factor of {best!r} {' and '.join(close)}, no larger than its error: "
            "the order of the two is not known. Run both with more draws or temperatures"
        )


def _judged(entries: Mapping[Any, xr.Dataset], trees: Mapping[Any, xr.DataTree]) -> dict[Any, str]:
    """Statuses, which note of all models that have data if these differ, with their warnings."""
    statuses = {name: str(entry["status"].item()) for name, entry in entries.items()}
    for name, entry in entries.items():
        if (status := statuses[name]) != "ok":
            seen = f" ({entry.attrs[DOUBTS]})" if DOUBTS in entry.attrs else ""
            warn(f"model {name!r} has status {status!r}{seen}: {STATUS_SENTENCES[status]}")
    # nobody knows which of them has the wrong data
    noted = {name: f"{statuses[name]}, other data" for name in _different(trees)}
    return {**statuses, **{name: note.removeprefix("ok, ") for name, note in noted.items()}}


def _different(trees: Mapping[Any, xr.DataTree]) -> list[Any]:
    """Names of all models that have data if these differ, with a warning."""
    data = {name: _sorted_data(tree) for name, tree in trees.items()}
    without = [name for name in data if not data[name]]
    first, *others = [name for name in data if data[name]] or without
    if data[first] and without:
        warn(
            f"the observed data of {first!r} cannot be compared with those of "
            f"{', '.join(map(repr, without))}, which has none (its likelihood may be a potential): "
            "make sure that both are of the same data"
        )
    different = [
        name
        for name in others
        if len(data[name]) != len(data[first])
        or not all(map(partial(np.array_equal, equal_nan=True), data[name], data[first]))
    ]
    if not different:
        return []
    warn(
        f"the observed data of {first!r} and {', '.join(map(repr, different))} differ, and a Bayes "
        "factor between models of different data means nothing (a transformed response needs its "
        "Jacobian)"
    )
    return [first, *others]


def _sorted_data(tree: xr.DataTree) -> list[np.ndarray]:
    if "observed_data" not in tree.children:
        return []
    arrays = [np.asarray(array) for array in tree["observed_data"].to_dataset().data_vars.values()]
    # numbers of any type in one order, in which the two zeros are the same
    arrays = [one.astype(float) + 0.0 if one.dtype.kind in "biuf" else one for one in arrays]
    return sorted(arrays, key=lambda array: (array.shape, array.tobytes()))
