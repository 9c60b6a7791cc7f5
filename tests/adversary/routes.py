"""Every public way from a model to log Z, and the one rule that all of them are held to."""

import linecache
import signal
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from arviz_base import from_dict

import pymc_logz as lz
from adversary.cases import Case

Run = Callable[[Case, pm.Model, int], xr.DataTree]
SECONDS = 40
"""A call that takes longer is cut off, and counted as such."""
MANY_ERRORS, FEW_ERRORS = 4.0, 3.0
ROUNDING = 1e-6
"""What quadrature and sums of large numbers may be off by, beside one."""


@dataclass(frozen=True)
class Route:
    """A way to log Z.

    Parameters
    ----------
    name
        What the table calls it.
    run
        From a case, its model and a seed to a tree with an evidence.
    seeds
        How many seeds the whole search takes.
    takes
        Whether it applies to a case.
    """

    name: str
    run: Run
    seeds: int
    takes: Callable[[Case], bool]


ROUTES: dict[str, Route] = {}
"""All routes by name, in the order of the table."""


def route(seeds: int, takes: Callable[[Case], bool]) -> Callable[[Run], Run]:
    """Decorator for a way to log Z."""

    def register(run: Run) -> Run:
        name = run.__name__.removeprefix("by_")
        ROUTES[name] = Route(name, run, seeds, takes)
        return run

    return register


def _has_density(case: Case) -> bool:
    return not _is_exact(case)


def _is_exact(case: Case) -> bool:
    return case.kind == "exact observations"


def _is_tempered(case: Case) -> bool:
    return case.tempered


def _is_sampled(case: Case) -> bool:
    return case.nuts


QUIET = {"progressbar": False}
ALONE = {"progressbar": False, "cores": 1}


@route(5, _has_density)
def by_sample_hais(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """The default."""
    return lz.sample_hais(model=model, random_seed=seed, **ALONE)


@route(2, _has_density)
def by_prior(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """From the prior, on a ladder that ends soon."""
    return lz.sample_hais(128, 2, model=model, reference="prior", random_seed=seed, **ALONE)


@route(2, _has_density)
def by_laplace(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """From one component at the mode."""
    return lz.sample_hais(model=model, reference="laplace", random_seed=seed, **ALONE)


@route(2, _has_density)
def by_both_directions(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """Forward and back."""
    settings = {"betas": 200, "direction": "both"}
    return lz.sample_hais(64, 2, model=model, random_seed=seed, **settings, **ALONE)


@route(3, _has_density)
def by_small_settings(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """Few rows, few temperatures, little tuning, a step size of the user's."""
    kernel = lz.kernels.Langevin(step_size=0.2) if seed % 3 == 1 else None
    draws, chains = ((2, 1), (16, 2), (25, 4))[seed % 3]
    return lz.sample_hais(
        draws, chains, model=model, betas=30, tune=8, kernel=kernel, random_seed=seed, **ALONE
    )


@route(1, _has_density)
def by_slice(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """A kernel without gradients."""
    return lz.sample_hais(64, 2, model=model, kernel="slice", random_seed=seed, **ALONE)


@route(1, lambda case: case.tempered or _is_exact(case))
def by_evidence(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """Whatever `evidence` chooses; constrained draws and their bridge for exact observations."""
    settings: dict[str, Any] = {"cores": 1}
    if _is_exact(case):
        settings |= {"draws": 600, "tune": 300, "chains": 4}
    return lz.evidence(model, random_seed=seed, **QUIET, **settings)


@route(3, _is_exact)
def by_constrained_bridge(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """Two chains on the level set."""
    with model:
        tree = pm.sample(
            400, tune=200, chains=2, step=lz.ConstrainedHMC(), random_seed=seed, **ALONE
        )
    return lz.bridge_sampling(tree, model, random_seed=seed, **QUIET)


@route(5, lambda case: case.draws is not None)
def by_bridge_of_exact_draws(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """A bridge and importance sampling from independent draws of the posterior."""
    draws = case.draws(np.random.default_rng([seed, 7]), 4000)
    chains = {name: value.reshape(4, 1000, *value.shape[1:]) for name, value in draws.items()}
    tree = from_dict({"posterior": chains})
    return lz.bridge_sampling(tree, model, random_seed=seed, **QUIET)


@cache
def _nuts(build: Callable[[], pm.Model], model: pm.Model, seed: int) -> xr.DataTree:
    """Draws of ``pm.sample``."""
    return pm.sample(1000, tune=500, chains=2, model=model, random_seed=seed, **ALONE)


@route(2, _is_sampled)
def by_bridge_of_nuts(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """A bridge and importance sampling from draws of ``pm.sample``."""
    return lz.bridge_sampling(_nuts(case.build, model, seed), model, random_seed=seed, **QUIET)


@route(1, _is_sampled)
def by_normal_bridge_of_nuts(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """The other bridge, and the other importance sampling."""
    tree = _nuts(case.build, model, seed)
    settings = {"method": "normal", "cross_check": "normal"}
    return lz.bridge_sampling(tree, model, random_seed=seed, **settings, **QUIET)


@route(1, _is_sampled)
def by_reference_of_nuts(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """Annealing from what is fitted to draws of ``pm.sample``."""
    tree = _nuts(case.build, model, seed)
    return lz.sample_hais(model=model, reference=tree, random_seed=seed, **ALONE)


@route(2, _is_tempered)
def by_tempered(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """Simulated tempering, and all its methods."""
    tree = lz.sample_tempered(200, 2, walkers=32, model=model, random_seed=seed, **ALONE)
    found = lz.evidence(tree, methods="all", random_seed=seed, **QUIET)
    return _joined(tree, found)


@route(1, _is_tempered)
def by_swaps(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """Parallel tempering on six levels."""
    settings = {"walkers": 30, "betas": 6, "exchange": "swap"}
    tree = lz.sample_tempered(200, 2, model=model, random_seed=seed, **settings, **ALONE)
    return _joined(tree, lz.evidence(tree, methods="all", random_seed=seed, **QUIET))


@route(1, lambda case: case.tempered and case.nuts)
def by_hais_step(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """`HAIS` in ``pm.sample``."""
    with model:
        tree = pm.sample(100, tune=100, chains=2, step=lz.HAIS(), random_seed=seed, **ALONE)
    return lz.evidence(tree, model, random_seed=seed, **QUIET)


@route(1, lambda case: case.tempered and case.nuts)
def by_tempering_step(case: Case, model: pm.Model, seed: int) -> xr.DataTree:
    """`SimulatedTempering` in ``pm.sample``."""
    with model:
        step = lz.SimulatedTempering()
        tree = pm.sample(300, tune=300, chains=2, step=step, random_seed=seed, **ALONE)
    return lz.evidence(tree, model, random_seed=seed, **QUIET)


def _joined(first: xr.DataTree, second: xr.DataTree) -> xr.DataTree:
    """A tree with the entries of an evidence, and those of another one that it has not."""
    columns = ["log_z", "mcse", "status"]
    own, other = (tree["evidence"].to_dataset()[columns] for tree in (first, second))
    new = ~np.isin(other["estimator"], own["estimator"])
    joined = xr.concat([own, other.isel(estimator=new)], "estimator", join="outer")
    return xr.DataTree.from_dict({"evidence": joined})


@dataclass(frozen=True)
class Outcome:
    """What one estimator said of a case.

    Parameters
    ----------
    verdict
        ``"right"`` (clean, within four errors), ``"wrong"`` (clean, and not), ``"doubted"`` (a
        number with another status), ``"false alarm"`` (that, on a number within three errors),
        ``"no number"``, ``"refused"`` (an error of ours), ``"crashed"`` (any other), ``"slow"``.
    """

    case: str
    route: str
    seed: int
    verdict: str
    estimator: str = ""
    log_z: float = np.nan
    mcse: float = np.nan
    exact: float = np.nan
    status: str = ""
    seconds: float = np.nan

    def __str__(self) -> str:
        numbers = f"{self.log_z:.5g} ± {self.mcse:.2g}, exact {self.exact:.5g}"
        return (
            f"{self.verdict}: {self.case}, {self.route}/{self.estimator}, seed {self.seed}: "
            f"{numbers}, {self.status} ({self.seconds:.0f} s)"
        )


def judged(log_z: float, mcse: float, status: str, exact: float) -> str:
    """The rule: off by more than four stated errors with a clean status is wrong."""
    if not np.isfinite(log_z):
        return "wrong" if status == "ok" and log_z != exact else "no number"
    off = abs(log_z - exact) if np.isfinite(exact) else np.inf
    rounding = ROUNDING * (1 + abs(log_z))
    if status == "ok":
        return "right" if off <= MANY_ERRORS * mcse + rounding else "wrong"
    return "false alarm" if off <= FEW_ERRORS * mcse + rounding else "doubted"


def outcomes(case: Case, route: Route, model: pm.Model, exact: float, seed: int) -> list[Outcome]:
    """What every estimator of a route says of a case."""
    start = time.perf_counter()
    about = {"case": case.name, "route": route.name, "seed": seed, "exact": exact}
    try:
        with warnings.catch_warnings(), time_limit(SECONDS):
            warnings.simplefilter("ignore")
            tree = route.run(case, model, seed)
    except Exception as error:
        verdict = "slow" if _is(error, TooSlowError) else "refused" if is_ours(error) else "crashed"
        status = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return [Outcome(**about, verdict=verdict, status=status, seconds=_since(start))]
    group = tree["evidence"].to_dataset()
    found = []
    for i, name in enumerate(group["estimator"].values):
        entry = group.isel(estimator=i)
        log_z, mcse = float(entry["log_z"]), float(entry["mcse"])
        status = str(entry["status"].item())
        verdict = judged(log_z, mcse, status, exact)
        numbers = {"log_z": log_z, "mcse": mcse, "status": status, "seconds": _since(start)}
        found.append(Outcome(**about, verdict=verdict, estimator=str(name), **numbers))
    return found


def _since(start: float) -> float:
    return time.perf_counter() - start


class TooSlowError(Exception):
    """A call took longer than `SECONDS`."""


def _is(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether an error, or one that it came from, is of a kind."""
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_ours(error: BaseException) -> bool:
    """Whether an error was raised on purpose: by a `raise` in the package."""
    if isinstance(error, lz.ModelError | lz.PilotError):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    name = trace.tb_frame.f_code.co_filename
    line = linecache.getline(name, trace.tb_lineno).strip()
    package = str(lz.__file__).rsplit("/", 1)[0]
    return name.startswith(package) and line.startswith("raise ")


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise `TooSlowError` inside after so many seconds."""

    def ring(*_: Any) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, ring)
    # again each second, for one that rings where errors are ignored, as in a weak reference's end
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def searched(
    cases: dict[str, Case],
    routes: dict[str, Route],
    seeds: int | None = None,
    done: Collection[tuple[str, str, int]] = (),
) -> Iterator[Outcome]:
    """What all routes say of all cases that they take; each model is built and compiled once.

    Parameters
    ----------
    cases, routes
        Which of them.
    seeds
        Of each route; None for as many as it has, the fewer the dearer it is.
    done
        Case, route and seed of calls to leave out.
    """
    for case in cases.values():
        calls = [
            (one, seed)
            for one in routes.values()
            if one.takes(case)
            for seed in range(one.seeds if seeds is None else seeds)
            if (case.name, one.name, seed) not in done
        ]
        if calls:
            model, exact = case.build(), float(case.exact())
        for one, seed in calls:
            yield from outcomes(case, one, model, exact, seed)
        _nuts.cache_clear()
