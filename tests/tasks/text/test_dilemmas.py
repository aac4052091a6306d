"""The task dilemmas: views by hand, balanced answers, and the number of parts of a solution."""

from __future__ import annotations

import pytest

from gradus.tasks.text.dilemmas import VIEWS, dilemmas, opinion, part
from gradus.testing import Effort, check_task
from gradus.types import Key, UserError


def test_the_contract() -> None:
    for level in (1, 3, 5):
        check_task(dilemmas(level), effort=Effort(problems=20, levels=(level,)), strict=True)


def test_views_by_hand() -> None:
    assert part("guard", ["loud", "safe", "new"]) == "[guard] loud- safe+ new+ so yes"  # two likes, one dislike
    assert part("owner", ["safe", "old"]) == "[owner] none so no"
    assert opinion("guest", ["far", "safe"]) == "no"  # as many likes as dislikes
    assert len({tuple(sorted(view.items())) for view in VIEWS.values()}) == 4


def test_answers_are_balanced_and_solutions_have_the_wanted_parts() -> None:
    problems = dilemmas(3).source.draw(range(1000), None, Key(0))
    assert 0.45 < sum(p.answer == "yes" for p in problems) / 1000 < 0.55
    counts = {p.meta["solution"].count("[") for p in problems}
    assert counts == {1, 2, 3, 4}
    for p in dilemmas(2, roles=4).source.draw(range(30), None, Key(0)):
        assert p.meta["solution"].count("[") == 4
        group = p.question.partition(":")[0]
        assert p.meta["solution"].rpartition("[")[2].startswith(f"{group}]")
    with pytest.raises(UserError, match="`roles` is 5"):
        dilemmas(roles=5)
