"""Files beside the package: they say what the project says, and types reach a user's script."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_the_citation_is_of_this_version() -> None:
    """Would catch a release that is cited as the one before it."""
    cited = dict(re.findall(r"^(version|license): (\S+)$", read("CITATION.cff"), re.MULTILINE))
    assert cited == {"version": PROJECT["version"], "license": PROJECT["license"]}


def test_the_workflow_calls_sessions_that_exist() -> None:
    """Would catch a session that was renamed, and checks that the workflow leaves out."""
    workflow = read(".github/workflows/checks.yml")
    called = re.search(r"session: \[(.+)\]", workflow)
    sessions = re.findall(r"@nox\.session\ndef (\w+)\(", read("noxfile.py"))
    assert called
    assert {"lint", "types", "tests"} <= set(called[1].split(", ")) <= set(sessions)


def test_hooks_run_what_lint_runs() -> None:
    """Would catch a hook that lets pass what the session refuses."""
    lint = read("noxfile.py").partition("def lint(")[2].partition("@nox")[0]
    for words in re.findall(r'session\.run\((.+), "\."\)', lint):
        command = " ".join(re.findall(r'"([^"]+)"', words))
        assert f"entry: uv run {command}\n" in read(".pre-commit-config.yaml")


def test_readme_installs_what_its_first_picture_needs() -> None:
    """Would catch a first picture that is not drawn after README's own installation."""
    assert any(re.match("matplotlib", one) for one in PROJECT["dependencies"])


SCRIPT = """
import pymc as pm
import pymc_logz as lz

with pm.Model() as model:
    p = pm.Beta("p", 1, 1)
    pm.Binomial("y", n=100, p=p, observed=50)
tree = lz.evidence(model, random_seed=1)
again = lz.sample_hais(model=model, draws=64, chains=2)
reveal_type(tree)
table = lz.compare_evidence({"a": tree, "b": again})
wrong: int = lz.sample_hais(model=model)
lz.sample_hais(draws="many")
"""


@pytest.mark.slow
def test_types_reach_a_script_of_a_user(tmp_path: Path) -> None:
    """Would catch a missing ``py.typed``, and decorators that hide arguments or results."""
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    own = [line for line in done.stdout.splitlines() if line.startswith("script.py")]
    assert any('Revealed type is "xarray.' in line and "DataTree" in line for line in own), own
    assert sum("error:" in line for line in own) == 2, own
    assert any("[assignment]" in line for line in own)
    assert any("[arg-type]" in line for line in own)
