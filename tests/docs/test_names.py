"""The pages name files and public names that exist."""

import re
from pathlib import Path

import pytest

import pymc_logz as lz

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if not {"_build", "generated"} & set(path.parts)
)
SKELETON = re.compile(r"^`(\S+\.py)`:$", re.MULTILINE)
"""Files that a page for contributors prints, and that the repository does not have."""


def missing_files(text: str) -> list[str]:
    """Paths of Python files in a text that are neither of the repository nor of the package."""
    own = set(SKELETON.findall(text))
    named = set(re.findall(r"(?<![\w/.])((?:\w+/)+\w+\.py)\b", text)) - own
    homes = (ROOT, ROOT / "pymc_logz")
    return sorted(path for path in named if not any((home / path).is_file() for home in homes))


def missing_names(text: str) -> list[str]:
    """Names after ``lz.`` in a text that the package does not have, whatever they were once."""
    names = set(re.findall(r"\blz\.((?:energies|estimators|kernels)\.\w+|\w+)", text))
    return sorted(name for name in names if not has(name))


def has(name: str) -> bool:
    """Whether a name, perhaps of a namespace, is public."""
    space, _, last = name.rpartition(".")
    home = getattr(lz, space) if space else lz
    return last in home.__all__


def name_of(path: Path) -> str:
    """Name of a test."""
    return str(path.relative_to(ROOT))


# the changelog tells of names as they were
@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=name_of)
def test_files_and_names_on_pages(page: Path) -> None:
    """Would catch a page that sends its reader to a file or a name that has moved."""
    text = page.read_text(encoding="utf-8")
    assert missing_files(text) == []
    assert missing_names(text) == []


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent == ROOT], ids=name_of)
def test_links_of_pages_that_no_builder_checks(page: Path) -> None:
    """Would catch a broken link in the pages at the root, which Sphinx does not read."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_names_that_moved_are_found() -> None:
    """Positive control: what the tests above are there for."""
    text = "`runners/pilot_check.py`, `pilot/checks.py`, lz.Hamiltonian(), lz.kernels.Hamiltonian()"
    assert missing_files(text) == ["runners/pilot_check.py"]
    assert missing_names(text) == ["Hamiltonian"]
