"""Every method of the catalogue keeps the contract of a method: two toy steps, in process. The other tests of this folder are about one method each."""

from __future__ import annotations

from typing import Any

import pytest

from gradus.recipe.registry import recipe, recipe_modules
from gradus.testing.methods import check_method, method_rules


@pytest.mark.parametrize("key", sorted(recipe_modules()))
def test_a_method_keeps_its_contract(key: str) -> None:
    report = check_method(key, strict=True)
    made = recipe(key)
    learns = made.objective or any(player.objective for player in made.players.values())
    due = {"changes": made.base is None, "micro-batches": not learns, "moves": not learns, "metrics": not learns}
    assert {c.rule for c in report.checked if c.skipped} == {rule for rule, left_out in due.items() if left_out}


@pytest.mark.parametrize("key", sorted(recipe_modules()))
def test_a_method_stands_where_the_catalogue_looks_for_it(key: str) -> None:
    made: Any = recipe(key)
    place = recipe_modules()[key].split(".")
    if place[0] == "gradus":
        assert (made.key, made.family) == (key, place[2])
    assert made.base is None or made.parent is recipe(made.base)
    assert {player.learns_from for player in made.players.values()} <= {"policy", "own", *made.players}


def test_no_rule_is_forgotten() -> None:
    asked = {"described", "reference", "fits", "stored", "changes", "update", "trains", "moves", "metrics", "micro-batches", "resumes"}
    assert set(method_rules()) == asked
