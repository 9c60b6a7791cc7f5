"""What users call: from a PyMC model to a DataTree with the group ``evidence``."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.progress_bar import create_simple_progress

from pymc_logz.comparison import evidence_of
from pymc_logz.estimators import importance_log_z
from pymc_logz.hais import (
    Directions,
    collect,
    make_plan,
    report_beta,
    run_reverse,
    run_until,
)
from pymc_logz.kernels import Hamiltonian
from pymc_logz.model import unconstrain
from pymc_logz.preparation import posterior_of, prepare
from pymc_logz.results import evidence_dataset
from pymc_logz.runners.parallel import spawn_generators
from pymc_logz.schedules import check_betas, linear_betas


def sample_hais(
    draws: int = 256,
    chains: int = 4,
    *,
    model: pm.Model | None = None,
    betas: str | int | np.ndarray = "adaptive",
    kernel: Hamiltonian | None = None,
    tune: int = 64,
    target_accept: float = 0.8,
    cores: int | None = None,
    reference: str | xr.DataTree = "prior",
    direction: str = "forward",
    posterior_draws: xr.DataTree | None = None,
    target_mcse: float | None = None,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Log Z and weighted draws of a model by Hamiltonian annealed importance sampling.

    Rows drawn from the prior are moved towards the posterior through a ladder of inverse
    temperatures by Hamiltonian dynamics with partially refreshed momentum; their weights average to
    Z, the marginal likelihood. A pilot population chooses the ladder, the step sizes and the length
    scales; everything is then frozen, and fresh rows make the estimate.

    Parameters
    ----------
    draws
        Annealed rows per chain, at least 2.
    chains
        Independent replicates with seeds of their own.
    model
        PyMC model with continuous free variables; None takes the one on the context stack.
    betas
        ``"adaptive"`` lets the pilot place the temperatures; a whole number K is the paper's ladder
        of K equal steps; an increasing array from 0 to 1 is taken as it is.
    kernel
        Settings of the Hamiltonian kernel; what they leave None is tuned by the pilot.
    tune
        Moves that the pilot makes at each of its stages.
    target_accept
        Acceptance rate that the tuned step sizes aim at, in (0, 1).
    cores
        Chains that run at the same time. It changes the wall time, never the result. None takes as
        many as PyMC would.
    reference
        What the path starts from: ``"prior"``; ``"laplace"``, a Student-t with the curvature at the
        posterior's mode; or a DataTree with a group ``posterior``, to which a Student-t is fitted
        on the unconstrained space. log Z is the same number, its error is not.
    direction
        ``"forward"``, or ``"both"`` to anneal back from the posterior too: the forward estimate is
        low on average and the reverse one high, and Bennett's acceptance ratio joins the two.
    posterior_draws
        Posterior draws that the reverse rows start from. None takes the resampled ends of the
        forward rows, which makes the reverse estimate only as good as they are.
    target_mcse
        Error of log Z, in nats, that the run grows to meet by more rows. None leaves it at
        ``draws``.
    random_seed
        Anything that ``pm.sample`` takes.
    progressbar
        Whether to show PyMC's progress bar.
    compile_kwargs
        Keyword arguments of ``pytensor.function``; ``{"mode": "NUMBA"}`` chooses a backend. By
        default JAX is used if it is installed and the model converts.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior`` (equally weighted by resampling), ``sample_stats``,
        ``weighted_posterior`` (the rows and their ``log_weight``), ``annealing`` (per temperature),
        ``reverse_annealing`` if there is one, ``evidence`` (dimension ``method``: ``log_z``,
        ``mcse``, ``weight_ess``, ``khat``, ``status``), ``observed_data`` and ``constant_data``.

    Raises
    ------
    ModelError
        If log Z of the model is undefined or out of reach; the message names the variable and the
        remedy.
    PilotError
        If the pilot cannot get from the prior to the posterior.
    ValueError
        If an argument is outside its range.

    Warns
    -----
    EvidenceWarning
        If the error is not to be trusted, the model has potentials, or a likelihood is NaN.

    Notes
    -----
    Draws start at the prior whatever ``initval`` says. Potentials are part of the target, and of
    log Z. A prior that a transform restricts (an ordered normal, say) is renormalised. An interrupt
    (Ctrl-C) returns the chains that are finished.

    References
    ----------
    Sohl-Dickstein & Culpepper (2012), Hamiltonian annealed importance sampling for partition
    function estimation, section 2.3 and eq. 25, arXiv 1205.1925. Both directions: Grosse,
    Ghahramani & Adams (2015), arXiv 1511.02543.

    Examples
    --------
    .. code-block:: python

        with pm.Model() as model:
            p = pm.Beta("p", 1, 1)
            pm.Binomial("y", n=100, p=p, observed=50)

        tree = lz.sample_hais(model=model, random_seed=1)
        tree["evidence"]["log_z"]  # -log 101 = -4.615
    """
    kernel = Hamiltonian() if kernel is None else kernel
    cores = min(4, chains) if cores is None else cores
    _check_arguments(draws, chains, cores, tune, target_accept, kernel)
    _check_directions(direction, posterior_draws, target_mcse)
    ladder = _check_ladder(betas)
    settings = {
        "function": "sample_hais",
        "draws": draws,
        "chains": chains,
        "betas": betas if isinstance(betas, str | int) else "array",
        "kernel": asdict(kernel),
        "tune": tune,
        "target_accept": target_accept,
        "reference": reference if isinstance(reference, str) else "draws",
        "direction": direction,
        "target_mcse": target_mcse,
    }
    started = time.perf_counter()
    model = pm.modelcontext(model)
    prepared = prepare(model, draws, kernel, random_seed, compile_kwargs, reference)
    target_rows = None
    if posterior_draws is not None:
        target_rows = unconstrain(prepared.flat, posterior_of(posterior_draws, "posterior_draws"))
    compiled = time.perf_counter()
    progress = create_simple_progress(progressbar)
    with progress:
        task = progress.add_task("Pilot", completed=0, total=1000)
        report = partial(report_beta, progress, task)
        plan = make_plan(prepared, ladder, tune, target_accept, report)
        tuned = time.perf_counter()
        generators = spawn_generators(prepared.rng, chains)
        forward = run_until(prepared, plan, generators, draws, cores, target_mcse, progress)
        directions = Directions(forward, exact_starts=target_rows is not None)
        if direction == "both":
            total = len(forward) * plan.n_temperatures
            report = partial(progress.advance, progress.add_task("Reverse", 0, total))
            directions.reverse = run_reverse(
                prepared, plan, forward, target_rows, tune, cores, report
            )
    times = {
        "compile_time": compiled - started,
        "tuning_time": tuned - compiled,
        "sampling_time": time.perf_counter() - tuned,
    }
    return collect(prepared, plan, directions, settings, times)


def evidence(tree: xr.DataTree | pm.Model, **kwargs: Any) -> xr.DataTree:
    """The same tree with a fresh group ``evidence``, or the evidence of a model.

    Parameters
    ----------
    tree
        DataTree that holds weighted draws (group ``weighted_posterior``) or already an
        ``evidence``; or a PyMC model, which is run through `sample_hais`.
    **kwargs
        Passed to `sample_hais` when a model is given.

    Returns
    -------
    xarray.DataTree
        With the group ``evidence``; the argument itself is not changed.

    Raises
    ------
    ValueError
        If the tree has nothing to compute a log Z from.
    """
    if isinstance(tree, pm.Model):
        return sample_hais(model=tree, **kwargs)
    if kwargs:
        raise TypeError(f"{sorted(kwargs)} apply only when a model is given, not a DataTree")
    if isinstance(tree, xr.DataTree) and "weighted_posterior" in tree.children:
        log_weight = np.asarray(tree["weighted_posterior"]["log_weight"])
        group = evidence_dataset([importance_log_z(log_weight, method="hais")], {})
        tree = tree.copy()
        tree["evidence"] = xr.DataTree(group)
        return tree
    evidence_of(tree)
    return tree


def _check_arguments(
    draws: int, chains: int, cores: int, tune: int, target_accept: float, kernel: Any
) -> None:
    for name, value, least in (
        ("draws", draws, 2),
        ("chains", chains, 1),
        ("cores", cores, 1),
        ("tune", tune, 1),
    ):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name}={value!r} must be a whole number of at least {least}")
    if not 0 < target_accept < 1:
        raise ValueError(f"target_accept={target_accept!r} must lie strictly between 0 and 1")
    if not isinstance(kernel, Hamiltonian):
        raise TypeError(f"kernel={kernel!r} must be a pymc_logz.Hamiltonian, such as Hamiltonian()")


def _check_directions(direction: str, posterior_draws: Any, target_mcse: float | None) -> None:
    if direction not in ("forward", "both"):
        raise ValueError(f"direction={direction!r} must be 'forward' or 'both'")
    if posterior_draws is not None and direction != "both":
        raise ValueError("posterior_draws are where reverse rows start: use direction='both' too")
    if target_mcse is not None and not 0 < target_mcse < np.inf:
        raise ValueError(f"target_mcse={target_mcse!r} must be positive and finite, in nats")


def _check_ladder(betas: Any) -> np.ndarray | None:
    """The ladder that the user gave, None if the pilot is to place it."""
    if isinstance(betas, str):
        if betas != "adaptive":
            raise ValueError(f"betas={betas!r} must be 'adaptive', a whole number, or an array")
        return None
    if isinstance(betas, int | np.integer) and not isinstance(betas, bool):
        return linear_betas(int(betas))
    return check_betas(betas)
