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
    for p in task.source.draw(range(100), 5, Key(3)):
        assert len(p.answer.split()) < task.sampling.max_tokens or p.meta["category"] == "list"


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
        (r1, c1), (r2, c2) = places
        holds = {"left": c1 < c2, "right": c1 > c2, "above": r1 < r2, "below": r1 > r2}
        return "yes" if holds[words[8]] else "no"
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
        assert task.verify(p, p.answer) == 1.0
        kinds.add(p.meta["category"])
    assert kinds == set(KINDS)


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
    with pytest.raises(UserError, match=r"bias is 2; it is a share"):
        shapes(bias=2)
    with pytest.raises(UserError, match="did you mean colour"):
        shapes(kinds="color")
