"""Figures where there is nothing to draw with: an error that says what to install."""

from importlib.machinery import ModuleSpec

import pandas as pd
import pytest
from arviz_base import rc_context

import pymc_logz as lz
from pymc_logz.plots import panels

TABLE = pd.DataFrame(
    {
        "log_bayes_factor": [0.0, -0.2],
        "log_bayes_factor_mcse": [0.0, 0.1],
        "probability": [0.6, 0.4],
        "status": ["ok", "ok"],
    },
    index=["a", "b"],
)


def test_no_library_at_all_says_what_to_install() -> None:
    """Would catch a picture that is never drawn: ArviZ falls back to a backend without one."""
    with rc_context({"plot.backend": "none"}), pytest.raises(ImportError) as caught:
        lz.plot_evidence(TABLE)
    assert "python -m pip install matplotlib" in str(caught.value)


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch an error from the depths of another package."""

    def spec(name: str) -> ModuleSpec | None:
        return None if name == "bokeh" else ModuleSpec(name, None)

    monkeypatch.setattr(panels, "find_spec", spec)
    with pytest.raises(ImportError, match="backend='bokeh' is not installed: python -m pip"):
        lz.plot_evidence(TABLE, backend="bokeh")


def test_a_library_that_nobody_knows_is_refused() -> None:
    """Would catch a name with a typing error that ends in a ModuleNotFoundError."""
    with pytest.raises(ValueError, match="backend='matplotlip' must be one of"):
        lz.plot_evidence(TABLE, backend="matplotlip")
