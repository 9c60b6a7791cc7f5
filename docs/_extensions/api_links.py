"""Names of the package in text become links to their pages of the API."""

import re

from api_names import ELSEWHERE, full_name, neighbours
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

NAMED = re.compile(r"(?:lz|pymc_logz)\.((?:\w+\.)?\w+)(?:\(.*\))?", re.DOTALL)


def resolve(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Node
) -> nodes.Node | None:
    """A link where Sphinx finds none: from one namespace to another, or to another library."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py":
        return None
    if target in ELSEWHERE:
        return nodes.reference("", "", content, refuri=ELSEWHERE[target], internal=False)
    name = full_name(target)
    if name is None:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)


def link_literals(app: Sphinx, doctree: nodes.document) -> None:
    """Code such as ``lz.sample_hais(model=model)`` in a text becomes a link."""
    for literal in list(doctree.findall(nodes.literal)):
        found = NAMED.fullmatch(literal.astext())
        inside = isinstance(literal.parent, nodes.title | nodes.reference | addnodes.pending_xref)
        name = full_name(found[1]) if found and not inside else None
        if name:
            link = addnodes.pending_xref(
                "", refdomain="py", reftype="obj", reftarget=name, refdoc=app.env.docname
            )
            literal.replace_self(link)
            link += literal


def add_neighbours(
    app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]
) -> None:
    """See Also on a page whose docstring has none: what else its section of the API has."""
    others = neighbours(name)
    if others and not any(line.startswith(".. seealso::") for line in lines):
        links = ", ".join(f":py:obj:`{other.rpartition('.')[2]} <{other}>`" for other in others)
        lines += ["", ".. seealso::", "", f"   {links}", ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    # after numpydoc, which takes the docstring apart
    app.connect("autodoc-process-docstring", add_neighbours, priority=800)
    app.connect("missing-reference", resolve)
    app.connect("doctree-read", link_literals)
    return {"parallel_read_safe": True}
