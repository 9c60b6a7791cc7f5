"""log Z of a posterior that already exists: bridge sampling from its draws."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.arguments import check_choice, check_integer, settings_among
from pymc_logz.checks.missed_modes import no_surer
from pymc_logz.errors import says_if_interrupted
from pymc_logz.estimators import LogZEstimate, bridge_log_z
from pymc_logz.models.context import check_no_model, model_from, written_as
from pymc_logz.models.density import RowDensity
from pymc_logz.models.exact import exact_observations
from pymc_logz.models.preparation import prepare
from pymc_logz.paths.elliptical import fitted_normal
from pymc_logz.posterior.own_proposal import held_against_the_model, importance
from pymc_logz.posterior.repetitions import (
    UNIT,
    BridgeCourse,
    Repetition,
    imbalance_of_draws,
    symmetrised,
)
from pymc_logz.runners.moves_of_rows import Stopwatch
from pymc_logz.runners.progress import line, progress_bar
from pymc_logz.runners.running import Running, finished, generator_at, running_for, state_of
from pymc_logz.seeds import generators_from, spawn_generators
from pymc_logz.trees.chains import (
    check_possible,
    check_start_of_chains,
    check_stored_density,
    says_result,
)
from pymc_logz.trees.doubts import (
    Doubt,
    disagreements,
    prior_doubts,
    second_opinions,
    warn_of_nan,
    warn_of_status,
    with_doubts,
)
from pymc_logz.trees.kinds import BRIDGED
from pymc_logz.trees.layout import evidence_dataset, run_attrs, with_evidence
from pymc_logz.trees.posterior import PosteriorRows, posterior_of, posterior_rows
from pymc_logz.wings import from_wing

if TYPE_CHECKING:
    import pymc as pm


@written_as("bridge_sampling(idata, model)")
@says_result
def bridge_sampling(
    idata: xr.DataTree,
    model: "pm.Model | None" = None,
    *,
    method: str = "warp3",
    cross_check: str | None = "student",
    draws: int | None = None,
    repetitions: int = 1,
    executor: Any = None,
    checkpoint: str | os.PathLike | None = None,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """A copy of the tree with log Z of its posterior, by bridge sampling from its draws.

    Any posterior of a PyMC model will do, whatever sampler made it: PyMC's NUTS, nutpie, NumPyro or
    BlackJAX, from memory or from a file. Its draws are mapped to the unconstrained space; a normal
    is fitted to the first half of each chain, and a bridge built between the second halves and
    draws of that normal.

    Parameters
    ----------
    idata
        DataTree with a group ``posterior`` that has all free variables. Chains of at least 1,000
        draws give a log Z with an error of a few hundredths in moderate dimension.
    model
        The model of the posterior; None takes the one on the context stack.
    method
        ``"warp3"`` mirrors the posterior in its mean before the bridge is built, which removes
        skewness, at the price of two evaluations of the density instead of one; ``"normal"`` does
        not.
    cross_check
        Importance sampling as a second opinion, from what is fitted to the first halves: a
        ``"student"`` with 5 degrees of freedom, a ``"normal"``, or None.
    draws
        Draws from each proposal. None takes as many as there are posterior draws in the bridge.
    repetitions
        How often new draws are made from the proposal. The main estimate is one bridge with all of
        these draws. The log Z of each repetition alone is in ``repetition_log_z``; its spread comes
        from the draws of the proposal only, since the posterior draws are the same for all.
    executor
        What runs the repetitions: any ``concurrent.futures.Executor``; None runs one after the
        other. It changes the wall time, never the result.
    checkpoint
        A folder, such as ``"bridge.ckpt"``, in which repetitions are stored: if the call is killed
        and repeated with the same arguments, those that are finished are loaded. See
        `pymc_logz.resume`.
    random_seed, progressbar, compile_kwargs
        As in `sample_hais`.

    Returns
    -------
    xarray.DataTree
        A shallow copy of ``idata`` (the argument is not changed) with a fresh group ``evidence``:
        entries ``"bridge"`` and ``"importance"``, and attributes on overlap and effective sizes;
        of several repetitions also ``repetition_log_z`` and ``repetition_mcse`` (dimension
        ``repetition``). A group ``evidence`` that it had is replaced.

    Raises
    ------
    ModelError
        If log Z of the model is undefined or out of reach; the message names the remedy.
    CheckpointError
        If the checkpoint is of another bridge; the message says what differs.
    ValueError
        If an argument is outside its range or does not apply, or the posterior is not one of this
        model: other variables, shapes, data or log density; too few draws, warm-up left in,
        weighted draws.

    Warns
    -----
    EvidenceWarning
        If the error is not to be trusted, the two estimates disagree, chains disagree or diverged,
        the model has potentials, or a density is NaN.

    See Also
    --------
    evidence : the same, with a second method as a check.
    importance_sampling : from a proposal of your own.

    Notes
    -----
    Draws of a model with exact observations go to ``pymc_logz.manifold.evidence.manifold_bridge``,
    which does the same on the set of inputs that meet them; ``method``, ``cross_check`` and the
    arguments for repetitions do not apply there. Discrete variables are summed out, where they are
    independent given the others or have few values together; where not, the error names what to
    use. Potentials are part of the target, and of log Z. A prior that a transform restricts (an
    ordered normal, say) is renormalised, as in `sample_hais`. A bridge knows the posterior only
    from the draws, so log Z does not include a mode that no chain has found. In up to 16
    dimensions, with up to 5,000 data, 512 particles from the prior look for one (status
    ``"missed_mode"``), which finds a mode whose basin holds a fraction s of the prior with a
    probability of at most 1 - (1 - s)^512.

    References
    ----------
    Meng & Wong (1996), eq. 4.1; Gronau et al. (2017), arXiv 1703.05984; warp-III: Meng & Schilling
    (2002), doi 10.1198/106186002457, and Gronau, Wagenmakers, Heck & Matzke (2019), doi
    10.1007/s11336-018-9648-3. Smoothed weights: Vehtari et al. (2024), arXiv 1507.02646.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as model:
            p = pm.Beta("p", 1, 1)
            pm.Binomial("y", n=100, p=p, observed=50)
            idata = pm.sample()

        tree = lz.bridge_sampling(idata, model)
        tree["evidence"]["log_z"]  # -log 101 = -4.615
    """
    check_choice(("warp3", "normal"), method=method)
    check_choice(("student", "normal", None), cross_check=cross_check)
    check_integer(1, repetitions=repetitions)
    if draws is not None:
        check_integer(2, draws=draws)
    running, random_seed = running_for(random_seed, 1, executor, checkpoint)
    call = "bridge_sampling(idata, model)"
    check_no_model(call, idata=idata)
    model = model_from(model, call)
    posterior_of(idata, "idata")
    if exact_observations(model):
        where = "to a model with exact observations, whose bridge is made in this process"
        running.refuse(f"{where}: leave it out", "executor", "checkpoint")
        for name, value, harmless in (
            ("method", method, ("warp3",)),
            ("cross_check", cross_check, ("student", None)),
            ("repetitions", repetitions, (1,)),
        ):
            if value not in harmless:
                raise ValueError(
                    f"{name}={value!r} does not apply to a model with exact observations, whose "
                    "log Z is one bridge on the set of inputs that meet them: leave it out, and "
                    "give more draws if the error is too large"
                )
        bridged = from_wing("manifold_bridge")
        return bridged(**settings_among(locals(), bridged))
    return _bridged(**settings_among(locals(), _bridged))


@says_if_interrupted("the bridge was being built")
def _bridged(
    idata: xr.DataTree,
    model: "pm.Model",
    method: str,
    cross_check: str | None,
    repetitions: int,
    running: Running,
    draws: int | None,
    random_seed: Any,
    progressbar: bool,
    compile_kwargs: Mapping[str, Any] | None,
) -> xr.DataTree:
    """Prepare, map the draws, build the bridge, collect; arguments as of `bridge_sampling`."""
    watch, rngs = Stopwatch(), generators_from(random_seed)
    with progress_bar(progressbar):
        with line("Compiling the model"):
            prepared = prepare(model, rngs.checks, needs_prior_draws=False, sum_out=True)
            posterior = posterior_rows(idata, prepared.flat)
            log_mass, mass_error = prepared.prior.log_mass(rngs.checks)
            density = RowDensity(prepared.flat, compile_kwargs)
        watch.end("compile_time")
        with line(f"Density of {posterior.rows[..., 0].size} draws of the posterior"):
            log_target = target_at_draws(density, posterior, idata)
        requested = {"method": "bridge_sampling", "bridge_method": method, "draws": draws}
        of = requested, prepared.flat, density, rngs.pilot
        with (
            line("Bridge: draws of the proposal"),
            running.kept(*of, posterior_draws=posterior.rows) as running,
        ):
            how = method, cross_check, draws, rngs.pilot, repetitions, running
            bridged, alone, found = bridge(density, posterior, log_target, *how)
        with line("Checking the result"):
            normalised = [one.less(log_mass, mass_error) for one in bridged]
            held = prepared, density, posterior.rows[~posterior.on_boundary], normalised[0]
            other, doubts = held_against_the_model(*held, rngs.checks, [*posterior.doubts, *found])
    # errors are widened to what log Z from the prior allows
    first, *others = [no_surer(one, other) if other else one for one in normalised]
    seen = {"from_prior_log_z": other.log_z, "from_prior_mcse": other.mcse} if other else {}
    of_prior = prior_doubts(prepared.prior_doubt)
    doubts += of_prior
    estimates, notes = with_doubts([first], doubts, [*posterior.doubts, *of_prior])
    estimates += second_opinions(first, others, doubts)
    if not doubts:
        warn_of_status(estimates[0])
    warn_of_nan(density.n_nan, "draws of the proposals")
    watch.end("sampling_time")
    cost = {**watch.seconds, "row_evaluations": density.n_evaluated}
    own: dict[str, Any] = {"bridge_method": method, "cross_check": str(cross_check)}
    own |= {"n_nan": density.n_nan, **prepared.record(), **notes, **seen, **bridged[0].details}
    attrs = run_attrs(density.compiled, density.batching, float(np.exp(log_mass)), cost, **own)
    group = evidence_dataset(sorted(estimates, key=lambda one: not one.usable), attrs)
    for name in ("log_z", "mcse") if alone else ():
        values = [getattr(one.less(log_mass, mass_error), name) for one in alone]
        group[f"repetition_{name}"] = ("repetition", np.array(values), {"units": "nats"})
    return with_evidence(idata, group, BRIDGED)


def bridge(
    density: RowDensity,
    posterior: PosteriorRows,
    log_target: np.ndarray,
    method: str,
    cross_check: str | None,
    draws: int | None,
    rng: np.random.Generator,
    repetitions: int = 1,
    running: Running | None = None,
) -> tuple[list[LogZEstimate], list[LogZEstimate], list[Doubt]]:
    """Bridge between second halves of chains and a normal fitted to the first halves.

    Estimates, in the order bridge, importance; those of each repetition alone, if there are
    several; and what speaks against the draws, where they are cross-checked.
    """
    half = posterior.rows.shape[1] // 2
    fit = posterior.rows[:, :half][~posterior.on_boundary[:, :half]]
    proposal = fitted_normal(fit)
    second, outside = posterior.rows[:, half:], posterior.on_boundary[:, half:]
    n = outside.size if draws is None else draws
    rows = np.where(outside[..., None], proposal.centre, second).reshape(-1, density.flat.n_dims)
    at_posterior = log_target[:, half:].ravel()
    if method == "warp3":
        # a target that is symmetric in the centre has the same constant, and no skewness
        at_posterior = symmetrised(density, at_posterior, proposal.mirrored(rows))
    # the first moves the generator on, and the i-th does not depend on how many there are
    others = spawn_generators(generator_at(state_of(rng)), repetitions - 1)
    jobs = [Repetition(state_of(one), n) for one in (rng, *others)]
    course = BridgeCourse(density.flat, density.compile_kwargs, proposal, method == "warp3")
    found = (running or Running()).run(UNIT, course, jobs)
    made = [one.job for one in finished(found, UNIT)]
    rng.bit_generator.state = made[0].rng
    density.n_evaluated += course.work.done
    density.n_nan += sum(one.n_nan for one in made)
    proposed, at_proposed, log_q = (
        np.concatenate([getattr(one, name) for one in made])
        for name in ("rows", "log_target", "log_proposal")
    )
    q_at_posterior = proposal.log_density_of(rows).reshape(outside.shape)
    at_draws = (
        np.where(outside, 0.0, at_posterior.reshape(outside.shape)),
        np.where(outside, -np.inf, q_at_posterior),
    )

    def log_z_of(some: Sequence[Repetition]) -> LogZEstimate:
        bridged, q_at_proposed = (
            np.concatenate([getattr(one, name) for one in some])
            for name in ("log_bridged", "log_proposal")
        )
        return bridge_log_z(*at_draws, bridged, q_at_proposed)

    estimate, doubts = log_z_of(made), list[Doubt]()
    estimates, alone = [estimate], [log_z_of([one]) for one in made] if len(made) > 1 else []
    if cross_check is not None:
        at_rows = np.where(outside, np.inf, log_target[:, half:] - q_at_posterior)
        seen = rows.reshape(second.shape), at_rows, proposed, at_proposed - log_q
        doubts += imbalance_of_draws(density.flat.owners, *seen, proposal)
        estimates.append(importance(density, proposal, cross_check, n, rng))
    if estimate.usable:
        doubts += disagreements(estimate, estimates[1:])
    return estimates, alone, doubts


def target_at_draws(
    density: RowDensity, posterior: PosteriorRows, idata: xr.DataTree
) -> np.ndarray:
    """Log density at the draws, (chains, draws), NaN on a boundary; raises for another model's."""
    inside = ~posterior.on_boundary
    log_target = np.full(inside.shape, np.nan)
    log_target[inside] = density.log_target(posterior.rows[inside])
    check_possible(log_target[inside])
    if density.flat.summed is None:  # what samplers store is the density with discrete variables
        check_stored_density(idata, log_target, density.flat.log_turns(posterior.rows))
    check_start_of_chains(np.where(inside, log_target, np.nanmedian(log_target)))
    return log_target
