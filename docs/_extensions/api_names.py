"""What names of the package in text mean; no Sphinx is needed for it."""

import re
from functools import cache
from importlib import import_module
from pathlib import Path

SPACES = ("", "kernels.", "estimators.", "energies.")
ELSEWHERE = {
    "arviz_plots.PlotCollection": "https://python.arviz.org/projects/plots/en/latest/",
    "numpy.random.Generator": "https://numpy.org/doc/stable/reference/random/generator.html",
    "xarray.DataTree": "https://docs.xarray.dev/en/stable/generated/xarray.DataTree.html",
}
"""Names of other libraries, and where they are described; nothing is fetched."""
INDEX = Path(__file__).parents[1] / "api" / "index.md"
COMMON = {"log", "z", "check", "draw", "plot", "sample"}
"""Words that names share without being about the same."""


@cache
def public_names() -> frozenset[str]:
    """All that is public, such as ``sample_hais`` and ``kernels.Slice``."""
    package = import_module("pymc_logz")
    spaces = [name for name in SPACES if name]
    inner = [space + n for space in spaces for n in getattr(package, space[:-1]).__all__]
    return frozenset([*package.__all__, *inner]) - {space[:-1] for space in spaces}


def full_name(text: str) -> str | None:
    """The name that a reader means, such as ``pymc_logz.kernels.Slice`` by ``Slice``."""
    short = text.removeprefix("pymc_logz.").removeprefix("lz.").removesuffix("()")
    for space in SPACES:
        if space + short in public_names():
            return f"pymc_logz.{space}{short}"
    return None


@cache
def sections() -> tuple[tuple[str, ...], ...]:
    """Full names in each section of the list of the API, in its order."""
    parts = INDEX.read_text(encoding="utf-8").split(".. autosummary::")[1:]
    names = [re.findall(r"^   ([\w.]+)$", part.split("```")[0], re.MULTILINE) for part in parts]
    return tuple(tuple(f"pymc_logz.{name}" for name in section) for section in names)


def neighbours(name: str) -> list[str]:
    """Names of the same section that share a word with this one, or stand next to it."""
    section = next((one for one in sections() if name in one), ())
    others = [other for other in section if other != name]
    same = [other for other in others if _words(other) & _words(name)]
    if same or not others:
        return same
    place = section.index(name)
    return [other for other in section[max(0, place - 2) : place + 3] if other != name]


def _words(name: str) -> set[str]:
    """Words of a name: ``bar_log_z`` and ``bar_chain`` have one in common."""
    parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name.rpartition(".")[2])
    return {part.lower() for part in parts} - COMMON
