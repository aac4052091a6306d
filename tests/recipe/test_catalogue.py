"""The catalogue: every system runs, or says what it waits for."""

from __future__ import annotations

import json
import re

import pytest

from gradus.recipe import index
from gradus.recipe.catalogue import BASES, FILE, System, faults, nearest_recipes, read, systems
from gradus.recipe.registry import recipe_modules

FAMILIES = 15
SYSTEMS = 381


def own_recipes() -> dict[str, str]:
    """key -> family of the recipes of this package."""
    return {key: place.split(".")[2] for key, place in recipe_modules().items() if place.startswith("gradus.")}


def test_every_system_runs_or_says_what_it_waits_for() -> None:
    assert faults(read(FILE.read_text(encoding="utf-8")), own_recipes()) == []


def test_no_system_is_lost() -> None:
    assert len(systems()) == SYSTEMS
    assert len({system.family for system in systems().values()}) == FAMILIES


@pytest.mark.parametrize("family", sorted({system.family for system in systems().values()}))
def test_a_line_is_short_and_plain(family: str) -> None:
    for system in systems().values():
        if system.family == family:
            assert re.fullmatch(r"[a-z][a-z0-9_]*", system.key)
            assert 2015 < system.year < 2030, system.key
            assert len(system.title) > 7, system.key
            assert not re.search(r"[\\$\n]|  ", system.title), system.key
            assert system.waits == system.waits.strip(" .;:"), system.key
            assert len(system.waits) <= 90, f"{system.key}: a reason is one phrase"
            assert system.code == "" or system.code.startswith("https://"), system.key


def test_a_line_holds_what_differs_from_nothing() -> None:
    for line in FILE.read_text(encoding="utf-8").splitlines():
        assert all(json.loads(line).values()), line


WAITS = System("vine", "credit", "Vine", 2024, waits="values")
RUNS = System("tree", "credit", "Tree", 2024)


@pytest.mark.parametrize(
    ("catalogue", "recipes", "fault"),
    [
        ((RUNS,), {}, "tree runs according to the catalogue, but no recipe has its key"),
        ((WAITS,), {"vine": "credit"}, 'vine has a recipe, but according to the catalogue it waits for "values"'),
        ((WAITS, WAITS), {}, "vine is in the catalogue twice"),
        ((System("vine", "credit", "Vine", 2024, waits="values", modality="videos"),), {}, "vine has no recipe yet, so the field modality"),
        ((RUNS,), {"tree": "rewards"}, "tree has the family rewards as a recipe, but credit in the catalogue"),
        ((WAITS,), {"tree": "credit"}, "the recipe tree is no system of the catalogue"),
        ((System("tree", "credit", "Tree", 2024, variants=("bush",)),), {"tree": "credit"}, "tree names the variant bush, which is no recipe"),
        ((System("vine", "credit", "Vine", 2024, waits="values", near=("oak",)),), {}, "vine names oak in near, which is neither recipe nor system"),
    ],
)
def test_a_contradiction_is_seen(catalogue: tuple[System, ...], recipes: dict[str, str], fault: str) -> None:
    (found,) = faults(catalogue, recipes)
    assert found.startswith(fault)


def test_bases_need_no_line_and_variants_are_named() -> None:
    assert faults((RUNS,), {"tree": "credit", "sft": BASES}) == []
    assert faults((RUNS,), {"tree": BASES}) == []  # a system may be a base
    assert faults((System("tree", "credit", "Tree", 2024, variants=("bush",)),), {"tree": "credit", "bush": "credit"}) == []


def test_the_nearest_recipes_are_those_that_a_system_builds_on_then_those_of_its_family() -> None:
    rows = [
        {"key": "grpo", "family": BASES, "about": "Standardised rewards."},
        {"key": "steps", "family": "credit", "about": "Rewards of steps."},
        {"key": "states", "family": "credit", "about": "Values of prefixes by Monte Carlo."},
        {"key": "judge", "family": "rewards", "about": "Values of prefixes by Monte Carlo."},
    ]
    system = System("vine", "credit", "Vine", 2024, waits="values by Monte Carlo", near=("grpo", "tree"))
    assert nearest_recipes(system, rows) == ["grpo", "states", "steps"]
    assert nearest_recipes(System("vine", "search", "Vine", 2024, waits="values"), rows) == []


def test_the_index_has_the_families_of_the_recipes() -> None:
    rows = {row["key"]: row["family"] for row in index.read()["recipes"] if row["family"] != "other"}
    assert rows == own_recipes()


def test_a_recipe_whose_paper_reads_another_kind_of_input_names_it() -> None:
    waiting = {system.key: system.modality for system in systems().values() if system.modality}
    assert waiting == {"deepvideo_r1": "videos", "longvila_r1": "videos"}
