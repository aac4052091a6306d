"""A page for each recipe, an overview for each family, and the index of both, as Markdown in docs/recipes; Sphinx makes them before it reads.

    python -m scripts.recipe_pages [FOLDER]

A page has, in this order: the sentence, the facts, formulas and prose of the docstring, what the recipe changes against its base, when to use it, the
command, the learning curve, the claims with their figures, the departures from the paper, the citation. Pages that did not change are not written anew.
"""

from __future__ import annotations

import ast
import html
import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from gradus.cli.cite import paper_bibtex, paper_text
from gradus.comparison.claims import Known, figure, of_recipe, standing, word_of
from gradus.comparison.curves import file_of, reason_for_none
from gradus.recipe import index, registry
from gradus.recipe.catalogue import BASES
from gradus.recipe.claim import reached
from gradus.recipe.core import Recipe, changes, get
from gradus.recipe.docstring import Formula, Sections, asciimath, sections
from gradus.recipe.reference import reference_of
from gradus.recipe.tree import Node, node
from gradus.types.errors import UserError, command
from scripts.reference_pages import plain, table

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "recipes"
FAMILIES = {
    "bases": "The methods that most others build upon.",
    "objectives": "The loss: importance ratios, trust regions, masks, divergences.",
    "credit": "How much each turn, step and token gets of the reward.",
    "data": "Which problems and which answers a step trains on.",
    "rewards": "Where the reward comes from: models, rubrics, bonuses, processes.",
    "guidance": "Demonstrations, hints and teachers within reinforcement learning.",
    "thinking": "The form and the length of reasoning.",
    "agents": "Tools, many turns, memory and experience.",
    "multi_agent": "Several policies or roles that learn together.",
    "multimodal": "Pictures and other inputs besides text.",
    "generation": "Diffusion and flow generators, masked language models.",
    "search": "More computation at test time: votes, trees, workspaces, other models.",
    "systems": "How answers are sampled and shared out: growing answers, asynchrony, speed.",
    "control": "Actions of real numbers, offline data, classic benchmarks.",
}
"""A line for each family. A family without one has its name alone."""


def maths(formula: str, tag: str) -> str:
    """A formula between the marks that the site's MathJax looks for."""
    text = html.escape(asciimath(formula), quote=False)
    if tag == "span":  # Markdown reads the text of a span
        text = re.sub(r"[*_\[\]\\`~|]", lambda sign: f"&#{ord(sign[0])};", text)
    return f'<{tag} class="formula">⟦{text}⟧</{tag}>'


def prose(text: str) -> str:
    """A paragraph of a docstring as Markdown: $...$ becomes a formula, the name of another recipe in brackets a link."""
    pieces = re.split(r"\$([^$]+)\$", text)
    return "".join(maths(piece, "span") if i % 2 else linked(plain(piece)) for i, piece in enumerate(pieces))


def linked(text: str) -> str:
    """Recipes named as `see KEY` or `(see KEY, KEY)` become links to their pages."""

    def each(found: re.Match[str]) -> str:
        return found[1] + re.sub(r"\w+(?:\\_\w+)*", lambda word: _link(word[0].replace("\\", "")), found[2])

    return re.sub(r"(\bsee )((?:[\w\\]+)(?:(?:, | and | or )[\w\\]+)*)", each, text)


def _link(key: str) -> str:
    families = family_of()
    return f"[{key}](/recipes/{families[key]}/{key}.md)" if key in families else key


@lru_cache
def family_of() -> Mapping[str, str]:
    """The family of each recipe of this package."""
    return {row["key"]: row["family"] for row in index.read()["recipes"] if row["family"] != "other"}


def body(read: Sections) -> str:
    """Formulas and prose in their order; formulas that follow each other stand in one box."""
    found = []
    for formulas, group in groupby(read.body, key=lambda part: isinstance(part, Formula)):
        if formulas:
            rows = "\n".join(maths(part.text, "div") for part in group if isinstance(part, Formula))
            found.append(f'<div class="formulas">\n{rows}\n</div>')
        else:
            found += [prose(part) for part in group if isinstance(part, str)]
    return "\n\n".join(found)


def changed(recipe: Recipe) -> str:
    """A table of what differs from the base: the field, the value there, the value here; "" for a recipe without a base."""
    if recipe.base not in registry.recipe_modules():
        return ""
    base = registry.recipe(recipe.base)
    rows = []
    for path, value in changes(base, recipe).items():
        try:
            old = node(path, get(base, path), short=True)
        except UserError:  # the path is new
            old = Node(path, "none")
        rows.append([f"`{path}`", _value(old), _value(node(path, value, short=True))])
    return table(["field", f"in {_link(recipe.base)}", "here"], rows) if rows else "Nothing in its fields: the recipe gives the method a name of its own."


def _value(found: Node) -> str:
    """A value as a call, such as `Clip(low=0.2, high=0.28)`; a short one of nested parts too."""
    return f"`{_call(found)}`"


def _call(found: Node) -> str:
    inside = ", ".join(f"{one.name}={_call(one)}" for one in found.below)
    return f"{found.text}({inside})" if found.below else found.text or "none"


def claims(found: Sequence[Known]) -> str:
    """A table of the claims with figures and verdicts, and the sentence on each that was not seen."""
    if not found:
        return ""
    rows = [
        [plain(of.claim.says), f"{plain(of.claim.against or 'its start')}", reached(of.claim), figure(of) or "", f"**{standing(of)}**"]
        for of in found
    ]
    why = [f"- {plain(of.result['why'])}" for of in found if of.result is not None and of.result.get("why")]
    words = "\n".join(f"$ {command('claims', word_of(of.key, of.claim, found), '--run')}" for of in found if of.claim.script is None)
    again = f"Measure again:\n\n```console\n{words}\n```" if words else ""
    parts = [table(["claim", "against", "asked", "figure [95 % interval]", "verdict"], rows), "\n".join(why), again]
    return "\n\n".join(part for part in parts if part)


def facts(row: Mapping[str, Any]) -> str:
    """Paper, family, base, and the inputs that a problem must offer, in one line each."""
    _, paper = reference_of(row["key"])
    found = []
    if paper is not None:
        link = f" [arXiv:{paper.arxiv}](https://arxiv.org/abs/{paper.arxiv})" if paper.arxiv else ""
        found.append(("paper", f"{plain(paper_text(paper).partition(', arXiv:')[0])}, {paper.year}.{link}"))
    found.append(("family", f"[{row['family']}](/recipes/{row['family']}/index.md)"))
    if row.get("base"):
        found.append(("base", _link(row["base"])))
    if row.get("requires"):
        found.append(("problems need", ", ".join(f"`{name}`" for name in row["requires"])))
    found.append(("file", f"`gradus/papers/{row['family']}/{row['key']}.py`"))
    return "\n".join(f"- **{name}:** {text}" for name, text in found)


def page(row: Mapping[str, Any]) -> str:
    """The page of a recipe, as Markdown."""
    key, recipe = row["key"], registry.recipe(row["key"])
    read = sections(docstring(registry.recipe_modules()[key]))
    _, paper = reference_of(key)
    runs = [command("train", key), *([command("diff", row["base"], key)] if row.get("base") else [])]
    parts = [
        (None, f"# {read.name or key}\n\n{prose(_sentence(read.summary))}\n\n{facts(row)}"),
        ("The method", body(read)),
        ("What it changes", changed(recipe)),
        ("When to use it", f"**Use it if:** {prose(read.use_if)}\n\n**Avoid it if:** {prose(read.avoid_if)}" if read.use_if else ""),
        ("Run it", "```console\n" + "\n".join(f"$ {words}" for words in runs) + "\n```"),
        ("Learning curve", curve(row)),
        ("Claims of the paper, measured here", claims(of_recipe(row))),
        ("Departures from the paper", prose(read.departures)),
        ("Reference", prose(read.reference)),
        ("Cite", f"```bibtex\n{paper_bibtex(key, paper)}\n```" if paper is not None else ""),
    ]
    return "\n\n".join(f"## {head}\n\n{text}" if head else text for head, text in parts if text) + "\n"


def _sentence(text: str) -> str:
    """The text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


def docstring(place: str) -> str:
    """The docstring of a recipe's module, without an import."""
    found = importlib.util.find_spec(place.partition(":")[0])
    assert found is not None
    assert found.origin is not None
    return ast.get_docstring(ast.parse(Path(found.origin).read_text(encoding="utf-8"))) or ""


def curve(row: Mapping[str, Any]) -> str:
    """The stored learning curve of a recipe and of its base as a figure, with its command.

    Without a stored curve: the reason why the recipe has none, or "" if the curve is not measured yet.
    """
    path = file_of(row["family"], row["key"])
    if not path.is_file():
        return reason_for_none([of.claim for of in of_recipe(row)]) or ""
    from gradus.lab.curves import Series, chart

    stored = json.loads(path.read_text(encoding="utf-8"))
    lines = [
        Series(name, tuple((x, mean) for x, mean, *_ in points), spans=tuple((x, low, high) for x, _, low, high in points), band=True)
        for name, points in stored["curves"].items()
    ]
    about = f"{stored['about']} The line is the mean of {stored['seeds']} seeds, the band reaches from the lowest to the highest."
    drawn = chart(stored["score"], lines, axis="step", unite=False)
    return f'<div class="learning">{drawn}</div>\n\n{about}\n\n```console\n$ {stored["command"]}\n```'


def family_page(family: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The overview of a family: a table of its recipes, and the order of their pages."""
    head = f"# {family}\n\n{FAMILIES.get(family, '')}".strip()
    listed = table(["recipe", "what it changes", "base"], [[_link(r["key"]), plain(r["about"]), _link(r["base"]) if r.get("base") else ""] for r in rows])
    pages = "\n".join(row["key"] for row in rows)
    return f"{head}\n\n{listed}\n\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"


def index_page(families: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The index: a table of the families, with the number of their recipes."""
    total = sum(map(len, families.values()))
    rows = [[f"[{name}](/recipes/{name}/index.md)", FAMILIES.get(name, ""), ", ".join(_link(row["key"]) for row in of)] for name, of in families.items()]
    pages = "\n".join(f"{name}/index" for name in families)
    about = f"{total} recipes, each with its formulas, its change to its base, when to use it, its claims as measured here, and its citation."
    return f"# Recipes\n\n{about}\n\n{table(['family', 'about', 'recipes'], rows)}\n\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"


def pages() -> dict[str, str]:
    """The text of each page by its path in the folder of the recipes."""
    rows = [row for row in index.read()["recipes"] if row["family"] != "other"]
    order = [*FAMILIES, *sorted({row["family"] for row in rows} - FAMILIES.keys())]
    families = {name: of for name in order if (of := [row for row in rows if row["family"] == name])}
    families[BASES] = sorted(families[BASES], key=lambda row: row["key"])
    found = {"index.md": index_page(families)}
    for name, of in families.items():
        found[f"{name}/index.md"] = family_page(name, of)
        found |= {f"{name}/{row['key']}.md": page(row) for row in of}
    return found


def write(folder: Path = FOLDER, made: Mapping[str, str] | None = None) -> None:
    """Writes the pages that differ from the files, and removes the files of pages that are gone."""
    made = pages() if made is None else made
    for name, text in made.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for gone in _stale(folder, made):
        gone.unlink()


def _stale(folder: Path, made: Iterable[str]) -> list[Path]:
    return [path for path in folder.rglob("*.md") if str(path.relative_to(folder)) not in made]


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
