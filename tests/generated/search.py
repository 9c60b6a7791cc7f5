"""Default calls on generated models, what they said, and how often that was wrong."""

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from adversary.routes import TooSlowError, is_ours, time_limit

import pymc_logz as lz
from generated.cases import FAMILIES, Generated, generate
from generated.watched import Seen, table_of_checks, watched

MANY_ERRORS, FEW_ERRORS, NATS, WITHIN_95 = 4.0, 3.0, 0.02, 1.96
ALONE: dict[str, Any] = {"progressbar": False, "cores": 1}
Call = Callable[[pm.Model, int], xr.DataTree]


def bridge(model: pm.Model, seed: int) -> xr.DataTree:
    """A bridge from draws of ``pm.sample``, four chains, the rest by default."""
    draws = pm.sample(chains=4, model=model, random_seed=seed, **ALONE)
    return lz.bridge_sampling(draws, model, random_seed=seed, progressbar=False)


CALLS: dict[str, Call] = {
    "sample_hais": lambda model, seed: lz.sample_hais(model=model, random_seed=seed, **ALONE),
    "from_prior": lambda model, seed: lz.sample_hais(
        model=model, reference="prior", random_seed=seed, **ALONE
    ),
    "evidence": lambda model, seed: lz.evidence(model, random_seed=seed, **ALONE),
    "sample_tempered": lambda m, seed: lz.sample_tempered(model=m, random_seed=seed, **ALONE),
    "bridge": bridge,
}
"""Each call with its defaults, and the plain path from the prior."""


@dataclass(frozen=True)
class Outcome:
    """What one call said of one model.

    Parameters
    ----------
    model_seed, seed
        Of the model, and of the call.
    status
        Of the number; for a call without one ``"slow"``, ``"refused: "`` or ``"crashed: "``.
    accuracy
        Of the exact log Z.
    about
        What was drawn.
    checks
        How often each check ran and spoke, and its seconds.
    """

    family: str
    model_seed: int
    dims: int
    call: str
    seed: int
    log_z: float
    mcse: float
    status: str
    exact: float
    accuracy: float
    seconds: float
    about: dict[str, object]
    checks: dict[str, list[float]] = field(default_factory=dict)

    @cached_property
    def off(self) -> float:
        """How far the number is from the exact one, less what that may be off itself."""
        return max(abs(self.log_z - self.exact) - self.accuracy, 0.0)

    @property
    def z(self) -> float:
        """Signed error in units of the stated one."""
        return (self.log_z - self.exact) / np.hypot(self.mcse, max(self.accuracy, 1e-6))

    @property
    def is_ok(self) -> bool:
        """Whether it is a number with a clean status."""
        return self.status == "ok"

    @property
    def is_off(self) -> bool:
        """Whether a number is off by more than many errors."""
        return not self.off <= max(MANY_ERRORS * self.mcse, NATS)

    @property
    def is_wrong(self) -> bool:
        """A clean status on a number that is off."""
        return self.is_ok and self.is_off

    @property
    def is_covered(self) -> bool:
        """Whether the interval of 95% has the exact number."""
        return self.off <= WITHIN_95 * self.mcse + 1e-6

    @property
    def is_false_alarm(self) -> bool:
        """Another status on a number within three errors."""
        return not self.is_ok and self.off <= FEW_ERRORS * self.mcse


def tried(case: Generated, model: pm.Model, call: str, seed: int, limit: float) -> Outcome:
    """One call on a model.

    Parameters
    ----------
    case, model
        What is known of it, and the model that it built.
    call
        Of `CALLS`.
    seed
        Of the call.
    limit
        Seconds after which it is cut off.
    """
    began = time.perf_counter()
    log_z, mcse, seen = np.nan, np.nan, Seen()
    try:
        with warnings.catch_warnings(), time_limit(int(np.ceil(limit))), watched() as seen:
            warnings.simplefilter("ignore")
            tree = CALLS[call](model, seed)
        first = tree["evidence"].to_dataset().isel(estimator=0)
        log_z, mcse = float(first["log_z"]), float(first["mcse"])
        status = str(first["status"].item())
    except TooSlowError:
        status = "slow"
    except Exception as error:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        cut = began + limit <= time.perf_counter()
        status = "slow" if cut else f"{'refused' if is_ours(error) else 'crashed'}: {text}"
    return Outcome(
        family=case.family,
        model_seed=case.seed,
        dims=case.dims,
        call=call,
        seed=seed,
        log_z=log_z,
        mcse=mcse,
        status=status,
        exact=case.log_z,
        accuracy=case.accuracy,
        seconds=round(time.perf_counter() - began, 3),
        about=case.about,
        checks=dict(seen),
    )


def plan(seed: int, families: Sequence[str], index: int) -> tuple[str, int, int]:
    """Family, model seed and call seed of the model with this index in a search.

    Families take turns, in an order that is drawn anew for each turn.
    """
    turn, place = divmod(index, len(families))
    order = np.random.default_rng([seed, turn]).permutation(len(families))
    model_seed, call_seed = np.random.default_rng([seed, index, 1]).integers(2**31, size=2)
    return families[order[place]], int(model_seed), int(call_seed)


def searched(
    seed: int, families: Sequence[str], calls: Iterable[str], index: int, limit: float
) -> list[Outcome]:
    """Outcomes of all calls on the model with this index."""
    name, model_seed, call_seed = plan(seed, families, index)
    case = generate(name, model_seed)
    model = case.build()
    # calls that are made of each other are not to repeat the same numbers
    return [tried(case, model, call, call_seed + i, limit) for i, call in enumerate(calls)]


COLUMNS = (
    "family",
    "n",
    "ok",
    "wrong with ok",
    "95% cover",
    "mean z",
    "sd z",
    "false alarms",
    "accused and off",
    "no number",
    "seconds",
)


def table(found: Sequence[Outcome]) -> list[str]:
    """Lines of a table by call and family, in Markdown."""
    lines = []
    for call in dict.fromkeys(one.call for one in found):
        own = [one for one in found if one.call == call]
        lines += [f"`{call}`:", "", "| " + " | ".join(COLUMNS) + " |"]
        lines.append("|" + "---|" * len(COLUMNS))
        for name in FAMILIES:
            of_family = [one for one in own if one.family == name]
            if of_family:
                lines.append(_row(f"`{name}`", of_family))
        lines += [_row("all", own), ""]
    return [*lines, *table_of_checks(found), ""]


def _row(name: str, found: Sequence[Outcome]) -> str:
    ok = [one for one in found if one.is_ok]
    z = np.array([one.z for one in ok])
    numbers = [one for one in found if np.isfinite(one.log_z)]
    cover = f"{100 * np.mean([one.is_covered for one in ok]):.0f}%" if ok else "–"
    alarms = sum(one.is_false_alarm for one in found)
    cells = [
        name,
        len(found),
        len(ok),
        sum(one.is_wrong for one in found),
        cover,
        f"{z.mean():.2f}" if ok else "–",
        f"{z.std(ddof=1):.2f}" if len(ok) > 1 else "–",
        alarms,
        sum(not one.is_ok for one in numbers) - alarms,
        len(found) - len(numbers),
        f"{np.median([one.seconds for one in found]):.1f}",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"
