"""The pages name files and public names that exist."""

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support.printed_code import public_objects

import pymc_logz as lz

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs" / "_extensions"))  # which the pages are built with
from api_names import ELSEWHERE, full_name, neighbours, public_names  # noqa: E402
from example_pages import entries, page  # noqa: E402

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
    homes = (ROOT, ROOT / "pymc_logz", ROOT / "docs" / "contributing")
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


def test_the_changelog_links_to_pages_of_the_site() -> None:
    """Would catch a link that is right in the repository, and broken where the site includes it."""
    links = re.findall(r"\]\((?!https?:)([^)]+)", (ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert [link for link in links if not re.match(r"docs/.+\.md", link)] == []


def test_names_that_moved_are_found() -> None:
    """Positive control: what the tests above are there for."""
    text = "`runners/pilot_check.py`, `pilot/ladder.py`, lz.Hamiltonian(), lz.kernels.Hamiltonian()"
    assert missing_files(text) == ["runners/pilot_check.py"]
    assert missing_names(text) == ["Hamiltonian"]


OBJECTS = dict(public_objects())
NAMED = re.compile(r"(?<![`:\w])`(\w[^`\s]*)`(?![`_])")
"""A name in single backticks, which is a link; code is in double ones."""


def names_without_a_page(value: Any, text: str) -> list[str]:
    """Names in a docstring that no page of the API, nor a member of the object, has."""
    return [
        name
        for name in NAMED.findall(text)
        if not (full_name(name) or name in ELSEWHERE or hasattr(value, name))
    ]


@pytest.mark.parametrize("name", OBJECTS)
def test_names_in_docstrings_are_links(name: str) -> None:
    """Would catch a name on a page of the API that leads nowhere."""
    assert names_without_a_page(OBJECTS[name], inspect.getdoc(OBJECTS[name]) or "") == []


SECTIONS = ("Parameters", "Returns", "Raises", "See Also", "Notes", "References", "Examples")


def wrong_sections(text: str) -> list[str]:
    """Sections of a docstring that come twice, or not in the order of numpydoc."""
    found = re.findall(rf"^({'|'.join(SECTIONS)})\n-+$", text, re.MULTILINE)
    return [] if found == [name for name in SECTIONS if name in found] else found


@pytest.mark.parametrize("name", OBJECTS)
def test_sections_of_docstrings_come_once_and_in_order(name: str) -> None:
    """Would catch a page of the API that cannot be built: numpydoc takes each section once."""
    assert wrong_sections(inspect.getdoc(OBJECTS[name]) or "") == []


def test_sections_that_come_twice_are_found() -> None:
    """Positive control."""
    see, notes = "See Also\n--------\na\n\n", "Notes\n-----\nb\n\n"
    assert wrong_sections(see + notes + see) == ["See Also", "Notes", "See Also"]
    assert wrong_sections(notes + see) == ["Notes", "See Also"]
    assert wrong_sections(see + notes) == []


def test_names_that_lead_nowhere_are_found() -> None:
    """Positive control, and what is no name: formulas, code, links to web pages."""
    assert names_without_a_page(lz.sample_hais, "`sample_hais`, `kernels.Slice` and `Slices`") == [
        "Slices"
    ]
    assert names_without_a_page(lz.evidence, ":math:`x`, ``code``, `text <page>`_") == []


MAIN = ("evidence", "compare_evidence", "sample_hais", "sample_tempered", "bridge_sampling")


@pytest.mark.parametrize("name", MAIN)
def test_main_functions_name_their_neighbours(name: str) -> None:
    """Would catch an entry point from which a reader finds no other one."""
    see = (inspect.getdoc(getattr(lz, name)) or "").partition("See Also\n--------\n")[2]
    named = re.findall(r"\w+", see.split("\n\n")[0])
    assert sum(full_name(word) is not None for word in named) >= 2


@pytest.mark.parametrize("name", sorted(public_names()))
def test_pages_of_the_api_lead_to_their_neighbours(name: str) -> None:
    """Would catch a page of the API without See Also, and one that leads to itself or nowhere."""
    others = neighbours(f"pymc_logz.{name}")
    assert others
    assert f"pymc_logz.{name}" not in others
    assert all(full_name(other) == other for other in others)


def test_neighbours_share_a_word() -> None:
    """Would catch neighbours by chance, where names say what belongs together."""
    assert "pymc_logz.estimators.ti_right" in neighbours("pymc_logz.estimators.ti_left")
    assert "pymc_logz.energies.ridge" not in neighbours("pymc_logz.energies.bernoulli_rbm")
    assert "pymc_logz.estimators.bar_chain" in neighbours("pymc_logz.estimators.bar_log_z")


def test_decisions_have_their_measurements() -> None:
    """Would catch a line of the page whose figures are nowhere, and figures that no line has."""
    folder = ROOT / "docs" / "theory"
    rows = re.findall(
        r"^\| .+ \| `([\w-]+)` \|$", (folder / "decisions.md").read_text(), re.MULTILINE
    )
    kept = json.loads((folder / "decisions.json").read_text())
    assert sorted(rows) == sorted(one["id"] for one in kept)
    assert len(rows) > 90
    places = " ".join(f"{place}" for one in kept for place in one["where"])
    assert missing_files(places) == []


def test_every_example_is_in_the_gallery() -> None:
    """Would catch an example that nobody finds, and a card without its picture or its page."""
    files = {one["file"] for one in entries()}
    scripts = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "examples").glob("*/*.py")
        if "savefig(" in path.read_text(encoding="utf-8")
    }
    at_size = {f"{name}_at_size" for name in ("hais", "inpainting", "pose", "rts")}
    told_on_pages = at_size | {"lotka_volterra_speed", "rts_tracking"}
    assert scripts - files <= {f"examples/papers/{name}.py" for name in told_on_pages}
    listed = (ROOT / "docs" / "gallery" / "examples.md").read_text(encoding="utf-8")
    for one in entries():
        assert (ROOT / "docs" / "_static" / one["picture"]).is_file()
        assert f"\ngenerated/{one['name']}\n" in listed
        text = page(one)
        assert f"<../../../{one['file']}>" in text  # the download
        assert "**Explained** in [](../../" in text
