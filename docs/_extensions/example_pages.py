"""The gallery of examples: cards, and for each example a page with its picture and its code."""

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from api_names import full_name

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs" / "gallery"
Entry = dict[str, str]

CARD = """- **[{title}](generated/{name}.md)**

  [![{alt}](../_static/{picture})](generated/{name}.md)

  {learn}
"""
PAGE = """# {title}

{learn} It takes {takes}.

Download {{download}}`{file_name} <../../../{file}>`, and run it with `python {file_name}`.

![{alt}](../../_static/{picture})

{about}

{links}

```python
{body}
```
"""


def entries() -> list[Entry]:
    """What the gallery shows, in its order."""
    found: list[Entry] = json.loads((GALLERY / "examples.json").read_text(encoding="utf-8"))
    return [{**one, "name": Path(one["file"]).stem} for one in found]


def about(code: str) -> str:
    """What an example says at its top, less its first line and how it is run."""
    text = ast.get_docstring(ast.parse(code)) or ""
    paragraphs = text.split("\n\n")[1:]
    kept = [one for one in paragraphs if not one.startswith(("Run it with", "    uv run"))]
    return re.sub(r"``", "`", "\n\n".join(kept))


def links(code: str, more: str | None) -> str:
    """The page that explains an example, and those of the calls that it makes."""
    found = dict.fromkeys(re.findall(r"\blz\.((?:kernels|estimators|energies)\.\w+|\w+)", code))
    names = [name for name in found if full_name(name) and not name.endswith("Warning")]
    calls = [f"{{py:obj}}`lz.{name} <{full_name(name)}>`" for name in names]
    said = [f"**Explained** in [](../../{more})."] if more else []
    said += [f"**Calls**: {', '.join(calls)}."] if calls else []
    return "\n\n".join(said)


def page(entry: Entry) -> str:
    """The page of one example, in Markdown."""
    code = (ROOT / entry["file"]).read_text(encoding="utf-8")
    return PAGE.format(
        **entry,
        file_name=Path(entry["file"]).name,
        about=about(code),
        links=links(code, entry["more"]),
        body=code[code.index('"""', 3) + 3 :].strip(),
    )


def write(app: "Sphinx | None" = None) -> None:
    """Write the pages, before any is read; those that are the same are left alone."""
    folder = GALLERY / "generated"
    folder.mkdir(exist_ok=True)
    pages = {f"{entry['name']}.md": page(entry) for entry in entries()}
    pages["cards.txt"] = "\n".join(CARD.format(**entry) for entry in entries())
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def setup(app: "Sphinx") -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
