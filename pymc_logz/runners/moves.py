"""Which kernel moves the rows of a model, where a user leaves that open."""

from typing import TYPE_CHECKING

import numpy as np

from pymc_logz.errors import logger
from pymc_logz.graphs.gradients import columns_of_boxes
from pymc_logz.kernels.base import Kernel
from pymc_logz.kernels.choice import as_kernel
from pymc_logz.kernels.compose import Compose
from pymc_logz.kernels.walks import RandomWalk
from pymc_logz.models.density import lacks_gradient
from pymc_logz.models.flat import FlatModel, flatten_model

if TYPE_CHECKING:
    import pymc as pm


def kernel_for(kernel: Kernel | str | None, *models: "pm.Model") -> Kernel:
    """The kernel that is given, or the default for models with or without gradients."""
    if kernel is not None:
        return as_kernel(kernel)
    flat = [flatten_model(model, integers=True) for model in models]
    lacking = next((reason for of_model in flat if (reason := lacks_gradient(of_model))), None)
    if lacking is None:
        return as_kernel(None)
    one = flat[0]
    found = one.kept.get(("variables of boxes",), lambda: variables_of_boxes(one))
    if len(flat) > 1 or not found:
        logger.info("The model has no gradient (%s): particles move by a random walk.", lacking)
        return RandomWalk()
    logger.info(
        "The model has no gradient by %s (%s): %s by a random walk, while the other variables "
        "follow their gradient.",
        " and ".join(found),
        lacking,
        "it moves" if len(found) == 1 else "they move",
    )
    n_dims = sum(name in found for name in one.owners)
    return Compose({found: RandomWalk(step_size=2.38 / np.sqrt(n_dims))})


def variables_of_boxes(flat: FlatModel) -> tuple[str, ...]:
    """Variables that move apart, since black boxes without a gradient depend on them; or none."""
    # where few others are left all walk: two kernels evaluate the model four times in a move.
    # Beside two parameters of a box, 20 others take half the calls where all walk, and 60 a quarter
    # of them where these follow their gradient
    columns = columns_of_boxes([flat.log_prior, flat.log_ratio], flat.point)
    names = tuple(dict.fromkeys(flat.owners[column] for column in sorted(columns)))
    others = tuple(j for j, name in enumerate(flat.owners) if name not in names)
    few = not columns or flat.sites or len(others) < 32
    return () if few or lacks_gradient(flat, others) is not None else names


def walkers_for(walkers: int | None, model: "pm.Model") -> int:
    """Walkers of a tempered chain: as asked for, or fewer where each is a call of Python."""
    # 64 cost little more than 8 where they are computed together; an eighth of them makes nearly as
    # many effective draws, and 2.5 times the error of log Z (docs/theory/decisions.md)
    if walkers is not None:
        return walkers
    return 8 if flatten_model(model, integers=True).calls_host else 64
