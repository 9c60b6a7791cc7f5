"""log Z is the same number whatever the path starts from."""

import numpy as np
import pytest
from support import pymc_models as models
from support.checks import make_rng

from pymc_logz import energies

pytestmark = [
    pytest.mark.filterwarnings("ignore:the model has potentials"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
]


CASES = {
    "skewed": energies.poisson_gamma,
    "bounded": lambda: energies.beta_bernoulli(n=20, successes=19),
    "heavy-tailed": energies.student_location,
    "hierarchical": models.uncentred_hierarchy,
    "correlated": energies.radiata_pine,
}


@pytest.mark.usefixtures("no_look_from_prior")
@pytest.mark.parametrize("case", CASES)
def test_log_z_does_not_depend_on_the_reference(case: str) -> None:
    """Would catch a reference whose density is not normalised, or not taken off the target's.

    Each log Z lies within its own error of the exact one, and of each other.
    """
    energy = CASES[case]()
    draws = models.exact_draws(energy, make_rng("references", case), draws=2000)
    found = []
    for reference in ("prior", "laplace", draws):
        tree = models.quick(energy.model, reference=reference)
        models.assert_log_z(tree, energy.log_z)
        found.append(models.log_z_of(tree)[:2])
    for i, (log_z, mcse) in enumerate(found):
        for other, other_mcse in found[:i]:
            assert abs(log_z - other) < 4 * np.hypot(mcse, other_mcse)
