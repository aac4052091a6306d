from __future__ import annotations

import re

import pytest

from gradus.tasks.text.hidden_question import chain_lines, hidden_question, needed
from gradus.testing import Effort, check_task
from gradus.types import Key, UserError
from tests.tasks.contract import check_hostile, check_read_back, check_split


def test_contract() -> None:
    task = hidden_question()
    check_task(task, right=lambda p: (p.meta["solution"], "".join(p.meta["hints"]["solution"])), effort=Effort(problems=60), strict=True)
    check_hostile(task, 2)
    check_split(task)
    check_read_back(task)


def pairs_of(question: str) -> dict[str, str]:
    found = re.findall(r'\{"([0-9a-f]+)": "([^"]+)"\}', question)
    assert len({key for key, _ in found}) == len(found)  # each key occurs once
    return dict(found)


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_each_chain_leads_to_its_question_in_as_many_hops_as_it_has_lines(level: int) -> None:
    for p in hidden_question().source.draw(range(20), level, Key(1)):
        pairs, chains = pairs_of(p.question), p.meta["chains"]
        assert len(pairs) == sum(map(len, chains))
        for chain, question in zip(chains, p.meta["questions"], strict=True):
            at = chain[0]
            for _ in chain:
                at = pairs[at]
            assert at == question
        assert len(set(p.meta["questions"])) == len(chains)
        assert p.question.rpartition("; ")[2] == chains[0][0]
        assert p.meta["asked"] == p.meta["questions"][0]


def test_facts_answer_every_question_and_the_answers_differ() -> None:
    for p in hidden_question(level=4).source.draw(range(20), 4, Key(2)):
        facts = dict(re.findall(r"(\w+ of \w+) is (\w+)\.", p.question))
        found = []
        for question in p.meta["questions"]:
            *links, at = question.split(" of ")
            for link in reversed(links):
                at = facts[f"{link} of {at}"]
            found.append(at)
        assert found[0] == p.answer
        assert len(set(found)) == 4


@pytest.mark.parametrize(("level", "length"), [(1, 160), (2, 320), (3, 512), (4, 1024), (5, 4096), (6, 16384), (2, 2048)])
def test_every_text_has_its_length(level: int, length: int) -> None:
    for p in hidden_question(level=level, length=length).source.draw(range(30), level, Key(3)):
        assert len(p.question) == pytest.approx(length, rel=0.02)


def test_the_lines_stand_at_different_places() -> None:
    places = set()
    for p in hidden_question(level=4).source.draw(range(10), 4, Key(4)):
        places.add(tuple(p.question.index(f'{{"{key}"') for key in p.meta["chains"][0]))
    assert len(places) == 10


def test_chains_and_depth_can_be_chosen() -> None:
    p = hidden_question(level=3, chains=3, depth=5, length=900).source.draw([0], 3, Key())[0]
    assert [len(chain) for chain in p.meta["chains"]] == [5, 5, 5]
    assert chain_lines(["a", "b", "c"], "q") == ['{"a": "b"}', '{"b": "c"}', '{"c": "q"}']


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(UserError, match=r"task hidden_question: `chains` is 9; give 1 to 8, or 0 for the usual number of the level"):
        hidden_question(chains=9)
    short = needed(2, 2, 2, 4)
    with pytest.raises(UserError, match=rf"`length` is 100, which is too short for the chains and facts; give {short} or more, or give fewer chains"):
        hidden_question(level=3, length=100)
    hidden_question(level=3, length=short)
