"""What the site adds to Sphinx: formulas as MathML, links to files beside docs/, and the calculator as a page.

MathML is drawn by browsers themselves, so that no script, font or network is needed. The converter is that of docutils,
on which Sphinx stands: no further library to keep.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import roofline

#: Files beside docs/ that are pages of the site.
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "development.md", "SECURITY.md": "security.md",
         "NOTICE": "data.md", "README.md": "index.md", "examples": "examples.md"}  # fmt: skip
_LINK = re.compile(r"\]\(((?!\w+:)[^)\s#]+)(#[^)\s]*)?\)")


def mathml(tex: str, *, block: bool) -> str:
    """MathML of a formula."""
    if block and "\\\\" in tex and "\\begin" not in tex:
        tex = f"\\begin{{aligned}}{tex}\\end{{aligned}}"
    return str(latex2mathml.tex2mathml(tex, as_block=block))


def visit_math(self: Any, node: nodes.math) -> None:
    """A formula in a sentence."""
    self.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def visit_math_block(self: Any, node: nodes.math_block) -> None:
    """A formula on a line of its own."""
    self.body.append(f'<div class="math">{mathml(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode


def relink(_: Sphinx, docname: str, source: list[str]) -> None:
    """Links that lead out of docs/ on a code host lead to the page of that file where it has one."""
    here = posixpath.join("docs", posixpath.dirname(docname))
    outside = docname in {page.removesuffix(".md") for page in PAGES.values()} - {"index", "examples", "data"}

    def target(link: re.Match[str]) -> str:
        path, anchor = link[1], link[2] or ""
        file = posixpath.normpath(
            path if outside else posixpath.join(here, path)
        )  # an included file stands at the root
        if file in PAGES:
            file = f"docs/{PAGES[file]}"
        return f"]({posixpath.relpath(file, here)}{anchor})"

    source[0] = _LINK.sub(target, source[0])


def write_calculator(app: Sphinx, failure: Exception | None) -> None:
    """The page of `roofline page`, with the whole catalog, beside the others."""
    if failure is None and app.builder.name == "html":
        roofline.page(str(Path(app.outdir, "roofline.html")), force=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register all of it."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", relink)
    app.connect("include-read", lambda app, _, parent, source: relink(app, parent, source))
    app.connect("build-finished", write_calculator)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
