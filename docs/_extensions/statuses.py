"""What a status says, read from the package where a page names it."""

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from pymc_logz.errors import STATUS_SENTENCES, USABLE_STATUSES


class Status(Directive):
    """The sentence of a status, and whether there is a number beside it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One paragraph; a status that there is not stops the build."""
        name = self.arguments[0]
        number = "a number" if name in USABLE_STATUSES else "NaN"
        paragraph = nodes.paragraph()
        paragraph += nodes.emphasis(text=f"log Z is {number}.")
        paragraph += nodes.Text(f" {STATUS_SENTENCES[name]}")
        return [paragraph]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("status", Status)
    return {"parallel_read_safe": True}
