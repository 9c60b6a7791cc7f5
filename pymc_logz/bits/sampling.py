"""How energies made of bits are sampled: what `ForeignModel.runs` asks for.

Annealed rows go from independent bits to the energy, or through other machines on the way: from one
to the next along a geometric path, their log weights added up. Which machines those are changes the
error and nothing else: `pymc_logz.energies.moment_averaged` makes some whose moments lie between
those of the two ends. See Grosse, Maddison & Salakhutdinov (2013), Annealing between distributions
by averaging moments, section 5; Carlson et al. (2016), section 2.1, arXiv 1603.01912.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr

from pymc_logz.bits.energies import BernoulliRBM, BinaryEnergy
from pymc_logz.bits.paths import BlockGibbs, path_between
from pymc_logz.estimators import importance_log_z
from pymc_logz.hais.directions import Directions, bayes_factor, factor_dataset
from pymc_logz.hais.run import collect, run_subject
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.kernels.base import Kernel
from pymc_logz.loop.calls import Call, Subject, begun
from pymc_logz.loop.frozen import Planned, fixed_plan, refine, walk
from pymc_logz.models.flat import stacked
from pymc_logz.references.reference import Reference
from pymc_logz.runners.anneal import Annealed, anneal, of_rows
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import line, show_pilots
from pymc_logz.runners.running import finished, run_tasks
from pymc_logz.runners.temper import TemperBlock
from pymc_logz.seeds import spawn_generators
from pymc_logz.tempered import run as tempered
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.trees.posterior import posterior_of

PARAMETERS = ("weights", "visible_bias", "hidden_bias")
LABELS: dict[str, Any] = {"coords": {}, "dims": None}
INDEPENDENT_BITS = Reference("prior", "energies start from independent bits")
THROUGH = Reference("machines", "it was asked for: the path leads through other machines")


def checked(
    energy: BinaryEnergy, kernel: Any, reference: Any, sum_out: bool | None
) -> tuple[Kernel, str]:
    """What moves an energy, and what it starts from; an error if something else was asked for."""
    if kernel is not None and not isinstance(kernel, BlockGibbs):
        raise TypeError(
            f"kernel={kernel!r} moves rows of real numbers, but {energy.name} is made of bits: "
            "leave it out, or give pymc_logz.kernels.BlockGibbs()"
        )
    is_name = isinstance(reference, str)
    if reference is not None and not (is_name and reference == "prior"):
        raise ValueError(
            f"reference={reference if is_name else type(reference).__name__!r} is for PyMC models; "
            f"{energy.name} starts from independent bits, whose log odds are its base_bias: leave "
            "reference out"
        )
    if sum_out:
        raise ValueError(
            f"sum_out={sum_out!r} is for PyMC models; {energy.name} has an exact log_z_at(betas) "
            "where at most 20 bits are to be summed over: leave sum_out out"
        )
    return BlockGibbs(), "prior"


def subject_of(energy: BinaryEnergy, call: Call) -> Subject:
    """An energy and its moves, compiled once for all with blocks of the same sizes."""
    settings = call.settings
    block = Block(energy.path, settings.kernel, settings.pilot_rows, call.compile_kwargs)
    record = {"energy": energy.name}
    return Subject(energy, settings.within_memory(block), energy.named, LABELS, record)


def energy_draws(energy: BinaryEnergy, tree: xr.DataTree) -> np.ndarray:
    """Rows (n, d) of a tree's group ``posterior``; a ValueError if it is of something else."""
    group = posterior_of(tree, "posterior_draws")
    missing = [variable for variable in energy.variables if variable not in group]
    if missing:
        raise ValueError(f"posterior_draws has no {missing} in its group 'posterior'")
    return energy.rows(stacked(group, energy.variables))


def placed(block: Block, call: Call) -> Planned:
    """The temperatures asked for: those given, so many evenly spaced, or as a pilot places them."""
    settings, rng = call.settings, call.rngs.pilot
    ladder, n_levels = settings.ladder(), getattr(settings, "n_levels", None)
    if ladder is None and n_levels is not None:
        ladder = np.linspace(0.0, 1.0, n_levels)
    if ladder is not None and (plan := fixed_plan(block, ladder)) is not None:
        return Planned(block, plan, INDEPENDENT_BITS)
    show_pilots()
    stages = walk(block, settings, rng)
    # the temperatures are all that is taken from the pilot, so a mode that it lost is none
    if isinstance(settings, TemperedSettings):
        return Planned(block, settings.plan_on(stages), INDEPENDENT_BITS)
    return refine(block, settings, stages, rng, INDEPENDENT_BITS)[0]


def run_hais(
    energy: BinaryEnergy,
    settings: HaisSettings,
    *,
    posterior_draws: xr.DataTree | None = None,
    **shown: Any,
) -> xr.DataTree:
    """Anneal to an energy; ``shown`` are arguments of `begun`."""
    with begun(settings, **shown) as call:
        with line("Compiling the model"):
            subject = subject_of(energy, call)
            subject.block.compile()
            rows = None if posterior_draws is None else energy_draws(energy, posterior_draws)

        def plan(call: Call) -> Planned:
            return call.planned_once(subject, "plan", partial(placed, subject.block, call))

        return run_subject(call, subject, [plan], rows)


def between(
    energy: BinaryEnergy, reference: Any, direction: str
) -> Callable[..., xr.DataTree] | None:
    """What runs to an energy through others; None if the reference is something else."""
    others = [reference] if isinstance(reference, BinaryEnergy) else reference
    is_list = isinstance(others, list | tuple) and len(others) > 0
    if not is_list or not all(isinstance(one, BinaryEnergy) for one in others):
        return None
    if direction != "forward":
        raise ValueError(
            f"direction={direction!r} does not apply where reference is an energy: swap model and "
            "reference to go the other way"
        )
    return partial(run_through, others=list(others))


def run_through(
    energy: BinaryEnergy, settings: HaisSettings, *, others: Sequence[BinaryEnergy], **shown: Any
) -> xr.DataTree:
    """Place temperatures between the machines, freeze, run, collect; ``shown`` as of `begun`."""
    settings.running.refuse("where reference is an energy", "checkpoint", "executor")
    for other in others:
        if _layout(other) != _layout(energy):
            raise ValueError(
                f"reference has {other.name} with blocks of {other.path.sizes} bits, but the model "
                f"has {energy.path.sizes}: both must have the same variables in the same blocks"
            )
    with begun(settings, **shown) as call:
        watch, rngs = call.watch, call.rngs
        legs = _legs([*others, energy], call)
        watch.seconds["compile_time"] = 0.0
        watch.end("tuning_time")
        generators = spawn_generators(rngs.run, settings.chains)
        tasks = [partial(_way, legs, settings.draws, rng) for rng in generators]
        ways = finished(run_tasks(tasks, settings.cores))
        planned = legs[-1]
        watch.end("sampling_time")
        last, ends = ([way[i] for way in ways] for i in (-2, -1))
        n, directions = sum(leg.plan.n_temperatures for leg in legs), Directions(ends, THROUGH)
        tree = collect(call, subject_of(energy, call), planned, directions, [], n)
    other_log_z = importance_log_z(of_rows("log_weight", last), method="hais")
    tree["bayes_factor"] = xr.DataTree(factor_dataset(bayes_factor(last, ends), other_log_z))
    return tree


def _legs(machines: Sequence[BinaryEnergy], call: Call) -> list[Planned]:
    """The way to the first of the machines, and from each to the next."""
    settings, rng = call.settings, call.rngs.pilot
    legs: list[Planned] = []
    path, rows = machines[0].path, None
    for machine in machines:
        # from bits, or from the machine before, of which a pilot has rows
        path = machine.path if rows is None else path_between(path, machine.path, rows)
        block = Block(path, settings.kernel, settings.pilot_rows, call.compile_kwargs)
        show_pilots()
        stages = walk(block, settings, rng)
        path, rows, ladder = machine.path, stages.end, settings.ladder()
        if ladder is not None and (plan := fixed_plan(block, ladder)) is not None:
            legs.append(Planned(block, plan, THROUGH))
        else:
            legs.append(refine(block, settings, stages, rng, THROUGH)[0])
    return legs


def _layout(energy: BinaryEnergy) -> tuple[Any, ...]:
    """Sizes of its blocks, and which bits each variable is made of."""
    variables = energy.variables.items()
    return energy.path.sizes, {name: (one.sites.tolist(), one.values) for name, one in variables}


def _way(legs: Sequence[Planned], draws: int, rng: np.random.Generator) -> list[Annealed]:
    """Rows at the end of each leg, with the weights of all legs up to there."""
    position = legs[0].block.path.sample_reference(rng, draws)
    log_weight, ends = np.zeros(draws), []
    for leg in legs:
        run = anneal(leg.block, leg.plan, position, rng)
        position, log_weight = run.position, log_weight + run.log_weight
        ends.append(run._replace(log_weight=log_weight))
    return ends


def run_tempered(energy: BinaryEnergy, settings: TemperedSettings, **shown: Any) -> xr.DataTree:
    """Temper an energy; ``shown`` are arguments of `begun`."""
    with begun(settings, **shown) as call:
        with line("Compiling the model"):
            subject = subject_of(energy, call)
            if settings.n_levels is None:  # a pilot needs it
                subject.block.compile()
        return tempered.run_subject(call, subject, partial(placed, subject.block))


@dataclass(frozen=True)
class FollowedMachine:
    """A restricted Boltzmann machine of bits whose weights and biases change."""

    model: BernoulliRBM
    names: Sequence[str]
    labels: ClassVar[dict[str, Any]] = LABELS

    @property
    def data(self) -> dict[str, np.ndarray]:
        """The parameters."""
        return {name: getattr(self.model, name) for name in self.names}

    def changed(self, data: Mapping[str, Any]) -> Self:
        """A machine with other parameters."""
        now = {name: getattr(self.model, name) for name in PARAMETERS}
        return replace(self, model=self.model.at(**{**now, **data}))

    def moved(self, block: TemperBlock) -> TemperBlock:
        """Walkers on the path of the present machine."""
        path = self.model.path
        return block.along(path.values, sample_reference=path.sample_reference)

    def named(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Bits of both layers."""
        return self.model.named(rows)

    def placed(self, call: Call) -> Planned:
        """As a tempered run places them."""
        settings = call.settings
        block = Block(self.model.path, settings.kernel, settings.pilot_rows, call.compile_kwargs)
        return placed(block, call)


def followed(energy: BinaryEnergy, names: Sequence[str] | None) -> FollowedMachine:
    """What a tracker follows of an energy: the parameters of these names, or all of them."""
    if not isinstance(energy, BernoulliRBM):
        raise TypeError(
            f"model is the energy {energy.name!r}, whose parameters have no names: LogZTracker "
            "follows a pm.Model, or pymc_logz.energies.bernoulli_rbm(...)"
        )
    chosen = PARAMETERS if names is None else tuple(names)
    if not chosen or not set(chosen) <= set(PARAMETERS):
        raise ValueError(f"data={names!r} must name what changes, among {list(PARAMETERS)}")
    return FollowedMachine(energy, chosen)
