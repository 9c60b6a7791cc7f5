"""log Z of a model with exact observations: bridge sampling on the level set of its inputs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_logz.estimators import LogZEstimate, bridge_log_z
from pymc_logz.manifold.missed_modes import (
    Atlas,
    Chart,
    fitted_charts,
    fraction_unvisited,
    misses_a_mode,
)
from pymc_logz.manifold.model import ConstrainedModel, make_constrained_model, one_blas_thread
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.prior_check import check_priors
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.posterior.repetitions import imbalance_of_draws
from pymc_logz.runners.moves_of_rows import Stopwatch
from pymc_logz.runners.progress import progress_bar, report_count
from pymc_logz.seeds import random_generator, spawn_generators
from pymc_logz.trees.chains import check_stored_density
from pymc_logz.trees.doubts import Doubt, prior_doubts, warn_of_status, with_doubts
from pymc_logz.trees.kinds import MANIFOLD_BRIDGED
from pymc_logz.trees.layout import evidence_dataset, with_evidence
from pymc_logz.trees.posterior import posterior_rows

MAX_CORRECTION = 1e-3
"""Units of the scales by which a draw may be moved: single precision, not another model."""


def manifold_bridge(
    idata: xr.DataTree,
    model: pm.Model,
    *,
    draws: int | None,
    random_seed: Any,
    progressbar: bool,
    compile_kwargs: Mapping[str, Any] | None,
) -> xr.DataTree:
    """What `bridge_sampling` does for a model with exact observations: the same tree with log Z.

    Z is the density of the simulator's output at what was observed, times other likelihoods: the
    integral of rho |J J'|^(-1/2) over the inputs that give the observation (Graham & Storkey, 2017,
    eq. 11). The bridge is between the second halves of the chains and a mixture of tangent charts
    fitted to the first halves; it is exact even where the charts do not reach.
    """
    watch = Stopwatch()
    rng = random_generator(random_seed)
    with progress_bar(progressbar):
        report = report_count("Bridge", 4)
        constrained = make_constrained_model(model, compile_kwargs=compile_kwargs)
        # a generator of its own: what follows must not depend on whether a check was made
        [apart] = spawn_generators(rng, 1)
        prior_doubt = check_priors(model, apart)
        log_mass, mass_error = PriorDraws(model).log_mass(rng)
        posterior = posterior_rows(
            idata, constrained.generator.flat, MAX_CORRECTION * constrained.scale
        )
        rows = posterior.rows
        report(1)
        with one_blas_thread():
            position = on_level_set(constrained, rows / constrained.scale)
            watch.end("compile_time")
            report(1)
            atlas = Atlas(constrained)
            flat, log_rho = constrained.generator.flat, atlas.densities(by_row(position))[1]
            log_turns = flat.log_turns(rows)
            check_stored_density(idata, log_rho.reshape(log_turns.shape), log_turns)
            estimate, charts, reached, found = bridge_charts(atlas, position, draws, rng)
            estimate = estimate.less(log_mass, mass_error)
            report(1)
            if estimate.usable and not found and misses_a_mode(atlas, charts, position, rng):
                reason = "searches from prior draws lead to mass where no chain has been"
                found = [Doubt("missed_mode", reason)]
            report(1)
    known = [*posterior.doubts, *prior_doubts(prior_doubt)]  # of which there have been warnings
    [estimate], notes = with_doubts([estimate], [*known, *found], known)
    if not (known or found):
        warn_of_status(estimate)
    watch.end("sampling_time")
    attrs = {
        **notes,
        **{name: float(value) for name, value in estimate.details.items()},
        "n_charts": len(charts),
        "share_reached": reached,
        "backend": constrained.backend.name,
        "backend_reason": constrained.backend.reason,
        **watch.seconds,
    }
    return with_evidence(idata, evidence_dataset([estimate], attrs), MANIFOLD_BRIDGED)


def on_level_set(constrained: ConstrainedModel, position: np.ndarray) -> np.ndarray:
    """Draws (chains, draws, d) brought to the level set's tolerance, which files may have lost."""
    rows = by_row(position)
    polished = rows.copy()
    for i, row in enumerate(rows):
        residual = constrained.residual_at(row)
        if residual > 1.0:
            polished[i], residual = constrained.polish(row)
        if not (residual <= 1.0 and np.abs(polished[i] - row).max() <= MAX_CORRECTION):
            raise ValueError(
                f"draw {i} of the posterior does not meet the exact observations: it is of another "
                "model, of other data, or of a relaxed model (lz.relax), which has an evidence of "
                "its own"
            )
    return polished.reshape(position.shape)


def bridge_charts(
    atlas: Atlas, position: np.ndarray, draws: int | None, rng: np.random.Generator
) -> tuple[LogZEstimate, list[Chart], float, list[Doubt]]:
    """Log Z from draws (chains, draws, d) on the level set, in units of the inputs' scales.

    With it the charts of the proposal, the share of the first halves that they reach, and what
    speaks against the draws.
    """
    n_chains, n_draws, n_dims = position.shape
    half = n_draws // 2
    charts, reached = fitted_charts(atlas, by_row(position[:, :half]))
    rows = by_row(position[:, half:])
    n_proposed = len(rows) if draws is None else draws
    proposed, target_at_proposal, q_at_proposal = atlas.draw(charts, rng, n_proposed)
    target, q = atlas.densities(rows)[0], atlas.log_density(charts, rows)
    at_rows = target.reshape(n_chains, -1), q.reshape(n_chains, -1)
    estimate = bridge_log_z(
        *at_rows,
        target_at_proposal,
        q_at_proposal,
        # inputs are in units of their scales
        log_z_reference=float(np.log(atlas.model.scale).sum()),
        method="manifold_bridge",
    )
    if not estimate.usable:
        return estimate, charts, reached, []
    log_weight = target_at_proposal - q_at_proposal
    doubts = imbalance_of_draws(
        atlas.model.generator.flat.owners,
        position[:, half:],
        np.subtract(*at_rows),
        proposed,
        log_weight,
        Elliptical(position[:, :half].mean(axis=(0, 1)), np.eye(n_dims)),
    )
    if unvisited := fraction_unvisited(by_row(position), proposed, log_weight):
        where = "where hardly a draw of the chains is"
        reason = f"{unvisited:.0%} of the weight of the proposal is {where}"
        doubts.append(Doubt("missed_mode", reason))
    return estimate, charts, reached, doubts


def by_row(position: np.ndarray) -> np.ndarray:
    """Draws (chains, draws, d) one below the other."""
    return position.reshape(-1, position.shape[-1])
