"""Times between events, whose rate has a conjugate prior."""

from collections.abc import Sequence

import numpy as np
import pymc as pm
from scipy.special import gammaln

from pymc_logz.energies.base import Draws, Energy, float64


def waiting_times(
    times: Sequence[float] = (0.2, 1.1, 0.4, 2.3), shape: float = 1.5, rate: float = 0.5
) -> Energy:
    """Rate of events from the times between them: Gamma prior, exponential times.

    With s the sum of n times, multiply the densities and recognise Gamma(shape + n, rate + s)::

        Z = rate**shape / Gamma(shape) * Gamma(shape + n) / (rate + s)**(shape + n)

    Parameters
    ----------
    times : sequence of float
        Observed times, each positive.
    shape, rate : float
        Parameters of the Gamma prior, mean ``shape / rate``.

    Returns
    -------
    Energy
        Free variable ``events`` > 0, a scalar.

    Raises
    ------
    ValueError
        If a time is not positive and finite.

    References
    ----------
    Gelman et al. (2013), Bayesian Data Analysis, section 2.6.

    Examples
    --------
    >>> from pymc_logz.energies.waiting import waiting_times
    >>> round(waiting_times().log_z, 4)
    -5.2336
    """
    observed = np.asarray(times, dtype=float)
    if observed.ndim != 1 or not np.all(np.isfinite(observed) & (observed > 0)):
        raise ValueError(f"times={times!r} must be a sequence of positive, finite numbers")
    n, total = observed.size, float(observed.sum())
    with pm.Model() as model:
        events = pm.Gamma("events", *float64(shape, rate))
        pm.Exponential("times", events, observed=observed)

    def sample(rng: np.random.Generator, size: int) -> Draws:
        return {"events": rng.gamma(shape + n, 1 / (rate + total), size)}

    log_z = shape * np.log(rate) - gammaln(shape)
    log_z += gammaln(shape + n) - (shape + n) * np.log(rate + total)
    return Energy("waiting_times", model, float(log_z), sample, "textbook conjugate model")
