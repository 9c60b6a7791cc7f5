"""A model that was checked, made flat, and may be summed: what every method starts with."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import NamedTuple

import numpy as np
import pymc as pm

from pymc_logz.errors import DiscreteVariableError, logger, says_if_interrupted
from pymc_logz.models.cache import kept_for
from pymc_logz.models.flat import FlatModel, flatten_model
from pymc_logz.models.prior import PriorDraws, simulate
from pymc_logz.models.prior_check import check_priors
from pymc_logz.seeds import spawn_generators

WING = "pymc_logz.discrete"


class NotSummed(NamedTuple):
    """Why discrete variables of a model are not summed out."""

    reason: str


def summed_out(whole: FlatModel, *, whatever_is_left: bool = False) -> FlatModel | NotSummed:
    """A model without its discrete variables, or why that cannot be."""
    found = _made_by_wing("summed_out", whole)
    if isinstance(found, FlatModel) and not whole.continuous.size and not whatever_is_left:
        return NotSummed(
            "no continuous variable is left, and sample_hais(sum_out=True) has log Z as the sum"
        )
    return found


def with_entries(whole: FlatModel) -> FlatModel:
    """The model with `Entries` that are independent given all the rest, if it has several."""
    if not whole.sites or whole.summed or whole.observed or whole.data is not None:
        return whole
    found = _made_by_wing("with_entries", whole)
    return whole if isinstance(found, NotSummed) else found


def _made_by_wing(name: str, whole: FlatModel) -> FlatModel | NotSummed:
    """What a function of the wing makes of a model, once, with the data that there are now."""
    try:
        wing = import_module(f"{WING}.summing")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(WING):
            raise
        return NotSummed(f"{WING} is not installed")
    made = kept_for(whole.model).get(name, lambda: getattr(wing, name)(whole))
    if isinstance(made, NotSummed):
        return made
    flat, data = made
    return replace(flat, values=data.values())


@dataclass(frozen=True)
class Prepared:
    """A PyMC model made ready: what every method knows of it."""

    flat: FlatModel
    """Log densities of a row of unconstrained values; names, shapes and labels of the variables."""
    prior: PriorDraws
    """Exact draws of the prior."""
    exact_row: np.ndarray | None
    """The draw that simulated data came from, shape (1, d)."""
    prior_doubt: str | None = None
    """Why it is not known that the priors integrate to one, if so."""

    @property
    def n_dims(self) -> int:
        """d, the length of a row."""
        return self.flat.n_dims

    def record(self) -> dict[str, str]:
        """For the attributes of a result: which variables were summed out, and how."""
        summed = self.flat.summed
        return {} if summed is None else {"summed_out": summed.plan.route}


@says_if_interrupted("the model was being prepared")
def prepare(
    model: pm.Model,
    rng: np.random.Generator,
    *,
    data: Iterable[str] = (),
    simulate_data: bool = False,
    needs_prior_draws: bool = True,
    integers: bool = False,
    sum_out: bool | None = False,
) -> Prepared:
    """Check a model and everything that is given with it, and make it flat."""
    # each row brings its own data of these names; sum_out of None: where it can be done, and else
    # kernels are to move discrete variables
    flat = flatten_model(model, data=data, integers=integers or sum_out is not False)
    exact_row = None
    if simulate_data:
        exact_row, observed = simulate(model, rng)
        flat = flatten_model(model, observed, integers=integers)
    if flat.sites and sum_out is not False:
        flat = without_integers(flat, must=bool(sum_out))
    flat = with_entries(flat)
    columns = None if flat.summed is None else flat.summed.plan.whole.continuous
    prior = PriorDraws(model, needed=needs_prior_draws, columns=columns)
    doubt = None
    if prior.obstacle is None:
        # a generator of its own: what follows must not depend on whether a check was made
        [apart] = spawn_generators(rng, 1)
        doubt = check_priors(model, apart)
    return Prepared(flat, prior, exact_row, doubt)


def without_integers(flat: FlatModel, *, must: bool) -> FlatModel:
    """The model with discrete variables summed out, if it can or must be."""
    found = summed_out(flat)
    names = sorted({flat.owners[site.column] for site in flat.sites})
    if isinstance(found, NotSummed):
        message = f"discrete variables {names} are not summed out: {found.reason}"
        if must:
            raise DiscreteVariableError(
                f"the {message}; pymc_logz.sample_hais and sample_tempered move them instead, "
                "unless they have sum_out=True"
            )
        logger.info("The %s.", message)
        return flat
    assert found.summed is not None
    logger.info("Discrete variables are summed out: %s.", found.summed.plan.route)
    return found
