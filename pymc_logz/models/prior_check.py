"""A cheap check, on prior draws, that every prior integrates to one in the unconstrained space.

For each free variable, with its parents held at one prior draw, the mass of its density over the
unconstrained space is looked at in several ways (`pymc_logz.models.prior_looks`). A transform that
restricts the variable makes it the share of draws that it can take, which is then the right
constant. Any other mass means that PyMC's log density and its draws disagree, and log Z would be
off by its logarithm. What each variable is off by adds up over entries and variables, and so the
sum is judged too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.custom import CustomSymbolicDistRV
from pymc.pytensorf import replace_vars_in_graphs
from pytensor.graph.replace import vectorize_graph

from pymc_logz.errors import ImproperPriorError, warn
from pymc_logz.graphs.functions import compile_kwargs_for, function_for, wider
from pymc_logz.models.cache import contents_of, is_data, kept_for
from pymc_logz.models.known_priors import is_known
from pymc_logz.models.prior import Sampler, transformed
from pymc_logz.models.prior_looks import (
    MAX_ERROR,
    Bounds,
    Look,
    bridge,
    counted,
    mean_ratio,
    quadrature,
)
from pymc_logz.weights import TOLERANCE

N_DRAWS = 1000
N_ERRORS = 5.0
"""Standard errors that a mass must be off by to be refused."""


@dataclass(frozen=True)
class PriorMass:
    """Log mass of one variable's prior in the unconstrained space, and what it should be."""

    name: str
    looks: tuple[Look, ...]
    """Estimates of the mean log mass of its elements: one, or a computed one and a mean ratio."""
    log_expected: float
    """Mean log share of the draws that the transform could take: what the mass has to equal."""
    expected_error: float
    n_elements: int
    """Elements whose masses multiply."""
    bounds: Bounds | None = None

    @property
    def verdict(self) -> str:
        """``"agrees"``, ``"off"``, or ``"inconclusive"`` where no look is sharp."""
        if self._is_out_of_bounds():
            return "off"
        sharp = [look for look in self.looks if look.is_sharp]
        off = [self.distance(look) for look in sharp if self._is_off(look)]
        if not off:
            return "agrees" if sharp else "inconclusive"
        # where g of a mean ratio reaches into a gap between modes, it makes too much of the mass,
        # never too little: a higher one says nothing against what was computed before it
        is_gap = sharp[0] is self.looks[0] and not self._is_off(sharp[0]) and min(off) > 0
        return "agrees" if is_gap else "off"

    @property
    def total(self) -> np.ndarray:
        """Distance, error and slack of all elements together, by the first look that is sharp."""
        for look in self.looks:
            if look.is_sharp:
                error = np.hypot(look.mcse, self.expected_error)
                return self.n_elements * np.array([self.distance(look), error, look.slack])
        return np.zeros(3)

    @property
    def seen(self) -> float:
        """Log mass by the first look that is off, or the bound next to what it should be."""
        off = [look.log_mass for look in self.looks if look.is_sharp and self._is_off(look)]
        if off or self.bounds is None:
            return (off or [self.looks[0].log_mass])[0]
        return float(np.clip(self.log_expected, *self.bounds[:2]))

    def distance(self, look: Look) -> float:
        """How far off the mass of one element is by a look."""
        return look.log_mass - self.log_expected

    def _is_off(self, look: Look) -> bool:
        error = float(np.hypot(look.mcse, self.expected_error))
        return abs(self.distance(look)) > max(TOLERANCE, look.slack) + N_ERRORS * error

    def _is_out_of_bounds(self) -> bool:
        if self.bounds is None:
            return False
        lower, upper, error = self.bounds
        slack = TOLERANCE + N_ERRORS * float(np.hypot(error, self.expected_error))
        return lower - self.log_expected > slack or self.log_expected - upper > slack


def check_priors(model: pm.Model, rng: np.random.Generator) -> str | None:
    """Refuse priors that are not normalised; of those that may not be, warn and say why."""
    doubtful = tuple(rv for rv in model.free_RVs if not is_known(model, rv))
    if not doubtful:
        return None
    kept = kept_for(model)
    priors = kept.get(("prior check", doubtful), lambda: Conditional(model, doubtful))
    now = tuple(contents_of(container) for container in priors.data)
    masses = kept.get(("prior mass", doubtful, now), lambda: checked_masses(priors, rng))
    not_confirmed = [mass for mass in masses if mass.verdict != "agrees"]
    if not not_confirmed and _sum_is(masses)[1]:
        not_confirmed = masses
    if not not_confirmed:
        return None
    reason = "the check that priors integrate to one is inconclusive: "
    reason += "; ".join(map(_described, not_confirmed))
    warn(
        reason + ". If one does not, log Z is off by as much, and its error does not show it; make "
        "sure that log density and draws of these priors are of one normalised distribution"
    )
    return reason


def checked_masses(priors: "Conditional", rng: np.random.Generator) -> list[PriorMass]:
    """Masses of the priors of some variables; refused if they are not normalised."""
    priors.start(rng)
    masses = priors.masses(N_DRAWS, rng)
    suspects = {mass.name for mass in masses if mass.verdict != "agrees"}
    is_off, is_inconclusive = _sum_is(masses)
    if not suspects and not is_off and not is_inconclusive:
        return masses
    # a refusal cannot be overruled, so it takes more draws to make one
    masses = priors.masses(4 * N_DRAWS, rng)
    for mass in masses:
        if mass.name in suspects and mass.verdict == "off":
            raise ImproperPriorError(
                f"the prior of {mass.name!r} integrates to exp({mass.seen:.2f}) in "
                f"the unconstrained space instead of exp({mass.log_expected:.2f}): {CAUSE}"
            )
    if is_off and _sum_is(masses)[0]:
        total = sum(mass.total[0] for mass in masses)
        each = {mass.name: round(mass.total[0], 3) for mass in masses}
        raise ImproperPriorError(
            f"the priors of {list(each)} together integrate to exp({total:.2f}) instead of 1 in "
            f"the unconstrained space, by their logarithms {each}: {CAUSE}"
        )
    return masses


CAUSE = (
    "PyMC's log density and its draws are not of the same normalised distribution (some extra "
    "transforms are known for this), which would shift log Z. Write the prior in an equivalent "
    "normalised form"
)


def _sum_is(masses: Sequence[PriorMass]) -> tuple[bool, bool]:
    """Whether all variables together are off by something, and whether that is inconclusive.

    The latter is so if each of them may be settled, but their sum is not.
    """
    distance, errors, slack = np.array([mass.total for mass in masses]).reshape(-1, 3).T
    error, slack = float(np.linalg.norm(errors)), slack.sum()
    is_off = abs(distance.sum()) > TOLERANCE + slack + N_ERRORS * error
    return bool(is_off), bool(max(error, slack) > 2 * MAX_ERROR)


def _described(mass: PriorMass) -> str:
    each = f" of each of the {mass.n_elements} elements" if mass.n_elements > 1 else ""
    looks = [
        f"{mass.distance(look):.2f} ± {max(look.mcse, look.slack):.2f}"
        for look in mass.looks
        if look.is_sharp
    ]
    if not looks:
        return f"the mass{each} of {mass.name!r} is not known from {4 * N_DRAWS} draws"
    return f"the log mass{each} of {mass.name!r} is off by {' or '.join(looks)}"


class Conditional:
    """Draws of variables given their parents, which stay at one draw of the prior, and densities.

    What it calls is compiled; whoever calls it has it alone, as `Kept` makes sure.
    """

    def __init__(self, model: pm.Model, checked: Sequence[Any]) -> None:
        given = {rv: rv.type(name=f"{rv.name}_given") for rv in model.free_RVs}
        values, conditional = transformed(model), []
        for rv, value in zip(model.free_RVs, values, strict=True):
            if rv in checked:
                parents = {other: draw for other, draw in given.items() if other is not rv}
                conditional += replace_vars_in_graphs([value], parents)
        self.names = [rv.name for rv in checked]
        # to a draw of every free variable, and their unconstrained values
        self.joint = Sampler([], [*model.free_RVs, *values])
        # from the former, as parents, to an unconstrained draw of each variable that is checked
        self.draw = Sampler(list(given.values()), conditional)
        # from unconstrained values of all, as parents, and n of each checked one to n densities
        batches, outputs = [], []
        log_densities = wider(model.logp(vars=list(checked), sum=False))
        for rv, log_density in zip(checked, log_densities, strict=True):
            value = model.rvs_to_values[rv]
            if isinstance(rv.owner.op, CustomSymbolicDistRV):
                # that of an entry may depend on the others, as of a sum or a scan
                log_density = log_density.sum()
            # nameless: a name such as "1|group" looks like a dtype to PyTensor
            batches.append(pt.tensor(dtype=value.type.dtype, shape=(None, *value.type.shape)))
            outputs += vectorize_graph([log_density], {value: batches[-1]})
        kwargs = compile_kwargs_for("FAST_COMPILE", {"on_unused_input": "ignore"})
        self.log_density = function_for([*model.value_vars, *batches], outputs, **kwargs)
        functions = (self.joint.function, self.draw.function, self.log_density)
        shared = (var for function in functions for var in function.get_shared())
        self.data = tuple(dict.fromkeys(var for var in shared if is_data(var)))
        """Containers that any of these depend on."""

    def start(self, rng: np.random.Generator) -> None:
        """Draw the parents."""
        self.joint.seed(rng)
        self.draw.seed(rng)
        for _ in range(N_DRAWS):
            both = self.joint()
            self.parents, self.at = both[: len(both) // 2], both[len(both) // 2 :]
            if all(np.all(np.isfinite(value)) for value in self.at):
                return

    def masses(self, n: int, rng: np.random.Generator) -> list[PriorMass]:
        """Masses of all variables that are checked, from n draws of each."""
        columns = zip(*(self.draw(*self.parents) for _ in range(n)), strict=True)
        draws = [np.stack(column) for column in columns]
        densities = self.log_density(*self.at, *draws)
        return [
            self._mass(i, draws, densities[i], rng) for i, values in enumerate(draws) if values.size
        ]

    def _mass(
        self,
        i: int,
        draws: list[np.ndarray],
        log_density: np.ndarray,
        rng: np.random.Generator,
        most_repeated: float = 0.05,
    ) -> PriorMass:
        """Of the i-th variable: draws (n, *batch, *event) and their log densities (n, *batch)."""
        others = [array[:1] for array in draws]
        shape, n = draws[i].shape[1:], len(draws[i])
        log_density = log_density.reshape(n, -1)
        k = log_density.shape[1]
        values = draws[i].reshape(n, k, -1)

        def evaluate(rows: np.ndarray) -> np.ndarray:
            batches = [*others[:i], rows.reshape(-1, *shape), *others[i + 1 :]]
            return np.asarray(self.log_density(*self.at, *batches)[i]).reshape(-1, k)

        finite = np.all(np.isfinite(values), axis=2)
        share = finite.mean(axis=0)
        if values.dtype.kind == "f" and values.shape[2] == 1:
            seen = values[finite[:, 0], 0, 0]
            if np.unique(seen).size < (1 - most_repeated) * seen.size:
                raise ImproperPriorError(
                    f"draws of {self.names[i]!r} repeat each other, as of a variable that is "
                    "rounded, censored or a mixture with a point, whose density does not show "
                    "that: make it discrete, or part it from such points by an indicator"
                )
        chosen = rng.permutation(k)[:20]
        bounds = None
        if values.shape[2] > 1:

            def of_chosen(rows: np.ndarray) -> np.ndarray:
                batch = values[: len(rows)].copy()
                batch[:, chosen] = rows
                return evaluate(batch)[:, chosen]

            look, bounds = bridge(values[:, chosen], log_density[:, chosen], of_chosen, rng)
            looks = [look]
        else:
            looks = [mean_ratio(values[:, chosen, 0], log_density[:, chosen])]
            if values.dtype.kind in "iub":
                looks.insert(0, counted(values[..., 0], evaluate))
            elif np.all(finite.sum(axis=0) > 1):
                looks.insert(0, quadrature(values[..., 0], evaluate))
        with np.errstate(divide="ignore"):
            log_expected = float(np.log(share).mean())
            error = float(np.sqrt(np.sum((1 - share) / (share * n))) / k)
        return PriorMass(self.names[i], tuple(looks), log_expected, error, k, bounds)
