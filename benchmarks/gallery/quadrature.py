"""log Z of models with few parameters by quadrature, and of linear normal ones in closed form.

The trapezoidal rule on a grid of whole standard deviations is all it takes: for a density that is
near a normal one, and vanishes at the edges, the error falls as ``exp(-2 pi**2 / step**2)``, which
is 3e-9 for a step of one standard deviation.
"""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pymc as pm
from pymc.blocking import DictToArrayBijection
from pymc.pytensorf import join_nonshared_inputs
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp

LogDensity = Callable[[np.ndarray], float]
# standard deviations; a node of such a grid stands for a cell, and the error is 5e-10
STEP = 0.9
# a grid whose every other node says something else is too coarse; 0.02 is normal in five dimensions
TOLERANCE = 0.05
# nats below the top at which a node and all beyond it are left out: 1e-6 of five dimensions
NEGLIGIBLE = 18.0


def log_density(model: pm.Model) -> tuple[LogDensity, np.ndarray]:
    """PyMC's log density of the unconstrained vector (d,), and a point to start from."""
    start = model.initial_point()
    [logp], vector = join_nonshared_inputs(start, [model.logp()], model.value_vars)
    function = pm.compile([vector], logp, trust_input=True)
    ordered = {value.name: start[value.name] for value in model.value_vars}
    return lambda u: float(function(u)), DictToArrayBijection.map(ordered).data.astype(float)


def model_log_z(model: pm.Model, n_ordered: int = 1) -> float:
    """log Z of a model with up to five parameters.

    PyMC's density of `n_ordered` exchangeable parameters that a transform keeps in order is that
    of their prior in any order; what is meant is the prior of those in order, of mass one.
    """
    return grid_log_z(*log_density(model)) + float(gammaln(n_ordered + 1))


def grid_log_z(log_f: LogDensity, start: np.ndarray, step: float = STEP) -> float:
    """Log of the integral of exp(log_f) over the whole space.

    Parameters
    ----------
    log_f
        Log density of a vector (d,); one mode.
    start
        Where the search for the mode starts, shape (d,).
    step
        Distance of nodes in standard deviations of the normal density that has the curvature at the
        mode.

    Returns
    -------
    float
        Log of the integral.

    Raises
    ------
    ArithmeticError
        If the grid is too coarse.
    """
    mode = _mode(log_f, start)
    axes = step * np.linalg.cholesky(np.linalg.inv(_curvature(log_f, mode)))
    found = _filled(lambda node: log_f(mode + axes @ node), mode.size)
    cell = np.log(np.diag(axes)).sum()
    fine = logsumexp(list(found.values())) + cell
    even = [value for node, value in found.items() if not any(i % 2 for i in node)]
    coarse = logsumexp(even) + cell + mode.size * np.log(2)
    if abs(fine - coarse) > TOLERANCE:
        raise ArithmeticError(
            f"step={step} is too coarse: {fine:.4f}, with twice that {coarse:.4f}"
        )
    return float(fine)


def _filled(log_f: LogDensity, n_dims: int) -> dict[tuple[int, ...], float]:
    """Values at the whole numbers around 0 that count, and at those next to them."""
    origin = (0,) * n_dims
    found = {origin: log_f(np.zeros(n_dims))}
    top, frontier = found[origin], [origin]
    while frontier:
        node = frontier.pop()
        if found[node] < top - NEGLIGIBLE:
            continue
        for i, move in product(range(n_dims), (-1, 1)):
            next_to = (*node[:i], node[i] + move, *node[i + 1 :])
            if next_to not in found:
                value = log_f(np.array(next_to, dtype=float))
                found[next_to] = value if np.isfinite(value) else -np.inf
                top = max(top, found[next_to])
                frontier.append(next_to)
    return found


def _mode(log_f: LogDensity, start: np.ndarray) -> np.ndarray:
    """Where log_f is largest, shape (d,)."""
    rough = minimize(lambda u: -log_f(u), start, method="Nelder-Mead", options={"maxiter": 2000})
    return np.asarray(minimize(lambda u: -log_f(u), rough.x, method="BFGS").x)


def _curvature(log_f: LogDensity, mode: np.ndarray, h: float = 1e-3) -> np.ndarray:
    """Negative second derivatives at the mode, by differences, shape (d, d)."""
    moves = h * np.eye(mode.size)
    found = np.empty((mode.size, mode.size))
    for i, a in enumerate(moves):
        for j, b in enumerate(moves):
            corners = [log_f(mode + s * a + t * b) * s * t for s, t in product((1, -1), repeat=2)]
            found[i, j] = -sum(corners) / (4 * h**2)
    return found


def normal_log_density(
    x: np.ndarray, mean: np.ndarray | float, sd: np.ndarray | float
) -> np.ndarray:
    """Log density of a normal law, without the checks that make SciPy's slow."""
    return -0.5 * ((x - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)


class NormalLinear:
    """Log density of ``y ~ Normal(x @ b, sd)`` with all b integrated out, ``b ~ Normal(0, sds)``.

    Parameters
    ----------
    x
        Covariates, shape (n, p).
    y
        Responses, shape (n,).
    """

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.n = y.size
        self.gram, self.moments, self.squares = x.T @ x, x.T @ y, float(y @ y)

    def log_density(self, sds: Sequence[float] | np.ndarray, sd: float) -> float:
        """Its value for prior standard deviations (p,) of b and that of the noise."""
        sds = np.asarray(sds, dtype=float)
        # with b = sds * z, the precision of z given y
        factor = np.linalg.cholesky(np.eye(sds.size) + sds[:, None] * self.gram * sds / sd**2)
        explained = solve_triangular(factor, sds * self.moments / sd**2, lower=True)
        square = self.squares / sd**2 - explained @ explained
        log_det = 2 * np.log(np.diag(factor)).sum() + self.n * np.log(2 * np.pi * sd**2)
        return float(-0.5 * (square + log_det))
