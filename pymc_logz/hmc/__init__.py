"""Hamiltonian Monte Carlo with many chains at once."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.hmc.run import HmcSettings, run_hmc
from pymc_logz.models.context import model_from, written_as

if TYPE_CHECKING:
    import pymc as pm


@written_as("sample_hmc(model=model)")
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

    It is what one wants for hundreds or thousands of short chains on JAX: a step of all of them is
    one call. A small population is first annealed from the prior to the posterior, as the pilot of
    `sample_hais`, and the chains start there. While tuning, a step size that all chains share
    follows the moving average of their acceptance rate (times 1.02 above ``target_accept``, times
    0.98 below), and length scales come from where the chains are; then both are frozen.

    Chains of a superchain start at the same point. Whether they have forgotten it is what nested
    R-hat tells, which needs no long chains: see the attribute ``rhat_nested`` of ``sample_stats``.

    Parameters
    ----------
    draws
        Draws of each chain that are kept, one after each move.
    chains
        Chains, a multiple of ``superchains``.
    model
        PyMC model with continuous free variables and proper priors; None takes the one on the
        context stack.
    tune
        Moves of each chain before that, which find the step size and the scales.
    superchains
        Points at which chains start, at least 2.
    n_steps
        Leapfrog steps of a move, 1 to 64.
    refreshment
        Share of the momentum *variance* replaced before a move, in [0, 1]. 1 is ordinary
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
        all chains: trajectories of one length may end where they began.
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
    settings = HmcSettings(
        draws=draws,
        chains=chains,
        tune=tune,
        superchains=superchains,
        n_steps=n_steps,
        refreshment=refreshment,
        step_size=step_size,
        scale=tuple(map(float, scale)) if isinstance(scale, Sequence | np.ndarray) else scale,
        target_accept=target_accept,
        jitter=jitter,
    )
    model = model_from(model, "sample_hmc(model=model)")
    return run_hmc(model, settings, random_seed, progressbar, compile_kwargs)
