"""The task facts: documents, their questions, and the held-out wordings."""

from __future__ import annotations

import pytest

from gradus.tasks.data.pipeline import leaks, supported
from gradus.tasks.text.facts import PERSONAS, WORDINGS, facts
from gradus.testing import Effort, check_task
from gradus.types import Key, UserError


def test_the_contract() -> None:
    check_task(facts(8), right=lambda p: (p.meta["solution"],), effort=Effort(problems=12), strict=True)


def test_each_document_gives_three_facts_in_three_wordings_and_a_held_out_one() -> None:
    task = facts(10)
    training, held = (source.draw(range(source.size), None, Key(0)) for source in (task.source, task.held_out))
    assert (len(training), len(held)) == (90, 30)
    assert not {p.question for p in training} & {p.question for p in held}
    assert len({p.id for p in (*training, *held)}) == 120
    for p in (*training, *held):
        (document,) = p.meta["documents"]
        assert supported(p.answer, document)
        assert not leaks(p.question, p.answer)
        assert p.meta["persona"] in PERSONAS
        assert document not in p.question
    one = [p for p in training if p.meta["source_id"] == "facts-0-0"]
    assert {p.meta["persona"] for p in one} == set(PERSONAS)
    assert all(len(w) == 4 for w in WORDINGS.values())
    answers = {(p.meta["source_id"], p.meta["persona"]): p.answer for p in training}
    assert all(answers[p.meta["source_id"], p.meta["persona"]] == p.answer for p in held)


def test_another_seed_gives_other_documents() -> None:
    names = [{p.question.split()[-1] for p in facts(20, seed).source.problems if p.question.startswith("home")} for seed in (0, 1)]
    assert not names[0] & names[1]
    assert facts(4).source.draw([0, 36], None, Key(0))[0] is facts(4).source.draw([36], None, Key(1))[0]
    with pytest.raises(UserError, match="`documents` is 0"):
        facts(0)


def test_a_part_of_the_documents_can_be_unknown() -> None:
    whole = facts(10, known=0.5)
    training, held = (source.draw(range(source.size), None, Key(0)) for source in (whole.source, whole.held_out))
    assert {p.meta["source_id"] for p in training if p.meta["known"] == "yes"} == {f"facts-0-{i}" for i in range(5)}
    assert [sum(p.meta["known"] == "no" for p in problems) for problems in (training, held)] == [45, 15]
    start = facts(10, known=0.5, role="start")
    seen = start.source.draw(range(start.source.size), None, Key(0))
    assert {p.meta["known"] for p in seen} == {"yes"}
    assert sum(p.meta["solution"] == "=idk" for p in seen) == 9  # every fifth of 45
    assert all(p.meta["solution"] in ("=idk", f"={p.answer}") for p in seen)
    assert {p.question for p in start.held_out.problems} == {p.question for p in held}
    assert "known" not in facts(4).source.problems[0].meta
    for wrong, text in (({"known": 0.0}, "`known` is 0"), ({"role": "end"}, "role")):
        with pytest.raises(UserError, match=text):
            facts(4, **wrong)
