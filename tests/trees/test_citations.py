"""BibTeX of what a run used."""

import re

import numpy as np
import pytest
import xarray as xr
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz.estimators import METHODS
from pymc_logz.trees.citations import OF_ESTIMATOR, OF_KIND, SOURCES
from pymc_logz.trees.kinds import KINDS

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")


def keys_of(bibtex: str) -> list[str]:
    return re.findall(r"^@\w+{(\w+),$", bibtex, re.MULTILINE)


def test_a_run_of_hais() -> None:
    tree = models.quick(models.normal_normal(), draws=32)
    found = lz.cite(tree)
    assert keys_of(found) == ["sohldickstein2012", "neal2001", "zhou2016"]
    assert "eprint = {1205.1925}" in found
    both = tree["evidence"].to_dataset()
    tree["evidence"] = xr.DataTree(both.assign_coords(estimator=["bridge"]))
    assert {"meng1996", "meng2002", "gronau2017"} <= set(keys_of(lz.cite(tree)))


def test_a_posterior_from_elsewhere() -> None:
    posterior = xr.Dataset({"x": (("chain", "draw"), np.zeros((2, 3)))})
    assert lz.cite(xr.DataTree.from_dict({"posterior": posterior})) == ""
    with pytest.raises(TypeError, match="DataTree"):
        lz.cite(posterior)


def test_the_tables_name_what_there_is() -> None:
    """Catches a kind or an estimator that was renamed, and references that nothing cites."""
    assert set(OF_KIND) <= set(KINDS)
    tempered = {"bar", "bridge", "manifold_bridge", "importance", *METHODS}
    assert set(OF_ESTIMATOR) <= tempered
    cited = {key for keys in (*OF_KIND.values(), *OF_ESTIMATOR.values()) for key in keys}
    assert cited | {"zhou2016", "syed2022"} == set(SOURCES)


def test_entries_are_bibtex() -> None:
    """Catches braces that do not close, and characters that LaTeX does not read."""
    every = xr.Dataset(
        {"log_z": ("estimator", np.zeros(len(OF_ESTIMATOR)))},
        coords={"estimator": list(OF_ESTIMATOR)},
    )
    tree = models.quick(models.normal_normal(), draws=32)
    tree["evidence"] = xr.DataTree(every)
    found = lz.cite(tree)
    assert found.isascii()
    assert found.count("{") == found.count("}")
    for key in keys_of(found):
        assert found.count(f"{{{key},") == 1
