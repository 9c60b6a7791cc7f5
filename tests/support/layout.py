"""How the package is laid out: floors, wings, and the largest sizes that it may have."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "pymc_logz"

# Folders, and the few modules at the root, from the ground up. A unit imports only units of floors
# below its own, so there is no cycle between them. Files inside a folder may import each other.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("errors", "wings"),
    ("arguments", "weights", "seeds"),
    ("estimators", "graphs"),
    ("paths",),
    ("models", "kernels", "energies"),
    ("runners", "trees", "discrete"),
    ("pilot",),
    ("references",),
    ("loop",),
    ("checks",),
    ("hais", "tempered", "hmc"),
    ("posterior", "plots", "citations", "bits"),
    ("step_methods",),
    ("choosing",),
    ("long_runs", "manifold", "per_datum", "workflow"),
    ("__init__",),
)
FLOOR_OF = {unit: floor for floor, units in enumerate(FLOORS) for unit in units}
# What the core does without: each of these folders can be deleted.
WINGS = (
    "bits",
    "citations",
    "discrete",
    "energies",
    "hmc",
    "long_runs",
    "manifold",
    "per_datum",
    "plots",
    "workflow",
)
# Figures of today: they may fall, and then the number here falls with them.
CEILINGS = {"lines": 38464, "modules": 192, "lines of the core": 26483, "named numbers": 93}


def package_files() -> dict[str, Path]:
    """Module name to file, for every module of the package."""
    files = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


FILES = package_files()


def unit(module: str) -> str:
    """Unit a module belongs to: the first name below the package."""
    return module.split(".")[1] if "." in module else "__init__"


def wings() -> list[str]:
    """Wings that there are."""
    return [wing for wing in WINGS if (ROOT / PACKAGE / wing).is_dir()]


def sizes() -> dict[str, int]:
    """The figures that `CEILINGS` bounds."""
    texts = {module: path.read_text() for module, path in FILES.items()}
    lines = {module: len(text.splitlines()) for module, text in texts.items()}
    return {
        "lines": sum(lines.values()),
        "modules": len(lines),
        "lines of the core": sum(n for module, n in lines.items() if unit(module) not in WINGS),
        "named numbers": sum(len(named_numbers(ast.parse(text))) for text in texts.values()),
    }


def named_numbers(tree: ast.Module) -> list[str]:
    """Names in capitals that a module gives to numbers, or to tuples of numbers."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in _pairs(target, node.value)]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs = _pairs(node.target, node.value)
        else:
            continue
        found += [
            name.id
            for name, value in pairs
            if isinstance(name, ast.Name) and name.id.isupper() and _is_number(value)
        ]
    return found


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _is_number(value: ast.expr) -> bool:
    """Whether an expression is a number, a tuple of some, or made of numbers alone."""
    match value:
        case ast.Constant(value=bool() | str() | bytes() | None):
            return False
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(operand=inner):
            return _is_number(inner)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case ast.Tuple(elts=parts) | ast.Call(args=parts):
            return bool(parts) and all(map(_is_number, parts))
    return False
