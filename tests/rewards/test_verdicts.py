"""Forms of verdicts: prompts, texts that are read or not, and soft verdicts."""

from __future__ import annotations

import pytest

from gradus.rewards.verdicts import (
    Better,
    Case,
    FirstError,
    Grade,
    ScoreLines,
    YesNo,
    before_error,
    mean_verdict,
    soft_verdict,
    won,
)
from gradus.types import Problem, UserError

PROBLEM = Problem("p/0", "p", ({"role": "user", "content": "2+2?"},), answer="4")
ONE, TWO = Case("c", PROBLEM, ("x {answer}",), ("a", "b", "c")), Case("c", PROBLEM, ("x", "y"))


@pytest.mark.parametrize(
    ("form", "case", "text", "verdict"),
    [
        (YesNo(), ONE, "Yes, no, YES", (1.0,)),
        (YesNo(), ONE, "yesterday I knew nothing", None),
        (YesNo(yes="1", no="0"), ONE, "0 or 1: 0", (0.0,)),
        (Grade(), ONE, "between 3 and 10: 1", (0.0,)),
        (Grade(low=0), ONE, "5/10 of 99", (1.0,)),
        (Grade(), ONE, "0", None),
        (Better(), TWO, "Answer B is long. Answer A", (1.0,)),
        (Better(), TWO, "abc", None),
        (ScoreLines(), TWO, "Answer 1: 4\n2) 6.5\n3: 1", (0.4, 0.65)),
        (ScoreLines(), TWO, "1: 4\n2: 11", None),
        (FirstError(), ONE, "-1", (1.0, 1.0, 1.0)),
        (FirstError(), ONE, "step 0", (0.0, 0.0, 0.0)),
        (FirstError(), ONE, "3", None),
        (FirstError(), ONE, "9" * 5000, None),
        (ScoreLines(), TWO, f"{'1' * 5000}: 4", None),
    ],
)
def test_texts_that_are_read(form, case, text, verdict):
    assert form.read(text, case) == verdict


def test_prompts():
    assert YesNo().prompt(ONE).startswith("Question:\n2+2?\n\nReference answer: 4\n\nAnswer to judge:\nx {answer}\n")
    assert "Reference answer: (none)" in YesNo().prompt(Case("c", Problem("p", "p", text="q"), ("x",)))
    assert "Answer A:\nx\n\nAnswer B:\ny\n" in Better().prompt(TWO)
    assert "Answer 1:\nx\n\nAnswer 2:\ny\n" in ScoreLines().prompt(TWO)
    assert "0. a\n1. b\n2. c\n" in FirstError().prompt(ONE)


@pytest.mark.parametrize(
    ("form", "field"), [(YesNo, "answer"), (Grade, "answer"), (Better, "second"), (ScoreLines, "answers"), (FirstError, "steps")]
)
def test_a_template_needs_its_fields(form, field):
    with pytest.raises(UserError, match=f"{form.__name__}.template does not contain {{{field}}}"):
        form(template="{first} {problem}")


def test_numbers():
    assert [won(1, 0), won(0, 1), won(1, 1)] == [1.0, 0.0, 0.5]
    assert before_error(1, 3) == (1.0, 0.0, 0.0)
    assert mean_verdict([(1.0, 0.0), (0.0, 0.0), None]) == (0.5, 0.0)
    assert soft_verdict(0.9, 0.1) == 0.9
    assert soft_verdict(0.1, 0.7) == pytest.approx(0.3)
    with pytest.raises(UserError, match=r"Grade\.high"):
        Grade(low=3, high=3)
