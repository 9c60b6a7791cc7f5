"""What rows that walk from the prior say against draws of a posterior."""

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_logz.errors import EvidenceWarning, ModelError, PilotError
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.loop.from_prior import blend_from_prior
from pymc_logz.loop.planning import block_for
from pymc_logz.models.beyond_draws import MAX_DIMS, N_ROWS, Densities, walk_from_prior
from pymc_logz.models.context import n_data
from pymc_logz.models.density import RowDensity, lacks_gradient
from pymc_logz.models.flat import FlatModel
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.elliptical import fitted_clusters
from pymc_logz.paths.geometric import DrawRows
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Blend, Target
from pymc_logz.references.reference import widened
from pymc_logz.runners.block import Block
from pymc_logz.trees.doubts import Doubt, disagreements
from pymc_logz.weights import NEGLIGIBLE


def log_z_from_prior(
    prepared: Prepared,
    estimate: LogZEstimate,
    rng: np.random.Generator,
    compile_kwargs: Mapping[str, Any] | None,
    block: Block | None = None,
) -> LogZEstimate | None:
    """Log Z by what rows from the prior lead to, to compare an estimate with.

    That is a blend, or a fit to rows that walk by values alone where no blend is found. Nothing is
    looked for with more than 5,000 data, or where the estimate, which has the prior normalised, is
    not ok itself. Rows move by ``block``, from the prior, if that is given and has the default
    moves; evaluations are added to its own.
    """
    flat, settings = prepared.flat, RunSettings()
    may_check = estimate.status == "ok" and prepared.prior.obstacle is None
    if not may_check or flat.sites or is_large(flat):
        return None
    # the prior of a model whose draws are right may lead nowhere
    with suppress(ModelError, PilotError, np.linalg.LinAlgError), warnings.catch_warnings():
        # what is to be said of the model has been said
        warnings.simplefilter("ignore", EvidenceWarning)
        if lacks_gradient(flat) is None:
            usual = settings.kernel_for(flat.n_dims).resolved(flat.n_dims)
            if block is None or block.kernel != usual:
                block = block_for(prepared, settings, compile_kwargs)
            if blend := blend_from_prior(prepared, block, rng):
                return log_z_of_blend(blend, Target(prepared, block), estimate, rng)
    found = walked_log_z(RowDensity(flat, compile_kwargs), prepared.prior, rng)
    return found.less(*prepared.prior.log_mass()) if found else None


def no_surer(estimate: LogZEstimate, own: LogZEstimate) -> LogZEstimate:
    """The estimate with an error that explains how far above it log Z by rows from the prior is.

    Draws of chains that hardly get into the neck of a funnel are too few to tell. What the two
    errors do not explain is a variance between the estimates, and is added, by moments: DerSimonian
    & Laird (1986), Meta-analysis in clinical trials, doi 10.1016/0197-2456(86)90046-2.
    """
    apart = own.log_z - estimate.log_z
    if own.status != "ok" or estimate.status != "ok" or not apart > 0:
        return estimate
    between = max(0.0, apart**2 - estimate.mcse**2 - own.mcse**2)
    return replace(estimate, mcse=float(np.sqrt(estimate.mcse**2 + between)))


def log_z_of_blend(
    blend: Blend,
    target: Target,
    estimate: LogZEstimate,
    rng: np.random.Generator,
    most_tries: int = 32,
) -> LogZEstimate:
    """Log Z by fresh rows of a blend, to compare another estimate with.

    Each row is chosen from as many as bring its error to half that of the estimate, two at least
    and ``most_tries`` at most.
    """

    def found(tries: int, n: int) -> LogZEstimate:
        rows = replace(blend, tries=tries).weighted(target, rng, n)
        made = importance_log_z(rows.log_weight, method="a blend from the prior")
        return made.less(0.0, target.prepared.prior.log_mass()[1])

    rough = found(1, N_ROWS)
    if not (rough.usable and estimate.usable):
        return rough
    wanted = np.ceil(2 * (rough.mcse / max(estimate.mcse, NEGLIGIBLE)) ** 2)
    return found(int(np.clip(wanted, 2, most_tries)), 2 * N_ROWS)


def larger(own: LogZEstimate | None, estimate: LogZEstimate) -> list[Doubt]:
    """Whether log Z by rows from the prior is above an estimate that is ok, but lacks a mode.

    That it is smaller says nothing: a blend may lack a mode, and a mean weight is rarely larger
    than what it stands for.
    """
    if own is None or estimate.status != "ok":
        return []
    is_lower = own.details.get("log_mean_weight", own.log_z) < estimate.log_z + NEGLIGIBLE
    found = [] if is_lower else disagreements(estimate, [own], only_higher=True)
    return [doubt._replace(status="missed_mode") for doubt in found]


def is_large(flat: FlatModel, max_data: int = 5000) -> bool:
    """Whether there are so many data that looking for modes is dear.

    With 20,000 it takes 5 to 10 seconds; with fewer it is nothing beside the posterior itself.
    """
    return n_data(flat) > max_data


def walked_log_z(
    densities: Densities, prior: DrawRows, rng: np.random.Generator
) -> LogZEstimate | None:
    """Log Z by a fit to rows that walk from the prior, by values alone; None if it is of no use.

    They get to the posterior in 16 dimensions at most.
    """
    start = prior(rng, N_ROWS)
    rows = walk_from_prior(densities, start, rng) if start.shape[1] <= MAX_DIMS else None
    if rows is None:
        return None
    fit = widened(fitted_clusters(rows, len(rows) / 4, rng))
    # how many rows end in a mode is chance
    fit = fit._replace(shares=(fit.shares + 1 / len(fit.shares)) / 2)
    fresh = fit(rng, 4 * N_ROWS)
    with np.errstate(all="ignore"):
        log_weight = np.add(*densities(fresh)) - fit.log_density_of(fresh)
    log_weight = np.where(np.isnan(log_weight), -np.inf, log_weight)
    if not log_weight.max() < np.inf:
        return None
    found = importance_log_z(log_weight, method="particles that walked from the prior")
    return found if found.usable else None
