"""From a prepared model to a frozen plan: one loop that looks, proposes, blends, tries and widens.

1. Look: rows of the prior walk to the posterior as a resampled population, and others climb.
2. Propose: each way of making a density sees all rows so far, and hands over parts of a blend.
3. Blend: shares of all parts, the prior among them, by which the variance of the weights is least.
4. Try: fresh rows of the blend are weighted by all parts.
5. Widen: rows that the parts do not explain become parts of the next blend.

Where the weights are even enough the run is fresh rows of the blend; else it is annealed from the
components that explain the most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pymc_logz.errors import says_if_interrupted
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.kernels.compose import for_variables
from pymc_logz.loop.frozen import Planned, make_plan, n_followed, plan_of_one_step, refine, walk
from pymc_logz.loop.looking import Look, explore_prior, given_reference
from pymc_logz.loop.search import HEAVY, N_TRIED, Search
from pymc_logz.loop.widening import (
    LEAST,
    OF_MODE,
    add_draws,
    components_of,
    propose_and_widen,
    proposed,
    searched,
)
from pymc_logz.models.flat import model_path, open_path
from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.ladder import MAX_GROWTH, first_ladder, settled
from pymc_logz.pilot.population import run_pilot
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Blend, Part, Prior, Target
from pymc_logz.references.conditional import has_conditional_normals
from pymc_logz.references.marginal_peaks import Start, highest_marginal, with_all_peaks
from pymc_logz.references.matrices import Bands
from pymc_logz.references.modes import MAX_DIMS
from pymc_logz.references.nested import OF_NESTED, conditional_at_peak, has_one_mode, nested_laplace
from pymc_logz.references.reference import Reference
from pymc_logz.runners.block import Block
from pymc_logz.runners.climb import can_climb
from pymc_logz.runners.progress import BRIDGE, line
from pymc_logz.weights import TOLERANCE, log_mean


def block_for(
    prepared: Prepared,
    settings: RunSettings,
    compile_kwargs: Mapping[str, Any] | None,
    n_rows: int | None = None,
    data: np.ndarray | None = None,
) -> Block:
    """Moves of a model, compiled once for the prior and for whatever is learned.

    They are of ``n_rows`` rows, by default those of a pilot, which may bring ``data`` along.

    Raises
    ------
    ValueError
        If a reference is asked for that has no whole numbers, and the model has.
    """
    flat = prepared.flat
    if flat.sites and settings.reference is not None and not settings.requests_reference("prior"):
        names = sorted({flat.owners[site.column] for site in flat.sites})
        what = repr(settings.reference) if isinstance(settings.reference, str) else "a DataTree"
        raise ValueError(
            f"reference={what} is a fit by continuous densities, but {names} are discrete: leave "
            "reference out, and the path starts at the prior"
        )
    # what may yet become a mixture costs a cheap model half as much again
    start = model_path if settings.requests_reference("prior") else open_path
    path = start(flat, prepared.prior)
    independent = flat.entries.sites if flat.entries else ()
    requested = settings.kernel_for(path.n_dims)
    kernel = for_variables(requested, flat.owners, flat.sites, independent)
    n_rows = settings.pilot_rows if n_rows is None else n_rows
    return Block(path, kernel.resolved(path.n_dims), n_rows, compile_kwargs, data=data)


@says_if_interrupted("the pilot was choosing temperatures and step sizes")
def plan_run(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    rng: np.random.Generator,
    tried: Planned | None = None,
    *,
    direct: bool = False,
) -> Planned:
    """Choose the reference, and freeze the temperatures and the kernel's settings.

    ``block`` is from `block_for`; ``tried`` is what was planned before, and did not hold when it
    ran; ``direct`` whether rows may be weighted without a path.
    """
    target = Target(prepared, block)
    given, within = given_reference(target, settings, rng)
    if given is not None:
        moved = given.start(block)
        start = moved.path.sample_reference(rng, n_followed(block))
        return make_plan(moved, settings, start, rng, given)
    planner = Planner(target, settings, rng, direct)
    was_nested = tried is not None and tried.reference.taken == "nested_laplace"
    found = [] if was_nested else planner.nested(is_doubted=tried is not None)
    if isinstance(found, Planned):
        return found
    look = explore_prior(target, settings, rng, within)
    cheaper = BRIDGE if block.follows_whole_gradient else ""
    with line("Fitting a reference, looking for modes", cheaper):
        search = searched(target, look, settings, rng, tried, found)
    return planner.searched(search)


@dataclass(frozen=True)
class Planner:
    """Plans of one call whose reference is to be learned."""

    target: Target
    settings: RunSettings
    rng: np.random.Generator
    direct: bool = False
    given_up: list[LogZEstimate] = field(default_factory=list)
    """By rows of blends whose weights were too uneven."""

    def searched(self, search: Search, few: int = 8, long: int = 2**18) -> Planned:
        """Rows of the blend where their weights are even; else a path, or what draws of NUTS add.

        ``pm.sample`` is asked where a run would make more than so many moves, about as many as it
        makes itself where a posterior is difficult. In a few dimensions it costs more than the path
        from the prior, whose rows lose no mode.
        """
        prepared = self.target.prepared
        may_use_nuts = prepared.n_dims > few and prepared.exact_row is None
        limit = long if may_use_nuts and self.settings.requests_reference("learned") else np.inf
        planned = self.short(search, limit)
        if planned is None:
            with line("Fitting a reference to draws of pm.sample"):
                is_drawn = add_draws(search)
            planned = self.short(search, limit) if is_drawn else None
        planned = planned or self.path(search)
        if planned.blend is None:
            planned = replace(planned, given_up=(*planned.given_up, *self.given_up))
        stages = search.look.stages if search.look else None
        walked = None if stages is None or stages.log_z is None else stages.islands_log_z()
        return replace(planned, from_prior=walked)

    def short(self, search: Search, limit: float) -> Planned | None:
        """Rows of the blend, or a path; None if a run along it would make more moves than that."""
        if (planned := self.without_path(search)) is not None:
            return planned
        planned = self.path(search, limit)
        n_moves = self.settings.aim.n_rows * planned.plan.n_temperatures
        return planned if n_moves <= limit else None

    def without_path(
        self,
        search: Search,
        most_tries: int = 32,
        fine: float = 0.025,
        slack: float = 1.25,
    ) -> Planned | None:
        """Rows of the blend that need no path; None where their weights are too uneven.

        Rows of a run are chosen from as many as give the error that is aimed at, or a ``fine`` one
        where that is cheap, and from ``most_tries`` at most; those that were looked at may flatter
        by the factor ``slack``.
        """
        aim, target, settings = self.settings.mcse_without_path, self.target, self.settings
        if aim is None or not self.direct or (found := self.tried(search)) is None:
            return None
        blend, even, trial = found
        if search.look and search.look.stages.exceeds(trial.log_z, trial.mcse):
            return None
        n_rows = settings.draws * settings.chains
        n_wanted = [
            max(1, int(np.ceil((1 / even - 1) / (n_rows * (mcse / slack) ** 2))))
            for mcse in (fine, aim)
        ]
        if min(n_wanted) > most_tries:
            return None
        # where a tail is heavy, more rows show how far it goes
        tries = min(max(n_wanted) if trial.status == "ok" else 8 * max(n_wanted), most_tries)
        reason = f"{blend.in_words()}: weights have an effective share of {even:.2g}"
        reason += f"; each particle is one of {tries}" if tries > 1 else ""
        is_mode = all(part.what in (OF_MODE, Prior.what) for part in blend.parts)
        taken = "laplace" if is_mode and settings.requests_reference("laplace") else "learned"
        if any(part.what == OF_NESTED for part in blend.parts):
            taken = "nested_laplace"
        known = search.witnesses.position if search.look else search.known()[0]
        plan, blend = plan_of_one_step(target.block, known), replace(blend, tries=tries)
        return Planned(target.block, plan, Reference(taken, reason), target=target, blend=blend)

    def tried(self, search: Search) -> tuple[Blend, float, LogZEstimate] | None:
        """A blend that lacks nothing that is known, its effective share, and log Z by its rows.

        Up to twelve are tried, each with the modes that the one before lacked: heavy rows climb to
        some, rows beside its own to others, rows of the prior have climbed to those that no row is
        near. Rows that are too uneven, and lead to no mode, are remembered, and the next blend has
        more where they are heavy.
        """
        n_uneven = 0
        for _ in range(12):
            shares = search.shares_of_kept_parts()
            blend, share = search.blend(shares), search.effective_fraction(shares)
            seen = blend.draw(self.target, self.rng, N_TRIED)
            rows = blend.weigh(seen, self.rng)
            trial = importance_log_z(rows.log_weight, method="hais")
            more = list[Part]()
            # a tail that stays heavy where weights are even is for the run to judge, which has more
            # rows, and no path does better
            is_even = n_uneven == 2 and trial.weight_ess > N_TRIED / 2
            if trial.status == "ok" or is_even:
                heavy = HEAVY * N_TRIED / trial.weight_ess
                more += search.lacking_modes(shares, heavy, N_TRIED)
                beside = search.beside(rows, shares, heavy)
                more += search.modes_near(beside.position, shares, heavy)
                more += search.modes_one_entry_away(shares, heavy)
                if not more:
                    n_higher = np.sum(beside.log_target > seen.log_target.max())
                    found = blend, min(share, trial.weight_ess / N_TRIED), trial
                    return None if n_higher > TOLERANCE * N_TRIED else found
            elif share < LEAST:
                more += search.modes_one_entry_away(shares, HEAVY)
                if not more:
                    return None
            elif climbed := search.modes_of_heavy(rows):
                more += [*climbed, *search.modes_one_entry_away(shares, HEAVY)]
            if more:
                search.add_and_draw(more)
                continue
            # a heavy row is not forgotten, so that the next blend has more rows where it is
            search.add_tried(seen, shares)
            self.given_up.append(trial)
            n_uneven += 1
            if n_uneven > 2:
                return None
        return None

    def path(self, search: Search, limit: float = np.inf) -> Planned:
        """A path from the components that explain the most in their coordinates; or the prior.

        Where a run would make more moves than a limit, no longer ladder is tried. That from the
        components is to be no longer than one from the prior may be.
        """
        block, settings, rng, look = self.target.block, self.settings, self.rng, search.look
        assert look is not None
        reference, n_rows = components_of(search), self.settings.aim.n_rows
        moved, longer = reference.start(block), MAX_GROWTH * first_ladder(look.stages)
        given_up = list[LogZEstimate]()
        if reference.mixture is not None:
            rows = reference.whitened(search.witnesses.position)
            is_same = reference.funnel is look.funnel
            stages = settled(look.stages) if is_same else walk(moved, settings, rng)
            # no path starts at draws of a prior of which next to none is within the support
            is_rare = look.stages.log_z is None
            most = limit if is_rare else min(limit, n_rows * MAX_GROWTH * longer)
            planned, trial = refine(moved, settings, stages, rng, reference, rows, most)
            if trial is None:
                return planned
            found = importance_log_z(trial.log_weight, method="hais")
            is_long = n_rows * planned.plan.n_temperatures > most
            if not (is_long or look.stages.exceeds(log_mean(trial.log_weight), found.mcse)):
                look.stages.warn_of_stuck()
                return planned
            reason = "a path from components found less than particles that walked from the prior"
            if is_long:
                reason = "a path from components would be longer than one from the prior"
            reference = Reference("prior", reason, funnel=look.funnel)
            moved, given_up = reference.start(block), [found]
        if n_rows * longer > limit:
            # hardly any posterior is content with the first ladder that is tried from the prior
            planned = Planned(moved, look.stages.plan(longer), reference)
        else:
            look.stages.warn_of_stuck()
            planned = refine(moved, settings, look.stages, rng, reference)[0]
        return replace(planned, given_up=tuple(given_up))

    def opening(self, *, is_doubted: bool = False) -> Start | list[Part]:
        """Where nested Laplace approximations begin, or parts to begin with where none may hold.

        Normal entries that may have several modes given the others, and others with several peaks,
        are looked at from the prior, if rows can climb.
        """
        prepared, rng = self.target.prepared, self.rng
        # where rows that walk from the prior are cheap they look once more, and where a potential
        # or a sum may have a second mode that lines do not meet
        flat, is_cheap = prepared.flat, has_conditional_normals(prepared)
        is_doubted = is_doubted or flat.summed is not None or bool(flat.model.potentials)
        if not self.settings.requests_reference("learned") or (is_cheap and is_doubted):
            return []
        start = highest_marginal(self.target, rng)
        if start is None:
            return []
        climbs = can_climb(self.target.block)
        has_one = not climbs or has_one_mode(start, rng, far=not flat.calls_host)
        if has_one or not is_cheap:
            start = with_all_peaks(start, prepared, rng)
        if not climbs or (has_one and len(start.peaks) == 1):
            return start
        # the rounds propose conditional normals themselves where these are cheap
        return [] if is_cheap else [*conditional_at_peak(prepared, start, rng)]

    def nested(self, *, is_doubted: bool = False) -> Planned | list[Part]:
        """Plan from nested Laplace approximations, or a part to begin with where none holds."""
        block, rng = self.target.block, self.rng
        with line("Fitting nested Laplace approximations", BRIDGE):
            start = self.opening(is_doubted=is_doubted)
            if not isinstance(start, Start):
                return start
            # rows that each have their own conditional mode are cheap where the matrices are bands
            is_banded = isinstance(start.parts.matrices, Bands)
            if is_banded and (planned := self.at_peak(start)) is not None:
                return planned
            found = nested_laplace(self.target, start, rng)
            if found is None:
                planned = None if is_banded else self.at_peak(start)
                return planned or []
        reference, part, ends = found
        planned = None if ends is None else self.of_parts([part])
        is_uneven = planned is None or planned.blend is None or planned.blend.tries > 2
        if is_uneven and not is_banded and start.parts.inner.size <= MAX_DIMS:
            # at an end of the few that the map does not follow each row has its own mode
            planned = self.at_peak(start) or planned
        if planned is not None:
            return planned
        moved = reference.start(block)
        rows = moved.path.sample_reference(rng, block.n_rows)
        stages = run_pilot(moved, rows, rng, self.settings)
        ends = stages.end if ends is None else ends
        planned = refine(moved, self.settings, stages, rng, reference, ends)[0]
        is_cheap = has_conditional_normals(self.target.prepared)
        return replace(planned, target=self.target if is_cheap else None)

    def blend_to_compare_with(self, look: Look) -> Blend | None:
        """A blend that needs no path, if there is one, to hold another run against."""
        parts = self.opening()
        if isinstance(parts, Start):
            parts = [*conditional_at_peak(self.target.prepared, parts, self.rng)]
        search = searched(self.target, look, self.settings, self.rng, more=parts)
        found = self.tried(search)
        return found[0] if found else None

    def at_peak(self, start: Start) -> Planned | None:
        """Rows of conditional normals; None where rows are to move, or weights are not even."""
        prepared, rng = self.target.prepared, self.rng
        return self.of_parts(conditional_at_peak(prepared, start, rng) if self.direct else [])

    def of_parts(self, parts: Sequence[Part]) -> Planned | None:
        """Rows of these parts and the prior, where they need no path."""
        if not parts or not self.direct:
            return None
        search = Search(self.target, self.rng)
        search.add_and_draw([Prior(), *parts])
        found = self.tried(search)
        if found is None or found[1] < 0.5:
            propose_and_widen(search, proposed(search), None)
        return self.without_path(search)
