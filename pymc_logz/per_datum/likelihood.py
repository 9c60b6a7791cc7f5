"""Log likelihood of each of many data rows, in one run of data rows times particles."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import xarray as xr

from pymc_logz.arguments import settings_among
from pymc_logz.errors import STATUS_SENTENCES, warn
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.graphs.threads import n_processors
from pymc_logz.hais.results import annealing_dataset
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.kernels.base import Kernel
from pymc_logz.loop.calls import Call, begun
from pymc_logz.loop.frozen import make_plan
from pymc_logz.loop.planning import block_for
from pymc_logz.models.context import model_from, written_as
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.per_datum.data_rows import DataRows, read_data_rows
from pymc_logz.references.reference import check_start
from pymc_logz.runners.anneal import Annealed, Plan, along_plan, arrived
from pymc_logz.runners.block import Block
from pymc_logz.runners.moves import kernel_for
from pymc_logz.runners.moves_of_rows import Report
from pymc_logz.runners.progress import report_count
from pymc_logz.runners.running import AnnealCourse, AnnealJob, Job, running_for, state_of
from pymc_logz.seeds import spawn_generators
from pymc_logz.trees.doubts import warn_of_nan
from pymc_logz.trees.kinds import PER_DATUM
from pymc_logz.trees.layout import evidence_of_rows, make_tree, run_attrs, totals_of_rows

if TYPE_CHECKING:
    import pymc as pm

ROWS_PER_BATCH = 2048
"""Particles of all data rows of a batch together: enough to make a step's fixed cost small."""
AHEAD = 4
"""Batches for each worker whose starts are drawn at a time."""


@dataclass(frozen=True)
class PerDatumSettings(HaisSettings):
    """What `pymc_logz.marginal_log_likelihood` was asked for; see there."""

    method: ClassVar[str] = "per_datum"


@written_as("marginal_log_likelihood(model, data)")
def marginal_log_likelihood(
    model: "pm.Model | None",
    data: Mapping[str, Any],
    draws: int = 256,
    *,
    betas: str | int | np.ndarray = "adaptive",
    kernel: Kernel | str | None = None,
    tune: int = 64,
    target_accept: float | None = None,
    executor: Any = None,
    checkpoint: str | os.PathLike | None = None,
    time_limit: float | None = None,
    max_memory: int | str | None = None,
    check_reproducible: bool = False,
    cores: int | None = None,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Log likelihood of each data row under a latent-variable model, with its error.

    The model is one of a single datum: latent variables with priors, and observed variables. For
    each row x of the data, log p(x) is the log of the integral of prior times likelihood (times
    potentials) over the latent variables. Data rows times particles are annealed together in large
    batches, on one schedule with one set of step sizes and scales, which a pilot on some of the
    data rows finds.

    Parameters
    ----------
    model
        PyMC model of one datum with continuous latent variables; None takes the one on the context
        stack. Its own data give the shapes.
    data
        Names of ``pm.Data`` containers (observations or covariates of the likelihood) or of
        observed variables, each with an array of one more axis than the model's own data: the data
        rows, first. All have the same number of rows. Data that are not named stay as they are in
        the model.
    draws
        Particles per data row, at least 2.
    betas, kernel, tune, target_accept, checkpoint, time_limit, max_memory, check_reproducible, \
    random_seed, progressbar, compile_kwargs
        As in `sample_hais`; the schedule is shared by all data rows. A checkpoint has particles of
        the batches that are under way, and the estimates of those that are done.
    executor
        Who runs the batches, in place of threads of this process: any
        ``concurrent.futures.Executor``. It changes the wall time, never the result.
    cores
        Batches that run at the same time, and calls of an Op that says ``thread_safe = True``. It
        changes the wall time, never the result. None runs as many as there are processors.

    Returns
    -------
    xarray.DataTree
        Groups ``evidence`` (dimensions ``estimator`` and that of the data rows: ``log_z``,
        ``mcse``, ``weight_ess``, ``khat``, ``status``) and ``annealing`` (per temperature, over all
        data rows). The dimension and coordinates of data rows are those of a DataArray's first
        axis; arrays have ``data_row``. The attributes of ``evidence`` hold ``sum_log_z``, the sum
        over data rows, its error ``sum_mcse``, and its expected error ``sum_bias``: see Notes; and
        ``mean_log_density``, the mean, ``mean_mcse``, the error that log Z brings to it, and
        ``mean_standard_error``, that of so few data rows, as of `log_density`.

    Raises
    ------
    ModelError
        If a log likelihood is undefined or out of reach, or data enter the prior.
    PilotError
        If the pilot cannot get from the prior to the posterior.
    CheckpointError
        If the checkpoint is of another run; the message says what differs.
    ValueError
        If an argument is outside its range, or data do not fit the model.

    Warns
    -----
    EvidenceWarning
        If the error of a data row is not to be trusted, the model has potentials, or a likelihood
        is NaN.

    See Also
    --------
    log_density : of models without parameters.

    Notes
    -----
    Data rows have particles of their own, so their errors are independent, and add in quadrature.
    Each log p(x) is low by about ``mcse**2 / 2`` on average, which no single row shows but a sum
    over many does: ``sum_log_z - sum_bias`` corrects for it.

    Data rows run in equal batches of at most ``max(1, 2048 // draws)`` (fewer if a datum is huge),
    with random numbers of their own. If some rows have a poor status, run those separately, so that
    the pilot adapts to them.

    References
    ----------
    Sohl-Dickstein & Culpepper (2012), Hamiltonian annealed importance sampling for partition
    function estimation, section 3, arXiv 1205.1925.

    Examples
    --------
    .. code-block:: python

        import numpy as np
        import pymc as pm
        import pymc_logz as lz

        X_test, W = np.random.default_rng(1).normal(size=(5, 8)), np.eye(4, 8)
        with pm.Model() as model:
            x = pm.Data("x", X_test[0])
            a = pm.Laplace("a", 0, 1, shape=4)
            pm.Normal("image", a @ W, 0.5, observed=x)

        tree = lz.marginal_log_likelihood(model, {"x": X_test}, random_seed=1)
        tree["evidence"]["log_z"]  # dims estimator, data_row
    """
    model = model_from(model, "marginal_log_likelihood(model, data)")
    given = settings_among(locals(), running_for)
    running, random_seed = running_for(chains=n_processors(), **given)
    kernel = kernel_for(kernel, model)
    # nine in ten data rows are to reach this variance: weight ESS of about 60%
    own: dict[str, Any] = {"chains": 1, "reference": "prior", "target_variance": 0.5}
    asked_for = settings_among(locals(), PerDatumSettings)
    settings = PerDatumSettings.from_arguments(**asked_for, **own)
    with begun(settings, random_seed, progressbar, compile_kwargs) as call:
        rows = read_data_rows(model, data)
        prepared = prepare(model, call.rngs.checks, data=rows.names)
        block, batches = compile_batches(prepared, rows.values, call)
        call.watch.end("compile_time")
        of_rows = {"data_rows": rows.values, "data_names": np.array(rows.names)}
        with call.kept(prepared, block, **of_rows) as call:

            def made() -> Plan:
                rng = call.rngs.pilot
                start = block.path.sample_reference(rng, block.n_rows)
                check_start(prepared, block, start)
                return make_plan(block, settings, start, rng).plan

            plan: Plan = call.once("plan", made, prepared, block)
            call.watch.end("tuning_time", block.work)
            results = run_batches(block, plan, batches, call, prepared)
    call.watch.end("sampling_time")
    return running.noted(collect(prepared, rows, block, plan, results, call))


def batches_of(n_data: int, draws: int, width: int) -> np.ndarray:
    """Indices of data rows, shape (batches, rows of a batch), the last row repeated at the end.

    ``width`` is the length of a particle's longest vector; no array of a batch has more than 4
    million entries.
    """
    most = min(ROWS_PER_BATCH, 2**22 // width) // draws
    n_batches = -(-n_data // max(1, most))
    size = -(-n_data // n_batches)
    index = np.arange(n_batches * size).clip(max=n_data - 1)
    return index.reshape(n_batches, size)


def pilot_groups(n_data: int, n_rows: int) -> tuple[int, int]:
    """Data rows of the pilot, at least 64 particles each, and its particles for all together.

    Particles are as many as in a batch where that is fit for a pilot: one shape, one compilation.
    """
    n_rows = int(np.clip(n_rows, 256, 4096))
    most = min(n_data, n_rows // 64)
    return max(n for n in range(1, most + 1) if n_rows % n == 0), n_rows


def compile_batches(
    prepared: Prepared, values: np.ndarray, call: Call[HaisSettings]
) -> tuple[Block, list[np.ndarray]]:
    """Moves compiled for the data rows (R, D) of the pilot, and the data of each batch."""
    settings = call.settings
    n_data, n_values = values.shape
    batches = batches_of(n_data, settings.draws, max(prepared.n_dims, n_values))
    n_groups, n_pilot = pilot_groups(n_data, batches.shape[1] * settings.draws)
    chosen = call.rngs.pilot.choice(n_data, n_groups, replace=False)
    block = block_for(prepared, settings, call.compile_kwargs, n_pilot, values[chosen])
    if (bound := settings.running.max_memory) is not None:
        block = block.limited(bound // settings.running.cores)
    block.compile()
    return block, [values[batch] for batch in batches]


@dataclass(frozen=True)
class BatchJob(Job):
    """Particles of a batch of data rows on their way, and in the end what they come to."""

    job: AnnealJob | None
    """None once they are there."""
    n_total: int
    """Moves of the plan."""
    estimates: Sequence[LogZEstimate] = ()
    """One per data row, once they are there."""
    annealed: Annealed | None = None
    """Statistics along the ladder; the rows themselves are dropped."""
    n_evaluations: int = 0

    @property
    def n_done(self) -> int:
        """Moves made."""
        return self.n_total if self.job is None else self.job.n_done

    def advance(self, course: AnnealCourse, report: Report | None) -> tuple["BatchJob", None]:
        """Particles further on; of those that are there only the estimates are left."""
        assert self.job is not None
        assert self.job.data is not None
        n_data = len(self.job.data)
        job, _ = self.job.advance(course, report)
        if job.n_done < job.n_total:
            return replace(self, job=job), None
        assert job.underway is not None
        annealed = arrived(course.plan, job.underway)
        weights = annealed.log_weight.reshape(n_data, -1)
        estimates = [importance_log_z(log_weight, method="hais") for log_weight in weights]
        of_rows = ("position", "log_reference", "log_ratio", "log_weight")
        nothing: dict[str, Any] = dict.fromkeys(of_rows, np.empty(0))
        annealed = annealed._replace(**nothing)
        return replace(self, job=None, estimates=estimates, annealed=annealed), None


def run_batches(
    block: Block,
    plan: Plan,
    batches: list[np.ndarray],
    call: Call[HaisSettings],
    prepared: Prepared | None = None,
) -> list[BatchJob | None]:
    """Anneal fresh particles for each batch, with a generator of its own; None if interrupted."""
    n_parts, k, settings = len(batches), plan.n_temperatures, call.settings
    line = f"Annealing: {k} temperature{'s' if k > 1 else ''}, {n_parts} batches"
    n = sum(map(len, batches)) * settings.draws * k * block.cost_of_move
    needs = call.needs(prepared, block.work, n, of_checks=0)
    report = report_count(line, n_parts * k, f"fewer draws than {settings.draws}", needs)
    generators, size = spawn_generators(call.rngs.run, n_parts), len(batches[0])
    names = [f"data-rows-{i * size}-to-{(i + 1) * size - 1}.chain-{i}" for i in range(n_parts)]
    course, results = AnnealCourse(block, plan), list[BatchJob | None]()
    # no more starts at a time than keep workers busy
    n_ahead = AHEAD * settings.running.n_workers
    for first in range(0, n_parts, n_ahead):
        part = slice(first, first + n_ahead)
        jobs = []
        for data, rng in zip(batches[part], generators[part], strict=True):
            start = block.path.sample_reference(rng, len(data) * settings.draws)
            jobs.append(BatchJob(AnnealJob(start, state_of(rng), k, data=data), k))
        try:
            found = settings.running.run("batches", course, jobs, report, names[part])
        except KeyboardInterrupt:
            if not results:
                raise
            break
        results += [None if one is None else one.job for one in found]
        if None in results:  # interrupted
            break
    return results + [None] * (n_parts - len(results))


def collect(
    prepared: Prepared,
    rows: DataRows,
    block: Block,
    plan: Plan,
    results: list[BatchJob | None],
    call: Call[HaisSettings],
) -> xr.DataTree:
    """The DataTree of a run."""
    cost = call.watch.cost(block)
    n_data = len(rows.values)
    size = max(len(result.estimates) for result in results if result is not None)
    missing = [LogZEstimate("hais", np.nan, np.nan, 0.0, np.nan, "not_run")] * size
    estimates = [
        estimate
        for result in results
        for estimate in (missing if result is None else result.estimates)
    ][:n_data]
    runs = [one.annealed for one in results if one is not None and one.annealed is not None]
    annealed = runs[0]._replace(**along_plan(runs, [1.0] * len(runs)))
    own = {"n_temperatures": plan.n_temperatures, "data_rows_per_batch": size}
    share = prepared.prior.finite_fraction
    attrs = run_attrs(block.compiled, block.path.batching, share, cost, **own)
    log_p, mcse = (np.array([getattr(one, of) for one in estimates]) for of in ("log_z", "mcse"))
    squares = float((mcse**2).sum())
    sums = totals_of_rows(log_p, float(np.sqrt(squares)), -0.5 * squares)
    groups = {
        "evidence": evidence_of_rows(estimates, rows.dim, rows.coords, {**attrs, **sums}),
        "annealing": annealing_dataset([annealed], plan),
    }
    statuses = [estimate.status for estimate in estimates]
    for status, count in Counter(statuses).items():
        if status != "ok":
            warn(
                f"{count} of {n_data} data rows, the first of them row {statuses.index(status)}, "
                f"have status {status!r}: {STATUS_SENTENCES[status]}"
            )
    warn_of_nan(annealed.n_nan, "annealing")
    return make_tree(
        groups, {**call.settings.record(), "data": list(rows.names), **attrs}, PER_DATUM
    )
