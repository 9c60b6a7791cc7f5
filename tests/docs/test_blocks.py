"""Every block of Python on the pages and in docstrings runs as it is printed.

All of them, slow ones included: ``uv run nox -s snippets``.
"""

import inspect
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from support.printed_code import (
    Block,
    blocks_of,
    blocks_of_docstring,
    public_objects,
    run_blocks,
    same_output,
)
from support.scripts import ROOT

PAGES = {
    str(path.relative_to(ROOT)): blocks_of(path)
    for path in [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
    if not {"_build", "generated"} & set(path.parts)
}
PAGES = {page: blocks for page, blocks in PAGES.items() if blocks}
DOCSTRINGS = {
    name: blocks
    for name, value in public_objects()
    if (blocks := blocks_of_docstring(name, inspect.getdoc(value) or ""))
}
IN_SECONDS = {
    "README.md",
    "docs/coming_from/pymbar.md",
    "docs/learn/read_the_output.md",
}
"""Pages that take a few seconds: the others are slow."""
SLOW_DOCSTRINGS = {
    "pymc_logz.ConstrainedHMC",
    "pymc_logz.EvidenceWarning",
    "pymc_logz.ExactObservation",
    "pymc_logz.HAIS",
    "pymc_logz.LogZTracker",
    "pymc_logz.ModelError",
    "pymc_logz.PartialMomentumHMC",
    "pymc_logz.PilotError",
    "pymc_logz.SimulatedTempering",
    "pymc_logz.WorkersLostError",
    "pymc_logz.abc_mcmc",
    "pymc_logz.abc_slice",
    "pymc_logz.bayes_factor",
    "pymc_logz.bridge_sampling",
    "pymc_logz.compare_evidence",
    "pymc_logz.evidence",
    "pymc_logz.evidence_of_models",
    "pymc_logz.evidence_sensitivity",
    "pymc_logz.extend",
    "pymc_logz.generator_form",
    "pymc_logz.likelihood_form",
    "pymc_logz.marginal_log_likelihood",
    "pymc_logz.model_weights",
    "pymc_logz.plot_evidence",
    "pymc_logz.plot_overlap",
    "pymc_logz.plot_path",
    "pymc_logz.plot_sandwich",
    "pymc_logz.plot_sensitivity",
    "pymc_logz.plot_tempering",
    "pymc_logz.plot_thermo",
    "pymc_logz.plot_weights",
    "pymc_logz.relax",
    "pymc_logz.resume",
    "pymc_logz.sample_hais",
    "pymc_logz.sample_tempered",
    "pymc_logz.sandwich",
}
"""Examples that take more than about a second."""


def marked(name: str, is_slow: bool) -> object:
    """A case, which runs with the slow tests or with the others."""
    return pytest.param(name, marks=[pytest.mark.slow] if is_slow else [], id=name)


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Files are written in an empty folder, and figures are closed."""
    monkeypatch.chdir(tmp_path)
    yield
    plt.close("all")


# a reader sees warnings, too, and goes on
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", [marked(page, page not in IN_SECONDS) for page in PAGES])
def test_blocks_of_pages(page: str) -> None:
    """Would catch a name that no block defines, and an output that is no longer so."""
    run_blocks(PAGES[page])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [marked(name, name in SLOW_DOCSTRINGS) for name in DOCSTRINGS])
def test_blocks_of_docstrings(name: str) -> None:
    """Would catch an example that cannot be copied and run."""
    run_blocks(DOCSTRINGS[name])


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_python(page: str) -> None:
    """Would catch, without running it, a block that is no Python, and one that is not found."""
    for block in PAGES[page]:
        compile(block.code, page, "exec")
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(re.findall(r"^```(?:python|\{code-cell\})", text, re.MULTILINE)) >= len(PAGES[page])


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_blocks_of_docstrings_are_python(name: str) -> None:
    """Would catch, without running it, an example that is no Python."""
    for block in DOCSTRINGS[name]:
        compile(block.code, name, "exec")


def test_broken_blocks_are_found(tmp_path: Path) -> None:
    """Positive control: an undefined name and another output must not pass."""
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(2.5)\n```\n\n```text\n3.5\n```\n")
    with pytest.raises(AssertionError, match=r"page.md, line 2, printed:\n2.5"):
        run_blocks(blocks_of(page))
    with pytest.raises(NameError, match="model"):
        run_blocks([Block("page", 1, "model\n", None)])
    assert same_output("a  1.01 ok\n", "a 1.02   ok")
    assert not same_output("a 1.01 ok", "a 1.02 low")
