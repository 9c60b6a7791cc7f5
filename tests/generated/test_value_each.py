"""The exact log Z of data that each have a value of their own, by quadrature over each value."""

import math

import numpy as np
import pymc as pm
import pytest
from scipy import integrate

from generated import generate


@pytest.mark.parametrize("family", ["free_ends", "value_each"])
def test_log_z_by_quadrature_over_each_value(family: str) -> None:
    """Would catch a wrong closed form, or a limit of it where the width vanishes."""
    case = generate(family, 0)
    reach, sd = (1.0 if family == "free_ends" else 40.0), case.about["sd"]

    def noise(error: float) -> float:
        return 0.5 if family == "free_ends" else 0.5 * math.exp(-abs(error))

    def normal(value: float) -> float:
        return math.exp(-0.5 * (value / sd) ** 2) / (sd * math.sqrt(2 * math.pi))

    def log_likelihood(datum: float, width: float) -> float:
        ends = datum - reach * width, datum, datum + reach * width
        parts = [
            integrate.quad(lambda m: normal(m) * noise((datum - m) / width), *both)[0]
            for both in ((ends[0], ends[1]), (ends[1], ends[2]))
        ]
        return float(np.log(sum(parts) / width))

    log_width = np.linspace(-14, 5, 100)
    log_p = pm.logp(case.build()["width"], np.exp(log_width)).eval() + log_width
    for datum in case.about["y"]:
        log_p += [log_likelihood(datum, width) for width in np.exp(log_width)]
    found = np.log(np.sum(np.exp(log_p)) * (log_width[1] - log_width[0]))
    assert found == pytest.approx(case.log_z, abs=2e-3)
