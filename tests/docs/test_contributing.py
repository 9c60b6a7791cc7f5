"""The pages for contributors: each skeleton works as it is printed, and its own tests pass."""

import ast
import doctest
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import pymc_logz

PAGES = Path(__file__).parents[2] / "docs" / "contributing"
FILE = re.compile(r"^`(\S+\.py)`:\n\n```\{literalinclude\} (skeletons/\S+)$", re.MULTILINE)
"""A file on a page: where it goes on a line of its own, then the file that the page shows."""


def files_on(page: str) -> dict[str, str]:
    """Path to code of the files that a page is made of."""
    shown = FILE.findall((PAGES / page).read_text(encoding="utf-8"))
    return {path: (PAGES / file).read_text(encoding="utf-8") for path, file in shown}


def names_of_tests(code: str) -> list[str]:
    """Names of the test functions of a file."""
    names = [node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
    return [name for name in names if name.startswith("test_")]


def module_name(path: str) -> str:
    """Name that a file of the package is imported by."""
    return path.removesuffix(".py").replace("/", ".")


SKELETONS = {path.name: files_on(path.name) for path in sorted(PAGES.glob("*.md"))}
CASES = [
    pytest.param(page, path, name, id=f"{page}-{name}")
    for page, files in SKELETONS.items()
    for path, code in files.items()
    for name in names_of_tests(code)
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder with the files of all pages; the package finds those of its own there."""
    root = tmp_path_factory.mktemp("skeletons")
    with pytest.MonkeyPatch.context() as patch:
        for files in SKELETONS.values():
            for path, code in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(code, encoding="utf-8")
        for folder in (root / "pymc_logz").iterdir():
            package = importlib.import_module(f"pymc_logz.{folder.name}")
            patch.setattr(package, "__path__", [*package.__path__, str(folder)])
        yield root
    for path in (path for files in SKELETONS.values() for path in files):
        sys.modules.pop(module_name(path), None)


@cache
def load(file: Path) -> dict[str, Callable[[], None]]:
    """Names of a test file, which is executed once."""
    spec = importlib.util.spec_from_file_location(f"skeleton_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


@pytest.mark.parametrize(("page", "path", "name"), CASES)
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
def test_skeletons(written: Path, page: str, path: str, name: str) -> None:
    """Would catch a page that was left behind when what it builds on changed."""
    load(written / path)[name]()


@pytest.mark.parametrize(
    "path", [path for files in SKELETONS.values() for path, code in files.items() if ">>>" in code]
)
def test_examples_of_skeletons(written: Path, path: str) -> None:
    """Would catch a number in a skeleton's docstring that is not so."""
    module = importlib.import_module(module_name(path))
    assert Path(str(module.__file__)) == written / path
    result = doctest.testmod(module)
    assert (result.attempted > 0, result.failed) == (True, 0)


@pytest.mark.parametrize("page", ["energies.md", "estimators.md", "plots.md", "step_methods.md"])
def test_each_page_has_a_skeleton_and_its_test(page: str) -> None:
    """Would catch a block that the pattern above no longer finds, and is never run."""
    package, tests = SKELETONS[page]
    assert package.startswith("pymc_logz/")
    assert tests.startswith("tests/")
    assert len(names_of_tests(SKELETONS[page][tests])) >= 5


def test_skeletons_are_not_in_the_package() -> None:
    """Would catch a skeleton that hides a module of the package, and so tests that instead."""
    home = Path(pymc_logz.__file__).parents[1]
    paths = [path for files in SKELETONS.values() for path in files]
    assert [path for path in paths if (home / path).exists()] == []
