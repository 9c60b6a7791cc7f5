"""The core without its wings: nothing that it imports is in one of them."""

import subprocess
import sys

import pytest
from support.layout import FILES, WINGS, unit

from pymc_logz.wings import HOMES

CODE = """if True:
    import sys
    for name in sys.argv[1].split():
        sys.modules[f"pymc_logz.{name}"] = None  # importing it raises
    from importlib import import_module
    for module in sys.argv[2].split():
        import_module(module)
    from pymc_logz.step_methods import ConstrainedHMC
"""


def import_without(wings: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """A fresh process that imports the core, and then what it looks up in a wing."""
    core = [module for module in FILES if unit(module) not in WINGS]
    arguments = [sys.executable, "-c", CODE, " ".join(wings), " ".join(core)]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def test_the_core_loads_without_wings() -> None:
    """Would catch a wing that the core imports: only what looks into it fails, and says where."""
    done = import_without(WINGS)
    last = done.stderr.strip().splitlines()[-1]
    assert "pymc_logz.manifold" in last
    assert "wings.py" in done.stderr
    assert import_without(()).returncode == 0


@pytest.mark.parametrize("name", HOMES)
def test_what_is_looked_up_is_in_a_wing(name: str) -> None:
    """Would catch a name that has moved."""
    home = HOMES[name]
    assert (
        f"def {name}" in (text := FILES[f"pymc_logz.{home}"].read_text()) or f"class {name}" in text
    )
    assert home.split(".")[0] in WINGS
