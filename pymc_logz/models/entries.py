"""Entries of discrete variables that are independent given all the rest, for moves of all at once.

The pieces of the density that each of them owns are computed for all of its values in one go, so
that a Gibbs step over m labels of K values costs K evaluations in place of K m.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace

from pymc_logz.graphs.kept import Kept
from pymc_logz.models.data_inputs import DataInputs, starting_point, with_data_inputs
from pymc_logz.models.discrete import row_variable, split_row
from pymc_logz.models.flat import FlatModel, cheaply_compiled
from pymc_logz.models.independence import data_that_decide
from pymc_logz.models.keeping import KeptForModel, kept_for
from pymc_logz.models.pieces import Sums, add_up, pieces_of, sums_of
from pymc_logz.models.sum_plan import SumPlan, independent_entries, numbered
from pymc_logz.paths.sites import Entries

FEWEST = 2
"""Entries from which on it pays to move them together."""


def with_entries(whole: FlatModel) -> FlatModel:
    """The model with pieces of the density for entries that are independent, if there are several.

    Parameters
    ----------
    whole
        The model, with data of its own.
    """
    if not whole.sites or whole.summed or whole.observed or whole.data is not None:
        return whole
    kept = kept_for(whole.model)
    made = kept.get("entries", lambda: _made(whole, kept))
    if made is None:
        return whole
    flat, data = made
    return replace(flat, values=data.values())


def _made(whole: FlatModel, kept: KeptForModel) -> tuple[FlatModel, DataInputs] | None:
    model, pieces = whole.model, pieces_of(whole.model)
    start = starting_point(model)
    kept.bake_in(data_that_decide([*pieces[0], *pieces[1]]))
    point = row_variable("row", model, whole.shapes)
    try:
        both = [*pieces[0], *pieces[1]]
        alone, owners = independent_entries(model, whole.sites, both, start)
        if len(alone) < FEWEST:
            return None
        plan = SumPlan(
            whole.sites,
            alone,
            np.zeros((1, 0), dtype=int),
            owners,
            "",
            colours=np.zeros(len(alone), dtype=int),
        )
        followed = {var for var, ids in numbered(model, start).items() if set(ids.flat) & {*alone}}
        parts = split_row(point, model.value_vars, start)
        given = {var: part for var, part in parts.items() if var not in followed}
        sums = sums_of(model, given, pieces, plan, start)
        outputs: list[Any] = [sums.prior[0], sums.prior_of_entry[0].ravel()]
        outputs += [sums.ratio[0], sums.ratio_of_entry[0].ravel()]
        # the densities as they were, whose data are to be the same inputs
        whole_pieces = (clone_replace(some, parts, rebuild_strict=False) for some in pieces)
        outputs += [sum((one.sum() for one in some), pt.zeros(())) for some in whole_pieces]
        made, data = with_data_inputs([out.astype(point.dtype) for out in outputs], kept)
    except (NotImplementedError, ValueError, TypeError):
        return None
    _, k, m = plan.shape
    made = [out if out.ndim == 0 else pt.specify_shape(out, (k * m,)) for out in made]
    function = cheaply_compiled([point, *data.inputs], made[:4])

    def sums_at(row: np.ndarray) -> Sums:
        parts = [np.asarray(part) for part in function(row, *data.values())]
        return Sums(*(part.reshape((1, k, m) if part.ndim else (1,)) for part in parts))

    if not add_up(whole, plan, sums_at):
        return None
    sites = tuple(whole.sites[i] for i in alone)
    entries = Entries(sites, (made[0], made[1]), (made[2], made[3]))
    flat = replace(
        whole,
        point=point,
        log_prior=made[4],
        log_ratio=made[5],
        entries=entries,
        inputs=data.inputs,
        kept=Kept(),
    )
    return flat, data
