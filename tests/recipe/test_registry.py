"""Names to recipes and tasks: built in, from other packages, from a user's file."""

from __future__ import annotations

import importlib.metadata
from importlib.metadata import EntryPoint

import pytest

from gradus.recipe import registry
from gradus.recipe.serialise import from_json, to_json
from gradus.training.plan import load_task, plan
from gradus.types import UserError

RECIPE = """
from dataclasses import dataclass
from gradus import load_recipe
from gradus.credit.groups import GroupRelative, spread

@dataclass(frozen=True)
class Twice:
    needs = ()

    def assign(self, groups, signals):
        return spread(groups, [2 * (g.rewards - g.rewards.mean()) for g in groups])

offered = load_recipe("grpo").derive("offered", "Twice the difference.", credit=Twice())
"""
TASK = """
from gradus.tasks.maths.arithmetic import arithmetic

def sums():
    "Sums from elsewhere."
    return arithmetic()
"""


@pytest.fixture
def offer(monkeypatch, tmp_path):
    """Installs a package that offers what is given, as (group, name, value); forgotten after the test."""
    (tmp_path / "elsewhere.py").write_text(RECIPE + TASK)
    monkeypatch.syspath_prepend(tmp_path)
    asked = importlib.metadata.entry_points

    def install(*offers):
        points = [EntryPoint(name, value, group) for group, name, value in offers]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda **k: [p for p in points if p.group == k["group"]] or asked(**k))
        _forget()

    yield install
    monkeypatch.undo()
    _forget()


def _forget():
    registry.recipe_modules.cache_clear()
    registry.task_modules.cache_clear()


def test_packages_offer_recipes_and_tasks_by_entry_points(offer):
    offer(("gradus.recipes", "offered", "elsewhere:offered"), ("gradus.tasks", "sums", "elsewhere:sums"))
    found = registry.recipe("offered")
    assert (found.key, found.base) == ("offered", "grpo")
    assert from_json(to_json(found)) == found  # a run of it can be stored and resumed
    assert load_task("sums").name == "arithmetic"
    assert "grpo" in registry.recipe_modules()
    assert "arithmetic" in registry.task_modules()


def test_a_name_that_is_taken_is_refused(offer):
    offer(("gradus.recipes", "grpo", "elsewhere:offered"))
    with pytest.raises(UserError, match=r'two recipes have the name "grpo": .*:grpo and elsewhere:offered; uninstall'):
        registry.recipe("ppo")


def test_unknown_names_are_told_with_the_nearest():
    with pytest.raises(UserError, match=r'unknown recipe "grop" \(did you mean'):
        registry.recipe("grop")
    with pytest.raises(UserError, match=r'unknown task "arithmetik" \(did you mean arithmetic\?\)'):
        registry.task_maker("arithmetik")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mine = grpo.derive('dapo', 'another')", r'mine.py:mine has the key "dapo", which belongs to another recipe .*gradus.papers.bases.dapo'),
        ("mine = grpo.derive('grpo', 'another')", r'has the key "grpo".* such as my_grpo'),
        ("one = grpo.derive('mine', 'one')\nmine = grpo.derive('mine', 'two')", r'the key "mine", and one in the same file has the same key; give'),
    ],
)
def test_a_key_that_is_taken_is_refused(tmp_path, text, said):
    (tmp_path / "mine.py").write_text(f"from gradus import load_recipe\n\ngrpo = load_recipe('grpo')\n{text}\n")
    with pytest.raises(UserError, match=said):
        registry.recipe(f"{tmp_path}/mine.py:mine")


def test_what_but_changes_keeps_its_key(tmp_path):
    """`but` sets fields, as options do; the recipe is the same under other numbers."""
    text = "from gradus import load_recipe\n\nmine = load_recipe('grpo').but(credit__scale='none')\nnamed = mine.derive('named', '')\nmore = named.but()\n"
    (tmp_path / "mine.py").write_text(text)
    assert [registry.recipe(f"{tmp_path}/mine.py:{name}").key for name in ("mine", "named", "more")] == ["grpo", "named", "named"]


def test_a_recipe_given_in_python_has_a_key_of_its_own():
    grpo = registry.recipe("grpo")
    assert plan(grpo.but(credit__scale="none"), "arithmetic").recipe.key == "grpo"
    with pytest.raises(UserError, match='the recipe has the key "rloo", which belongs to another recipe'):
        plan(grpo.derive("rloo", "mine"), "arithmetic")


def test_what_is_no_recipe_is_refused(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("mine = 3\n")
    with pytest.raises(UserError, match=r"mine.py:mine is of type int, not a Recipe; make a recipe with RECIPE.derive\(key"):
        registry.recipe(f"{file}:mine")
    with pytest.raises(UserError, match=r'unknown recipe "min" \(did you mean mine\?\)'):
        registry.recipe(f"{file}:min")
