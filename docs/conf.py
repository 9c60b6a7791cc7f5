"""Sphinx settings.

With myst-nb the tutorials are run while they are built; without it their code is shown, and nothing
is sampled. Nothing is fetched: the notation of formulas comes with the site where
sphinx-mathjax-offline is installed.
"""

import os
import re
import shutil
import sys
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
# read by the kernels of the tutorials
os.environ["IPYTHONDIR"] = str(HERE / "_ipython")
os.environ["MATPLOTLIBRC"] = str(HERE / "matplotlibrc")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

project = "pymc_logz"
author = "The pymc_logz developers"
copyright = author
release = version = installed_version("pymc-logz")

RUNS_NOTEBOOKS = find_spec("myst_nb") is not None
HAS_MATHJAX = find_spec("sphinx-mathjax-offline") is not None

extensions = [
    *(["myst_nb"] if RUNS_NOTEBOOKS else ["myst_parser", "notebooks"]),
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "api_links",
    "example_pages",
    "statuses",
]
default_role = "py:obj"  # names in single backticks of docstrings are links
myst_enable_extensions = ["amsmath", "attrs_block", "attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_in_temp = True  # what a notebook writes is no part of the repository
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_output_stderr = "remove"
nb_merge_streams = True
autosummary_generate = True
autodoc_typehints = "signature"  # docstrings say what an argument means, these its type
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
numpydoc_show_class_members = False
exclude_patterns = ["_build", "_templates", "_ipython", "_extensions", "jupyter_execute"]

if HAS_MATHJAX:
    mathjax_path = "mathjax/tex-svg-full.js"

templates_path = ["_templates"]  # titles of the API without the name of the package

html_theme = "furo"
html_title = f"pymc_logz {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]


def copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    """One file of MathJax, which needs no other, beside the pages."""
    spec = find_spec("sphinx-mathjax-offline")
    if error is None and spec is not None and spec.origin is not None:
        target = Path(app.outdir) / "_static" / "mathjax"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(spec.origin).parent / "static" / "mathjax" / "tex-svg-full.js", target)


def add_picture(
    app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]
) -> None:
    """The picture of a figure of a good run below its docstring."""
    short = name.rpartition(".plot_")[2]
    if (HERE / "_static" / "plots" / f"{short}_good.png").exists():
        lines += [
            "",
            f".. image:: /_static/plots/{short}_good.png",
            f"   :alt: What {name} draws of a good run",
            "",
            f"How to read it, and what a bad run looks like: :ref:`plot gallery <plot-{short}>`.",
        ]


def link_pictures(
    app: Sphinx, page: str, template: str, context: dict[str, object], doctree: object
) -> None:
    """A picture leads to itself at full size, for those who read on a phone."""
    picture = re.compile(r'(<a\b.*?</a>)|(<img [^>]*?src="([^"]+\.png)"[^>]*>)', re.DOTALL)
    context["body"] = picture.sub(
        lambda m: m[1] or f'<a class="picture" href="{m[3]}">{m[2]}</a>',
        str(context.get("body", "")),
    )


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("html-page-context", link_pictures)
    # after numpydoc, which takes the docstring apart
    app.connect("autodoc-process-docstring", add_picture, priority=900)
    app.connect("build-finished", copy_mathjax)
