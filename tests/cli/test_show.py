"""A recipe as text, and the differences of two recipes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradus.cli.show import diff, show
from gradus.recipe.registry import recipe_modules

FORM = '''"""MINE: one sentence.

    A_i = r_i - mean(r)
    loss = - A_i log pi

Here $A_i$ is the advantage.

Use if: answers can be judged.
Avoid if: they cannot.
Reference: Doe et al., On Steps, arXiv:2401.00001.
Departures: None.
"""

from gradus.papers.bases.grpo import grpo

mine = grpo.derive("mine", "It changes one number.", objective__policy__trust__high=0.28)
'''


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_recipe_is_shown_as_a_tree() -> None:
    text = show("grpo")
    method = text.partition("\nMethod\n")[2].splitlines()
    at = method.index("  objective")
    assert rows("\n".join(method[at + 1 : at + 7])) == [
        ["policy", "PolicyGradient"],
        ["ratio", "TokenRatio"],
        ["against", "old"],
        ["trust", "Clip"],
        ["low", "0.2"],
        ["high", "0.2"],
    ]
    assert [len(line) - len(line.lstrip()) for line in method[at : at + 7]] == [2, 4, 6, 8, 6, 8, 8]
    assert ["betas", "0.9,", "0.999"] in rows(text)
    assert ["greedy", "true"] in rows(text)
    assert "  learning_rate    by rule: gradus explain learning_rate --model FOLDER" in text.partition("\nSetting\n")[2].splitlines()
    assert "--players.policy.every 2" in text


def test_fields_without_a_value_are_shown_with_all() -> None:
    few, every = show("grpo"), show("grpo", empty=True)
    assert ["weight", "none"] not in rows(few)
    assert ["weight", "none"] in rows(every)
    (hidden,) = re.findall(r"(\d+) fields without a value", few)
    assert len(every.splitlines()) - len(few.splitlines()) in (int(hidden), int(hidden) - 1, int(hidden) + 1)  # the last paragraph is shorter
    assert "without a value" not in every


def test_a_recipe_begins_with_its_formula_and_its_paper(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FORM)
    assert show(f"{tmp_path}/mine.py:mine").splitlines()[:18] == [
        "mine: It changes one number.",
        "",
        "    A_i = r_i - mean(r)",
        "    loss = - A_i log pi",
        "",
        "Here A_i is the advantage.",
        "",
        "paper       On Steps",
        "            Doe et al., 2024. https://arxiv.org/abs/2401.00001",
        "family      bases; base: grpo",
        "use if      answers can be judged.",
        "avoid if    they cannot.",
        "",
        "Changes to grpo",
        "                               grpo  mine",
        "  objective.policy.trust.high  0.2   0.28",
        "",
        "Method",
    ]


def test_a_docstring_in_another_form_gives_no_formula(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text('"""Mine: a method without formulas.\n\nA = r; more prose.\n"""\n' + FORM.partition('"""\n\n')[2])
    assert show(f"{tmp_path}/mine.py:mine").splitlines()[:3] == ["mine: It changes one number.", "", "family      bases; base: grpo"]


def test_the_claims_stand_with_their_verdicts() -> None:
    text = " ".join(show("grpo").partition("\nClaims\n")[2].split())
    assert text.startswith("verdict figure [95 %] claim ")
    assert "Held-out accuracy rises by at least 0.2" in text
    assert "Claims" not in show("reinforce").splitlines() or "verdict" in show("reinforce")


def test_recipes_differ_by_their_changes() -> None:
    assert diff("grpo", "grpo") == "nothing"
    assert diff("reinforce", "rloo").splitlines() == ["        reinforce      rloo", "credit  BatchBaseline  LeaveOneOut"]
    found = rows(diff("grpo", "ppo"))
    assert ["players.critic", "none", "Player"] in found
    assert ["model", "-", "Head"] in found
    assert ["value", "-", "ValueLoss"] in found
    assert ["kl", "KL", "none"] in found
    assert ["coefficient", "0.04", "-"] in found
    assert ["update.epochs", "1", "4"] in found


@pytest.mark.parametrize("key", sorted(recipe_modules()))
def test_no_text_is_the_repr_of_an_object_and_every_line_fits(key: str) -> None:
    shown = show(key)
    trees = shown[shown.index("\nMethod\n") :].partition("\nClaims\n")[0]
    for text in (trees, diff("grpo", key)):
        assert not [sign for sign in ("Frozen", "frozenset", "'", "<function", "<class", " object at ") if sign in text]
        assert not [word for word in ("None", "True", "False") if re.search(rf"\b{word}\b", text)]
        assert re.search(r"\b[A-Z]\w*\(", text) is None  # the repr of a part
    assert [line for line in (shown + "\n" + diff("grpo", key)).splitlines() if len(line) > 80 and len(line.split()) > 1] == []
