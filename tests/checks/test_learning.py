"""What leaves nothing to be learned is told, and no recipe as it is published."""

from __future__ import annotations

from typing import Any

import pytest

from gradus.checks import findings
from gradus.checks.before import check
from gradus.checks.learning import of_learning
from gradus.cli.main import main
from gradus.recipe.core import Recipe
from gradus.recipe.registry import recipe, recipe_modules
from gradus.training.plan import plan


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"setting__group": 1}, "`group` is 1, so GroupRelative has no second answer to compare with"),
        ({"setting__temperature": 0.0}, "`temperature` is 0, so all answers to a problem are the same"),
        ({"objective": {}}, "the objective has no term, so no weight moves"),
        ({"setting__group": 2}, ""),
        ({"setting__temperature": 0.5}, ""),
    ],
)
def test_what_leaves_nothing_to_learn_is_a_warning(changes: dict[str, Any], said: str) -> None:
    found = list(of_learning(recipe("grpo").but(**changes)))
    assert len(found) == bool(said)
    assert all(f.says.startswith(said) and f.verdict == "warning" and f.remedy for f in found)


def test_a_rule_within_another_counts() -> None:
    inner = recipe("grpo").credit
    outside = next(r for name in recipe_modules() if inner in _inside((r := recipe(name)).credit))
    assert list(of_learning(outside.but(setting__group=1)))


def _inside(part: Any) -> list[Any]:
    return list(vars(part).values()) if part is not None else []


def test_a_rule_that_compares_nothing_may_have_groups_of_one() -> None:
    assert not list(of_learning(recipe("reinforce").but(setting__group=1)))


def test_no_recipe_is_published_so() -> None:
    made: list[Recipe] = [recipe(name) for name in recipe_modules()]
    assert [r.key for r in made if list(of_learning(r))] == []


def test_check_and_run_say_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    found = check(lambda: plan(recipe("grpo").but(setting__group=1), "arithmetic"), samples=0)
    assert any(f.says.startswith("`group` is 1") for f in found)
    assert findings.passed(found)
    assert main(["train", "grpo", "--task", "arithmetic", "--steps", "0", "--group", "1", "--study", "none", "--run", "run"]) == 0
    assert "warning: `group` is 1, so GroupRelative" in capsys.readouterr().out
