"""log Z of the same model three ways: bridge from a posterior, HAIS, RTS; against exact values.

Run it with ``uv run benchmarks/tables/three_ways.py``: it measures every case and writes the table
of ``docs/theory/bridge.md``. The slow test of the same name in `test_three_ways` holds each case to
its joint error.
"""

import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.energies import Energy

sys.path.append(str(Path(__file__).parents[2] / "tests"))

from support import pymc_models as models
from support.checks import make_rng

PAGE = Path(__file__).parents[2] / "docs" / "theory" / "bridge.md"
HEADER = """\
| model | d | posterior from | exact | bridge | HAIS | RTS | largest distance in joint errors |
|---|---|---|---|---|---|---|---|"""


class Case(NamedTuple):
    """A model, and whether NUTS gets around in its posterior."""

    label: str
    energy: Callable[[], Energy]
    nuts: bool = True


CASES = {
    "poisson_gamma": Case("skewed rate", energies.poisson_gamma),
    "student_location": Case("heavy tails", energies.student_location),
    "linear_regression": Case("linear regression", energies.linear_regression),
    "radiata_pine": Case("radiata pine", lambda: energies.radiata_pine("density")),
    "ridge": Case("curved ridge", energies.ridge),
    "uncentred_hierarchy": Case("hierarchy", models.uncentred_hierarchy),
    "skewed_bimodal": Case("two skewed modes", energies.skewed_bimodal, nuts=False),
    "gaussian_shells": Case("two shells", energies.gaussian_shells, nuts=False),
    "two_gaussians": Case("two narrow Gaussians", lambda: energies.two_gaussians(4), nuts=False),
}
METHODS = ("bridge", "HAIS", "RTS")


class Found(NamedTuple):
    """What the methods say of one case."""

    case: Case
    n_dims: int
    exact: float
    log_z: np.ndarray
    """By method, shape (3,)."""
    mcse: np.ndarray
    status: tuple[str, ...]

    @property
    def distances(self) -> np.ndarray:
        """Of each method from the exact value, then of each pair, in their errors, shape (6,)."""
        pairs = ((0, 1), (0, 2), (1, 2))
        apart = [self.log_z[i] - self.log_z[j] for i, j in pairs]
        joint = [np.hypot(self.mcse[i], self.mcse[j]) for i, j in pairs]
        alone = (self.log_z - self.exact) / self.mcse
        return np.abs(np.concatenate([alone, np.divide(apart, joint)]))

    def row(self) -> str:
        """Line of the table."""
        source = "NUTS" if self.case.nuts else "exact draws"
        values = [f"{z:.3f} ± {e:.3f}" for z, e in zip(self.log_z, self.mcse, strict=True)]
        cells = [self.case.label, str(self.n_dims), source, f"{self.exact:.3f}", *values]
        return "| " + " | ".join([*cells, f"{self.distances.max():.1f}"]) + " |"


def posterior(case: Case, energy: Energy, name: str) -> xr.DataTree:
    """Four chains of 2,000 draws."""
    if not case.nuts:
        return models.exact_draws(energy, make_rng("three ways", name), 2000, 4)
    return pm.sample(
        2000,
        chains=4,
        cores=1,
        model=energy.model,
        random_seed=7,
        progressbar=False,
        target_accept=0.95,
    )


def measure(name: str) -> Found:
    """One case by all methods."""
    case = CASES[name]
    energy = case.energy()
    settings = {"model": energy.model, "random_seed": 3, "progressbar": False, "cores": 1}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the model has potentials", lz.EvidenceWarning)
        trees = [
            lz.bridge_sampling(posterior(case, energy, name), energy.model, random_seed=5),
            lz.sample_hais(**settings),
            lz.sample_tempered(**settings),
        ]
    log_z, mcse, status = zip(*(models.log_z_of(tree) for tree in trees), strict=True)
    n_dims = sum(value.size for value in energy.model.initial_point().values())
    return Found(case, n_dims, energy.log_z, np.array(log_z), np.array(mcse), status)


def main(names: list[str]) -> None:
    """Measure cases, and write the table if they are all of them."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    rows = []
    for name in names or CASES:
        found = measure(name)
        rows.append(found.row())
        print(rows[-1], found.status, np.round(found.distances, 1), flush=True)
    if not names:
        begin, end = "<!-- begin three ways -->\n", "<!-- end three ways -->\n"
        before, rest = PAGE.read_text().split(begin)
        table = "\n".join(["", HEADER, *rows, "", ""])
        PAGE.write_text(before + begin + table + end + rest.split(end)[1])


if __name__ == "__main__":
    main(sys.argv[1:])
