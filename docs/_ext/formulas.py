"""Formulas in AsciiMath, drawn by MathJax in the browser, from files of the built site.

In a page, {am}`A_i = r_i - "mean"(r)` is a formula in a line, and the directive

    ```{formula}
    A_i = (r_i - "mean"(r)) / ("std"(r))
    ```

is a formula on a separate line; a blank line separates two formulas. Generated pages may write the same HTML:
`<div class="formula">⟦...⟧</div>`. Only pages with a formula load MathJax.
"""

from __future__ import annotations

import shutil
from html import escape
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

PACKAGE = "sphinx-mathjax-offline"
FILES = ("startup.js", "core.js", "input/asciimath.js", "output/svg.js", "output/svg/fonts/tex.js", "a11y/assistive-mml.js")
CONFIG = """window.MathJax = {
  loader: {load: ['input/asciimath', 'output/svg', 'a11y/assistive-mml']},
  asciimath: {delimiters: [['⟦', '⟧']]},
  options: {enableAssistiveMml: true},
  startup: {
    elements: ['.formula'],
    pageReady: () => MathJax.startup.defaultPageReady().then(() => {  // a wide formula shrinks to three fifths; then it scrolls
      for (const box of document.querySelectorAll('div.formula')) {
        box.style.fontSize = Math.max(Math.min(1, box.clientWidth / box.scrollWidth), 0.6) + 'em';
      }
    }),
  },
};"""


def markup(formula: str, tag: str) -> str:
    """The HTML of a formula, as generated pages write it; `tag` is div (its own line) or span (in a line)."""
    return f'<{tag} class="formula">⟦{escape(" ".join(formula.split()))}⟧</{tag}>'


def inline(name: str, raw: str, text: str, line: int, inliner: Any, options: Any = None, content: Any = None) -> tuple[list[nodes.Node], list[Any]]:
    """The role `am`."""
    return [nodes.raw("", markup(text, "span"), format="html")], []


class Formula(Directive):
    """The directive `formula`."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        found = "\n".join(self.content).split("\n\n")
        return [nodes.raw("", "\n".join(markup(formula, "div") for formula in found), format="html")]


def load(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Adds MathJax to a page with formulas."""
    if 'class="formula"' in context.get("body", ""):
        app.add_js_file(None, body=CONFIG, priority=600)
        app.add_js_file("mathjax/startup.js", priority=601, loading_method="defer")


def copy(app: Any, error: Exception | None) -> None:
    """Copies the few files of MathJax that the pages load."""
    if error is not None or app.builder.format != "html":
        return
    home = Path(str(distribution(PACKAGE).locate_file(f"{PACKAGE}/static/mathjax")))
    for name in FILES:
        target = Path(app.outdir, "_static", "mathjax", name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(home / name, target)


def setup(app: Any) -> dict[str, Any]:
    app.add_role("am", inline)
    app.add_directive("formula", Formula)
    app.connect("html-page-context", load)
    app.connect("build-finished", copy)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
