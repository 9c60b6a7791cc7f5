"""Charts of a level set by its tangent spaces, and densities on it that can be drawn from.

A chart at a point c of the level set has an orthonormal basis T of the tangent space there. It
takes t, shape (k,), to the point that is found from c + T t by moving along the rows of J(c). The
density q(t) of the tangent space becomes q(t) |det T' T_u| with respect to the surface measure at
the point u, where t = T' (u - c) and T_u is an orthonormal basis of the tangent space at u; and it
is zero unless t leads to u itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import qr
from scipy.special import logsumexp

from pymc_logz.errors import ModelError
from pymc_logz.manifold.algebra import Linear
from pymc_logz.manifold.gauss_newton import project_position
from pymc_logz.manifold.model import ConstrainedModel
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.fitting import fitted_to_few

TANGENT_DF = 6.0
"""Degrees of freedom in the tangent space, which the evidence on a level set was measured with."""


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
        self.model = model

    def place(self, centre: np.ndarray) -> Chart:
        """A chart at a point of the level set, with a standard density for now."""
        dense = np.asarray(self._dense_jacobian(centre))
        n_outputs, n_dims = dense.shape
        basis = qr(dense.T)[0][:, n_outputs:]
        k = n_dims - n_outputs
        standard = Elliptical(np.zeros(k), np.eye(k), TANGENT_DF)
        return Chart(centre, basis, self._linear(centre), standard, 1.0)

    def lift(self, chart: Chart, tangent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points that tangent vectors (n, k) lead to, and the log of the target density there.

        Where none is found, or the density is not finite, the latter is -inf.
        """
        shared = (chart.centre, chart.basis, chart.linear)
        position, found, log_density = self._in_chunks(self._lift, tangent, shared)
        usable = found & np.isfinite(log_density)
        return position, np.where(usable, log_density, -np.inf)

    def reach(self, chart: Chart, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tangent vectors of points (n, d), and log |det T' T_u|; -inf where none leads there."""
        shared = (chart.centre, chart.basis, chart.linear)
        tangent, log_angle = self._in_chunks(self._reach, position, shared)
        return tangent, np.where(np.isnan(log_angle), -np.inf, log_angle)

    def log_density(self, charts: Sequence[Chart], position: np.ndarray) -> np.ndarray:
        """Log of the mixture's density with respect to surface measure at points (n, d)."""
        terms = []
        for chart in charts:
            tangent, log_angle = self.reach(chart, position)
            terms.append(np.log(chart.share) + chart.density.log_density_of(tangent) + log_angle)
        return logsumexp(terms, axis=0)

    def draw(
        self, charts: Sequence[Chart], rng: np.random.Generator, n: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Points drawn from a mixture of charts (n, d), and the log target density there."""
        counts = rng.multinomial(n, [chart.share for chart in charts])
        lifted = [
            self.lift(chart, chart.draw(rng, count))
            for chart, count in zip(charts, counts, strict=True)
            if count
        ]
        positions, log_densities = zip(*lifted, strict=True)
        return np.concatenate(positions), np.concatenate(log_densities)

    def log_target(self, position: np.ndarray) -> np.ndarray:
        """Log target density at points of the level set (n, d)."""
        return self._in_chunks(self._target, position, ())[0]

    def _in_chunks(
        self, function: Callable, rows: np.ndarray, shared: tuple[Any, ...], n: int = 256
    ) -> list[np.ndarray]:
        """Outputs of a function of rows; each call has ``n`` of them, so that JAX compiles once."""
        columns: list[list[np.ndarray]] = []
        for begin in range(0, len(rows), n):
            chunk = rows[begin : begin + n]
            padded = np.concatenate([chunk, np.repeat(chunk[-1:], n - len(chunk), axis=0)])
            is_jax = self.model.backend.name == "jax"
            outputs = function(padded if is_jax else chunk, *shared)
            columns.append([np.asarray(output)[: len(chunk)] for output in outputs])
        return [np.concatenate(column) for column in zip(*columns, strict=True)]

    @cached_property
    def _dense_jacobian(self) -> Callable:
        model = self.model
        dense = model.backend.system(model.scale, model.tolerance, None)
        return model.backend.compile(dense.jacobian)

    @cached_property
    def _linear(self) -> Callable:
        system = self.model.system
        return self.model.backend.compile(
            lambda position: system.algebra.factorise(system.jacobian(position))
        )

    @cached_property
    def _lift(self) -> Callable:
        system = self.model.system

        def lift(tangent: Any, centre: Any, basis: Any, linear: Linear) -> tuple[Any, ...]:
            there = project_position(system, centre + basis @ tangent, linear)
            _, log_density, _ = system.evaluate(there.position)
            return there.position, there.residual <= 1.0, log_density

        return self.model.backend.compile_rows(lift)

    @cached_property
    def _reach(self) -> Callable:
        system = self.model.system
        xp, algebra = system.arrays.xp, system.algebra

        def reach(position: Any, centre: Any, basis: Any, linear: Linear) -> tuple[Any, ...]:
            tangent = basis.T @ (position - centre)
            there = project_position(system, centre + basis @ tangent, linear)
            same = xp.max(xp.abs(there.position - position)) < 1e-6
            here = algebra.factorise(system.jacobian(position))
            # the determinant of T' T_u is that of the normal spaces: J J_c' between two factors
            log_angle = algebra.cross_log_det(here.jacobian, linear.jacobian)
            log_angle = log_angle - algebra.half_log_det(here) - algebra.half_log_det(linear)
            return tangent, xp.where((there.residual <= 1.0) & same, log_angle, -xp.inf)

        return self.model.backend.compile_rows(reach)

    @cached_property
    def _target(self) -> Callable:
        system = self.model.system
        return self.model.backend.compile_rows(lambda position: (system.evaluate(position)[1],))


def fitted_charts(
    atlas: Atlas,
    position: np.ndarray,
    *,
    max_charts: int = 12,
    enough_reached: float = 0.99,
    tried_share: float = 0.1,
) -> tuple[list[Chart], float]:
    """Mixture of charts fitted to draws (n, d) of the target, and the fraction that it reaches.

    The first chart is placed at the draw nearest to their mean. As long as draws are left that no
    chart reaches, another is placed amid those, up to ``max_charts``, each of which costs a search
    for every draw. Each is fitted to what it was the first to reach. Beyond a fraction
    ``enough_reached`` the rest is left to the bridge, which is exact without. Of a centre that
    reaches too few draws, a fraction ``tried_share`` nearest to it are tried no more. A ModelError
    is raised if no chart reaches enough of the draws to be fitted to them.
    """
    left = np.ones(len(position), dtype=bool)
    untried = left.copy()
    least = min(len(position), max(8, 2 * (position.shape[1] - atlas.model.generator.n_outputs)))
    charts: list[tuple[Chart, np.ndarray]] = []
    for _ in range(max_charts):
        if not np.any(left & untried) or (charts and left.mean() <= 1 - enough_reached):
            break
        middle = position[left].mean(axis=0)
        distance = ((position - middle) ** 2).sum(axis=1)
        nearest = int(np.argmin(np.where(left & untried, distance, np.inf)))
        chart = atlas.place(position[nearest])
        tangent, log_angle = atlas.reach(chart, position)
        new = left & np.isfinite(log_angle)
        if new.sum() < least:
            # near a crossing of the set its tangent space leads nowhere: others may do better
            untried &= distance > np.quantile(distance[left & untried], tried_share)
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
        replace(chart, density=fitted_to_few(tangent, TANGENT_DF), share=len(tangent) / total)
        for chart, tangent in charts
    ]
    return fitted, float(1.0 - left.mean())
