"""Charts of a level set by its tangent spaces, starting points, and modes that no chain found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import qr
from scipy.special import bdtrc, logsumexp

from pymc_logz.errors import ModelError
from pymc_logz.manifold.algebra import Linear
from pymc_logz.manifold.backends import compile_rows
from pymc_logz.manifold.model import MAX_TRANSITIONS, ConstrainedModel
from pymc_logz.manifold.rattle import TransitionInput, TransitionRecord, project_position
from pymc_logz.paths.elliptical import Elliptical, fitted_to_few
from pymc_logz.weights import DEGENERATE_ESS, normalise, weight_ess


@dataclass(frozen=True)
class Chart:
    """A tangent space with a multivariate Student-t density on it."""

    centre: np.ndarray
    """Point of the level set, shape (d,)."""
    basis: np.ndarray
    """Orthonormal tangent vectors, shape (d, k)."""
    linear: Linear
    """Jacobian at the centre, with its factors."""
    density: Elliptical
    """Student-t on the tangent space, in k dimensions."""
    share: float
    """Of the mixture."""

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Tangent vectors, shape (n, k)."""
        # stretches before normals: what comes of a seed rests on the order
        stretch = self.density.draw_stretch(rng, n)
        return self.density.placed(rng.standard_normal((n, self.basis.shape[1])), stretch)


class Atlas:
    """Maps of tangent spaces onto the level set of a model, for many rows at a time."""

    def __init__(self, model: ConstrainedModel) -> None:
        backend, system = model.backend, model.system
        xp, algebra = system.arrays.xp, system.algebra

        def linear_at(position: Any) -> Linear:
            return algebra.factorise(system.jacobian(position))

        def lift(tangent: Any, centre: Any, basis: Any, linear: Linear) -> tuple[Any, ...]:
            there = project_position(system, centre + basis @ tangent, linear)
            _, log_density, _ = system.evaluate(there.position)
            usable = (there.residual <= 1.0) & xp.isfinite(log_density)
            return there.position, xp.where(usable, log_density, -xp.inf)

        def tangent_to(position: Any, centre: Any, basis: Any, linear: Linear) -> tuple[Any, ...]:
            tangent = basis.T @ (position - centre)
            there = project_position(system, centre + basis @ tangent, linear)
            same = xp.max(xp.abs(there.position - position)) < 1e-6
            here = linear_at(position)
            # the determinant of T' T_u is that of the normal spaces: J J_c' between two factors
            log_angle = algebra.cross_log_det(here.jacobian, linear.jacobian)
            log_angle = log_angle - algebra.half_log_det(here) - algebra.half_log_det(linear)
            found = (there.residual <= 1.0) & same & ~xp.isnan(log_angle)
            return tangent, xp.where(found, log_angle, -xp.inf)

        def densities(position: Any) -> tuple[Any, Any]:
            linear, log_density, _ = system.evaluate(position)
            return log_density, log_density + algebra.half_log_det(linear)

        self.model = model
        self._linear = backend.compile(linear_at)
        self._lift = compile_rows(backend, lift)
        self._tangents = compile_rows(backend, tangent_to)
        self.densities = compile_rows(backend, densities)
        """Log target, and log density of the inputs alone, at points of the level set (n, d)."""

    def place(self, centre: np.ndarray) -> Chart:
        """A chart at a point of the level set, with a standard density for now."""
        dense = self.model.dense_jacobian(centre)
        n_outputs, n_dims = dense.shape
        basis = qr(dense.T)[0][:, n_outputs:]
        k = n_dims - n_outputs
        # degrees of freedom that the evidence on a level set was measured with
        standard = Elliptical(np.zeros(k), np.eye(k), 6.0)
        return Chart(centre, basis, self._linear(centre), standard, 1.0)

    def lift(self, chart: Chart, tangent: np.ndarray) -> tuple[np.ndarray, ...]:
        """Points that tangent vectors (n, k) lead to, and the log target there; -inf where none."""
        return self._lift(tangent, chart.centre, chart.basis, chart.linear)

    def tangents(self, chart: Chart, position: np.ndarray) -> tuple[np.ndarray, ...]:
        """Tangent vectors of points (n, d), and log |det T' T_u|; -inf where none leads there."""
        return self._tangents(position, chart.centre, chart.basis, chart.linear)

    def log_density(self, charts: Sequence[Chart], position: np.ndarray) -> np.ndarray:
        """Log of the mixture's density with respect to surface measure at points (n, d)."""
        terms = []
        for chart in charts:
            tangent, log_angle = self.tangents(chart, position)
            terms.append(np.log(chart.share) + chart.density.log_density_of(tangent) + log_angle)
        return logsumexp(terms, axis=0)

    def draw(
        self, charts: Sequence[Chart], rng: np.random.Generator, n: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points drawn from a mixture of charts (n, d), log target there, and their own density.

        Where a draw leads nowhere the target is -inf, and the density 0 in place of none.
        """
        counts = rng.multinomial(n, [chart.share for chart in charts])
        lifted = [
            self.lift(chart, chart.draw(rng, count))
            for chart, count in zip(charts, counts, strict=True)
            if count
        ]
        position, log_target = map(np.concatenate, zip(*lifted, strict=True))
        log_density = np.full(len(position), -np.inf)
        found = np.isfinite(log_target)
        log_density[found] = self.log_density(charts, position[found])
        # a lift that the check does not confirm has no density, so it counts as a failed one
        found = np.isfinite(log_density)
        log_target = np.where(found, log_target, -np.inf)
        return position, log_target, np.where(found, log_density, 0.0)


def fitted_charts(atlas: Atlas, position: np.ndarray) -> tuple[list[Chart], float]:
    """Mixture of charts fitted to draws (n, d) of the target, and the fraction that it reaches.

    Each of up to 12 charts is placed at the draw nearest to the mean of those that none reaches
    yet, and fitted to what it is the first to reach; a last hundredth is left to the bridge. Of a
    centre that reaches too few, the tenth nearest to it are tried no more.
    """
    left = np.ones(len(position), dtype=bool)
    untried = left.copy()
    least = min(len(position), max(8, 2 * (position.shape[1] - atlas.model.generator.n_outputs)))
    charts: list[tuple[Chart, np.ndarray]] = []
    for _ in range(12):
        if not np.any(left & untried) or (charts and left.mean() <= 0.01):
            break
        middle = position[left].mean(axis=0)
        distance = ((position - middle) ** 2).sum(axis=1)
        nearest = int(np.argmin(np.where(left & untried, distance, np.inf)))
        chart = atlas.place(position[nearest])
        tangent, log_angle = atlas.tangents(chart, position)
        new = left & np.isfinite(log_angle)
        if new.sum() < least:
            # near a crossing of the set its tangent space leads nowhere: others may do better
            untried &= distance > np.quantile(distance[left & untried], 0.1)
            continue
        charts.append((chart, tangent[new]))
        left &= ~new
    if not charts:
        raise ModelError(
            f"no tangent space of the level set leads to {least} of the {len(position)} draws in "
            "the first halves of the chains: they are too few, or the set crosses itself where "
            "they are (the outputs do not move with the inputs there), and log Z may be infinite; "
            "use more draws, and check the simulator there"
        )
    total = sum(len(tangent) for _, tangent in charts)
    fitted = [
        replace(chart, density=fitted_to_few(tangent, chart.density.df), share=len(tangent) / total)
        for chart, tangent in charts
    ]
    return fitted, float(1.0 - left.mean())


def find_start(model: ConstrainedModel, rng: np.random.Generator) -> np.ndarray:
    """A point of the level set, shape (d,), by way of fresh prior draws.

    A search may end in a corner, or in a mode of hardly any mass. So a few points are found (four:
    see docs/theory/decisions.md), each goes some transitions on, and one is drawn in proportion to
    the density that they came to: modes of like density each have their chance.
    """
    candidates: list[tuple[float, np.ndarray]] = []
    for _ in range(100):
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
        if len(candidates) == 4:
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


def fraction_unvisited(draws: np.ndarray, proposed: np.ndarray, log_weight: np.ndarray) -> float:
    """Share of the posterior beyond nearly all draws, by weights of a proposal; 0 if it is small.

    Charts of one branch may reach another that no chain has been to. Right chains of 1,200 draws
    have up to 0.02 more weight of what is proposed beyond an edge than draws.
    """
    found = np.isfinite(log_weight)
    if weight_ess(log_weight[found]) <= DEGENERATE_ESS:
        return 0.0
    edge = 0.01
    edges = np.quantile(draws, [edge, 1 - edge], axis=0)
    beyond = np.concatenate([proposed[found] < edges[0], proposed[found] > edges[1]], axis=1).T
    weight = normalise(log_weight[found])
    share = beyond @ weight
    error = np.sqrt((beyond - share[:, None]) ** 2 @ weight**2)
    return float(np.max(np.where(share - edge > np.maximum(0.1, 4.0 * error), share, 0.0)))


def misses_a_mode(
    atlas: Atlas, charts: Sequence[Chart], position: np.ndarray, rng: np.random.Generator
) -> bool:
    """Whether searches from prior draws lead to mass that no chain (chains, draws, d) has been to.

    Where a search ends in a place that the charts do not cover, a chain of its own is made there
    (of up to 8), and charts fitted to it tell the mass beyond the old ones. A share of 0.02 is a
    mode; so are more searches than draws that end where no chart goes, in places of like density,
    which chance makes once in a thousand. A mode to which a share s of the prior leads is found
    with probability 1 - (1 - s)**n: with 96 above 0.9999 for s = 0.12, 0.99 for 0.05, 0.62 for
    0.01.
    """
    rows = position[:, position.shape[1] // 2 :].reshape(-1, position.shape[-1])
    rows = rng.permutation(rows)[:512]
    log_target = atlas.densities(rows)[0]
    ratio = log_target - atlas.log_density(charts, rows)
    # the target over its own normalised density is Z
    log_z = float(np.median(ratio))
    far = log_z + 5.0
    share = (np.sum(~(ratio < far)) + 1) / (len(rows) + 2)

    def not_covered(places: np.ndarray) -> np.ndarray:
        return ~(atlas.densities(places)[0] - atlas.log_density(charts, places) < far)

    n_searches = 96
    try:
        places = np.array([atlas.model.find_point(rng).position for _ in range(n_searches)])
    except ModelError:
        return False
    places = places[not_covered(places)]
    n_places, places = len(places), rng.permutation(places)[:8]
    n_like = 0
    for place in places:
        # a search may end in a corner, so they move on before they are judged
        height, end = moved_on(atlas.model, place, rng)
        if not_covered(end[None])[0]:
            n_like += int(height > log_target.mean() - 4.0)
            if _mass_at(atlas, end, not_covered, rng) > log_z + np.log(0.02):
                return True
    # of those that were not followed, as many are like the draws
    if n_like == 0:
        return False
    n_all = round(n_like * n_places / len(places))
    return bool(bdtrc(n_all - 1, n_searches, share) < 1e-3)


def _mass_at(
    atlas: Atlas,
    place: np.ndarray,
    not_covered: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
) -> float:
    """Log mass around a place that is not covered, too low where a chain from there is short."""
    chain = np.array([record.position for record in records_from(atlas.model, place, 6, rng)])
    apart = not_covered(chain)
    # a chain that soon is where others have been shows no mode of its own
    if apart.sum() < len(chain) // 2:
        return -np.inf
    try:
        charts, _ = fitted_charts(atlas, chain[apart])
    except ModelError:
        return -np.inf
    proposed, log_target, log_density = atlas.draw(charts, rng, 512)
    weight = np.exp(log_target - log_density) * not_covered(proposed)
    weight[~np.isfinite(weight)] = 0.0
    # one weight is no mass
    mean = np.delete(weight, np.argmax(weight)).mean()
    return float(np.log(mean)) if mean > 0 else -np.inf
