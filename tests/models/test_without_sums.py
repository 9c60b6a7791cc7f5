"""What is done about discrete variables where the wing that sums them out is not there."""

import sys

import numpy as np
import pymc as pm
import pytest

import pymc_logz as lz
from pymc_logz.models.preparation import WING, prepare

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")


def test_variables_are_moved_where_no_wing_sums_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a core that cannot be prepared without the wing, or has no word about it."""
    for name in (WING, f"{WING}.summing"):
        monkeypatch.setitem(sys.modules, name, None)
    with pm.Model() as model:
        label = pm.Bernoulli("label", 0.4, shape=2)
        pm.Normal("y", pm.Normal("mean") * label, 1.0, observed=[0.5, -1.0])
    rng = np.random.default_rng(1)
    prepared = prepare(model, rng, sum_out=None)
    assert prepared.flat.summed is None
    assert len(prepared.flat.sites) == 2
    with pytest.raises(lz.DiscreteVariableError, match=r"pymc_logz\.discrete is not installed"):
        prepare(model, rng, sum_out=True)
