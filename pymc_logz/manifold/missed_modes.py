"""Points of a level set to start at, and the search for modes that no chain has been to."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import bdtrc

from pymc_logz.errors import ModelError
from pymc_logz.manifold.charts import Atlas, Chart, fitted_charts
from pymc_logz.manifold.model import MAX_TRANSITIONS, ConstrainedModel
from pymc_logz.manifold.rattle import TransitionInput, TransitionRecord
from pymc_logz.weights import DEGENERATE_ESS, normalise, shares_beyond, weight_ess


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


def share_unvisited(
    draws: np.ndarray,
    proposed: np.ndarray,
    log_weight: np.ndarray,
    *,
    edge: float = 0.01,
    beyond: float = 0.1,
    n_errors: float = 4.0,
) -> float:
    """Share of the posterior beyond nearly all draws, by weights of a proposal; 0 if it is small.

    Charts of one branch may reach another one that is near, where no chain has been. Right chains
    of 1,200 draws have up to 0.02 more weight beyond an edge than draws.

    ``draws`` (n, d) are those of the chains, ``proposed`` (k, d) those of the proposal, with log
    weight -inf where a lift failed. A share ``edge`` of the draws is beyond an edge, and of the
    weight ``beyond`` more and ``n_errors`` of its errors more may be there.
    """
    found = np.isfinite(log_weight)
    if weight_ess(log_weight[found]) <= DEGENERATE_ESS:
        return 0.0
    edges = np.quantile(draws, [edge, 1 - edge], axis=0)
    share, error = shares_beyond(proposed[found], normalise(log_weight[found]), edges)
    return float(np.max(np.where(share - edge > np.maximum(beyond, n_errors * error), share, 0.0)))


def misses_a_mode(
    atlas: Atlas,
    charts: Sequence[Chart],
    position: np.ndarray,
    rng: np.random.Generator,
    *,
    n_searches: int = 96,
    n_followed: int = 8,
    min_share: float = 0.02,
    min_probability: float = 1e-3,
) -> bool:
    """Whether searches from prior draws lead to mass that no chain has been to.

    Draws (chains, draws, d) of one mode and charts fitted to them know nothing of another. Searches
    like those that chains start from do. Where one ends in a place that the charts do not cover, a
    chain of its own is made there (of up to ``n_followed`` places), and charts fitted to it tell
    the mass beyond the old ones. If this is more than ``min_share`` of that of the draws, a mode is
    missed; or if more searches than draws end where no chart goes, in places of like density, with
    a probability by chance below ``min_probability``.

    A mode whose basin, the inputs from which a search leads there, holds a share s of the prior is
    found with probability 1 - (1 - s)**n by n searches: with 96 that is above 0.9999 for s = 0.12,
    0.99 for 0.05, 0.62 for 0.01. What hardly any prior draw leads to, such as a small sheet far
    from all of them, is not found by this or any other local search.
    """
    rows = position[:, position.shape[1] // 2 :].reshape(-1, position.shape[-1])
    rows = rng.permutation(rows)[:512]
    log_target = atlas.log_target(rows)
    ratio = log_target - atlas.log_density(charts, rows)
    # the target over its own normalised density is Z
    log_z = float(np.median(ratio))
    far = log_z + 5.0
    share = (np.sum(~(ratio < far)) + 1) / (len(rows) + 2)

    def not_covered(places: np.ndarray) -> np.ndarray:
        return ~(atlas.log_target(places) - atlas.log_density(charts, places) < far)

    def too_many(n: int) -> bool:
        return bool(bdtrc(n - 1, n_searches, share) < min_probability)

    try:
        places = np.array([atlas.model.find_point(rng).position for _ in range(n_searches)])
    except ModelError:
        return False
    places = places[not_covered(places)]
    n_places, places = len(places), rng.permutation(places)[:n_followed]
    n_like = 0
    for place in places:
        # a search may end in a corner, so they move on before they are judged
        height, end = moved_on(atlas.model, place, rng)
        if not_covered(end[None])[0]:
            n_like += int(height > log_target.mean() - 4.0)
            if _mass_at(atlas, end, not_covered, rng) > log_z + np.log(min_share):
                return True
    # of those that were not followed, as many are like the draws
    return n_like > 0 and too_many(round(n_like * n_places / len(places)))


def _mass_at(
    atlas: Atlas,
    place: np.ndarray,
    not_covered: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    n_proposed: int = 512,
) -> float:
    """Log mass around a place that is not covered, from charts fitted to a chain that starts there.

    It is too low where the chain is short for the number of dimensions.
    """
    chain = [record.position for record in records_from(atlas.model, place, 6, rng)]
    rows = np.array(chain)
    rows = rows[not_covered(rows)]
    # a chain that soon is where others have been shows no mode of its own
    if len(rows) < len(chain) // 2:
        return -np.inf
    try:
        charts, _ = fitted_charts(atlas, rows)
    except ModelError:
        return -np.inf
    proposed, log_target = atlas.draw(charts, rng, n_proposed)
    found = np.isfinite(log_target)
    weight = np.zeros(n_proposed)
    log_weight = log_target[found] - atlas.log_density(charts, proposed[found])
    weight[found] = np.exp(log_weight) * not_covered(proposed[found])
    weight[~np.isfinite(weight)] = 0.0
    # one weight is no mass
    mean = np.delete(weight, np.argmax(weight)).mean()
    return float(np.log(mean)) if mean > 0 else -np.inf
