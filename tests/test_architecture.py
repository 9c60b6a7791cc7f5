"""The rules of docs/design.md that a machine can keep: imports, sizes, documentation."""

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "pymc_logz"
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60  # docstring not counted
MAX_MODULES = 200

# A unit is a module of the package or a whole subpackage, whose modules may import each other.
ALLOWED = {
    "errors": set(),
    "compiling": {"errors"},
    "batching": {"errors", "compiling"},
    "simplify": set(),
    "path": {"errors", "batching", "simplify"},
    "schedules": {"errors"},
    "kernels": {"errors", "path", "schedules"},
    "runners": {"errors", "compiling", "path", "schedules", "kernels", "estimators"},
    "estimators": {"errors"},
    "energies": {"errors", "path"},
    "guards": {"errors", "constraints"},
    "prior_check": {"errors", "compiling"},
    "references": {"errors", "path"},
    "settings": {"errors", "kernels", "runners", "schedules"},
    "preparation": {
        "path",
        "settings",
        "errors",
        "compiling",
        "kernels",
        "runners",
        "guards",
        "prior_check",
        "references",
        "model",
    },
    "model": {"errors", "compiling", "guards", "path", "references"},
    "constraints": {"errors"},
    "forms": {"errors", "constraints", "guards", "manifold"},
    "manifold": {
        "errors",
        "batching",
        "compiling",
        "constraints",
        "estimators",
        "guards",
        "kernels",
        "model",
        "posterior",
        "prior_check",
        "references",
        "results",
    },
    "posterior": {
        "errors",
        "batching",
        "comparison",
        "compiling",
        "constraints",
        "estimators",
        "manifold",
        "model",
        "preparation",
        "prior_check",
        "references",
        "results",
        "runners",
        "simplify",
    },
    # of the runners, only the records of arrays that they return
    "results": {"errors", "estimators", "runners"},
    "comparison": {"errors"},
    "data_rows": {"errors", "model"},
    "per_datum": {
        "errors",
        "data_rows",
        "estimators",
        "hais",
        "kernels",
        "model",
        "preparation",
        "prior_check",
        "references",
        "results",
        "runners",
        "settings",
    },
    "diagnostics": {"errors", "estimators", "results"},
    "plots": {"errors", "estimators", "results", "diagnostics", "comparison"},
    "step_methods": {
        "errors",
        "compiling",
        "path",
        "schedules",
        "settings",
        "kernels",
        "runners",
        "estimators",
        "hais",
        "tempered",
        "preparation",
        "model",
        "references",
        "manifold",
        "results",
    },
}
# These may import every unit.
UNRESTRICTED = {
    "__init__",
    "choosing",
    "sampling",
    "hais",
    "tempered",
}
PYMC_UNITS = {
    "model",
    "guards",
    "references",
    "prior_check",
    "preparation",
    "hais",
    "tempered",
    "constraints",
    "manifold",
    "forms",
    "step_methods",
    "energies",
    "data_rows",
    "per_datum",
    "sampling",
    "posterior",
    "choosing",
}
ESTIMATOR_LIBRARIES = {"numpy", "scipy", "arviz_stats"}


def package_files() -> dict[str, Path]:
    """Module name to file, for every module of the package."""
    files = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


FILES = package_files()
MODULES = sorted(FILES)
SOURCES = sorted(
    path
    for folder in (PACKAGE, "tests", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)


def relative(path: Path) -> str:
    """Path as shown in test names."""
    return str(path.relative_to(ROOT))


def unit(module: str) -> str:
    """Unit a module belongs to: the first name below the package."""
    return module.split(".")[1] if "." in module else "__init__"


def imports(source: str, module: str, *, is_package: bool = False) -> set[str]:
    """Absolute names of all that a module imports; of `from a import b`, both `a` and `a.b`."""
    parts = module.split(".")
    here = parts if is_package else parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = here[: len(here) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def module_imports(module: str) -> set[str]:
    """Absolute names of all that one of the package's modules imports."""
    path = FILES[module]
    return imports(path.read_text(), module, is_package=path.name == "__init__.py")


def wrong_directions(module: str, imported: set[str]) -> set[str]:
    """Units that the module imports and may not."""
    own = unit(module)
    if own in UNRESTRICTED:
        return set()
    inside = {name for name in imported if name.startswith(f"{PACKAGE}.")}
    # The bare package is wrong too: every module is imported by it.
    bare = {"__init__"} if imported & {PACKAGE} and not inside else set()
    return ({unit(name) for name in inside} | bare) - ALLOWED.get(own, set()) - {own}


def wrong_libraries(module: str, imported: set[str]) -> set[str]:
    """Libraries outside the package that the module imports and may not."""
    outside = {name.split(".")[0] for name in imported} - {PACKAGE}
    if unit(module) == "estimators":
        return outside - ESTIMATOR_LIBRARIES - set(sys.stdlib_module_names)
    return set() if unit(module) in PYMC_UNITS else outside & {"pymc"}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Import cycles, each as the list of modules from the first back to itself."""
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(node: str, trail: list[str]) -> None:
        if node in trail:
            found.append([*trail[trail.index(node) :], node])
        elif node not in done:
            for target in sorted(graph.get(node, ())):
                visit(target, [*trail, node])
            done.add(node)

    for node in sorted(graph):
        visit(node, [])
    return found


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions of a file, nested ones and methods too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node) is not None:
        lines -= node.body[0].end_lineno - node.body[0].lineno + 1
    return lines


def undocumented(tree: ast.Module) -> list[str]:
    """Public functions, classes and methods of a file that have no docstring."""
    definitions = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    missing = []

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, definitions) and not node.name.startswith("_"):
                if ast.get_docstring(node) is None and not is_overload(node):
                    missing.append(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{prefix}{node.name}.")

    visit(tree.body, "")
    return missing


def is_overload(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether this is the setter of a property or a typing overload."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(re.search(r"(^|\.)(overload|setter|deleter)$", name) for name in decorators)


def public_names() -> list[str]:
    """Names that the package exports, without dunders."""
    names = getattr(importlib.import_module(PACKAGE), "__all__", ())
    return [name for name in names if not name.startswith("__")]


def documented_names() -> set[str]:
    """Names in the autosummary blocks of docs/api."""
    text = "\n".join(path.read_text() for path in (ROOT / "docs" / "api").glob("*.md"))
    blocks = re.findall(r"\.\. autosummary::\n((?:[ \t]+.*\n|\n)*)", text)
    entries = [line.strip() for block in blocks for line in block.splitlines()]
    return {entry.removeprefix(f"{PACKAGE}.") for entry in entries if not entry.startswith(":")}


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module):
    imported = module_imports(module)
    assert not wrong_directions(module, imported)
    assert not wrong_libraries(module, imported)


@pytest.mark.parametrize("module", MODULES)
def test_each_unit_has_a_rule(module):
    assert unit(module) in UNRESTRICTED | ALLOWED.keys()


def test_no_import_cycles():
    graph = {module: module_imports(module) & FILES.keys() - {module} for module in MODULES}
    # The package itself is never meant: wrong_directions forbids it where it matters.
    graph.pop(PACKAGE, None)
    assert cycles({module: targets - {PACKAGE} for module, targets in graph.items()}) == []


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_sizes(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_FILE_LINES
    long = {node.name: function_lines(node) for node in functions(ast.parse(text))}
    assert {name: n for name, n in long.items() if n > MAX_FUNCTION_LINES} == {}


@pytest.mark.parametrize("module", MODULES)
def test_public_names_have_docstrings(module):
    assert undocumented(ast.parse(FILES[module].read_text())) == []


def test_number_of_modules():
    files = [path for name, path in FILES.items() if unit(name) != "energies"]
    assert sum(path.name != "__init__.py" for path in files) <= MAX_MODULES


def test_all_names_exist():
    package = importlib.import_module(PACKAGE)
    assert [name for name in public_names() if not hasattr(package, name)] == []


def test_all_names_are_in_the_api_pages():
    assert set(public_names()) - documented_names() == set()


# Positive controls: each rule must be able to fail.
@pytest.mark.parametrize(
    ("module", "source", "units"),
    [
        ("pymc_logz.path", "from pymc_logz.kernels.base import Kernel", {"kernels"}),
        ("pymc_logz.kernels.base", "from ..runners import anneal", {"runners"}),
        ("pymc_logz.kernels.base", "from .tuning import scale", set()),
        ("pymc_logz.path", "from . import sampling", {"sampling"}),
        ("pymc_logz.path", "def f():\n    import pymc_logz.model", {"model"}),
        ("pymc_logz.path", "import pymc_logz", {"__init__"}),
        ("pymc_logz.sampling", "from pymc_logz import plots, model", set()),
    ],
)
def test_a_wrong_direction_is_found(module, source, units):
    assert wrong_directions(module, imports(source, module)) == units


@pytest.mark.parametrize(
    ("module", "source", "libraries"),
    [
        ("pymc_logz.runners.block", "from pymc.util import x", {"pymc"}),
        ("pymc_logz.runners.block", "import pymc_extras, pytensor", set()),
        ("pymc_logz.model", "import pymc as pm", set()),
        ("pymc_logz.estimators.bridge", "import math, numpy, xarray", {"xarray"}),
        ("pymc_logz.estimators.bridge", "from ..errors import X", set()),
    ],
)
def test_a_wrong_library_is_found(module, source, libraries):
    assert wrong_libraries(module, imports(source, module)) == libraries


def test_a_cycle_is_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == [["a", "b", "c", "a"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_a_missing_docstring_is_found():
    source = "class A:\n    '''Doc.'''\n    def f(self): ...\n    def _g(self): ...\ndef h(): ..."
    assert undocumented(ast.parse(source)) == ["A.f", "h"]


def test_function_lines_leave_the_docstring_out():
    tree = ast.parse('def f(\n    x,\n):\n    """One.\n\n    Two.\n    """\n    return x\n')
    assert [function_lines(node) for node in functions(tree)] == [4]
