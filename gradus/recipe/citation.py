"""Writes references to a recipe's paper and to Gradus, as text and as BibTeX."""

from __future__ import annotations

import re
import unicodedata

from gradus.recipe.reference import Reference, authors_of

ABOUT = "Gradus: reinforcement learning for language models, published methods as short recipes over shared parts"


def paper_text(paper: Reference) -> str:
    """A paper in one line: authors, title, arXiv number or venue, year."""
    where = f"arXiv:{paper.arxiv}, {paper.year}. https://arxiv.org/abs/{paper.arxiv}"
    return f"{paper.authors}, {paper.title}, {where if paper.arxiv else ', '.join(filter(None, [paper.venue, f'{paper.year}.']))}"


def gradus_text() -> str:
    from gradus import __version__

    return f"{ABOUT}, version {__version__}."


def paper_bibtex(key: str, paper: Reference) -> str:
    """A BibTeX entry with all authors. If there is no list of all authors, the entry has the authors of the docstring, with `and others` in place of "et
    al.".
    """
    names = authors_of(paper) or _named(paper.authors)
    name = re.sub(r"[^a-z]", "", _bare(names[0].partition(",")[0]).lower())
    fields = {"title": f"{{{latex(re.sub(r'[{}]', '', paper.title))}}}", "author": " and ".join(map(latex, names)), "year": str(paper.year)}
    if paper.arxiv:
        fields |= {"eprint": paper.arxiv, "archivePrefix": "arXiv", "url": f"https://arxiv.org/abs/{paper.arxiv}"}
    elif paper.venue:
        fields["howpublished"] = latex(paper.venue)
    return _entry("misc", f"{name}{paper.year}{re.sub(r'[^a-z0-9]', '', key.lower())}", fields)


def _named(authors: str) -> tuple[str, ...]:
    """The authors that a docstring names. "Doe et al. (Lab)" becomes "Doe and others"."""
    bare = re.sub(r"\s*\(.*?\)", "", authors)
    return tuple(re.split(r" & | and ", re.sub(r" et al\.?$", " and others", bare)))


def gradus_bibtex() -> str:
    from gradus import __version__

    fields = {"title": f"{{{ABOUT}}}", "author": "{The Gradus developers}", "version": __version__, "note": f"Version {__version__}"}
    return _entry("software", "gradus", fields)


def _entry(kind: str, key: str, fields: dict[str, str]) -> str:
    return "\n".join([f"@{kind}{{{key},", *(f"  {name} = {{{value}}}," for name, value in fields.items()), "}"])


_ACCENTS = {0x300: "`", 0x301: "'", 0x302: "^", 0x303: "~", 0x304: "=", 0x306: "u", 0x307: ".", 0x308: '"', 0x30C: "v", 0x327: "c"}


def latex(text: str) -> str:
    r"""Writes text for a BibTeX field: special characters are escaped, and letters with accents become LaTeX commands.

    >>> print(latex("Piché & Üstün"))
    Pich{\'e} \& {\"U}st{\"u}n
    """
    return "".join(_letter(character) for character in re.sub(r"([&%$#_])", r"\\\1", text))


def _letter(character: str) -> str:
    parts = unicodedata.normalize("NFD", character)
    base, marks = parts[:1], parts[1:]
    accents = [_ACCENTS.get(ord(mark)) for mark in marks]
    if not accents or None in accents:
        return character
    commands = "".join(f"\\{accent}" + ("{" if str(accent).isalpha() else "") for accent in accents)
    return "{" + commands + base + "}" * sum(str(accent).isalpha() for accent in accents) + "}"


def _bare(text: str) -> str:
    """The text without accents."""
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
