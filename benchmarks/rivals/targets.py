"""Targets of 2 to 200 dimensions with a known log Z, and their priors as maps of the unit cube."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pymc as pm
import pytensor
from pymc.model.transform.conditioning import remove_value_transforms
from pytensor.graph.traversal import graph_inputs
from scipy import special, stats

from pymc_logz import energies


@dataclass(eq=False)
class Target:
    """One target: its model, its log Z, and what samplers without a model need of it."""

    model: pm.Model
    log_z: float

    @cached_property
    def plain(self) -> pm.Model:
        """The model with variables on their natural scales."""
        return remove_value_transforms(self.model)

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the free variables, in the order of the plain model."""
        point = self.plain.initial_point()
        return [np.shape(point[value.name]) for value in self.plain.value_vars]

    @property
    def n_dims(self) -> int:
        """Number of parameters."""
        return int(sum(np.prod(shape, dtype=int) for shape in self.shapes))

    @cached_property
    def log_likelihood(self) -> Callable[[np.ndarray], float]:
        """Log likelihood plus potentials of a flat point on natural scales."""
        model = self.plain
        terms = model.logp([*model.observed_RVs, *model.potentials], sum=False)
        graph = sum(term.sum() for term in terms)
        function = pytensor.function(model.value_vars, graph, on_unused_input="ignore")
        function.trust_input = True  # a small model costs less than the look at its arguments
        cuts = np.cumsum([np.prod(shape, dtype=int) for shape in self.shapes])[:-1]

        def log_likelihood(x: np.ndarray) -> float:
            parts = np.split(np.asarray(x, dtype=float), cuts)
            shaped = [part.reshape(s) for part, s in zip(parts, self.shapes, strict=True)]
            value = float(function(*shaped))
            return value if value == value else -np.inf

        return log_likelihood

    @cached_property
    def from_cube(self) -> Callable[[np.ndarray], np.ndarray]:
        """Flat point on natural scales of a point of the unit cube, variable by variable."""
        model = self.plain
        values = dict(zip(model.free_RVs, model.value_vars, strict=True))
        order = [rv for rv in model.basic_RVs if rv in values]
        steps = []
        for rv in order:
            parameters = model.replace_rvs_by_values(list(rv.owner.op.dist_params(rv.owner)))
            function = pytensor.function(model.value_vars, parameters, on_unused_input="ignore")
            function.trust_input = True
            point = [np.zeros(shape) for shape in self.shapes]
            if not set(model.value_vars) & set(graph_inputs(parameters)):
                function = partial(lambda known, *_: known, function(*point))
            steps.append((model.free_RVs.index(rv), INVERSE[type(rv.owner.op).__name__], function))
        sizes = [int(np.prod(shape, dtype=int)) for shape in self.shapes]
        starts = np.concatenate([[0], np.cumsum(sizes)])

        def from_cube(u: np.ndarray) -> np.ndarray:
            drawn = [np.zeros(shape) for shape in self.shapes]
            for k, inverse, parameters in steps:
                part = np.asarray(u[starts[k] : starts[k + 1]]).reshape(self.shapes[k])
                drawn[k] = np.asarray(inverse(part, *parameters(*drawn)), dtype=float)
            return np.concatenate([one.ravel() for one in drawn])

        return from_cube


INVERSE: dict[str, Callable[..., np.ndarray]] = {
    "UniformRV": lambda u, low, high: low + u * (high - low),
    "NormalRV": lambda u, mu, sigma: mu + sigma * special.ndtri(u),
    "HalfNormalRV": lambda u, loc, sigma: loc + sigma * special.ndtri((1 + u) / 2),
    "GammaRV": lambda u, shape, scale: scale * special.gammaincinv(shape, u),
}
"""Inverse of the distribution function by PyMC's name of the distribution."""


def conjugate(d: int, seed: int = 0) -> energies.Energy:
    """Regression with d coefficients, correlated covariates and normal noise: log Z in closed form.

    ``b ~ Normal(0, 1)``, ``y ~ Normal(X b, 1)``, so that ``y ~ Normal(0, I + X X')``.
    """
    rng = np.random.default_rng(seed)
    n = 2 * d
    design = rng.normal(size=(n, d)) / np.sqrt(d) + 0.5 * rng.normal(size=(n, 1)) / np.sqrt(d)
    y = design @ rng.normal(size=d) + rng.normal(size=n)
    with pm.Model() as model:
        b = pm.Normal("b", np.zeros(d), 1.0)
        pm.Normal("y", design @ b, 1.0, observed=y)
    log_z = stats.multivariate_normal(np.zeros(n), np.eye(n) + design @ design.T).logpdf(y)
    return energies.Energy(name=f"regression_{d}", model=model, log_z=float(log_z))


def experts(kind: str, d: int) -> energies.Energy:
    """Product of d experts with filters near a rotation."""
    filters = energies.random_filters(3, d)
    if kind == "laplace":
        return energies.laplace_experts(filters)
    return energies.student_t_experts(filters, np.full(d, 4.0))


TARGETS: dict[str, Callable[[], energies.Energy]] = {
    "ridge": energies.ridge,
    "two_gaussians_2": lambda: energies.two_gaussians(2),
    "shells_2": lambda: energies.gaussian_shells(2),
    "pine_density": lambda: energies.radiata_pine("density"),
    "pine_adjusted": lambda: energies.radiata_pine("adjusted"),
    "linear_regression": energies.linear_regression,
    "shells_5": lambda: energies.gaussian_shells(5),
    "laplace_experts_6": lambda: experts("laplace", 6),
    "student_t_experts_6": lambda: experts("student_t", 6),
    "two_gaussians_10": lambda: energies.two_gaussians(10),
    "hierarchical_normal": energies.hierarchical_normal,
    "student_t_experts_36": lambda: experts("student_t", 36),
    "regression_50": lambda: conjugate(50),
    "regression_200": lambda: conjugate(200),
}
"""Targets by name, from 2 to 200 dimensions."""


def target(name: str) -> Target:
    """A target, made anew."""
    energy = TARGETS[name]()
    return Target(energy.model, energy.log_z)
