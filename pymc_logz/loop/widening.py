"""The rounds: parts are proposed, blended and tried, and what they do not explain is a part."""

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import islice

import numpy as np

from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.looking import N_LOOK, Look
from pymc_logz.models.density import draw_posterior, lacks_gradient
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.funnels import Funnel, fitted_funnel
from pymc_logz.pilot.population import Stages
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Component, Part, Prior, Target, target_of
from pymc_logz.references.conditional import conditional_normal, may_be_in_funnel
from pymc_logz.references.directions import independent_directions
from pymc_logz.references.lacking_modes import N_CLIMB, lacking_modes, modes_of_heavy
from pymc_logz.references.reference import at_mode, look_at_prior
from pymc_logz.references.search import HEAVY, Search, fitted_components
from pymc_logz.runners.anneal import Annealed, merge
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import is_shown

LEAST = 0.01
"""Effective share of rows of components below which rows are annealed from the prior: the ends of
their path would be further apart than the prior's as a rule."""
N_TRIED = 512
"""Rows of a blend in each round."""
N_ROUNDS = 8
"""Rounds in which a blend is widened, at most."""
EVEN = 0.5
"""Effective share of the rows from which on weights are even: nothing more is proposed."""
UNEVEN = 0.1
"""The same up to which more than one thing is proposed at a time."""
GAIN = 1.2
"""Factor in the effective share by which components fitted anew have to raise it, to go on."""
LOOK_WORTH = 0.5
"""Share of a further look at a population, one block of moves later, that is new."""
OF_MODE = "a Student-t with the curvature at the mode"

Way = Callable[[Target, np.ndarray, np.random.Generator], Part | None]
"""From rows (n, d) of the posterior, as far as it is known, to a density or nothing."""


def searched(
    prepared: Prepared,
    block: Block,
    look: Look,
    settings: RunSettings,
    rng: np.random.Generator,
    tried: Planned | None = None,
    *,
    alone: bool = False,
) -> Search:
    """A blend of all that was proposed, widened until it explains the rows or nothing is gained.

    What was ``tried`` before, and did not hold, has parts that are of use, as is what they lacked.
    With ``alone`` nothing but components in the coordinates of the look is proposed.
    """
    target = target_of(prepared, block)
    search, rows = Search(target), look.stages.rows
    assert rows is not None
    known = rows.position if look.funnel is None else look.funnel.restored(rows.position)
    proposers = iter(() if alone else proposed(search, rng))
    parts = tried.blend.parts if tried is not None and tried.blend is not None else ()
    search.add_parts([Prior(), *(part for part in parts if not isinstance(part, Prior))])
    search.add_parts(first_components(search, look, known, settings, rng))
    search.add_witnesses(target(known[rng.permutation(len(known))[:N_LOOK]]))
    search.draw(rng, N_TRIED)
    if settings.asks_for("laplace") and search.effective_share(search.shares()) > LEAST:
        return search
    add_lacking(search, look, rng, search.shares())
    if tried is not None and tried.ran:
        add_modes(search, look, reduce(merge, tried.ran), rng)
    # what is fitted to rows says nothing of where they did not get, the narrow end of a funnel or
    # far tails, and seems even without it
    search.add_parts([*islice(proposers, 1)])
    widen(search, proposers, look.funnel, rng)
    return search


def widen(
    search: Search, proposers: Iterator[Part], funnel: Funnel | None, rng: np.random.Generator
) -> None:
    """Rounds of fresh rows, after each of which what they do not explain becomes a part."""
    refitted_at, fewest = 0.0, len(search.witnesses.position) + 1
    for _ in range(N_ROUNDS):
        search.draw(rng, N_TRIED)
        shares = search.shares()
        even = search.effective_share(shares)
        left, more = search.unexplained(shares), list[Part]()
        if 0 < len(left) < fewest:
            fewest = len(left)
            more += fitted_components(left, len(left), funnel, rng)
        if even > EVEN and not more:
            return
        if even > GAIN * refitted_at:
            refitted_at = even
            more += search.refitted(funnel, rng)
        if even < UNEVEN or not more:
            more += islice(proposers, 1)
        if not more:
            return
        search.add_parts(more)
    search.draw(rng, N_TRIED)


def first_components(
    search: Search,
    look: Look,
    known: np.ndarray,
    settings: RunSettings,
    rng: np.random.Generator,
) -> list[Component]:
    """Components that are fitted to rows of the look, or have the curvature at the mode."""
    target = search.target
    # without a gradient a mode is not looked for, and what is fitted to the rows is taken
    if settings.asks_for("laplace") and lacks_gradient(target.prepared.flat) is None:
        start = target.prepared.prior(rng, target.block.n_rows)
        mode = at_mode(target.prepared, start, target.block.compile_kwargs)
        return [Component(mode, None, OF_MODE)]
    return fitted_components(known, n_effective(look.stages), look.funnel, rng)


def n_effective(stages: Stages) -> float:
    """Independent rows that the rows of a pilot are worth."""
    assert stages.rows is not None
    assert stages.end is not None
    n_looks = len(stages.rows.position) / len(stages.end)
    return len(stages.end) * (1 + LOOK_WORTH * (n_looks - 1))


def proposed(search: Search, rng: np.random.Generator) -> Iterator[Part]:
    """Further densities, each made when it is asked for, of what is known by then."""
    ways: list[Way] = [independent_directions, conditional_normal]
    if may_be_in_funnel(search.target.prepared):
        ways.reverse()
    for make in ways:
        part = make(search.target, search.known(rng)[0], rng)
        if part is not None:
            yield part


def add_draws(search: Search, rng: np.random.Generator) -> bool:
    """Draws of ``pm.sample``, and what is fitted to them; whether there are any."""
    target = search.target
    if (draws := draw_posterior(target.prepared, rng, is_shown())) is None:
        return False
    target.block.work.add(draws.n_gradients)
    rows = draws.rows
    # few rows of a pilot that did not get far look like a funnel where there is none
    funnel = fitted_funnel(rows, look_at_prior(target.prepared, rng))
    search.add_parts([*fitted_components(rows, len(rows), funnel, rng)])
    search.add_witnesses(target(rows[rng.permutation(len(rows))[:N_LOOK]]))
    search.draw(rng, N_TRIED)
    widen(search, proposed(search, rng), funnel, rng)
    return True


def add_modes(search: Search, look: Look, tried: Annealed, rng: np.random.Generator) -> bool:
    """Modes that heavy rows of a blend climb to; whether there are any."""
    more = modes_of_heavy(search, look.walked, look.funnel, look.scale, tried, rng)
    search.add_parts(more)
    search.draw(rng, N_TRIED)
    return bool(more)


def add_lacking(
    search: Search,
    look: Look,
    rng: np.random.Generator,
    shares: np.ndarray,
    heavy: float = HEAVY,
    most: int = N_CLIMB[1],
) -> bool:
    """Modes that rows of the prior climb to, and parts in these shares lack; whether any do."""
    walked, funnel = look.walked, look.funnel
    more = lacking_modes(search, walked, funnel, look.scale, rng, shares, heavy, most)
    search.add_parts(more)
    search.draw(rng, N_TRIED)
    return bool(more)
