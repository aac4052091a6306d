"""The generated pages of recipes: one for each, with its formulas, links that lead to pages, and no writing of what did not change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradus.recipe import index, registry
from gradus.recipe.docstring import sections
from scripts import recipe_pages


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return recipe_pages.pages()


def test_every_recipe_has_a_page(pages: dict[str, str]):
    rows = [row for row in index.read()["recipes"] if row["family"] != "other"]
    assert {f"{row['family']}/{row['key']}.md" for row in rows} == {name for name in pages if not name.endswith("index.md")}
    assert f"{len(rows)} recipes" in pages["index.md"]


def test_a_page_shows_every_formula_of_the_docstring(pages: dict[str, str]):
    for row in index.read()["recipes"]:
        if row["family"] != "other":
            read = sections(recipe_pages.docstring(registry.recipe_modules()[row["key"]]))
            text = pages[f"{row['family']}/{row['key']}.md"]
            assert text.count('<div class="formula">') == len(read.formulas), row["key"]
            assert text.count("$") - text.count("$ ") == 0, f"{row['key']}: a formula in its prose is not closed"


def test_links_lead_to_pages(pages: dict[str, str]):
    for name, text in pages.items():
        for target in re.findall(r"\]\(/recipes/([^)]+)\)", text):
            assert target in pages, f"{name} links to {target}"


def test_the_page_of_dapo(pages: dict[str, str]):
    text = pages["bases/dapo.md"]
    assert "| `objective.policy.trust.high` | `0.2` | `0.28` |" in text
    assert "| `selection` | `Everything` | `Mixed` |" in text
    assert "$ gradus diff grpo dapo" in text
    assert "@misc{yu2025dapo" in text
    assert "0 &lt; \"accuracy\"" in text  # HTML
    heads = re.findall(r"^## (.*)$", text, re.M)
    assert heads[:4] == ["The method", "What it changes", "When to use it", "Run it"]
    assert heads[-3:] == ["Departures from the paper", "Reference", "Cite"]


def test_names_of_recipes_become_links():
    assert recipe_pages.prose("few answers (see dapo, sec) or $r_i$") == (
        'few answers (see [dapo](/recipes/bases/dapo.md), [sec](/recipes/data/sec.md)) or <span class="formula">⟦r&#95;i⟧</span>'
    )
    assert recipe_pages.prose("see reinforce_plus_plus") == "see [reinforce_plus_plus](/recipes/bases/reinforce_plus_plus.md)"
    assert recipe_pages.prose("see the paper") == "see the paper"


def test_only_what_changed_is_written(tmp_path: Path):
    recipe_pages.write(tmp_path, {"a/x.md": "one", "index.md": "two"})
    before = (tmp_path / "a" / "x.md").stat().st_mtime_ns
    (tmp_path / "a" / "gone.md").write_text("old")
    recipe_pages.write(tmp_path, {"a/x.md": "one", "index.md": "three"})
    assert (tmp_path / "a" / "x.md").stat().st_mtime_ns == before
    assert (tmp_path / "index.md").read_text() == "three"
    assert not (tmp_path / "a" / "gone.md").exists()


def test_a_page_has_a_curve_or_the_reason_for_none(pages: dict[str, str]):
    assert '<div class="learning">' in pages["bases/grpo.md"]
    assert "This recipe has no learning curve, because the method changes only the memory and the time of an update." in pages["systems/streambp.md"]
