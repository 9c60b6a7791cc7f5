"""Hamiltonian Monte Carlo with many chains at once: a start, a tuning, draws with all frozen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.arguments import check_below_one, check_integer, check_positive, settings_among
from pymc_logz.errors import says_if_interrupted, warn
from pymc_logz.hmc.mixing import largest_rhat, nested_rhat
from pymc_logz.kernels.base import Move
from pymc_logz.kernels.hamiltonian import Hamiltonian
from pymc_logz.kernels.tuning import MAX_STEP_SIZE, MIN_STEP_SIZE
from pymc_logz.loop.from_prior import posterior_rows
from pymc_logz.loop.frozen import plan_of_one_step
from pymc_logz.loop.planning import block_for
from pymc_logz.models.context import check_no_model, model_from, model_labels, written_as
from pymc_logz.models.flat import FlatModel, constrain, model_path
from pymc_logz.models.preparation import prepare
from pymc_logz.pilot.population import ROWS_TO_CORRELATE
from pymc_logz.pilot.scales import population_correlation, population_scale
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.runners.block import Block
from pymc_logz.runners.moves_of_rows import Stopwatch
from pymc_logz.runners.progress import line, progress_bar, report_count
from pymc_logz.seeds import generators_from
from pymc_logz.trees.doubts import MAX_DIVERGENT_SHARE
from pymc_logz.trees.kinds import HMC
from pymc_logz.trees.layout import data_datasets, dataset_of, make_tree, with_units

if TYPE_CHECKING:
    import pymc as pm


def after_move(
    step_size: float, average: float, acceptance_rate: float, target_accept: float
) -> tuple[float, float]:
    """Step size, and moving average of the acceptance rate, after a move of all chains."""
    # Theano Development Team (2013), Deep Learning Tutorials, Hybrid Monte-Carlo Sampling,
    # https://github.com/lisa-lab/DeepLearningTutorials
    average = 0.9 * average + (1.0 - 0.9) * acceptance_rate
    factor = 1.02 if average > target_accept else 0.98
    return float(np.clip(step_size * factor, MIN_STEP_SIZE, MAX_STEP_SIZE)), average


def scale_of_chains(position: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Scale from where chains (n, d) are; with correlations if they are enough."""
    n, d = position.shape
    alike = np.full(n, 1.0 / n)
    lengths = before if before.ndim == 1 else np.sqrt((before**2).sum(axis=1))
    scale = population_scale(position, alike, lengths)
    if before.ndim == 1:
        return scale
    if n < ROWS_TO_CORRELATE * d:
        return before * (scale / lengths)[:, None]
    return scale[:, None] * population_correlation(position, alike)


class Chains:
    """Chains on their way from rows of the posterior."""

    def __init__(
        self,
        block: Block,
        rows: np.ndarray,
        settings: "HmcSettings",
        rng: np.random.Generator,
    ) -> None:
        self.block, self.settings, self.rng = block, settings, rng
        plan, kernel = plan_of_one_step(block, rows), block.kernel
        self.scale = plan.scales(slice(-1, None))[0]
        if kernel.scale is not None:
            self.scale = np.broadcast_to(kernel.scale, self.scale.shape).astype(float)
        # in units of the scales; and the moving average of the acceptance rate of all chains
        given = kernel.step_size
        self.step_size = float(plan.step_size[-1] if given is None else given)
        self.average = settings.target_accept
        # all chains of a superchain start at one row
        start = np.resize(rng.permutation(rows), (settings.superchains, rows.shape[1]))
        self.state = block.initial_state(np.repeat(start, settings.members, axis=0))
        self.move(0.0, 1.0)  # which evaluates the start

    def move(self, step_size: float, refreshment: float | None = None) -> np.ndarray:
        """One move of all chains at beta = 1; their acceptance rates, shape (n,)."""
        step_sizes, renewed = np.array([step_size]), np.array([refreshment])
        if refreshment is None:
            renewed = self.block.kernel.refreshment_for(step_sizes)
        move = Move(np.ones(1), step_sizes, self.scale[None], renewed)
        self.state, trace = self.block.run(self.state, move, self.rng)
        return trace.acceptance_rate[0]

    def jittered(self) -> float:
        """A step size near the one that is tuned."""
        jitter = self.settings.jitter
        return self.step_size * float(self.rng.uniform(1.0 - jitter, 1.0 + jitter))

    def tune(self, n_moves: int, report: Callable[[int], None]) -> None:
        """Make moves that find the step size, and at three times the scales."""
        kernel = self.block.kernel
        # of modes far apart the scales are those of all together: halve until half is accepted
        while kernel.step_size is None and self.step_size > MIN_STEP_SIZE:
            if self.move(self.step_size).mean() > 0.5:
                break
            self.step_size /= 2
        at = {int(part * n_moves) for part in (0.25, 0.5, 0.75)}
        for i in range(n_moves):
            if i in at and kernel.scale is None:
                self.scale = scale_of_chains(np.asarray(self.state.position), self.scale)
            accepted = self.move(self.jittered())
            if kernel.step_size is None:
                rate, aim = float(accepted.mean()), self.settings.target_accept
                self.step_size, self.average = after_move(self.step_size, self.average, rate, aim)
            report(1)

    def draw(self, n_draws: int, report: Callable[[int], None]) -> tuple[np.ndarray, ...]:
        """Positions (chains, draws, d), log densities up to log Z, and acceptance rates."""
        # everything is frozen; an interrupt keeps what there is
        kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        try:
            for _ in range(n_draws):
                accepted = self.move(self.jittered())
                evaluation = self.state.evaluation
                log_density = np.add(*map(np.asarray, evaluation[:2]))
                kept.append((np.asarray(self.state.position), log_density, accepted))
                report(1)
        except KeyboardInterrupt:
            if not kept:
                raise
            warn(f"interrupted: {len(kept)} of {n_draws} draws of each chain are returned")
        return tuple(np.stack(part, axis=1) for part in zip(*kept, strict=True))


@dataclass(frozen=True)
class HmcSettings:
    """Arguments of `pymc_logz.sample_hmc`; see there for the meaning of each."""

    draws: int
    chains: int
    tune: int
    superchains: int
    n_steps: int
    refreshment: float
    step_size: float | None
    scale: float | tuple[float, ...] | None
    target_accept: float
    jitter: float

    def __post_init__(self) -> None:
        check_integer(1, draws=self.draws, tune=self.tune)
        check_integer(2, superchains=self.superchains)
        check_integer(1, chains=self.chains)
        check_below_one(jitter=self.jitter)
        if self.chains % self.superchains:
            near = self.superchains * max(1, self.members)
            raise ValueError(
                f"chains={self.chains} must be a multiple of superchains={self.superchains}, such "
                f"as {near}, since each of these has as many chains"
            )

    @property
    def members(self) -> int:
        """Chains of a superchain."""
        return self.chains // self.superchains


class StartSettings(RunSettings):
    """Of the rows that chains start from."""

    @property
    def mcse_without_path(self) -> float:
        """Error of log Z, in nats, up to which their weights tell how much is in each mode."""
        return 0.1


@written_as("sample_hmc(model=model)")
@says_if_interrupted("chains were being made ready")
def sample_hmc(
    draws: int = 100,
    chains: int = 128,
    *,
    model: "pm.Model | None" = None,
    tune: int = 100,
    superchains: int = 16,
    n_steps: int = 8,
    refreshment: float = 1.0,
    step_size: float | None = None,
    scale: float | Sequence[float] | None = None,
    target_accept: float = 0.8,
    jitter: float = 0.2,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Posterior draws by Hamiltonian Monte Carlo, all chains in one batch.

    Use it for hundreds or thousands of short chains on JAX: a step of all of them is one call.
    Modes are searched for as in `sample_hais`. Superchains start at approximate posterior draws, so
    that up to chance each mode gets superchains in proportion to its probability; a mode with a
    probability below that of one superchain may get none. While tuning, a step size that all chains
    share follows the moving average of their acceptance rate (times 1.02 above ``target_accept``,
    times 0.98 below), and length scales come from where the chains are; then both are frozen.

    Chains of a superchain start at the same point. Nested R-hat, which does not need long chains,
    shows whether they have forgotten it: see the attribute ``rhat_nested`` of ``sample_stats``.

    Parameters
    ----------
    draws
        Number of stored draws of each chain, one after each move.
    chains
        Number of chains, a multiple of ``superchains``.
    model
        PyMC model with continuous free variables and proper priors; None takes the one on the
        context stack.
    tune
        Number of tuning moves of each chain, which find the step size and the scales.
    superchains
        Points at which chains start, at least 2.
    n_steps
        Leapfrog steps of a move, 1 to 64.
    refreshment
        Fraction of the momentum *variance* that is replaced before a move, in [0, 1]. 1 is ordinary
        Hamiltonian Monte Carlo; less keeps a direction of travel over moves, and turns it round on
        rejection.
    step_size
        Leapfrog step size in units of ``scale``. None tunes it.
    scale
        Length scale of each unconstrained dimension: one number, or d numbers. None takes the
        spread of the chains, in up to 64 dimensions with their correlations.
    target_accept
        Mean acceptance rate that the step size aims at, in (0, 1).
    jitter
        The step size of a move varies by up to this fraction of its value, in [0, 1), the same for
        all chains: trajectories of constant length may end where they began.
    random_seed, progressbar, compile_kwargs
        As in `sample_hais`.

    Returns
    -------
    xarray.DataTree
        ``posterior``; ``sample_stats`` with ``lp`` (log density in the unconstrained space, nats),
        ``acceptance_rate``, ``diverging`` (an energy error above 700 nats), the coordinate
        ``superchain`` of each chain, and the attributes ``step_size`` and ``rhat_nested`` (the
        largest, over all variables); the data. Draws are ready for `bridge_sampling`.

    Raises
    ------
    ModelError
        If log Z of the model is undefined, or the model cannot be sampled so.
    PilotError
        If the posterior is out of the pilot's reach.
    ValueError
        If a setting is outside its range.

    Warns
    -----
    EvidenceWarning
        If nested R-hat says that chains depend on where they started, or trajectories diverge.

    See Also
    --------
    bridge_sampling : log Z of its draws.
    PartialMomentumHMC : one chain inside ``pm.sample``.

    References
    ----------
    Duane, Kennedy, Pendleton & Roweth (1987), Hybrid Monte Carlo, doi 10.1016/0370-2693(87)91197-X.
    Margossian, Hoffman, Sountsov, Riou-Durand, Vehtari & Gelman (2024), Nested R-hat: assessing the
    convergence of Markov chain Monte Carlo when running many short chains, doi 10.1214/24-BA1453.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_logz as lz
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0, 1, shape=2)
    ...     y = pm.Normal("y", x, 0.5, observed=[1.0, -1.0])
    >>> tree = lz.sample_hmc(20, 64, model=model, random_seed=1, progressbar=False)
    >>> dict(tree["posterior"].sizes)
    {'chain': 64, 'draw': 20, 'x_dim_0': 2}
    """
    check_no_model("sample_hmc(model=model)", draws=draws, chains=chains)
    check_positive(scale=scale)
    scale = tuple(map(float, scale)) if isinstance(scale, Sequence | np.ndarray) else scale
    settings = HmcSettings(**settings_among(locals(), HmcSettings))
    requested = Hamiltonian(n_steps, refreshment, step_size, settings.scale)
    own = RunSettings(kernel=requested, target_accept=target_accept)
    model = model_from(model, "sample_hmc(model=model)")
    watch, rngs = Stopwatch(), generators_from(random_seed)
    with progress_bar(progressbar):
        with line("Compiling the model"):
            prepared = prepare(model, rngs.checks)
            path = model_path(prepared.flat, prepared.prior)
            kernel = own.kernel_for(path.n_dims)
            # more chains together no longer gain, and need more memory; with one move in a call
            # all points on the way are seen
            n_rows = min(chains, RunSettings.pilot_rows)
            block = Block(path, kernel, n_rows, compile_kwargs, most_moves=1)
            block.compile()
        watch.end("compile_time")
        start = StartSettings()
        looking = block_for(prepared, start, compile_kwargs)
        rows = posterior_rows(prepared, looking, start, rngs.pilot)
        block.work.add(looking.work.done)
        moving = Chains(block, rows, settings, rngs.run)
        moving.tune(tune, report_count(f"Tuning {chains} chains", tune))
        watch.end("tuning_time", block.work)
        kept = moving.draw(draws, report_count(f"Sampling {chains} chains", draws))
        watch.end("sampling_time")
        found = {"step_size": moving.step_size, "backend": block.compiled.backend}
        found |= watch.cost(block)
        with line("Collecting the draws"):
            return collect(prepared.flat, kept, settings, found)


def collect(
    flat: FlatModel, kept: Sequence[np.ndarray], settings: HmcSettings, found: Mapping[str, Any]
) -> xr.DataTree:
    """The DataTree of a run."""
    position, log_density, acceptance_rate = kept
    _, n_draws, n_dims = position.shape
    values = constrain(flat, position)
    members = np.repeat(np.arange(settings.superchains), settings.members)
    at = {"superchain": ("chain", members)}
    # more chains than draws are usual here
    labels = {**model_labels(flat.model), "check_conventions": False}
    posterior = dataset_of(values, **labels).assign_coords(at)
    # an energy error of 700 nats: those that PyMC has, 1,000, are zero in double precision
    diverging = ~(acceptance_rate >= 1e-304)
    of_draws = {"lp": log_density, "acceptance_rate": acceptance_rate, "diverging": diverging}
    of_run = with_units(dataset_of(of_draws, check_conventions=False)).assign_coords(at)
    rhat = nested_rhat(posterior, [var.name for var in flat.model.free_RVs], members)
    of_run.attrs |= {"rhat_nested": rhat, **found}
    limit = largest_rhat(settings.superchains, settings.members, n_draws, n_dims)
    if not rhat <= limit:
        warn(
            f"nested R-hat is {rhat:.3g}, above {limit:.3g}: chains still depend on where they "
            f"started. Use a larger tune than {settings.tune}, more n_steps than "
            f"{settings.n_steps}, or see whether the posterior has several modes (sample_tempered)"
        )
    if diverging.mean() > MAX_DIVERGENT_SHARE:
        warn(
            f"{diverging.sum()} of {diverging.size} trajectories diverged: a part of the posterior "
            "may be missing. Use a larger target_accept, or another parametrisation"
        )
    groups = {
        "posterior": posterior,
        "sample_stats": of_run,
        **data_datasets(flat.model, flat.observed),
    }
    return make_tree(groups, {"method": "hmc", **asdict(settings), **found}, HMC)
