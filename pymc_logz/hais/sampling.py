"""What users call: from a PyMC model to a DataTree with the group ``evidence``."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from pymc_logz.arguments import settings_among
from pymc_logz.hais.results import onward_run
from pymc_logz.hais.run import run_hais
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.kernels.base import Kernel
from pymc_logz.models.context import ForeignModel, check_no_model, model_from, written_as
from pymc_logz.runners.moves import kernel_for
from pymc_logz.runners.running import running_for
from pymc_logz.trees.chains import says_result
from pymc_logz.trees.posterior import checked_draws, checked_reference

if TYPE_CHECKING:
    import pymc as pm

    from pymc_logz.bits.energies import BinaryEnergy


@written_as("sample_hais(model=model)")
@says_result
def sample_hais(
    draws: int = 256,
    chains: int = 4,
    *,
    model: "pm.Model | BinaryEnergy | None" = None,
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
    reference: "str | xr.DataTree | pm.Model | BinaryEnergy | Sequence[BinaryEnergy] | None" = None,
    direction: str = "forward",
    posterior_draws: xr.DataTree | None = None,
    target_mcse: float | None = None,
    sum_out: bool | None = None,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Log Z and weighted draws of a model by Hamiltonian annealed importance sampling.

    Particles drawn from the prior are moved towards the posterior over many temperatures, by
    Hamiltonian dynamics with partially refreshed momentum; their weights average to Z, the marginal
    likelihood. A short pilot run chooses the temperatures, the step sizes and the length scales;
    everything is then frozen, and fresh particles make the estimate.

    Parameters
    ----------
    draws
        Particles of each chain, at least 2.
    chains
        Independent replicates with seeds of their own.
    model
        PyMC model, whose discrete variables move too, by `pymc_logz.kernels.Gibbs` or
        `pymc_logz.kernels.IntegerWalk`; None takes the one on the context stack. Or an
        energy made of bits, such as ``energies.bernoulli_rbm(...)``, whose beta = 0 are independent
        bits, and which block Gibbs moves.
    betas
        ``"adaptive"`` lets the pilot place the temperatures; an integer K makes K equal steps, as
        in the paper; an increasing array from 0 to 1 is taken as it is.
    kernel
        How particles move: settings such as ``Hamiltonian()``, ``RandomWalk()`` or ``Slice()``, of
        which the pilot tunes what they leave None, or one of ``"hais"``, ``"hmc"``, ``"langevin"``,
        ``"random_walk"``, ``"slice"``. The last two need no gradient. None means ``"hais"``.
        Anything that follows `pymc_logz.kernels.Kernel` is taken too.
    tune
        Moves that the pilot makes at each of its stages, and that reverse particles make at beta =
        1 before they go back.
    target_accept
        Acceptance rate that the tuned step sizes aim at, in (0, 1), by default 0.8; it must be
        omitted for kernels that have their own target or no step size to tune.
    executor
        What runs the chains, instead of threads of this process: any
        ``concurrent.futures.Executor``, such as a pool of processes or dask's
        ``Client.get_executor()``. It changes the wall time, never the result.
    checkpoint
        A folder, such as ``"run.ckpt"``, in which the run is stored as it proceeds. If it is killed
        at any moment and the call is repeated with the same arguments, it continues, with
        bit-for-bit the same result; see `pymc_logz.resume`.
    time_limit
        The run stops if no chain responds for this many seconds, for example because a likelihood
        hangs; before chains run, if a call of an Op of your own does not. None waits.
    max_memory
        Bytes, or text such as ``"2 GB"``, that the moves of all chains of a process may take at a
        time: particles are computed in portions. The model's data, the libraries and the draws come
        on top. It changes results by rounding at most.
    check_reproducible
        Whether to run one chain again in this process, and to warn if the results are not
        bit-for-bit the same.
    cores
        Chains that run at the same time, and calls of an Op that says ``thread_safe = True``. It
        changes the wall time, never the result. None runs as many as there are processors.
    reference
        What the path starts from. ``"learned"`` fits a mixture of Student-t components to the
        particles that a pilot carried from the prior, with the prior as a small component, and
        takes it if it covers those particles. In more than 16 dimensions, of which most are normal
        given at most six others, it takes nested Laplace approximations. ``"laplace"`` does the
        same as the first with one component that has the curvature at the posterior's mode, and
        takes what is fitted to the particles where that does not cover them; otherwise the path
        starts from the prior. ``"prior"`` is the paper's path. For a DataTree with a group
        ``posterior`` the mixture is fitted to its draws, without checks. None is ``"learned"``, or
        ``"prior"`` where ``betas`` are given or particles go in both directions. log Z is the same
        number, its error is not. With another PyMC model of the same variables, whose density is
        nonzero wherever this one's is, particles are first annealed to its posterior, and the path
        leads from there to this one, and the tree has the group ``bayes_factor``, with
        ``log_bayes_factor`` of this model against the other one, and its error. Where ``model`` is
        an energy made of bits, another one of the same blocks, or a sequence of them that the path
        leads through (`energies.moment_averaged`); ``log_bayes_factor`` is that against the last.
    direction
        ``"forward"``, or ``"both"`` to anneal back from the posterior too: the forward estimate is
        low on average and the reverse one high, and Bennett's acceptance ratio joins the two.
    posterior_draws
        Posterior draws that the reverse particles start from. None takes the resampled ends of the
        forward particles, which makes the reverse estimate only as good as they are.
    target_mcse
        Target for the error of log Z, in nats: particles are added until it is met. None takes as
        many temperatures as an error of 0.02 needs where that is cheap, up to 0.05 where it is not,
        and tries once more with four times as many if the result is not good enough.
    sum_out
        Whether discrete variables are summed out in place of being moved: entries that are
        independent given the others one by one (labels of a mixture), others over all of their
        values together, if these are at most 4,096. Without discrete variables True changes
        nothing. None does so where the model's graph shows that
        it can be done and no kernel is given that moves them, or has scales: variables that move
        may stay at values that are typical of the prior, and miss those of the posterior. The
        posterior draws include these variables again.
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
        ``weighted_posterior`` (the particles and their ``log_weight``), ``annealing`` (per
        temperature), ``reverse_annealing`` if there is one, ``evidence`` (dimension ``estimator``:
        ``log_z``, ``mcse``, ``weight_ess``, ``khat``, ``status``), ``observed_data`` and
        ``constant_data``.

    Raises
    ------
    ModelError
        If log Z of the model is undefined or out of reach; the message names the variable and the
        remedy.
    PilotError
        If the pilot cannot get from the prior to the posterior.
    CheckpointError
        If the checkpoint is of another run; the message says what differs.
    ValueError
        If an argument is outside its range, or would be ignored because of another one.

    Warns
    -----
    EvidenceWarning
        If the error is not to be trusted, the model has potentials, or a likelihood is NaN.

    See Also
    --------
    evidence : this, or another method where its status is not ok.
    sample_tempered : for several modes, and log Z at every temperature.
    bridge_sampling : log Z from existing draws.
    plot_path, plot_weights

    Notes
    -----
    Particles start from the prior, and ``initval`` is ignored. Potentials are part of the target,
    and of log Z. A prior that a transform restricts (an ordered normal, say) is renormalised. An
    interrupt (Ctrl-C) returns the chains that are finished.

    References
    ----------
    Sohl-Dickstein & Culpepper (2012), Hamiltonian annealed importance sampling for partition
    function estimation, section 2.3 and eq. 25, arXiv 1205.1925. Both directions: Grosse,
    Ghahramani & Adams (2015), arXiv 1511.02543.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as model:
            p = pm.Beta("p", 1, 1)
            pm.Binomial("y", n=100, p=p, observed=50)

        tree = lz.sample_hais(model=model, random_seed=1)
        tree["evidence"]["log_z"]  # -log 101 = -4.615
    """
    check_no_model("sample_hais(model=model)", draws=draws, chains=chains)
    other = model if isinstance(model, ForeignModel) else None
    onward = onward_run(other, reference, direction, sum_out)
    requested = "prior" if onward else cast("str | xr.DataTree | None", reference)
    if other is None:
        model = model_from(model, "sample_hais(model=model)")
        kernel = kernel_for(kernel, model, *([reference] if onward else []))
        requested = checked_reference(requested, model)
    else:
        kernel, requested = other.runs.checked(other, kernel, requested, sum_out)
    running, random_seed = running_for(**settings_among(locals(), running_for))
    given = {**settings_among(locals(), HaisSettings), "reference": requested}
    settings = HaisSettings.from_arguments(**given)
    if posterior_draws is not None and direction != "both":
        raise ValueError("posterior_draws start the reverse particles: use direction='both' too")
    if posterior_draws is not None and other is None:
        posterior_draws = checked_draws(posterior_draws, model, "posterior_draws")
    seen = {"random_seed": random_seed, "progressbar": progressbar}
    if onward is not None:
        return onward(model, settings, **seen, compile_kwargs=compile_kwargs)
    run = partial(run_hais, model) if other is None else partial(other.runs.run_hais, other)
    return run(settings, posterior_draws=posterior_draws, **seen, compile_kwargs=compile_kwargs)


@written_as("sandwich(model)")
@says_result
def sandwich(
    model: "pm.Model | None" = None,
    draws: int = 256,
    chains: int = 4,
    *,
    betas: str | int | np.ndarray = "adaptive",
    kernel: Kernel | str | None = None,
    tune: int = 256,
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
    """Bounds on log Z from both sides, for data simulated from the model itself.

    Data simulated from a draw of the prior come with one exact draw of their posterior: that same
    draw. Reverse particles start there, and are first moved on at beta = 1. So both ends are right
    on average: ``hais`` is low, ``hais_reverse`` is high, and the truth lies between them. A narrow
    gap on simulated data says that the settings are good for real data of the same kind too.

    Parameters
    ----------
    model
        PyMC model without potentials; None takes the one on the context stack. Its own data give
        only the shape of the simulated ones.
    draws, chains, betas, kernel, target_accept, executor, checkpoint, time_limit, max_memory, \
    check_reproducible, cores, random_seed, progressbar, compile_kwargs
        As in `sample_hais`.
    tune
        Moves of the pilot at each of its stages, and of the reverse particles at beta = 1.

    Returns
    -------
    xarray.DataTree
        As of ``sample_hais(direction="both")``, with the simulated data in ``observed_data``.

    Raises
    ------
    ModelError
        If data cannot be simulated from the model.
    CheckpointError
        If the checkpoint is of another run; the message says what differs.

    See Also
    --------
    plot_sandwich
    sample_hais : ``direction="both"`` for your own data.

    References
    ----------
    Grosse, Ghahramani & Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte
    Carlo, arXiv 1511.02543.

    Examples
    --------
    .. code-block:: python

        import pymc_logz as lz

        tree = lz.sandwich(lz.energies.beta_bernoulli().model, random_seed=1)
        tree["evidence"]["log_z"]  # hais below, hais_reverse above the truth
    """
    model = model_from(model, "sandwich(model)")
    running, random_seed = running_for(**settings_among(locals(), running_for))
    kernel = kernel_for(kernel, model)
    given = settings_among(locals(), HaisSettings)
    settings = HaisSettings.from_arguments(**given, direction="both")
    return run_hais(
        model,
        settings,
        simulate_data=True,
        random_seed=random_seed,
        progressbar=progressbar,
        compile_kwargs=compile_kwargs,
    )
