"""Peaks of entries that are not normal, among many that are."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from support.checks import make_rng

from pymc_logz.hais.peaks import peak_doubts
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.models.preparation import prepare
from pymc_logz.pilot.conditional_modes import Conditionals
from pymc_logz.pilot.planning import block_for

N, NOISE = 18, 0.5
OBSERVED = np.linspace(-1.5, 1.5, N)
SPREAD = np.sqrt(1 + NOISE**2)
FIRST, SECOND = (-0.3, 0.3, 0.8), (1.3, 0.03, 0.2)
"""Middle, width and mass of two peaks of ``log(u)``."""
LOG_Z = float(stats.norm.logpdf(OBSERVED, 0, SPREAD).sum())


@cache
def parts() -> Conditionals:
    """Eighteen normal entries, and one of two peaks."""
    with pm.Model() as model:
        u = pm.Gamma("u", 2, 2)
        x = pm.Normal("x", 0, 1, shape=N)
        pm.Normal("y", x, NOISE, observed=OBSERVED)
        log_u = pt.log(u)
        peaks = [
            np.log(mass / width) - 0.5 * np.log(2 * np.pi) - 0.5 * ((log_u - middle) / width) ** 2
            for middle, width, mass in (FIRST, SECOND)
        ]
        pm.Potential("peaks", pt.logaddexp(*peaks) - pm.logp(pm.Gamma.dist(2, 2), u) - log_u)
    prepared = prepare(model, make_rng("prepare"))
    found = Conditionals.of_normal_entries(prepared.flat, block_for(prepared, HaisSettings(), None))
    assert found is not None
    return found


def rows(peak: tuple[float, float, float], n: int) -> np.ndarray:
    """Exact draws of one peak."""
    rng = make_rng("rows", n)
    inner = OBSERVED / SPREAD**2 + NOISE / SPREAD * rng.standard_normal((n, N))
    return parts().rows(peak[0] + peak[1] * rng.standard_normal((n, 1)), inner)


@pytest.mark.filterwarnings("ignore:.*potential")
def test_a_narrow_peak_among_normal_entries_is_told() -> None:
    """Catches distances that many normal entries drown, and a mass without its conditional."""
    known, ends = rows(FIRST, 800), rows(SECOND, 3)
    log_z = LOG_Z + np.log(FIRST[2])
    [doubt] = peak_doubts(parts(), ends, known, log_z, make_rng("told"))
    assert doubt.status == "missed_mode"
    told = float(doubt.reason.split("about ")[1].split(" times")[0])
    assert told == pytest.approx(SECOND[2] / FIRST[2], rel=0.3)


def test_rows_that_have_it_are_not_accused() -> None:
    """Catches rows compared with themselves, and a peak of hardly any mass that is told."""
    both = np.concatenate([rows(FIRST, 800), rows(SECOND, 200)])
    assert peak_doubts(parts(), rows(SECOND, 3), both, LOG_Z, make_rng("both")) == []
    # ends in the flank of the peak that the rows are in, and far out where there is nothing
    flank = rows((FIRST[0], 3.0, 1.0), 40)
    flank = flank[np.abs(flank[:, parts().outer[0]] - SECOND[0]) > 0.5]
    assert peak_doubts(parts(), flank, rows(FIRST, 800), LOG_Z, make_rng("flank")) == []
