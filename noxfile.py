"""Sessions that check the project: run them with `uv run nox`.

They use the environment that `uv run` made, so nothing is installed twice.
"""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from functools import partial
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "tests"]

ROOT = Path(__file__).parent
ENV: dict[str, str | None] = {
    # more BLAS threads compete with the chains and blur the timings
    "OPENBLAS_NUM_THREADS": "1",
    # where it is set, each process that a test starts compiles 900 modules anew
    "PYTHONDONTWRITEBYTECODE": None,
}


def run_scripts(session: nox.Session, pattern: str) -> None:
    """Run each Python file that matches the pattern as a script."""
    scripts = sorted(path.relative_to(ROOT) for path in ROOT.glob(pattern))
    if not scripts:
        session.skip(f"no file matches {pattern}")
    for script in scripts:
        session.run("python", str(script), *session.posargs, env={**ENV, "MPLBACKEND": "Agg"})


@nox.session
def lint(session: nox.Session) -> None:
    """Style and format."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Static types of the package."""
    session.run("mypy", "pymc_logz", env=ENV)


@nox.session
def tests(session: nox.Session) -> None:
    """Tests, without those marked slow."""
    # whole files to a worker, so that a model is compiled once
    session.run("pytest", "-n", "2", "--dist", "loadfile", *session.posargs, env=ENV)


@nox.session
def slow(session: nox.Session) -> None:
    """Only the tests marked slow."""
    session.run("pytest", "-m", "slow", *session.posargs, env=ENV)


@nox.session
def snippets(session: nox.Session) -> None:
    """Every block of Python on the pages and in docstrings, as it is printed."""
    files = ["tests/docs/test_blocks.py", "tests/docs/test_examples.py"]
    session.run("pytest", "-m", "slow or not slow", *files, *session.posargs, env=ENV)


@nox.session
def docs(session: nox.Session) -> None:
    """HTML documentation, with warnings as errors."""
    uv = os.environ.get("UV", "uv")
    sphinx = ["sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html"]
    session.run(uv, "run", "--group", "docs", *sphinx, env=ENV, external=True)


SMOKE = """
import pymc as pm
import pymc_logz as lz

with pm.Model():
    p = pm.Beta("p", 1, 1)
    pm.Binomial("y", n=100, p=p, observed=50)
    tree = lz.sample_hais(64, 2, random_seed=1, progressbar=False)
first = tree["evidence"].to_dataset().isel(estimator=0)
print(lz.__name__, float(first["log_z"]), str(first["status"].item()), first.sizes)
assert abs(float(first["log_z"]) + 4.6151) < 0.2
"""
EXTRAS = nox.project.load_toml(ROOT / "pyproject.toml")["project"]["optional-dependencies"]


def check_contents(wheel: Path, sdist: Path) -> None:
    """That both have what they should, and README's pictures travel with it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith("METADATA"))
        description = archive.read(metadata).decode()
    assert "pymc_logz/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"pymc_logz"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme in description
    with tarfile.open(sdist) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", readme)
    assert pictures
    assert set(pictures) | {"README.md", "LICENSE", "CHANGELOG.md"} <= files


@nox.session
def package(session: nox.Session) -> None:
    """Wheel and sdist, installed in empty environments: without extras, and with each.

    Versions of Python may follow: ``nox -s package -- 3.12 3.13 3.14``. Those that cannot be had
    are named at the end.
    """
    uv, home = os.environ.get("UV", "uv"), Path(session.create_tmp()).resolve()
    run = partial(session.run, external=True)
    run(uv, "build", "-q", "--clear", "--out-dir", str(home / "dist"))
    wheel, sdist = next((home / "dist").glob("*.whl")), next((home / "dist").glob("*.tar.gz"))
    check_contents(wheel, sdist)
    missing = []
    for version in session.posargs or [f"{sys.version_info.major}.{sys.version_info.minor}"]:
        if subprocess.run([uv, "python", "find", version], capture_output=True).returncode:
            missing.append(version)
            continue
        extras = ["", *(f"[{extra}]" for extra in EXTRAS)]
        wanted = [f"pymc-logz{extra} @ {wheel.as_uri()}" for extra in extras]
        for what in [*wanted, f"pymc-logz @ {sdist.as_uri()}"]:
            empty = home / "empty"
            run(uv, "venv", "-q", "--clear", "-p", version, str(empty))
            python = str(empty / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
            run(uv, "pip", "install", "-q", "-p", python, what)
            # from elsewhere, so that the clone is not what is imported
            with session.chdir(home):
                run(python, "-c", SMOKE, env={**ENV, "PYTHONPATH": ""})
    if missing:
        session.warn(f"not tried, for want of an interpreter: Python {', '.join(missing)}")


@nox.session
def examples(session: nox.Session) -> None:
    """Every example, as a script."""
    run_scripts(session, "examples/**/*.py")


@nox.session
def benchmarks(session: nox.Session) -> None:
    """The benchmark page: ours and others on targets whose log Z is known."""
    for beside in ("rivals_of_estimators", "constrained"):
        session.run("python", f"benchmarks/{beside}.py", env=ENV)
    session.run("python", "benchmarks/rivals_of_log_z.py", *session.posargs, env=ENV)


@nox.session(name="all-benchmarks")
def all_benchmarks(session: nox.Session) -> None:
    """Every benchmark, as a script."""
    run_scripts(session, "benchmarks/*.py")


@nox.session
def search(session: nox.Session) -> None:
    """Default calls on models drawn anew, for a night: ``nox -s search -- --minutes 480``."""
    command = ["python", "benchmarks/generated_search.py"]
    session.run(*command, *(session.posargs or ["--n", "100000", "--minutes", "480"]), env=ENV)
