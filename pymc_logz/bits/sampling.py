"""How energies made of bits are sampled: what `ForeignModel.runs` asks for, and RAISE.

Annealed rows go from independent bits to the energy, or through other machines on the way (see
`pymc_logz.energies.moment_averaged`): from one to the next along a geometric path, their log
weights added up. See Carlson et al. (2016), section 2.1, arXiv 1603.01912. RAISE goes the other
way, from data under a machine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from scipy.special import expit

from pymc_logz.arguments import check_integer, listed
from pymc_logz.bits.energies import BernoulliRBM, BinaryEnergy
from pymc_logz.bits.paths import BlockGibbs, path_between
from pymc_logz.estimators import importance_log_z
from pymc_logz.hais.results import Directions, annealing_dataset, bayes_factor, factor_dataset
from pymc_logz.hais.run import collect, run_subject
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.kernels.base import Kernel
from pymc_logz.loop.calls import Call, Subject, begun
from pymc_logz.loop.frozen import Planned, fixed_plan, refine, walk
from pymc_logz.models.flat import stacked
from pymc_logz.references.reference import Reference
from pymc_logz.runners.anneal import Annealed, anneal, of_rows
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import line, report_count
from pymc_logz.runners.running import finished, run_tasks
from pymc_logz.runners.temper import TemperBlock
from pymc_logz.seeds import spawn_generators
from pymc_logz.tempered import run as tempered
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.trees.kinds import PER_DATUM
from pymc_logz.trees.layout import evidence_of_rows, make_tree
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


def placed(block: Block, call: Call) -> Planned:
    """The temperatures asked for: those given, so many evenly spaced, or as a pilot places them."""
    settings, rng = call.settings, call.rngs.pilot
    ladder, n_levels = settings.ladder(), getattr(settings, "n_levels", None)
    if ladder is None and n_levels is not None:
        ladder = np.linspace(0.0, 1.0, n_levels)
    if ladder is not None and (plan := fixed_plan(block, ladder)) is not None:
        return Planned(block, plan, INDEPENDENT_BITS)
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
        rows = None
        if posterior_draws is not None:
            group = posterior_of(posterior_draws, "posterior_draws")
            if missing := [name for name in energy.variables if name not in group]:
                raise ValueError(f"posterior_draws has no {missing} in its group 'posterior'")
            rows = energy.rows(stacked(group, energy.variables))

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
    return partial(anneal_through_machines, others=list(others))


def anneal_through_machines(
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
        ways = finished(run_tasks(tasks, settings.running.cores))
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
        stages = walk(block, settings, rng)
        path, rows = machine.path, stages.end
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
        return placed(subject_of(self.model, call).block, call)


def followed(energy: BinaryEnergy, names: Sequence[str] | None) -> FollowedMachine:
    """What a tracker follows of an energy: the parameters of these names, or all of them."""
    if not isinstance(energy, BernoulliRBM):
        raise TypeError(
            f"model is the energy {energy.name!r}, whose parameters have no names: LogZTracker "
            "follows a pm.Model, or pymc_logz.energies.bernoulli_rbm(...)"
        )
    chosen = PARAMETERS if names is None else tuple(listed(names))
    if not chosen or not set(chosen) <= set(PARAMETERS):
        raise ValueError(f"data={names!r} must name what changes, among {list(PARAMETERS)}")
    return FollowedMachine(energy, chosen)


def raise_log_likelihood(
    model: BernoulliRBM,
    data: Any,
    *,
    draws: int = 16,
    betas: int | np.ndarray = 1000,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Log likelihood of data under a Boltzmann machine, low on average, by annealing from the data.

    Annealed estimates of log Z are low on average, so a log likelihood made with one is too high: a
    poor run makes the machine look good. Here particles start at the data, with hidden units drawn
    given them, and are annealed back. That estimates without bias how probable each datum is among
    particles that were annealed forward along the same temperatures, so that its log is low on
    average (reverse annealed importance sampling estimator, RAISE).

    With enough temperatures, the annealed particles have the distribution of the machine. With
    fewer, their distribution is smoother, and may fit data better than the machine does: then the
    result is above the machine's own log likelihood. For data drawn from the machine it is below,
    and together with `sample_hais` it encloses it. Compare two numbers of temperatures (``betas``)
    to see which it is.

    Parameters
    ----------
    model
        As of `energies.bernoulli_rbm`.
    data
        Visible units, shape (N, M), zeros and ones.
    draws
        Annealed particles for each datum, at least 2.
    betas
        An integer K is a schedule of K equal steps; an increasing array from 0 to 1 is taken as
        it is.
    random_seed, progressbar, compile_kwargs
        As in `sample_hais`.

    Returns
    -------
    xarray.DataTree
        Groups ``evidence`` (``log_z``, here log p of each datum in nats, along ``data_row``, with
        status ``"lower_end"``) and ``annealing``. Its attributes ``mean_log_likelihood`` and
        ``mean_mcse`` are those of the mean over data, and ``log_z_upper`` the log Z that goes with
        it, high on average if the data are draws of the machine.

    Raises
    ------
    TypeError
        If the model is something else.
    ValueError
        If the data are not rows of zeros and ones, or another argument is outside its range.

    References
    ----------
    Burda, Grosse & Salakhutdinov (2015), Accurate and conservative estimates of MRF log-likelihood
    using reverse annealing, arXiv 1412.8566; section 3.2 of Carlson et al. (2016), arXiv
    1603.01912.

    Examples
    --------
    .. code-block:: python

        import numpy as np
        import pymc_logz as lz

        rng = np.random.default_rng(1)
        test = rng.random((20, 6)) < 0.3  # bits
        rbm = lz.energies.bernoulli_rbm(rng.normal(0, 0.5, (6, 3)), np.zeros(6), np.zeros(3))
        low = lz.raise_log_likelihood(rbm, test, random_seed=1)
        low["evidence"].attrs["mean_log_likelihood"]
        high = rbm.log_visible(test).mean() - lz.sample_hais(model=rbm)["evidence"]["log_z"]
    """
    if not isinstance(model, BernoulliRBM):
        raise TypeError(
            f"model is of type {type(model).__name__}, but must be a machine whose hidden units "
            "can be drawn given data: pymc_logz.energies.bernoulli_rbm(...)"
        )
    visible, n_visible = np.asarray(data, dtype=float), len(model.visible_bias)
    if visible.ndim != 2 or not visible.size or visible.shape[1] != n_visible:
        raise ValueError(f"data has shape {visible.shape}, and must have shape (N, {n_visible})")
    if not np.isin(visible, (0.0, 1.0)).all():
        raise ValueError("data must be zeros and ones; round or threshold them first")
    check_integer(2, draws=draws)
    settings = HaisSettings.from_arguments(
        draws=draws, chains=1, betas=betas, kernel=BlockGibbs(), reference="prior"
    )
    ladder = settings.ladder()
    if ladder is None:
        raise ValueError(f"betas={betas!r} must be an integer or an array: there is no pilot")
    with begun(settings, random_seed, progressbar, compile_kwargs) as call:
        subject = subject_of(model, call)
        block = subject.block
        block.compile()
        there = fixed_plan(block, ladder)
        assert there is not None
        plan = there.reverse()
        call.watch.end("compile_time")
        rows, rng = np.repeat(visible, draws, axis=0), call.rngs.run
        odds = model.hidden_bias + rows @ model.weights
        hidden = (rng.random(odds.shape) < expit(odds)).astype(float)
        report = report_count("Annealing back", plan.n_temperatures)
        run = anneal(block, plan, np.concatenate([rows, hidden], axis=1), rng, report)
    call.watch.end("sampling_time")
    attrs = subject.attrs(block, call.watch.cost(block), n_temperatures=plan.n_temperatures)
    groups = {
        "evidence": _evidence(model, visible, run, attrs),
        "annealing": annealing_dataset([run], plan),
    }
    requested = {**settings.record(), **subject.record, "method": "raise_log_likelihood"}
    return make_tree(groups, {**requested, **attrs}, PER_DATUM)


def _evidence(
    model: BernoulliRBM, visible: np.ndarray, run: Annealed, attrs: Mapping[str, Any]
) -> xr.Dataset:
    log_visible = model.log_visible(visible)
    pairs = zip(run.log_weight.reshape(len(visible), -1), log_visible, strict=True)
    found = [importance_log_z(w, log_z_reference=f, method="raise") for w, f in pairs]
    # nothing speaks against weights of these but their number, and they are low on average
    low = ("ok", "few_rows")
    estimates = [replace(one, status="lower_end") if one.status in low else one for one in found]
    log_p, mcse = (np.array([getattr(one, of) for one in estimates]) for of in ("log_z", "mcse"))
    of_mean = {
        "mean_log_likelihood": float(log_p.mean()),
        "mean_mcse": float(np.sqrt((mcse**2).sum()) / len(mcse)),
        "log_z_upper": float(log_visible.mean() - log_p.mean()),
    }
    coords = {"data_row": np.arange(len(visible))}
    return evidence_of_rows(estimates, "data_row", coords, {**attrs, **of_mean})
