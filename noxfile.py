"""Sessions that check the project: run them with `uv run nox`.

They use the environment that `uv run` made, so nothing is installed twice.
"""

import os
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "tests"]

ROOT = Path(__file__).parent
# One BLAS thread: more of them compete with the chains and blur the timings.
ENV = {"OPENBLAS_NUM_THREADS": "1"}


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
def docs(session: nox.Session) -> None:
    """HTML documentation, with warnings as errors."""
    uv = os.environ.get("UV", "uv")
    sphinx = ["sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html"]
    session.run(uv, "run", "--group", "docs", *sphinx, env=ENV, external=True)


@nox.session
def examples(session: nox.Session) -> None:
    """Every example, as a script."""
    run_scripts(session, "examples/**/*.py")


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Every benchmark, as a script."""
    run_scripts(session, "benchmarks/*.py")
