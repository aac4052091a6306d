"""The report: what it says, and when it raises."""

from __future__ import annotations

import pytest

from gradus.testing.environments import RULES as ENVIRONMENT_RULES
from gradus.testing.report import RAISING, REMEDIES, Checked, ContractBroken, Report, advice, brief, run_rules, sentences, telling
from gradus.testing.rewards import RULES as REWARD_RULES
from gradus.testing.tasks import RULES as TASK_RULES
from gradus.types import UserError

GOOD, BAD, LEFT = (
    Checked("a rule", 12),
    Checked("another", 3, tuple(f"thing {i} is wrong" for i in range(7))),
    Checked("third", skipped="no levels"),
)


def test_the_table():
    assert Report("mine", (GOOD, BAD, LEFT)).table().split("\n") == [
        "mine",
        "  a rule        12  ok",
        "  another        3  7 found",
        *(f"      thing {i} is wrong" for i in range(5)),
        "      and 2 more",
        "  third             not tried: no levels",
        "7 findings",
    ]
    assert Report("mine", (GOOD, LEFT)).table().endswith("the contract is kept")
    assert str(Report("mine", (GOOD,))) == Report("mine", (GOOD,)).table()


def test_findings_that_differ_are_shown_first():
    same = tuple(f"text {i}: raised ValueError at the same place" for i in range(9))
    found = (*same, "text 9: ran code", *same[:0], "text 10: took more than 1 s of processor time")
    assert telling(found) == [*same[:3], *found[-2:]]
    assert telling(same) == list(same[:5])


def test_what_to_do_stands_under_the_findings_of_a_rule():
    rows = Report("mine", (Checked("wrong answers", 3, ("thing 0 is wrong",)), Checked("held out", 3))).table().split("\n")
    assert rows[2:] == ["      thing 0 is wrong", f"      -> {REMEDIES['wrong answers']}", "  held out             3  ok", "1 finding"]
    assert set(REMEDIES) <= {*TASK_RULES, *ENVIRONMENT_RULES, *REWARD_RULES}


def test_what_was_not_tried_is_no_finding():
    report = Report("mine", (GOOD, LEFT))
    assert report
    assert report.demand() is report
    assert report.as_json() == {
        "subject": "mine",
        "ok": True,
        "rules": [
            {"rule": "a rule", "tried": 12, "findings": [], "skipped": ""},
            {"rule": "third", "tried": 0, "findings": [], "skipped": "no levels"},
        ],
    }


def test_a_finding_raises_when_asked():
    report = Report("mine", (GOOD, BAD))
    assert not report
    assert report.findings[0] == "another: thing 0 is wrong"
    with pytest.raises(AssertionError, match="thing 0 is wrong"):
        report.demand()
    with pytest.raises(ContractBroken):
        run_rules(0, "mine", {"another": lambda subject: BAD}, None, strict=True)
    assert not run_rules(0, "mine", {"another": lambda subject: BAD}, None, strict=False).ok


def test_rules_that_are_named_are_tried_alone():
    rules = {"a rule": lambda subject: GOOD, "another": lambda subject: BAD}
    assert run_rules(0, "mine", rules, ["a rule"], strict=True).checked == (GOOD,)
    with pytest.raises(UserError, match="did you mean another"):
        run_rules(0, "mine", rules, ["anothr"], strict=True)


def test_after_a_rule_that_hung_no_other_is_tried():
    tried: list[tuple[str, str]] = []
    rules = {"a": lambda s: Checked("a", 1, ("it hangs",), hung=True), "b": lambda s: pytest.fail("tried")}
    report = run_rules(0, "mine", rules, None, strict=False, progress=lambda *words: tried.append(words))
    assert tried == [("mine", "a")]
    assert report.checked[1] == Checked("b", skipped='it would take too long again, as for "a"')


def test_of_answers_that_raise_the_raising_is_to_be_mended():
    raising, judged = (
        "problem 1: the wrong answer '(' raised SyntaxError: '(' was never closed",
        "problem 1: the wrong answer '?' is judged right",
    )
    assert advice(Checked("wrong answers", 2, (raising,))) == [RAISING]
    assert advice(Checked("wrong answers", 2, (judged,))) == [REMEDIES["wrong answers"]]
    assert advice(Checked("wrong answers", 2, (raising, judged))) == [RAISING, REMEDIES["wrong answers"]]


def test_texts_are_told_in_short():
    assert brief("a\x00\ud800") == "'a\\x00\\ud800'"
    assert brief("b" * 100) == f"'{'b' * 60}'... (100 characters)"
    assert sentences(["b", None, "a", "b", ""]) == ("b", "a")
