"""The rounds: parts are proposed, blended and tried, and what they do not explain is a part.

What comes of them is a blend to draw from, or components that a path starts from.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import islice

import numpy as np

from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.looking import Look
from pymc_logz.loop.search import OF_CLIMBS, Search
from pymc_logz.models.context import n_numbers
from pymc_logz.models.density import draw_posterior
from pymc_logz.models.known_priors import normal_columns
from pymc_logz.paths.elliptical import Clusters, Elliptical, fitted_clusters, fitted_to_few
from pymc_logz.paths.funnels import Funnel
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import AT_ONCE, N_STARTS, Component, Part, Prior, Target
from pymc_logz.references.conditional import conditional_normal, has_conditional_normals
from pymc_logz.references.directions import independent_directions
from pymc_logz.references.given_few import independent_given_few
from pymc_logz.references.modes import MAX_DIMS, followed
from pymc_logz.references.narrow_ends import narrow_ends
from pymc_logz.references.nested import OF_NESTED
from pymc_logz.references.reference import Reference, components_in_words, funnel_of, widened
from pymc_logz.runners.anneal import merge
from pymc_logz.runners.progress import is_shown
from pymc_logz.weights import resampled

LEAST = 0.01
"""Effective share of rows of components below which rows are annealed from the prior: the ends of
their path would be further apart than the prior's as a rule."""
OF_MODE = "a Student-t with the curvature at the mode"


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
    search, known = Search(target, rng, look), look.restored(look.position)
    proposers = iter(() if alone else proposed(search))
    parts = tried.blend.parts if tried and tried.blend else ()
    search.add_parts([Prior(), *(part for part in parts if not isinstance(part, Prior)), *more])
    search.add_parts(first_components(search, look, known, settings))
    search.add_witnesses(target(known[rng.permutation(len(known))[:AT_ONCE]]))
    search.draw()
    is_laplace = settings.requests_reference("laplace")
    if is_laplace and search.effective_fraction(search.shares()) > LEAST:
        return search
    search.climb()
    search.add_and_draw(search.lacking_modes(search.shares()))
    if tried and tried.blend and tried.ran:
        ran = reduce(merge, tried.ran)
        search.add_witnesses(target(ran.position[resampled(ran.log_weight, rng, AT_ONCE)]))
        search.add_and_draw(search.modes_of_heavy(ran))
    propose_and_widen(search, proposers, look.funnel)
    return search


def propose_and_widen(search: Search, proposers: Iterator[Part], funnel: Funnel | None) -> None:
    """Parts until one is of use, and the rounds.

    What is fitted to rows says nothing of where they did not get, the narrow end of a funnel or far
    tails, and seems even without it; nor does a part that is of no use.
    """
    for part in filter(search.needs, proposers):
        search.add_and_draw([part])
        if search.shares_of_kept_parts()[-1]:
            break
    widen(search, proposers, funnel)


def widen(search: Search, proposers: Iterator[Part], funnel: Funnel | None) -> None:
    """Rounds of fresh rows, after each of which what they do not explain becomes a part.

    There are eight at most, and fewer once the effective share of the rows is above a half. Until
    then each asks the next proposer. Components are fitted anew as long as that raises the share by
    a fifth.
    """
    refitted_at, fewest = 0.0, len(search.witnesses.position) + 1
    for _ in range(8):
        search.draw()
        shares = search.shares()
        even = search.effective_fraction(shares)
        left, more = search.unexplained(shares), list[Part]()
        if 0 < len(left) < fewest:
            fewest = len(left)
            more += fitted_components(left, len(left), funnel, search.rng)
        if even > 0.5 and not more:
            return
        if even > 1.2 * refitted_at:
            refitted_at = even
            more += fitted_components(*search.known(), funnel, search.rng)
        if even <= 0.5:
            more += islice(proposers, 1)
        if not more:
            return
        search.add_parts(more)
    search.draw()


def first_components(
    search: Search, look: Look, known: np.ndarray, settings: RunSettings
) -> list[Component]:
    """Components that are fitted to rows of the look, or have the curvature at the mode."""
    block = search.target.block
    # without a gradient a mode is not looked for, and what is fitted to the rows is taken
    if settings.requests_reference("laplace") and block.follows_whole_gradient:
        # in many dimensions each takes a large matrix
        n_starts = N_STARTS if known.shape[1] <= MAX_DIMS else 1
        best = np.argsort(-block.log_target(known))[:n_starts]
        if modes := followed(block, known[best], known.std(axis=0)):
            return [Component(modes[0].component, None, OF_MODE)]
    # of a further look at a population, one block of moves later, a half is new
    assert look.stages.end is not None
    n_first = len(look.stages.end)
    return fitted_components(known, (n_first + len(known)) / 2, look.funnel, search.rng)


def fitted_components(
    rows: np.ndarray, n_effective: float, funnel: Funnel | None, rng: np.random.Generator
) -> list[Component]:
    """Student-t components fitted to rows of a model (n, d), somewhat wider than they are."""
    moving = rows if funnel is None else funnel.whitened(rows)
    if len(rows) <= rows.shape[1]:
        return [Component(fitted_to_few(moving, 5.0), funnel)]
    fit = widened(fitted_clusters(moving, n_effective, rng))
    return [Component(one, funnel) for one in fit.components]


def proposed(search: Search, n_expensive: int = 2**9) -> Iterator[Part]:
    """Further densities, each made when it is asked for, of what is known by then.

    Rows of more numbers than ``n_expensive`` are looked at by the cheaper ways first.
    """
    ways: list[Callable[..., Part | None]]
    ways = [independent_given_few, independent_directions, conditional_normal, narrow_ends]
    prepared = search.target.prepared
    is_new = not any(part.what == OF_NESTED for part in search.parts)
    n_normal = normal_columns(prepared.flat).size
    if is_new and has_conditional_normals(prepared) and n_normal < prepared.n_dims:
        ways[:3] = ways[2::-1]  # others, as spreads are, may decide how narrow normal ones are
    elif n_numbers(prepared.flat) > n_expensive:
        ways[:2] = ways[1::-1]  # the first takes a hundred gradients for each row
    for make in ways:
        part = make(search.target, search.known()[0], search.rng)
        if part is not None:
            yield part


def add_draws(search: Search) -> bool:
    """Draws of ``pm.sample``, and what is fitted to them; whether there are any."""
    target, rng = search.target, search.rng
    if (drawn := draw_posterior(target.prepared, rng, is_shown())) is None:
        return False
    rows, n_gradients = drawn
    target.block.work.add(n_gradients)
    # few rows of a pilot that did not get far look like a funnel where there is none
    funnel = funnel_of(target.prepared, rows, rng)
    search.add_parts([*fitted_components(rows, len(rows), funnel, rng)])
    search.add_witnesses(target(rows[rng.permutation(len(rows))[:AT_ONCE]]))
    search.draw()
    widen(search, proposed(search), funnel)
    return True


def components_of(search: Search) -> Reference:
    """Components of the coordinates whose blend with the prior has the most even weights.

    The prior takes no more temperatures where theirs are very uneven, unless there are modes which
    particles from the prior did not end in.
    """
    best = Reference("prior", "no components were found that explain the particles from the prior")
    most = LEAST**2 if any(part.what == OF_CLIMBS for part in search.parts) else LEAST
    is_prior = np.array([isinstance(part, Prior) for part in search.parts])
    # a nested approximation is a part of several, and has been tried
    single = {
        k: part
        for k, part in enumerate(search.parts)
        if isinstance(part, Component) and isinstance(part.density, Elliptical)
    }
    for funnel in {id(part.funnel): part.funnel for part in single.values()}.values():
        own = {k: part for k, part in single.items() if part.funnel is funnel}
        shares = search.shares(is_prior | np.isin(np.arange(is_prior.size), [*own]))
        even = search.effective_fraction(shares)
        best = replace(best, funnel=best.funnel or funnel)
        if even > most:
            most, best = even, learned(search, [*own.values()], shares[[*own]], even)
    return best


def learned(
    search: Search, parts: Sequence[Component], shares: np.ndarray, even: float
) -> Reference:
    """Components in the same coordinates, in these shares, as a reference."""
    components = tuple(part.density for part in parts if isinstance(part.density, Elliptical))
    fit, funnel = Clusters(components, shares), parts[0].funnel
    taken = "laplace" if all(part.what == OF_MODE for part in parts) else "learned"
    shape = " in the coordinates of a funnel" if funnel else ""
    reason = (
        f"{components_in_words(len(components))}{shape} explain the particles that walked from the "
        f"prior with an effective share of {even:.2g}"
    )
    prior, share = search.target.prepared.prior, 1 - float(fit.shares.sum())
    return Reference.of_components(taken, reason, prior, fit, share, funnel, even)
