"""RAISE: log likelihood of data under a Boltzmann machine, by annealing from the data."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from pymc_logz.arguments import check_whole
from pymc_logz.bits.energies import BernoulliRBM
from pymc_logz.bits.paths import BlockGibbs
from pymc_logz.estimators.importance import importance_log_z
from pymc_logz.hais.results import annealing_dataset
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.frozen import fixed_plan
from pymc_logz.runners.anneal import Annealed, anneal
from pymc_logz.runners.block import Block
from pymc_logz.runners.moves_of_rows import Stopwatch
from pymc_logz.runners.progress import progress_bar, report_count
from pymc_logz.seeds import generators_from
from pymc_logz.trees.kinds import PER_DATUM
from pymc_logz.trees.layout import evidence_of_rows, make_tree, run_attrs


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

    With enough temperatures, these are distributed as the machine is. With fewer,
    their distribution is smoother, and may fit data better that the machine itself fits poorly:
    then the result is above the machine's own log likelihood. For data drawn from the machine it is
    below, and encloses it together with `sample_hais`. Compare two numbers of temperatures
    (``betas``) to see which it is.

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
        If data are no rows of zeros and ones, or another argument is outside its range.

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
    check_whole(2, draws=draws)
    watch, rngs = Stopwatch(), generators_from(random_seed)
    settings = HaisSettings.asked(
        draws=draws, chains=1, betas=betas, kernel=BlockGibbs(), reference="prior"
    )
    ladder = settings.ladder()
    if ladder is None:
        raise ValueError(f"betas={betas!r} must be an integer or an array: there is no pilot")
    block = Block(model.path, settings.kernel, settings.pilot_rows, compile_kwargs)
    block.compile()
    watch.end("compile_time")
    plan = fixed_plan(block, ladder)
    assert plan is not None
    plan = plan.reverse()
    rows = np.repeat(visible, draws, axis=0)
    odds = model.hidden_bias + rows @ model.weights
    hidden = (rngs.run.random(odds.shape) < expit(odds)).astype(float)
    with progress_bar(progressbar) as progress:
        report = report_count(progress, "Annealing back", plan.n_temperatures)
        run = anneal(block, plan, np.concatenate([rows, hidden], axis=1), rngs.run, report)
    watch.end("sampling_time")
    cost = watch.cost(block)
    own = {"n_temperatures": plan.n_temperatures}
    attrs = run_attrs(block.compiled, block.path.batching, 1.0, cost, **own)
    groups = {
        "evidence": _evidence(model, visible, run, attrs),
        "annealing": annealing_dataset([run], plan),
    }
    asked = {**settings.record(), "method": "raise_log_likelihood", "energy": model.name}
    return make_tree(groups, {**asked, **attrs}, PER_DATUM)


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
