"""One-sided methods and rules of integration, held against a method that any ladder suits."""

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from pymc_logz.estimators.curve import LogZCurve, empty_curve, long_run_variance
from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.estimators.multistate import bar_chain

MAX_RULE_ERROR = 3.0
"""Nats by which a sum may miss the integral, two of its errors included: it has no number beyond,
where a step of the ladder holds more than the rule can tell."""
_BAR: WeakKeyDictionary[TemperedDraws, LogZCurve] = WeakKeyDictionary()


def bar_of(draws: TemperedDraws) -> LogZCurve:
    """`bar_chain` of these draws, made once for all methods that are compared with it."""
    if draws not in _BAR:
        _BAR[draws] = bar_chain(draws)
    return _BAR[draws]


def not_below(contributions: np.ndarray, best: LogZCurve) -> np.ndarray:
    """Contributions (W, B, K) scaled up to the errors of the method of least variance.

    From the draws of two neighbours Bennett's ratio has the least error, so a smaller one of a
    method that uses those of one side is too small: its weights have a tail that was not seen.
    """
    own = np.sqrt(long_run_variance(contributions)[0])
    ratio = np.divide(best.mcse, own, out=np.ones_like(own), where=own > 0)
    return contributions * np.maximum(ratio, 1.0)


def judged(
    curve: LogZCurve,
    draws: TemperedDraws,
    exact: LogZCurve,
    verdicts: tuple[str, str] = ("rule_error", "coarse_ladder"),
    significant: float = 3.0,
) -> LogZCurve:
    """The curve with the verdict, and an error that counts the distance, of a method with no bias.

    What a rule or a tail of weights is off by is no noise, so that contributions do not tell; the
    distance from a method on the same draws that has no such error does. ``exact`` is by a method
    that is right on any ladder on which it has a number, from the same draws. ``verdicts`` are the
    statuses of a number that is off by more than its error, and of none because it is off by more
    than `MAX_RULE_ERROR`; ``significant`` counts standard errors of the difference.
    """
    if not curve.usable:
        return curve
    off, hopeless = verdicts
    apart = float(curve.log_z[-1] - exact.log_z[-1])
    details = {**curve.details, "apart": apart, "noise": float(curve.mcse[-1])}
    if not exact.usable or abs(apart) + 2 * curve.mcse[-1] > MAX_RULE_ERROR:
        return empty_curve(
            curve.method, draws, hopeless, weight_ess=curve.weight_ess, details=details
        )
    difference = (curve.contributions - exact.contributions)[..., -1:]
    error = float(np.sqrt(long_run_variance(difference)[0][0]))
    departs = abs(apart) > max(significant * error, float(curve.mcse[-1]))
    mcse = np.hypot(np.maximum(curve.mcse, exact.mcse), curve.log_z - exact.log_z)
    status = off if departs else curve.status
    return replace(curve, mcse=mcse, status=status, details=details)
