"""Where chains on a level set start."""

import numpy as np

from pymc_logz.errors import ModelError
from pymc_logz.manifold.model import MAX_TRANSITIONS, ConstrainedModel
from pymc_logz.manifold.transitions import TransitionInput, TransitionRecord


def find_start(
    model: ConstrainedModel, rng: np.random.Generator, *, n_candidates: int = 4, n_tries: int = 100
) -> np.ndarray:
    """A point of the level set, shape (d,), by way of fresh prior draws.

    A search may end in a corner, or in a mode of hardly any mass, that a chain takes long to leave
    or never leaves. So a few points are found (four: see the decision on starts in
    docs/theory/decisions.md), each goes some transitions on, and one is drawn in proportion to the
    density that they came to: modes of like density each have their chance. A ModelError is raised
    if no point is found, none can be brought to the tolerance, or the structure of the Jacobian
    does not hold there.
    """
    candidates: list[tuple[float, np.ndarray]] = []
    for _ in range(n_tries):
        try:
            position, residual = model.polish(model.find_point(rng).position)
        except ModelError:
            if candidates:
                break
            raise
        if not model.structure_holds(position):
            raise ModelError(
                "an input taken for noise of one output reaches others where they are matched; "
                "pass use_structure=False, and leave out noise= if it was declared"
            )
        if residual <= 1.0:
            candidates.append(moved_on(model, position, rng))
        if len(candidates) == n_candidates:
            break
    if not candidates:
        raise ModelError(
            "the points found where the exact observations are met could not be brought to the "
            "tolerance; raise tolerance="
        )
    # the largest of log densities with Gumbel noise is a draw in proportion to the densities
    heights = [log_density + rng.gumbel() for log_density, _ in candidates]
    return candidates[int(np.argmax(heights))][1]


def moved_on(
    model: ConstrainedModel, position: np.ndarray, rng: np.random.Generator
) -> tuple[float, np.ndarray]:
    """Mean log density of the second half of some transitions, and where they lead."""
    records = records_from(model, position, 2, rng)[MAX_TRANSITIONS:]
    return float(np.mean([record.log_density for record in records])), records[-1].position


def records_from(
    model: ConstrainedModel, position: np.ndarray, n_blocks: int, rng: np.random.Generator
) -> list[TransitionRecord]:
    """Records of some blocks of transitions of a fixed, short length from a position on."""
    state, records = model.state_at(position), []
    for _ in range(n_blocks):
        given = [
            TransitionInput(rng.standard_normal(position.size), np.log(rng.random()), 0.2, 4)
            for _ in range(MAX_TRANSITIONS)
        ]
        state, part = model.transitions(state, given)
        records += part
    return records
