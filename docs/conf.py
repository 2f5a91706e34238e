"""The site: python -m sphinx -W -b html docs build/site. Nothing in a built page is loaded from elsewhere."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

import roofline  # noqa: E402  the checkout that these pages describe

project = "roofline"
author = "the contributors of roofline"
copyright = "Apache-2.0"  # noqa: A001  Sphinx's own name
release = version = roofline.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "site_parts"]
exclude_patterns = ["schema"]
suppress_warnings = ["config.cache"]

# Pages are read on a code host, too: GitHub's links to headings, dollars around maths.
myst_enable_extensions = ["dollarmath", "attrs_block"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# Docstrings are Google's, with two sections of ours; single backticks are code.
default_role = "literal"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Valid", "notes_style"), ("Source", "notes_style")]
autodoc_typehints = "none"  # units in the text say more
autodoc_member_order = "bysource"
autodoc_preserve_defaults = False  # a name of a table of defaults says nothing

highlight_language = "none"  # a fence without a language is what a shell prints
html_theme = "furo"
html_title = f"roofline {release}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("tables.js", {"defer": "defer"})]
html_copy_source = False
html_show_sphinx = False
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/words.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
