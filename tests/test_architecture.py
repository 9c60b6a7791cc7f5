"""The rules of docs/design.md that a machine can keep: floors, sizes, documentation, public names.

Each rule is one test that goes through all files and lists every place that breaks it, so that the
whole list is seen at once. Below them, positive controls: each rule must be able to fail.
"""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest
from support.layout import (
    CEILINGS,
    FILES,
    FLOOR_OF,
    PACKAGE,
    ROOT,
    WINGS,
    named_numbers,
    sizes,
    unit,
)

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60  # docstring not counted
# Where PyMC is touched; the rest sees flat arrays, symbolic densities, and what these hand on.
PYMC_PLACES = (
    "models",
    "discrete",
    "energies",
    "manifold",
    "step_methods",
    "choosing",
    "seeds",
    "runners.progress",
)
ARRAY_LIBRARIES = {"numpy", "scipy", "arviz_stats"}
ARRAY_UNITS = {"errors", "arguments", "weights", "estimators"}

SOURCES = sorted(
    path
    for folder in (PACKAGE, "tests", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
parsed = cache(ast.parse)  # each file once, for all rules


def imports(source: str, module: str, *, is_package: bool = False) -> set[str]:
    """Absolute names of all that a module imports; of `from a import b`, both `a` and `a.b`.

    What only type checkers see, under `if TYPE_CHECKING`, is not imported.
    """
    parts = module.split(".")
    here = parts if is_package else parts[:-1]
    found = set()
    for node in _at_run_time(parsed(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = here[: len(here) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def _at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        yield node
        yield from _at_run_time(node)


@cache
def module_imports(module: str) -> frozenset[str]:
    """Absolute names of all that one of the package's modules imports."""
    path = FILES[module]
    return frozenset(imports(path.read_text(), module, is_package=path.name == "__init__.py"))


def wrong_directions(module: str, imported: set[str]) -> set[str]:
    """Units that the module imports and may not: those that are not on a floor below."""
    own = unit(module)
    inside = {name for name in imported if name.startswith(f"{PACKAGE}.")}
    # The bare package is wrong too: every module is imported by it.
    bare = {"__init__"} if PACKAGE in imported and not inside else set()
    units = {unit(name) for name in inside} | bare
    return {name for name in units - {own} if FLOOR_OF.get(name, 99) >= FLOOR_OF.get(own, -1)}


def imported_wings(module: str, imported: set[str]) -> set[str]:
    """Wings that a module of the core imports; one of a wing may know others."""
    inside = {unit(name) for name in imported if name.startswith(f"{PACKAGE}.")}
    return set() if unit(module) in {*WINGS, "__init__"} else inside & set(WINGS)


def floors_of_page(page: str) -> dict[str, int]:
    """Floor of each unit by the table of the page on design, the ground floor being 1."""
    table = page.split("| floor | unit |")[1].split("\n\n")[0]
    found, floor = {}, 0
    for line in table.splitlines()[2:]:
        number, names, *_ = (cell.strip() for cell in line.strip("|").split("|"))
        floor = int(number or floor)
        found |= {name.rstrip("/"): floor for name in re.findall(r"`([^`]+)`", names)}
    return found


def wrong_libraries(module: str, imported: set[str]) -> set[str]:
    """Libraries outside the package that the module imports and may not."""
    outside = {name.split(".")[0] for name in imported} - {PACKAGE}
    if unit(module) in ARRAY_UNITS:
        return outside - ARRAY_LIBRARIES - set(sys.stdlib_module_names)
    allowed = f"{module}.".startswith(tuple(f"{PACKAGE}.{place}." for place in PYMC_PLACES))
    return set() if allowed else outside & {"pymc"}


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


def too_long(text: str) -> dict[str, int]:
    """The file and its functions that are longer than allowed, with their lines."""
    n = len(text.splitlines())
    whole = {"the file": n} if n > MAX_FILE_LINES else {}
    lengths = {node.name: function_lines(node) for node in functions(parsed(text))}
    return whole | {name: lines for name, lines in lengths.items() if lines > MAX_FUNCTION_LINES}


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


def private_imports(source: str, module: str) -> set[str]:
    """Names with a leading underscore that a module takes from another one of the package."""
    return {
        f"{node.module}.{alias.name}"
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    }


def public_names(module: str) -> list[str]:
    """Names that a module exports."""
    return list(importlib.import_module(module).__all__)


def documented_names() -> set[str]:
    """Names in the autosummary blocks of docs/api."""
    text = "\n".join(path.read_text() for path in (ROOT / "docs" / "api").glob("*.md"))
    blocks = re.findall(r"\.\. autosummary::\n((?:[ \t]+.*\n|\n)*)", text)
    entries = [line.strip() for block in blocks for line in block.splitlines()]
    return {entry.removeprefix(f"{PACKAGE}.") for entry in entries if not entry.startswith(":")}


def broken(check) -> dict[str, object]:
    """What a check of a module finds, for those where it finds anything."""
    found = {module: check(module) for module in FILES}
    return {module: wrong for module, wrong in found.items() if wrong}


def test_each_folder_and_root_module_has_a_floor():
    assert {unit(module) for module in FILES} == FLOOR_OF.keys()


def test_imports_go_down():
    assert broken(lambda module: wrong_directions(module, module_imports(module))) == {}


def test_the_core_imports_no_wing():
    assert broken(lambda module: imported_wings(module, module_imports(module))) == {}


def test_the_page_shows_the_floors():
    page = (ROOT / "docs" / "design.md").read_text()
    assert floors_of_page(page) == {name: floor + 1 for name, floor in FLOOR_OF.items()}


def test_sizes_only_fall():
    found = sizes()
    assert found.keys() == CEILINGS.keys()
    assert {name: n for name, n in found.items() if n > CEILINGS[name]} == {}


def test_libraries_stay_at_the_edges():
    assert broken(lambda module: wrong_libraries(module, module_imports(module))) == {}


def test_no_import_cycles():
    graph = {module: module_imports(module) & FILES.keys() - {module} for module in FILES}
    # The package itself is never meant: wrong_directions forbids it where it matters.
    graph.pop(PACKAGE, None)
    assert cycles({module: targets - {PACKAGE} for module, targets in graph.items()}) == []


def test_sizes():
    found = {str(path.relative_to(ROOT)): too_long(path.read_text()) for path in SOURCES}
    assert {path: lengths for path, lengths in found.items() if lengths} == {}


def test_public_names_have_docstrings():
    assert broken(lambda module: undocumented(parsed(FILES[module].read_text()))) == {}


def test_private_names_stay_in_their_module():
    assert broken(lambda module: private_imports(FILES[module].read_text(), module)) == {}


def test_public_names_exist_and_are_in_the_api_pages():
    package = importlib.import_module(PACKAGE)
    namespaces = {"energies", "estimators", "kernels"}
    names = set(public_names(PACKAGE)) - namespaces
    for space in namespaces:
        names |= {f"{space}.{name}" for name in public_names(f"{PACKAGE}.{space}")}
    assert [name for name in public_names(PACKAGE) if not hasattr(package, name)] == []
    assert names - documented_names() == set()


def test_dir_shows_public_names_only():
    """Would catch a module or an import that leaks into the namespace that users look through."""
    package = importlib.import_module(PACKAGE)
    shown = [name for name in dir(package) if not name.startswith("__")]
    assert sorted(shown) == sorted(package.__all__)


def test_type_checkers_see_the_public_names():
    """Would catch a name of a stub without ``as``, which editors do not pass on."""
    for space in (PACKAGE, *(f"{PACKAGE}.{name}" for name in ("energies", "kernels"))):
        stub = FILES[space].with_suffix(".pyi")
        body = ast.parse(stub.read_text()).body
        aliases = [one for node in body if isinstance(node, ast.ImportFrom) for one in node.names]
        assert {one.asname for one in aliases} == set(public_names(space))


def test_a_name_that_moved_says_where_to():
    package = importlib.import_module(PACKAGE)
    with pytest.raises(AttributeError, match=r"it is pymc_logz\.kernels\.Hamiltonian now"):
        package.Hamiltonian  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        package.nothing  # noqa: B018
    with pytest.raises(AttributeError, match=r"did you mean bayes_factor\?$"):
        package.bayesfactor  # noqa: B018


def modules_after(statement: str) -> set[str]:
    """Top-level names of what a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


NOT_FOR_ARRAYS = {"pymc", "pytensor", "xarray", "pandas", "arviz_base", "matplotlib"}


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import pymc_logz; dir(pymc_logz)", {"numpy", "pymc", "xarray", "pandas", "matplotlib"}),
        ("import pymc_logz.weights, pymc_logz.arguments, pymc_logz.seeds", NOT_FOR_ARRAYS),
        ("import pymc_logz.estimators, pymc_logz.paths.schedules", NOT_FOR_ARRAYS),
        ("import pymc_logz.paths.geometric, pymc_logz.paths.elliptical", {"pymc", "pandas"}),
    ],
)
def test_floors_below_models_load_without_pymc(statement: str, absent: set[str]) -> None:
    """Would catch an import that makes array code wait for PyMC, or users for plots."""
    assert modules_after(statement) & absent == set()


# Positive controls: each rule must be able to fail.
@pytest.mark.parametrize(
    ("module", "source", "units"),
    [
        ("pymc_logz.paths.geometric", "from pymc_logz.kernels.base import Kernel", {"kernels"}),
        ("pymc_logz.kernels.base", "from ..runners import anneal", {"runners"}),
        ("pymc_logz.kernels.base", "from .tuning import scale", set()),
        ("pymc_logz.hais.run", "from pymc_logz.tempered import run", {"tempered"}),
        ("pymc_logz.weights", "from . import choosing", {"choosing"}),
        ("pymc_logz.paths.geometric", "def f():\n    import pymc_logz.models", {"models"}),
        ("pymc_logz.paths.geometric", "import pymc_logz", {"__init__"}),
        ("pymc_logz.choosing", "from pymc_logz import plots, models", set()),
        ("pymc_logz.hais.run", "from pymc_logz.new_folder import f", {"new_folder"}),
    ],
)
def test_a_wrong_direction_is_found(module, source, units):
    assert wrong_directions(module, imports(source, module)) == units


@pytest.mark.parametrize(
    ("module", "source", "libraries"),
    [
        ("pymc_logz.runners.block", "from pymc.util import x", {"pymc"}),
        ("pymc_logz.runners.block", "import pymc_extras, pytensor", set()),
        ("pymc_logz.hais.run", "if TYPE_CHECKING:\n    import pymc as pm", set()),
        ("pymc_logz.models.flat", "import pymc as pm", set()),
        ("pymc_logz.estimators.bridge", "import math, numpy, xarray", {"xarray"}),
        ("pymc_logz.estimators.bridge", "from ..errors import X", set()),
    ],
)
def test_a_wrong_library_is_found(module, source, libraries):
    assert wrong_libraries(module, imports(source, module)) == libraries


def test_an_import_of_a_wing_is_found():
    imported = imports("from pymc_logz.long_runs.running import begin", "x")
    assert imported_wings("pymc_logz.hais.run", imported) == {"long_runs"}
    assert imported_wings("pymc_logz.plots.annealed", imported) == set()


def test_floors_are_read_off_a_page():
    page = "| floor | unit | what |\n|---|---|---|\n| 2 | `b/` | x |\n| | `c`, `d` | y |\n\nz"
    assert floors_of_page(page) == {"b": 2, "c": 2, "d": 2}


def test_named_numbers_are_found():
    source = "A, B = 1, 'x'\nC: float = -2.5\nD = (0.5, 3)\nE = 2**4\nF = np.log(10)\nG = (1, 'x')"
    source += "\nh = 3\nI = [1]\nJ = True\ndef f():\n    K = 1"
    assert named_numbers(ast.parse(source)) == ["A", "C", "D", "E", "F"]


def test_a_cycle_is_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == [["a", "b", "c", "a"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_a_private_import_is_found():
    source = "from pymc_logz.paths import _a, b, __version__\nfrom numpy import _core"
    assert private_imports(source, "x") == {"pymc_logz.paths._a"}


def test_a_missing_docstring_is_found():
    source = "class A:\n    '''Doc.'''\n    def f(self): ...\n    def _g(self): ...\ndef h(): ..."
    assert undocumented(ast.parse(source)) == ["A.f", "h"]


def test_function_lines_leave_the_docstring_out():
    tree = ast.parse('def f(\n    x,\n):\n    """One.\n\n    Two.\n    """\n    return x\n')
    assert [function_lines(node) for node in functions(tree)] == [4]


def test_what_is_too_long_is_found():
    long = "def f():\n" + "    x = 1\n" * 60 + "y = 1\n" * 340
    assert too_long(long) == {"the file": 401, "f": 61}
    assert too_long("x = 1\n") == {}
