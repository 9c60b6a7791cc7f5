"""Each status and each warning has its section, and says where it is."""

import ast
import re
import warnings

import pytest
from support.scripts import ROOT

from pymc_logz.errors import ANCHORS, STATUS_SENTENCES, EvidenceWarning, anchor_of, warn

PAGE = (ROOT / "docs" / "learn" / "troubleshooting.md").read_text(encoding="utf-8")
ON_PAGE = re.findall(r"^\(([\w-]+)\)=$", PAGE, re.MULTILINE)


def warnings_of(source: str) -> list[str]:
    """What is constant in each message of a module's calls of ``warn``."""
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "warn"
    ]
    return [constant_part(call.args[0], source) for call in calls]


def constant_part(node: ast.expr, source: str) -> str:
    """Strings of an expression; a status's sentence as its key's name."""
    parts = [
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    return " ".join([*parts, ast.get_source_segment(source, node) or ""])


def is_known(message: str) -> bool:
    """Whether a message is that of a status, or has an anchor."""
    if "STATUS_SENTENCES" in message or "sentence" in message:
        return True
    return any(part in re.sub(r'"\s*f?"', "", message) for part in ANCHORS)


SOURCES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "pymc_logz").rglob("*.py")
}
MESSAGES = [(path, text) for path, source in SOURCES.items() for text in warnings_of(source)]


@pytest.mark.parametrize("status", STATUS_SENTENCES)
def test_each_status_has_a_section(status: str) -> None:
    """Would catch a status that is new; the page reads its sentence from the package."""
    anchor = status.replace("_", "-")
    assert ON_PAGE.count(anchor) == 1
    assert f"({anchor})=\n### `{status}`\n\n```{{status}} {status}\n" in PAGE
    assert anchor_of(f"hais has status {status!r}: {STATUS_SENTENCES[status]}") in ON_PAGE


def test_each_anchor_is_on_the_page() -> None:
    """Would catch a section that was renamed."""
    assert set(ANCHORS.values()) <= set(ON_PAGE)
    assert len(ON_PAGE) == len(set(ON_PAGE))


def test_each_warning_of_the_package_has_an_anchor() -> None:
    """Would catch a warning that is new, or whose words have changed."""
    assert len(MESSAGES) > 25
    made_elsewhere = {"message", "_too_close("}
    unknown = [
        (path, text)
        for path, text in MESSAGES
        if not is_known(text) and not any(part in text for part in made_elsewhere)
    ]
    assert unknown == []
    assert not is_known(warnings_of("warn(f'nothing that {anyone} knows')")[0])


def test_a_warning_says_where_more_is_said() -> None:
    """Would catch a link that is lost on the way to the reader."""
    with pytest.warns(EvidenceWarning, match=r"\[docs: learn/troubleshooting#high-khat\]$"):
        warn(f"hais has status 'high_khat': {STATUS_SENTENCES['high_khat']}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn("a message of its own")
    assert str(caught[0].message) == "a message of its own"
