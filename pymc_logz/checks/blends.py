"""What weighted rows of a blend, which need no path, say against another log Z."""

from dataclasses import replace

import numpy as np

from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.references.blend import N_ROWS, Blend, Target
from pymc_logz.trees.doubts import Doubt, disagreements
from pymc_logz.weights import TOLERANCE


def blend_doubts(
    blend: Blend,
    target: Target,
    estimate: LogZEstimate,
    rng: np.random.Generator,
    most_tries: int = 32,
) -> list[Doubt]:
    """Whether log Z by fresh rows of a blend is another one; if it is larger, mass is missing.

    Each row is chosen from as many as bring its error to half that of the estimate, two at least
    and ``most_tries`` at most.
    """
    if estimate.status != "ok":
        return []

    def found(tries: int, n: int) -> LogZEstimate:
        rows = replace(blend, tries=tries).weighted(target, rng, n)
        return importance_log_z(rows.log_weight, method="importance")

    rough = found(1, N_ROWS[0])
    if not rough.usable:
        return []
    wanted = np.ceil(2 * (rough.mcse / max(estimate.mcse, TOLERANCE / 2)) ** 2)
    own = found(int(np.clip(wanted, 2, most_tries)), 2 * N_ROWS[0])
    status = "missed_mode" if own.log_z > estimate.log_z else "disagrees"
    return [doubt._replace(status=status) for doubt in disagreements(estimate, [own])]
