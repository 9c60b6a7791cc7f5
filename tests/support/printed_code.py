"""Code as it is printed on pages and in docstrings: found, run, and its output compared."""

import contextlib
import importlib
import inspect
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = re.compile(
    r"^(?P<fence>```)(?:python|\{code-cell\} ipython3)\n(?P<code>.*?)^(?P=fence)$"
    r"(?:\n\n?```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
"""A block of Python, and what it prints if that is printed below."""
FILE = re.compile(r"^`\S+\.py`:\n\n```python\n.*?^```$", re.MULTILINE | re.DOTALL)
"""A whole file on a page for contributors, which `test_contributing` runs as a file."""
OPTION = re.compile(r"^(?::[\w-]+:.*\n)+\n?", re.MULTILINE)
"""Options at the top of a notebook's cell."""
IN_DOCSTRING = re.compile(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")

SPACES = ("pymc_logz", "pymc_logz.kernels", "pymc_logz.estimators", "pymc_logz.energies")


def public_objects() -> Iterator[tuple[str, Any]]:
    """Functions and classes of the public namespaces, by their whole name."""
    for space in SPACES:
        module = importlib.import_module(space)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) or inspect.isclass(value):
                yield f"{space}.{name}", value


@dataclass(frozen=True)
class Block:
    """One block of code of a page."""

    page: str
    line: int
    """Of the page, on which the code begins."""
    code: str
    output: str | None
    """What it prints, where the page says so."""


def blocks_of(path: Path) -> list[Block]:
    """All blocks of a page, in its order; files for contributors are left out."""
    text = FILE.sub(lambda found: "\n" * found[0].count("\n"), path.read_text(encoding="utf-8"))
    return [
        Block(
            path.name,
            text.count("\n", 0, found.start("code")) + 1,
            OPTION.sub(lambda options: "\n" * options[0].count("\n"), found["code"], count=1)
            if found["code"].startswith(":")
            else found["code"],
            found["output"],
        )
        for found in BLOCK.finditer(text)
    ]


def blocks_of_docstring(name: str, text: str) -> list[Block]:
    """Blocks of Python of a docstring; ``>>>`` examples are doctest's."""
    found = IN_DOCSTRING.finditer(text + "\n")
    return [
        Block(name, 1, "".join(line[4:] or "\n" for line in block[1].splitlines(True)), None)
        for block in found
    ]


def run_blocks(blocks: list[Block]) -> dict[str, Any]:
    """Run blocks one after the other in one namespace, which comes back.

    Raises
    ------
    AssertionError
        If a block prints something else than the page says.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        printed = io.StringIO()
        # lines of an error are those of the page
        code = "\n" * (block.line - 1) + block.code
        with contextlib.redirect_stdout(printed):
            exec(compile(code, block.page, "exec"), names)
        if block.output is not None:
            assert same_output(printed.getvalue(), block.output), (
                f"{block.page}, line {block.line}, printed:\n{printed.getvalue()}"
            )
    return names


def same_output(one: str, other: str) -> bool:
    """Whether two outputs have the same words, and numbers that are nearly the same.

    The last digits of a random estimate depend on the versions of what is below: numbers may differ
    by 0.05, those above 1,000 (Bayes factors) by a twentieth.
    """
    if NUMBER.sub("0", one).split() != NUMBER.sub("0", other).split():
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(is_near(float(a), float(b)) for a, b in pairs)


def is_near(a: float, b: float) -> bool:
    """Whether two printed numbers count as the same."""
    return abs(a - b) <= (0.05 if abs(b) < 1000 else abs(b) / 20)
