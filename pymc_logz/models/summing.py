"""Discrete variables summed out of a model, by the wing `pymc_logz.discrete` if it is there."""

from importlib import import_module
from typing import Any, NamedTuple

from pymc_logz.models.flat import FlatModel

WING = "pymc_logz.discrete"


class NotSummed(NamedTuple):
    """Why discrete variables of a model are not summed out."""

    reason: str


def summed_out(whole: FlatModel, *, whatever_is_left: bool = False) -> FlatModel | NotSummed:
    """A model, with data of its own, without its discrete variables, or why that cannot be.

    ``whatever_is_left`` says that it is fine if no variable is left.
    """
    if (wing := _wing()) is None:
        return NotSummed(f"{WING} is not installed")
    found: FlatModel | NotSummed = wing.summed_out(whole)
    if isinstance(found, FlatModel) and not whole.continuous.size and not whatever_is_left:
        return NotSummed(
            "no continuous variable is left, and sample_hais(sum_out=True) has log Z as the sum"
        )
    return found


def with_entries(whole: FlatModel) -> FlatModel:
    """The model with `Entries` that are independent given all the rest, if it has several."""
    if not whole.sites or whole.summed or whole.observed or whole.data is not None:
        return whole
    wing = _wing()
    return whole if wing is None else wing.with_entries(whole)


def _wing() -> Any:
    try:
        return import_module(f"{WING}.summing")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(WING):
            raise
        return None
