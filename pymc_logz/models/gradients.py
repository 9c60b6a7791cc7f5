"""Whether a model has gradients: asked by whatever has a choice."""

from pytensor.gradient import NullTypeGradError

from pymc_logz.graphs.gradients import gradients_of
from pymc_logz.models.flat import FlatModel


def lacks_gradient(flat: FlatModel) -> str | None:
    """Why there is no gradient of a model's log density; None if there is one."""
    return flat.kept.get(("lacks gradient",), lambda: _found_lacking(flat))


def _found_lacking(flat: FlatModel) -> str | None:
    try:
        gradients_of([flat.log_prior, flat.log_ratio], flat.point)
    except (NotImplementedError, NullTypeGradError) as error:
        return str(error)[:200]
    return None
