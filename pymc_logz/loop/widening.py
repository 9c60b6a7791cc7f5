"""The rounds: parts are proposed, blended and tried, and what they do not explain is a part."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import islice

import numpy as np

from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.lacking_modes import lacking_modes, modes_of_heavy, tops_of_prior
from pymc_logz.loop.looking import Look
from pymc_logz.models.density import draw_posterior
from pymc_logz.models.known_priors import normal_columns
from pymc_logz.paths.funnels import Funnel, fitted_funnel
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import AT_ONCE, N_ROWS, N_STARTS, Component, Part, Prior, Target
from pymc_logz.references.conditional import conditional_normal, has_conditional_normals
from pymc_logz.references.directions import independent_directions
from pymc_logz.references.modes import MAX_DIMS, followed
from pymc_logz.references.reference import look_at_prior
from pymc_logz.references.search import Search, fitted_components
from pymc_logz.runners.anneal import merge
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import is_shown

LEAST = 0.01
"""Effective share of rows of components below which rows are annealed from the prior: the ends of
their path would be further apart than the prior's as a rule."""
N_TRIED = N_ROWS[0]
"""Rows of a blend in each round."""
OF_MODE = "a Student-t with the curvature at the mode"

Way = Callable[[Target, np.ndarray, np.random.Generator], Part | None]
"""From rows (n, d) of the posterior, as far as it is known, to a density or nothing."""


def searched(
    target: Target,
    look: Look,
    settings: RunSettings,
    rng: np.random.Generator,
    tried: Planned | None = None,
    more: Sequence[Part] = (),
    *,
    alone: bool = False,
) -> Search:
    """A blend of all that was proposed, widened until it explains the rows or nothing is gained.

    It begins with the parts of what was ``tried`` before, and did not hold, and with ``more``.
    With ``alone`` nothing but components in the coordinates of the look is proposed.
    """
    search, known = Search(target), look.restored(look.position)
    proposers = iter(() if alone else proposed(search, rng))
    blend = tried.blend if tried is not None else None
    parts = blend.parts if blend is not None else ()
    search.add_parts([Prior(), *(part for part in parts if not isinstance(part, Prior)), *more])
    search.add_parts(first_components(target.block, look, known, settings, rng))
    search.add_witnesses(target(known[rng.permutation(len(known))[:AT_ONCE]]))
    search.draw(rng, N_TRIED)
    if settings.asks_for("laplace") and search.effective_share(search.shares()) > LEAST:
        return search
    search.tops = tops_of_prior(search, look, rng)
    add_modes(search, lacking_modes(search, look, rng, search.shares()), rng)
    if tried is not None and blend is not None and tried.ran:
        add_modes(search, modes_of_heavy(search, look, reduce(merge, tried.ran), rng), rng)
    # what is fitted to rows says nothing of where they did not get, the narrow end of a funnel or
    # far tails, and seems even without it
    search.add_parts([*islice(proposers, 1)])
    widen(search, proposers, look.funnel, rng)
    return search


def widen(
    search: Search, proposers: Iterator[Part], funnel: Funnel | None, rng: np.random.Generator
) -> None:
    """Rounds of fresh rows, after each of which what they do not explain becomes a part.

    There are eight at most, and fewer once the effective share of the rows is above a half. Below a
    tenth more than one thing is proposed at a time. Components are fitted anew as long as that
    raises it by a fifth.
    """
    refitted_at, fewest = 0.0, len(search.witnesses.position) + 1
    for _ in range(8):
        search.draw(rng, N_TRIED)
        shares = search.shares()
        even = search.effective_share(shares)
        left, more = search.unexplained(shares), list[Part]()
        if 0 < len(left) < fewest:
            fewest = len(left)
            more += fitted_components(left, len(left), funnel, rng)
        if even > 0.5 and not more:
            return
        if even > 1.2 * refitted_at:
            refitted_at = even
            more += fitted_components(*search.known(rng), funnel, rng)
        if even < 0.1 or not more:
            more += islice(proposers, 1)
        if not more:
            return
        search.add_parts(more)
    search.draw(rng, N_TRIED)


def first_components(
    block: Block, look: Look, known: np.ndarray, settings: RunSettings, rng: np.random.Generator
) -> list[Component]:
    """Components that are fitted to rows of the look, or have the curvature at the mode."""
    # without a gradient a mode is not looked for, and what is fitted to the rows is taken
    if settings.asks_for("laplace") and block.follows_whole_gradient:
        # in many dimensions each takes a large matrix
        n_starts = N_STARTS if known.shape[1] <= MAX_DIMS else 1
        best = np.argsort(-block.log_target(known))[:n_starts]
        if modes := followed(block, known[best], known.std(axis=0)):
            return [Component(modes[0].component, None, OF_MODE)]
    # of a further look at a population, one block of moves later, a half is new
    assert look.stages.end is not None
    n_first = len(look.stages.end)
    return fitted_components(known, (n_first + len(known)) / 2, look.funnel, rng)


def proposed(search: Search, rng: np.random.Generator) -> Iterator[Part]:
    """Further densities, each made when it is asked for, of what is known by then."""
    ways: list[Way] = [independent_directions, conditional_normal]
    prepared = search.target.prepared
    if has_conditional_normals(prepared) and normal_columns(prepared.flat).size < prepared.n_dims:
        ways.reverse()  # others, as spreads are, may decide how narrow normal ones are
    for make in ways:
        part = make(search.target, search.known(rng)[0], rng)
        if part is not None:
            yield part


def add_draws(search: Search, rng: np.random.Generator) -> bool:
    """Draws of ``pm.sample``, and what is fitted to them; whether there are any."""
    target = search.target
    if (drawn := draw_posterior(target.prepared, rng, is_shown())) is None:
        return False
    rows, n_gradients = drawn
    target.block.work.add(n_gradients)
    # few rows of a pilot that did not get far look like a funnel where there is none
    funnel = fitted_funnel(rows, look_at_prior(target.prepared, rng))
    search.add_parts([*fitted_components(rows, len(rows), funnel, rng)])
    search.add_witnesses(target(rows[rng.permutation(len(rows))[:AT_ONCE]]))
    search.draw(rng, N_TRIED)
    widen(search, proposed(search, rng), funnel, rng)
    return True


def add_modes(search: Search, more: Sequence[Part], rng: np.random.Generator) -> None:
    """Components at modes that were lacking, and rows of the next blend."""
    search.add_parts(more)
    search.draw(rng, N_TRIED)
