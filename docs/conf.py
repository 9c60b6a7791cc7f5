"""Sphinx settings. Building the pages samples nothing."""

from importlib.metadata import version as installed_version

project = "pymc_logz"
author = "The pymc_logz developers"
copyright = author
release = version = installed_version("pymc-logz")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
autosummary_generate = True
autodoc_typehints = "signature"  # docstrings say what an argument means, these its type
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
numpydoc_show_class_members = False
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"pymc_logz {release}"
html_static_path = ["_static"]
