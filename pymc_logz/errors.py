"""Exceptions, warnings, interrupts, and the fixed sentence that explains each status."""

import logging
import os
import signal
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

PACKAGE = os.path.dirname(__file__) + os.sep
logger = logging.getLogger("pymc.pymc_logz")
"""Of the whole package: PyMC's own shows what comes here."""
known_potentials: "weakref.WeakSet[Any]" = weakref.WeakSet()
"""Models whose potentials nobody need be warned of: energies, and those of which it was said."""


class ModelError(ValueError):
    """The model has no well-defined log Z, or one that this package cannot compute.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as model:
            pm.Normal("x")  # nothing is observed
        try:
            lz.sample_hais(model=model, random_seed=1)
        except lz.ModelError as error:
            print(error)
    """


class ImproperPriorError(ModelError):
    """A prior has no draws or does not integrate to one, so log Z is undefined.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as model:
            pm.Normal("y", pm.Flat("x"), 1, observed=0.0)
        try:
            lz.sample_hais(model=model, random_seed=1)
        except lz.ImproperPriorError as error:
            print(error)
    """


class DiscreteVariableError(ModelError):
    """A free variable is discrete where that is not supported, or its entries depend on each other.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as model:
            pm.Poisson("n", 3)
        try:
            lz.sample_hmc(model=model, random_seed=1)
        except lz.DiscreteVariableError as error:
            print(error)
    """


class PilotError(RuntimeError):
    """The pilot run found no usable path from the reference to the target.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        energy = lz.energies.beta_bernoulli()
        try:
            tree = lz.sample_hais(model=energy.model, random_seed=1)
        except lz.PilotError:  # draws of the posterior show it the way
            tree = lz.sample_hais(model=energy.model, reference=pm.sample(model=energy.model))
    """


class WorkersLostError(RuntimeError):
    """Workers died again and again, so the model itself seems to cause it.

    Examples
    --------
    .. code-block:: python

        from concurrent.futures import ThreadPoolExecutor

        import pymc_logz as lz

        energy = lz.energies.beta_bernoulli()
        with ThreadPoolExecutor(2) as executor:
            try:
                tree = lz.sample_hais(model=energy.model, executor=executor, random_seed=1)
            except lz.WorkersLostError:  # here it shows what ends them
                tree = lz.sample_hais(model=energy.model, random_seed=1)
    """


class CheckpointError(ValueError):
    """A checkpoint belongs to another run, or cannot be read.

    Examples
    --------
    .. code-block:: python

        import pymc_logz as lz

        try:
            lz.resume("not_there.ckpt")
        except lz.CheckpointError as error:
            print(error)
    """


class EvidenceWarning(UserWarning):
    """A log Z was computed, but something about it needs the reader's attention.

    Examples
    --------
    .. code-block:: python

        import warnings

        import pymc_logz as lz

        energy = lz.energies.beta_bernoulli()
        with warnings.catch_warnings():
            warnings.simplefilter("error", lz.EvidenceWarning)  # a doubtful log Z stops the script
            tree = lz.sample_hais(model=energy.model, random_seed=1)
    """


WITH_NUMBER = {
    "ok": "The error estimate can be trusted.",
    "few_rows": (
        "There are fewer than 20 particles, so the error is one from a handful of numbers and may "
        "be far too small; use more particles (draws=<int>)."
    ),
    "low_weight_ess": (
        "Few particles carry the weight, so the error is a rough guess; use more temperatures "
        "(betas=<int>), more steps at each (kernel=Hamiltonian(n_steps=<int>)), another reference "
        "(reference=), or more particles (draws=<int>)."
    ),
    "high_khat": (
        "The largest weights have a heavy tail (Pareto k-hat above its threshold), so the error "
        "may be too small; use more temperatures (betas=<int>), more steps at each "
        "(kernel=Hamiltonian(n_steps=<int>)) or another reference (reference=). More particles "
        "help little."
    ),
    "low_overlap": (
        "Few draws lie where posterior and proposal overlap, so the error is a rough guess; use "
        "method='warp3', more draws, or pymc_logz.sample_hais."
    ),
    "missed_mode": (
        "Searches from prior draws found posterior mass that the draws miss, so log Z is too low; "
        "use pymc_logz.sample_hais with its default reference and steps. In a mixture, order the "
        "labels (transform=ordered); more chains do not help there. Otherwise, more chains "
        "(chains=) start at more points."
    ),
    "uncovered": (
        "The posterior has mass where the proposal has no density, or where there are no draws, so "
        "log Z is too low; use a proposal with all of the posterior's support and "
        "heavier tails, chains of the model written non-centred, or pymc_logz.sample_hais, which "
        "needs neither."
    ),
    "disagrees": (
        "Another estimate differs by more than the errors allow (evidence.attrs['doubts'] says "
        "which, and by how much), so one of the two is wrong: as a rule the draws have missed a "
        "part of the posterior. Sample longer, or along more temperatures (betas=<int>), and "
        "compare with pymc_logz.sample_hais."
    ),
    "wrong_draws": (
        "The draws are not of this model's posterior: they do not fit its density "
        "(evidence.attrs['doubts']), so log Z is wrong. Sample this model with these data again "
        "(pm.sample), or use pymc_logz.sample_hais."
    ),
    "chains_disagree": (
        "The chains are not draws of one distribution (R-hat), so neither log Z nor its error can "
        "be trusted; sample longer, leave warm-up out, or use pymc_logz.sample_hais."
    ),
    "divergences": (
        "Many draws diverged, so the chains may have missed a part of the posterior, and log Z "
        "then too; use a larger target_accept or another parametrisation, and compare with "
        "pymc_logz.sample_hais."
    ),
    "approximate_draws": (
        "The draws are of an approximation (variational, Laplace, Pathfinder, an optimum), which "
        "bridge sampling treats as the posterior, so log Z may be off by more than its error; pass "
        "draws of pm.sample, or use pymc_logz.sample_hais(reference=tree), which corrects them."
    ),
    "rule_error": (
        "With these temperatures the sum is not accurate enough for the integral: it is off by "
        "more than noise, and most of the stated error is this discrepancy; use rts, mbar or "
        "bar_chain, or more temperatures (betas=<int>)."
    ),
    "approximate_starts": (
        "The reverse particles started at resampled ends of the forward ones, moved on at beta = "
        "1: the upper bound is only as good as those starts. Pass posterior_draws= for independent "
        "ones."
    ),
    "upper_end": (
        "Particles that start at the target may not get to long tails of the reference in time, "
        "and their weights do not show it: read the reverse estimate as an upper bound, and use "
        "bar or hais for log Z (reference='laplace' or more temperatures bring it closer)."
    ),
    "lower_end": (
        "This log likelihood is too low on average, by less with more temperatures: read it as a "
        "lower bound, and compare it with one of more temperatures (betas=<int>)."
    ),
    "tolerance": (
        "Outputs count as observed within a tolerance, so log Z is that of a simulator with more "
        "noise, which may be far from that of the exact data; use smaller ones until nothing "
        "changes, or pymc_logz.bridge_sampling of draws of ConstrainedHMC, which has none."
    ),
    "maybe_infinite": (
        "The density hardly falls far away from the draws, or rises towards a point that no draw "
        "is near, so log Z is infinite, or much of it is where no draw is; bound the likelihood "
        "and the potentials, for instance by a prior that keeps a scale away from zero."
    ),
    "unchecked_prior": (
        "A prior may not integrate to one (evidence.attrs['doubts'] names it). If it integrates to "
        "c, log Z is off by log c; make sure that its log density and its draws are of one "
        "normalised distribution."
    ),
    "short_run": (
        "The run is short compared with its autocorrelation, so the error is a rough guess; use "
        "more draws or more chains."
    ),
}
"""What each value of ``status`` that comes with a number means, and what to do about it."""
WITHOUT_NUMBER = {
    "degenerate": (
        "A handful of particles carries all the weight, so there is no log Z to report; "
        "use many more temperatures (betas=<int>) or another reference (reference=), or check "
        "that the model can explain its data."
    ),
    "no_support": (
        "Every particle ended with weight zero: none reached the support of the likelihood; use "
        "more particles (draws=<int>), start from posterior draws (reference=), or check the "
        "potentials and the observed data."
    ),
    "no_overlap": (
        "The forward and the reverse particles have no weights in common, so there is no bridge "
        "between them; use more temperatures (betas=<int>) or other starts (posterior_draws=)."
    ),
    "poor_overlap": (
        "Posterior draws and proposal draws hardly overlap, so there is no log Z to report; use "
        "method='warp3', more draws, or pymc_logz.sample_hais, which needs no proposal."
    ),
    "coarse_ladder": (
        "The temperatures are too far apart for this rule of integration, so there is no log Z to "
        "report; use rts, mbar or bar_chain, or many more temperatures (betas=<int>)."
    ),
    "too_far": (
        "Hardly any draw is in the posterior under this alternative, so there is no log Z to "
        "report; sample the model with that alternative in place."
    ),
    "not_run": "The run was interrupted before this data row was computed.",
    "infinite_weight": (
        "A particle has infinite weight: the likelihood or a potential is unbounded, so log Z is "
        "infinite or undefined; bound it, for instance by a prior that keeps a scale away from "
        "zero."
    ),
    "unvisited_level": (
        "A temperature that the method needs was hardly ever visited, so there is no log Z to "
        "report; use more draws or a longer warm-up."
    ),
    "partial_support": (
        "Some draws of the reference lie outside the support of the target (log ratio -inf), so "
        "the mean log ratio is infinite and this method has no number; use rts, mbar or "
        "stepping_stone."
    ),
    "not_converged": (
        "The equations of the estimate were not solved to their tolerance, so there is no log Z "
        "to report; use more temperatures (betas=<int>) or another method."
    ),
}
"""The same of those under which ``log_z`` is NaN."""
STATUS_SENTENCES = WITH_NUMBER | WITHOUT_NUMBER
USABLE_STATUSES = frozenset(WITH_NUMBER)


def says_if_interrupted[**P, R](doing: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: an interrupt (Ctrl-C) says "while" what it came: nothing of that is stored."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except KeyboardInterrupt as interrupt:
                if interrupt.args:  # an inner function said it
                    raise
                raise KeyboardInterrupt(
                    f"interrupted while {doing}: there is no result, and nothing of it is stored"
                ) from None

        return wrapped

    return decorate


@contextmanager
def noting_interrupts() -> Iterator[threading.Event]:
    """Note an interrupt that other code would swallow; it is passed on to that."""
    noted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noted  # only the main thread is interrupted
        return
    before = signal.getsignal(signal.SIGINT)

    def note(*args: Any) -> None:
        noted.set()
        if callable(before):
            before(*args)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


ANCHORS = {
    "there is no second estimate": "no-second-estimate",
    "NaN": "nan",
    "is out of reach": "target-out-of-reach",
    "interrupted": "interrupted",
    "nested R-hat": "nested-r-hat",
    "trajectories diverged": "divergences",
    "never left where they started": "chains-that-stay",
    "has potentials": "potentials",
    "the priors integrate to one": "unchecked-prior",
    "If one does not, log Z is off": "unchecked-prior",
    "the transforms take only": "restricted-prior",
    "particles hardly move": "particles-hardly-move",
    "do not agree": "disagrees",
    "the fraction of time at one temperature still": "long-warm-up",
    "round trips between the first": "few-round-trips",
    "had not found the support": "late-support",
    "a change of the data left": "large-change",
    "of the draws repeat": "repeated-draws",
    "warm-up may have been left in": "warm-up-left-in",
    "the order of the two is not known": "close-models",
    "the observed data of": "other-data",
    "that the model does not know": "unknown-variables",
    "has only one chain": "one-chain",
    "count as draws where the proposal is zero": "boundary-draws",
    "cannot be written to": "checkpoint-not-written",
    "is damaged": "checkpoint-damaged",
    "gives a different result when it is repeated": "not-reproducible",
    "did not respond within": "time-limit",
}
"""Part of each warning that is no status, and its anchor in ``docs/learn/troubleshooting.md``."""


def anchor_of(message: str) -> str | None:
    """Anchor of what a warning says, in ``docs/learn/troubleshooting.md``; None if it has none."""
    for status, sentence in STATUS_SENTENCES.items():
        if sentence in message:
            return status.replace("_", "-")
    return next((anchor for part, anchor in ANCHORS.items() if part in message), None)


def warn(message: str) -> None:
    """Emit an `EvidenceWarning` at the line outside this package that led to it, with its page."""
    anchor = anchor_of(message)
    more = f" [docs: learn/troubleshooting#{anchor}]" if anchor else ""
    warnings.warn(message + more, EvidenceWarning, skip_file_prefixes=(PACKAGE,))
