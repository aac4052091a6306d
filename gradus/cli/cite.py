"""`gradus cite`: the references of a recipe's paper, and of Gradus itself."""

from __future__ import annotations

import re

from gradus.recipe.reference import Reference, reference_of

ABOUT = "Gradus: reinforcement learning for language models, every published method as a short recipe over shared parts"


def cite(name: str | None = None, *, bibtex: bool = False) -> str:
    """The references of a recipe and of Gradus; with None, of Gradus alone. Raises: UserError for an unknown recipe."""
    if name is None:
        return gradus_bibtex() if bibtex else gradus_text()
    key, reference = reference_of(name)
    if bibtex:
        return "\n\n".join([*([paper_bibtex(key, reference)] if reference is not None else []), gradus_bibtex()])
    lines = [f"{key}: {paper_text(reference)}" if reference is not None else f"{key}: its file names no paper (Reference: ...)"]
    if reference is not None and reference.further:
        lines.append(f"it builds upon: {', '.join(f'arXiv:{number}' for number in reference.further)}")
    return "\n".join([*lines, f"trained with: {gradus_text()}"])


def paper_text(paper: Reference) -> str:
    """One line: authors, title, arXiv number or venue, year."""
    where = f"arXiv:{paper.arxiv}, {paper.year}. https://arxiv.org/abs/{paper.arxiv}"
    return f"{paper.authors}, {paper.title}, {where if paper.arxiv else ', '.join(filter(None, [paper.venue, f'{paper.year}.']))}"


def gradus_text() -> str:
    from gradus import __version__

    return f"{ABOUT}, version {__version__}."


def paper_bibtex(key: str, paper: Reference) -> str:
    """A BibTeX entry. The docstring names the first of several authors, so the author field then ends in `and others`."""
    bare = re.sub(r"\s*\(.*?\)", "", paper.authors)
    authors = re.sub(r" et al\.?$", " and others", bare).replace(" & ", " and ")
    name = re.sub(r"\W+", "", authors.split()[0].lower())
    fields = {"title": f"{{{_escaped(paper.title)}}}", "author": _escaped(authors), "year": str(paper.year)}
    if paper.arxiv:
        fields |= {"eprint": paper.arxiv, "archivePrefix": "arXiv", "url": f"https://arxiv.org/abs/{paper.arxiv}"}
    elif paper.venue:
        fields["howpublished"] = _escaped(paper.venue)
    return _entry("misc", f"{name}{paper.year}{re.sub(r'[^a-z0-9]', '', key.lower())}", fields)


def gradus_bibtex() -> str:
    from gradus import __version__

    fields = {"title": f"{{{ABOUT}}}", "author": "{The Gradus developers}", "version": __version__, "note": f"Version {__version__}"}
    return _entry("software", "gradus", fields)


def _entry(kind: str, key: str, fields: dict[str, str]) -> str:
    return "\n".join([f"@{kind}{{{key},", *(f"  {name} = {{{value}}}," for name, value in fields.items()), "}"])


def _escaped(text: str) -> str:
    return re.sub(r"([&%$#_])", r"\\\1", text)
