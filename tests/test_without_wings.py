"""The core does without its wings: it answers where they cannot be imported, or are not there."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.layout import PACKAGE, ROOT, wings

SCRIPT = textwrap.dedent("""
    import sys

    class Blocked:
        def __init__(self, wings):
            self.wings = {f"pymc_logz.{wing}" for wing in wings}

        def find_spec(self, name, path=None, target=None):
            if ".".join(name.split(".")[:2]) in self.wings:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    blocked = Blocked(sys.argv[1:])
    sys.meta_path.insert(0, blocked)

    import numpy as np
    import pymc as pm
    from arviz_base import from_dict

    import pymc_logz as lz

    with pm.Model() as model:
        pm.Binomial("y", n=20, p=pm.Beta("p", 1, 1), observed=14)
    draws = from_dict({"posterior": {"p": np.random.default_rng(1).beta(15, 7, size=(2, 200))}})
    given = {"random_seed": 1, "progressbar": False}
    found = {
        "sample_hais": lz.sample_hais(64, 2, model=model, **given),
        "evidence": lz.evidence(model, draws=64, chains=2, **given),
        "bridge_sampling": lz.bridge_sampling(draws, model, **given),
    }
    for name, tree in found.items():
        log_z = float(tree["evidence"]["log_z"][0])
        assert abs(log_z + np.log(21)) < 0.1, (name, log_z)
    loaded = [name for name in sys.modules if ".".join(name.split(".")[:2]) in blocked.wings]
    assert not loaded, loaded
""")
CORE_TESTS = ("tests/runners", "tests/trees", "tests/test_weights.py", "tests/test_errors.py")
OF_ALL_WINGS = ("tests/trees/test_kinds.py", "tests/trees/test_sentence.py")
"""Tests of the core that go through what all wings make, and through their names."""


def run(code: str, *arguments: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A program of its own, with the package and the tests below this folder."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPATH"] = os.pathsep.join([str(root), str(root / "tests")])
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, cwd=root)


def test_the_core_runs_where_no_wing_can_be_imported() -> None:
    """Would catch an import of a wing anywhere on the way of the first three calls."""
    done = run(SCRIPT, *wings())
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("wing", wings())
def test_a_wing_that_is_blocked_is_missed(wing: str) -> None:
    """Would catch a block that blocks nothing."""
    head = SCRIPT.split("import numpy as np")[0]
    done = run(f"{head}\nimport pymc_logz.{wing}", wing)
    assert f"ModuleNotFoundError: No module named 'pymc_logz.{wing}'" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("wing", wings())
def test_a_wing_can_be_deleted(wing: str, tmp_path: Path) -> None:
    """Would catch a file of a wing that the core reads, and a test of the core that needs it."""
    ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    for folder in (PACKAGE, "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
        shutil.rmtree(tmp_path / folder / wing, ignore_errors=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    done = run(SCRIPT, root=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    options = ["-q", "-x", "-p", "no:cacheprovider", *(f"--ignore={one}" for one in OF_ALL_WINGS)]
    command = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    done = run(command, *options, *CORE_TESTS, root=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:]
