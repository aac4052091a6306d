"""Questions about pictures of shapes: answers, verdicts, the split."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.tasks.generated import is_held_out
from gradus.tasks.pictures.scene import COLOURS, GROUND, SHAPES, Item, drawn
from gradus.tasks.pictures.shapes import KINDS, LEVELS, draft, shapes, verify
from gradus.testing import Effort, check_task
from gradus.types import Key, Problem, UserError
from tests.tasks.contract import HOSTILE


def test_contract():
    task = shapes(kinds="all")
    assert task.verify is not None

    def right(problem):
        return (problem.answer, f"={problem.answer}", f" {problem.answer.upper()} .\n")

    check_task(task, right=right, effort=Effort(problems=40), only=["reference answers"], strict=True)
    check_task(task, right=right, wrong=lambda p: HOSTILE, effort=Effort(problems=3, texts=100, seed=1), strict=True)
    for level in LEVELS:
        at = shapes(level, kinds="all")
        assert all(len(p.meta["solution"].split()) < at.sampling.max_tokens for p in at.source.draw(range(300), None, Key(3)))


def seen(picture):
    """The items of an unmoved picture, found by comparing every cell with every shape in every colour."""
    found = []
    for row in range(4):
        for column in range(4):
            cell = picture[row * 12 : row * 12 + 12, column * 12 : column * 12 + 12]
            if (cell != np.array(GROUND)).any():
                made = [(c, s) for c in COLOURS for s in SHAPES if (drawn([Item(1, 1, c, s)])[:12, :12] == cell).all()]
                assert len(made) == 1
                found.append(Item(row + 1, column + 1, *made[0]))
    return found


def answer_of(question, items):
    """The answer, by an independent reading of question and picture."""
    words = question.split()
    at = {(i.row, i.column): i for i in items}
    places = [(int(words[j + 1]), int(words[j + 3])) for j, w in enumerate(words) if w == "row"]
    if question.startswith("how many"):
        named = words[2:-1]
        colour = next((w for w in named if w in COLOURS), None)
        shape = next((s for s in SHAPES for w in named if w in (f"{s}s", f"{s}es")), None)
        return str(sum((colour is None or i.colour == colour) and (shape is None or i.shape == shape) for i in items))
    if question.startswith("what colour"):
        return at[places[0]].colour
    if question.startswith("what shape"):
        return at[places[0]].shape
    if question.startswith("where"):
        (found,) = [i for i in items if i.name == " ".join(words[3:5])]
        return f"row {found.row} column {found.column}"
    if question.startswith("is the "):
        (first,), (second,) = ([i for i in items if i.name == name] for name in (" ".join(words[2:4]), " ".join(words[-3:-1])))
        holds = {
            "left": first.column < second.column,
            "right": first.column > second.column,
            "above": first.row < second.row,
            "below": first.row > second.row,
        }
        return "yes" if holds[words[4]] else "no"
    if question.startswith("is there"):
        return "yes" if any(i.name == " ".join(words[3:5]) for i in items) else "no"
    return " , ".join(f"{i.colour} {i.shape} row {i.row} column {i.column}" for i in items)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_answers_are_what_the_picture_shows(level):
    task = shapes(level, kinds="all")
    kinds = set()
    for p in task.source.draw(range(200), None, Key(0)):
        items = seen(p.media[0].array)
        assert LEVELS[level][0] <= len(items) <= LEVELS[level][1]
        assert p.answer == answer_of(p.question, items)
        assert task.verify(p, p.answer) == task.verify(p, p.meta["solution"]) == 1.0
        kinds.add(p.meta["category"])
    assert kinds == set(KINDS)


def test_a_worked_answer_names_what_it_looks_at():
    """The items that decide, as in a list, then the answer."""
    found = {}
    for p in shapes(2, kinds="all").source.draw(range(200), None, Key(0)):
        items, words = [i.entry for i in seen(p.media[0].array)], p.question.split()
        looked = p.meta["solution"].removeprefix("see ").partition(" = ")[0].split(" , ")
        assert set(looked) <= {*items, "none"}
        if words[0] == "how":
            assert (0 if looked == ["none"] else len(looked)) == int(p.answer)
        elif p.meta["category"] == "list":
            assert looked == items
        elif p.meta["category"] == "relation" and words[1] == "the":
            assert [" ".join(entry.split()[:2]) for entry in looked] == [" ".join(words[2:4]), " ".join(words[-3:-1])]
        else:
            assert len(looked) == 1
            assert looked[0] in items or p.answer == "no"
        found[p.meta["category"]] = p.meta["solution"]
    assert found["shape"] == "see yellow triangle row 4 column 4 = triangle"
    assert set(found) == set(KINDS)


def test_a_relation_cannot_be_told_without_the_picture():
    """The question names the shapes, not their places: over many pictures each question has both answers, and half of all are yes."""
    answers = {}
    problems = shapes(2, kinds="relation").source.draw(range(3000), None, Key(1))
    for p in problems:
        assert "row" not in p.question
        answers.setdefault(p.question, []).append(p.answer)
    assert sum(p.answer == "yes" for p in problems) / len(problems) == pytest.approx(0.5, abs=0.04)
    often = [found for found in answers.values() if len(found) >= 12]
    assert len(often) > 3
    assert all(set(found) == {"yes", "no"} for found in often)


def test_verdicts_by_hand():
    def judged(category, answer, said):
        return verify(Problem("0", "shapes", text="?", answer=answer, meta={"category": category}), said)

    assert judged("place", "row 2 column 3", " Row 2  COLUMN 3.\n") == 1.0
    assert judged("place", "row 2 column 3", "row 3 column 2") == 0.0
    assert judged("count", "1", "--1") == judged("count", "1", "1 1") == judged("count", "1", "") == 0.0
    right = "red ring row 1 column 1 , blue cross row 2 column 4"
    assert judged("list", right, right) == 1.0
    assert judged("list", right, "blue cross row 2 column 4 , red ring row 1 column 1") == 1.0  # in any order
    assert judged("list", right, "red ring row 1 column 1") == 0.5
    assert judged("list", right, f"{right} , red ring row 3 column 3") == pytest.approx(2 / 3)
    assert judged("list", right, "red ring row 1 column 1 , " * 3) == pytest.approx(1 / 4)  # repeating gains nothing


def test_held_out_pictures_are_never_trained_on():
    task = shapes(1)
    held = {p.media[0].digest for p in task.held_out.draw(range(150), None, Key(3))}
    trained = {p.media[0].digest for p in task.source.draw(range(600), None, Key(4))}
    assert not held & trained
    assert len(held) > 100
    for i in range(100):  # the scene decides, not the question
        one, two = (draft(Key(i).random(), 2, (kind,)) for kind in ("count", "list"))
        assert is_held_out("shapes", one.content) == is_held_out("shapes", two.content)


def test_a_biased_share_has_the_usual_answer():
    plain, biased = (
        [p.answer for p in shapes(2, kinds="count,relation", bias=b).source.draw(range(400), None, Key(0))] for b in (0.0, 0.5)
    )
    usual = [sum(a in ("1", "yes") for a in answers) / len(answers) for answers in (plain, biased)]
    assert usual[0] < 0.5 < 0.62 < usual[1] < 0.85


def test_wrong_options_are_named():
    with pytest.raises(UserError, match=r"`bias` is 2; give a share, a number from 0 to 1"):
        shapes(bias=2)
    with pytest.raises(UserError, match="did you mean colour"):
        shapes(kinds="color")
