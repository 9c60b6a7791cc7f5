"""What names of the package in text mean; no Sphinx is needed for it."""

from functools import cache
from importlib import import_module

SPACES = ("", "kernels.", "estimators.", "energies.")
ELSEWHERE = {
    "arviz_plots.PlotCollection": "https://python.arviz.org/projects/plots/en/latest/",
    "numpy.random.Generator": "https://numpy.org/doc/stable/reference/random/generator.html",
    "xarray.DataTree": "https://docs.xarray.dev/en/stable/generated/xarray.DataTree.html",
}
"""Names of other libraries, and where they are described; nothing is fetched."""


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
