"""`gradus cite`: the references of a recipe's paper, and of Gradus itself."""

from __future__ import annotations

from gradus.recipe.citation import gradus_bibtex, gradus_text, paper_bibtex, paper_text
from gradus.recipe.reference import reference_of
from gradus.runtime.terminal import paragraph


def cite(name: str | None = None, *, bibtex: bool = False) -> str:
    """The references of a recipe and of Gradus. If `name` is None, only the reference of Gradus. Raises: UserError for an unknown recipe."""
    if name is None:
        return gradus_bibtex() if bibtex else gradus_text()
    key, reference = reference_of(name)
    if bibtex:
        return "\n\n".join([*([paper_bibtex(key, reference)] if reference is not None else []), gradus_bibtex()])
    lines = [f"{key}: {paper_text(reference)}" if reference is not None else f"{key}: its file names no paper (Reference: ...)"]
    if reference is not None and reference.further:
        lines.append(f"it builds upon: {', '.join(f'arXiv:{number}' for number in reference.further)}")
    return "\n".join(paragraph(line, "  ", "") for line in [*lines, f"trained with: {gradus_text()}"])
