"""What pages of notebooks need where myst-nb is not installed: their code is shown, and not run."""

from collections.abc import Callable
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.directives.code import CodeBlock


class CodeCell(CodeBlock):
    """A cell of a notebook as a block of Python."""

    optional_arguments = 1
    option_spec: ClassVar = {**CodeBlock.option_spec, "tags": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """The block; its argument is the kernel's language, ``ipython3``."""
        self.arguments = ["python"]
        return super().run()


def name_of_file(name: str, rawtext: str, text: str, *_: object) -> tuple[list, list]:
    """The name of a notebook that this build does not have."""
    return [nodes.literal(rawtext, text)], []


def setup(app: Sphinx) -> dict[str, bool | Callable]:
    """Called by Sphinx."""
    app.add_directive("code-cell", CodeCell)
    app.add_role("nb-download", name_of_file)
    return {"parallel_read_safe": True}
