"""What `gradus cite` prints: every recipe of the catalogue names its paper, in a form that is read."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from gradus.cli.cite import Reference, cite, paper_bibtex, paper_text, read_reference, reference_of
from gradus.recipe.registry import recipe_modules
from gradus.types import UserError


def read(reference: str) -> Reference | None:
    return read_reference(
        f"Name: what it does.\n\nloss = arXiv:1111.11111, no reference\n\n{reference}\n\nOurs: arXiv:2222.22222 is apart."
    )


@pytest.mark.parametrize("key", sorted(recipe_modules()))
def test_every_recipe_names_its_paper(key: str) -> None:
    name, paper = reference_of(key)
    assert name == key
    assert paper is not None, f"{key}: write the docstring's reference as `Reference: AUTHORS, TITLE, arXiv:NUMBER, ...`"
    assert paper.arxiv or paper.venue
    assert 1900 < paper.year <= datetime.date.today().year
    assert not re.search(r"arXiv|et al|\d{4}\.\d{5}", paper.title)
    assert len(paper.title) > 6


def test_a_reference_on_arxiv() -> None:
    found = read(
        "Reference: Doe et al. (Lab), On Steps, and\nmore Steps: a Study, arXiv:2401.00001, eq. 2 (0.5); then\nRoe, arXiv:2302.00002; 2302.00002."
    )
    assert found == Reference("Doe et al. (Lab)", "On Steps, and more Steps: a Study", 2024, "2401.00001", further=("2302.00002",))


def test_a_reference_elsewhere() -> None:
    assert read("References: Doe and Roe, On Steps, Some Journal 8, 1992. Ours: AdamW.") == Reference(
        "Doe and Roe", "On Steps", 1992, venue="Some Journal 8"
    )
    assert read("Reference: Roe, On Steps, 2019; Doe, More, arXiv:2401.00001.") == Reference(
        "Roe", "On Steps", 2019, further=("2401.00001",)
    )


def test_no_reference() -> None:
    assert read("It follows Doe et al., On Steps, arXiv:2401.00001.") is None
    assert read("Reference: see the web page.") is None


def test_in_words() -> None:
    assert (
        paper_text(Reference("Doe", "On Steps", 2024, "2401.00001"))
        == "Doe, On Steps, arXiv:2401.00001, 2024. https://arxiv.org/abs/2401.00001"
    )
    assert paper_text(Reference("Doe", "On Steps", 1992, venue="Journal 8")) == "Doe, On Steps, Journal 8, 1992."


def test_in_bibtex() -> None:
    entry = paper_bibtex("my_method", Reference("Doe et al. (Lab)", "Steps & 5_000 More", 2024, "2401.00001"))
    assert entry == (
        "@misc{doe2024mymethod,\n  title = {{Steps \\& 5\\_000 More}},\n  author = {Doe and others},\n  year = {2024},\n"
        "  eprint = {2401.00001},\n  archivePrefix = {arXiv},\n  url = {https://arxiv.org/abs/2401.00001},\n}"
    )
    assert "howpublished = {Journal 8}" in paper_bibtex("m", Reference("Doe", "On Steps", 1992, venue="Journal 8"))


def test_a_recipe_and_gradus_are_cited() -> None:
    assert cite("dapo").startswith("dapo: Yu et al. (ByteDance Seed), DAPO: ")
    assert "trained with: Gradus" in cite("dapo")
    assert "it builds upon: arXiv:1506.02438, " in cite("ppo")
    assert [line.partition("{")[0] for line in cite("dapo", bibtex=True).splitlines() if line.startswith("@")] == ["@misc", "@software"]
    assert cite().startswith("Gradus: ")
    assert cite(bibtex=True).startswith("@software{gradus,")


def test_the_recipe_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text('"""Mine.\n\nReference: Doe et al., On Steps, arXiv:2401.00001.\n"""\nraise RuntimeError("is not run")\n')
    assert cite(f"{file}:mine").startswith("mine: Doe et al., On Steps, arXiv:2401.00001, 2024.")
    file.write_text("mine = 1\n")
    assert cite(f"{file}:mine").startswith("mine: its file names no paper (Reference: ...)\ntrained with: Gradus")
    assert cite(f"{file}:mine", bibtex=True).startswith("@software{gradus,")
    file.write_text("mine = \n")
    with pytest.raises(UserError, match="cannot be read as Python"):
        cite(f"{file}:mine")


def test_an_unknown_recipe() -> None:
    with pytest.raises(UserError, match='unknown recipe "dappo" \\(did you mean dapo'):
        cite("dappo")
