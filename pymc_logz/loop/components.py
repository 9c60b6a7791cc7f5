"""What a path starts from: components out of a search, in the coordinates that suit them best."""

from dataclasses import replace

import numpy as np

from pymc_logz.loop.lacking_modes import OF_CLIMBS
from pymc_logz.loop.widening import LEAST, OF_MODE
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.funnels import Funnel
from pymc_logz.paths.mixture import Mixture
from pymc_logz.references.blend import Component, Prior
from pymc_logz.references.reference import Reference, components_in_words, whitened_draws
from pymc_logz.references.search import Search


def components_of(search: Search) -> Reference:
    """Components of the coordinates whose blend with the prior has the most even weights.

    The prior takes no more temperatures where theirs are very uneven, unless there are modes which
    particles from the prior did not end in.
    """
    best = Reference("prior", "no components were found that explain the particles from the prior")
    most = LEAST**2 if any(part.what == OF_CLIMBS for part in search.parts) else LEAST
    is_prior = np.array([isinstance(part, Prior) for part in search.parts])
    # a nested approximation is a part of several, and has been tried
    single = [
        part if isinstance(part, Component) and isinstance(part.density, Elliptical) else None
        for part in search.parts
    ]
    funnels = {id(one.funnel): one.funnel for one in single if one}
    for funnel in funnels.values():
        own = [one is not None and one.funnel is funnel for one in single]
        shares = search.shares(is_prior | np.array(own))
        even = search.effective_share(shares)
        best = replace(best, funnel=best.funnel or funnel)
        if even <= most:
            continue
        most = even
        chosen = shares * np.array(own)
        best = learned(search, chosen, funnel, even)
    return best


def learned(search: Search, shares: np.ndarray, funnel: Funnel | None, even: float) -> Reference:
    """Components of a search, in these shares, as a reference."""
    prior = search.target.prepared.prior
    log_mass, error = prior.log_share()
    pairs = zip(search.parts, shares, strict=True)
    parts = [part for part, share in pairs if isinstance(part, Component) and share]
    components = tuple(part.density for part in parts if isinstance(part.density, Elliptical))
    own = shares[shares > 0]
    draw = whitened_draws(prior, funnel)
    mixture = Mixture(components, own, 1 - float(own.sum()), draw, log_mass)
    taken = "laplace" if all(part.what == OF_MODE for part in parts) else "learned"
    shape = " in the coordinates of a funnel" if funnel else ""
    reason = (
        f"{components_in_words(len(components))}{shape} explain the particles that walked from the "
        f"prior with an effective share of {even:.2g}"
    )
    return Reference(taken, reason, mixture, error, funnel, covered=even)
