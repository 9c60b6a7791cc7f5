"""What speaks against a HAIS run that its own weights have nothing against."""

from functools import partial

import numpy as np

from pymc_logz.checks.edges import edge_doubts
from pymc_logz.checks.missed_modes import (
    HIT_MASS,
    LEAST_HIT,
    found_from_prior,
    hit_doubts,
    is_large,
)
from pymc_logz.checks.symmetry import symmetry_doubts
from pymc_logz.checks.tails import tail_doubts
from pymc_logz.hais.directions import Directions, doubts_of_ends, forward_estimate, of_model
from pymc_logz.kernels.hamiltonian import walls_of
from pymc_logz.loop.calls import Subject
from pymc_logz.loop.frozen import Planned
from pymc_logz.references.blend import AT_ONCE
from pymc_logz.references.conditional import ConditionalNormal
from pymc_logz.runners.anneal import of_rows
from pymc_logz.trees.doubts import Doubt
from pymc_logz.weights import resampled

N_PRIOR = {1: 4096, 2: 4096, 3: 1024, 4: 1024, 5: 1024}
"""Draws of the prior that may hit a mode, by the dimensions in which they have a chance."""


def doubts_of_run(
    subject: Subject, planned: Planned, directions: Directions, rng: np.random.Generator
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
    parts = planned.blend.parts if planned.blend is not None else ()
    is_explored = any(isinstance(part, ConditionalNormal) for part in parts)
    # what is normal given few others was looked at along these as it was fitted
    if directions.reference.taken != "nested_laplace" and not is_explored:
        doubts += edge_doubts(prepared, block, rows, rng)
    drawn = resampled(log_weight, rng)
    ends = position[np.unique(drawn)]
    if not prepared.flat.sites and prepared.n_dims in N_PRIOR and not is_large(prepared.flat):
        prior = prepared.prior(rng, N_PRIOR[prepared.n_dims])
        log_share = np.log(prepared.prior.finite_share)
        # weights that have been judged already need no more, and may lack a little above all rows
        more, least = None, HIT_MASS
        if estimate.status == "ok":
            more, least = partial(prepared.prior, rng, 8192), LEAST_HIT
        doubts += hit_doubts(
            block.densities, prior, position[drawn], estimate.log_z, log_share, more, least
        )
    reference = directions.reference
    if reference.taken == "draws":  # no pilot has come from the prior
        doubts += symmetry_doubts(prepared.flat, block.densities, ends)
    # nor has anything else been tried where this was asked for
    if not doubts and reference.is_given and not walls_of(block.kernel):
        doubts += found_from_prior(prepared, estimate, rng, block.compile_kwargs, block)
    return doubts
