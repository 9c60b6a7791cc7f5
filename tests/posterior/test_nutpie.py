"""Posteriors of nutpie: the tree is taken as it is, and the errors of its log Z are honest."""

from types import ModuleType

import numpy as np
import pymc as pm
import pytest
from support import pymc_models as models
from support.checks import check_coverage
from support.hierarchical_regression import hierarchical_regression
from support.scripts import load

import pymc_logz as lz
from pymc_logz import energies

pytest.importorskip("nutpie")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    """The benchmark that makes replicates."""
    return load("benchmarks/bridge.py")


def test_a_tree_of_nutpie_is_taken_as_it_is() -> None:
    """Would catch groups or statistics that differ from those of PyMC's own sampler."""
    energy = energies.radiata_pine("density")
    tree = pm.sample(
        nuts_sampler="nutpie",
        model=energy.model,
        chains=4,
        cores=1,
        random_seed=1,
        progressbar=False,
    )
    models.assert_log_z(lz.bridge_sampling(tree, energy.model, random_seed=1), energy.log_z)


def test_errors_of_a_hierarchical_regression_are_honest(benchmark: ModuleType) -> None:
    """50 parameters, 50 posteriors: would catch an error blind to autocorrelation."""
    runs = benchmark.replicates(hierarchical_regression(), 50)
    z = runs[:, 0] / runs[:, 1]
    print(f"sd z {z.std():.2f}, mean z {z.mean():.2f}, covered {np.mean(np.abs(z) < 1.96):.0%}")
    assert abs(z.mean()) < 4 / np.sqrt(50)
    check_coverage(np.abs(z) < 1.96)
