"""What speaks against a HAIS run that its own weights have nothing against."""

import numpy as np

from pymc_logz.checks.missed_modes import found_from_prior
from pymc_logz.checks.symmetry import symmetry_doubts
from pymc_logz.checks.tails import tail_doubts
from pymc_logz.hais.directions import Directions, doubts_of_ends, forward_estimate, of_model
from pymc_logz.kernels.hamiltonian import walls_of
from pymc_logz.loop.calls import Subject
from pymc_logz.models.density import lacks_gradient
from pymc_logz.references.blend import AT_ONCE
from pymc_logz.runners.anneal import of_rows
from pymc_logz.trees.doubts import Doubt
from pymc_logz.weights import resampled


def doubts_of_run(
    subject: Subject, directions: Directions, rng: np.random.Generator
) -> list[Doubt]:
    """What speaks against the estimates of a run.

    Only rows whose weights are good enough stand for the posterior, and are looked at.
    """
    estimate = forward_estimate(directions.forward, directions.reference)
    ends = doubts_of_ends(directions)
    prepared, block = subject.prepared, subject.block
    if prepared is None or not estimate.usable:
        return ends
    runs = [of_model(run, directions.reference) for run in directions.forward]
    position, log_weight = of_rows("position", runs), of_rows("log_weight", runs)
    rows = position[resampled(log_weight, rng, AT_ONCE)]
    doubts = [*ends, *tail_doubts(prepared.flat, block.densities, rows, rng)]
    reference = directions.reference
    if reference.taken == "draws":  # no pilot has come from the prior
        drawn = position[np.unique(resampled(log_weight, rng))]
        doubts += symmetry_doubts(prepared.flat, block.densities, drawn)
    # nothing has been fitted where a reference was asked for, nor climbed where a kernel does not
    is_narrow = reference.is_given or not block.follows_whole_gradient
    # a walk through a black box takes a third of the evaluations of a run
    may_look = not walls_of(block.kernel) and lacks_gradient(prepared.flat) is None
    if not doubts and is_narrow and may_look:
        doubts += found_from_prior(prepared, estimate, rng, block.compile_kwargs, block)
    return doubts
