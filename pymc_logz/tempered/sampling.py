"""What users call for a tempered run: from a PyMC model to a DataTree."""

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.arguments import settings_among
from pymc_logz.kernels.base import Kernel
from pymc_logz.models.context import ForeignModel, check_no_model, model_from, written_as
from pymc_logz.runners.moves import kernel_for, walkers_for
from pymc_logz.runners.running import running_for
from pymc_logz.tempered.run import run_tempered
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.trees.chains import says_result
from pymc_logz.trees.posterior import checked_reference

if TYPE_CHECKING:
    import pymc as pm

    from pymc_logz.bits.energies import BinaryEnergy


@written_as("sample_tempered(model=model)")
@says_result
def sample_tempered(
    draws: int = 1000,
    chains: int = 4,
    *,
    walkers: int | None = None,
    model: "pm.Model | BinaryEnergy | None" = None,
    betas: str | int | np.ndarray = "adaptive",
    level_prior: str | np.ndarray = "uniform",
    update: str | None = None,
    exchange: str = "gibbs",
    kernel: Kernel | str | None = None,
    tune: int = 64,
    target_accept: float | None = None,
    thin: int | None = None,
    keep: str = "draws",
    executor: Any = None,
    checkpoint: str | os.PathLike | None = None,
    time_limit: float | None = None,
    max_memory: int | str | None = None,
    check_reproducible: bool = False,
    cores: int | None = None,
    reference: str | xr.DataTree | None = None,
    sum_out: bool | None = None,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Posterior draws, and log Z at every temperature, by simulated or parallel tempering.

    Walkers move through the prior, the posterior and the densities between them: at each iteration
    the kernel moves a walker at its inverse temperature, then that changes too. At the prior they
    move freely, so they cross between modes of the posterior that no chain at beta = 1 would leave.
    The probabilities of the temperatures, given the positions of the walkers, give log Z at all of
    them.

    A pilot places the temperatures and finds step sizes and length scales; rounds of a warm-up
    correct the step sizes and the rough log Z of the levels that keeps walkers spread over them.
    Everything is then frozen, and fresh walkers start in every chain.

    Parameters
    ----------
    draws
        Iterations of each walker that are kept, and posterior draws of each chain, at least 2.
    chains
        Independent replicates with seeds of their own.
    walkers
        Walkers of a chain, which are computed together; rounded up to a multiple of the number of
        levels if ``exchange`` is ``"swap"``. None means 64, or 8 if the likelihood is an Op that
        Python has to evaluate point by point.
    model
        PyMC model, whose discrete variables move too, by `pymc_logz.kernels.Gibbs` or
        `pymc_logz.kernels.IntegerWalk`; None takes the one on the context stack. Or an
        energy made of bits, such as ``energies.bernoulli_rbm(...)``, whose beta = 0 are independent
        bits, and which block Gibbs moves.
    betas
        ``"adaptive"`` lets the pilot choose the number of levels and place them; an integer, at
        least 2, is the number of levels; an increasing array from 0 to 1 is taken as it is.
    level_prior
        Fraction of time that walkers should spend at each level: ``"uniform"``; ``"exp"``, in
        proportion to ``exp(2 * beta)``; or an array, one entry for each of the betas given.
    update
        How warm-up corrects the rough log Z: ``"rts"``, the default, from each round's estimate;
        or, at every block of iterations, ``"wang_landau"`` or ``"stochastic_approximation"``.
    exchange
        ``"gibbs"`` draws the level of each walker given its position (simulated tempering).
        ``"swap"`` lets walkers at neighbouring levels swap theirs (parallel tempering), which needs
        no rough log Z.
    kernel
        How walkers move, as in `sample_hais`.
    tune
        Moves of the pilot at each of its stages, and of new walkers at each level on their way up;
        iterations of the first round of warm-up, and those that chains make before they keep any.
    target_accept
        As in `sample_hais`.
    thin
        Every ``thin``-th draw of all levels is stored in ``tempered_posterior``; None stores every
        tenth.
    keep
        ``"draws"``, or ``"sums"``: of all iterations only the sums of the levels' probabilities,
        which log Z and its error by RTS are made of, so that memory does not grow with ``draws``.
        Such a tree has no posterior and no draws for other estimators, but a few by which its model
        can be told.
    executor, checkpoint, time_limit, max_memory, check_reproducible, cores
        As in `sample_hais`; walkers move in portions that fit in ``max_memory``.
    reference
        The density at beta = 0: ``"prior"``; ``"laplace"``, a Student-t with the curvature at the
        posterior's mode; or a DataTree with a group ``posterior``, to which a Student-t is fitted
        on the unconstrained space. log Z at beta = 1 is the same number.
    sum_out
        Whether discrete variables of a PyMC model are summed out in place of being moved, as of
        `sample_hais`. None does so where the model's graph shows that it can be done.
    random_seed, progressbar, compile_kwargs
        As in `sample_hais`.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior`` (equally weighted draws at beta = 1, resampled from the draws of all
        levels, in the order of walkers and of time, so that ArviZ's ESS knows their
        autocorrelation), ``sample_stats``, ``tempered_posterior`` (draws of all levels;
        ``log_weight`` makes them stand for the posterior), ``tempering`` (``level`` and
        ``log_ratio`` of all draws; for each level log Z with its error, ``occupancy`` against
        ``log_prior``, acceptance, rejected swaps, ESS and R-hat over walkers; round trips),
        ``evidence``, ``observed_data`` and ``constant_data``. With ``keep="sums"`` no draws, and in
        ``tempering`` in their place ``share_sum`` and ``visits``.

    Raises
    ------
    ModelError, PilotError, CheckpointError, ValueError
        As `sample_hais`.

    Warns
    -----
    EvidenceWarning
        If walkers hardly travel between the ends of the schedule, the error is not to be trusted,
        the model has potentials, or a likelihood is NaN.

    See Also
    --------
    evidence : every estimator of the same draws.
    SimulatedTempering : the same inside ``pm.sample``.
    plot_tempering, plot_thermo, plot_overlap

    Notes
    -----
    An interrupt (Ctrl-C) ends chains where they are, and returns their draws, cut to one length. As
    in any Markov chain, the starting points of the walkers are not draws of the target: compare
    chains, and check the round trips.

    References
    ----------
    Carlson, Stinson, Pakman & Paninski (2016), Partition functions from Rao-Blackwellized tempered
    sampling, arXiv 1603.01912; Marinari & Parisi (1992), doi 10.1209/0295-5075/19/6/002; swaps:
    Syed et al. (2022), arXiv 1905.02939.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as model:
            p1, p2 = pm.Uniform("p1"), pm.Uniform("p2")
            pm.Binomial("y", n=100, p=p1 * p2, observed=50)

        tree = lz.sample_tempered(model=model, random_seed=1)
        tree["evidence"]["log_z"]  # -4.97
        tree["tempering"]["log_z"]  # at every beta
    """
    call = "sample_tempered(model=model)"
    check_no_model(call, draws=draws, chains=chains)
    other = model if isinstance(model, ForeignModel) else None
    if other is None:
        model = model_from(model, call)
        kernel, reference = kernel_for(kernel, model), checked_reference(reference, model)
        walkers = walkers_for(walkers, model)
    else:
        kernel, reference = other.runs.checked(other, kernel, reference, sum_out)
    running, random_seed = running_for(**settings_among(locals(), running_for))
    settings = TemperedSettings.from_arguments(**settings_among(locals(), TemperedSettings))
    run = partial(run_tempered, model) if other is None else partial(other.runs.run_tempered, other)
    shown: dict[str, Any] = {"progressbar": progressbar, "compile_kwargs": compile_kwargs}
    return run(settings, random_seed=random_seed, **shown)
