"""The task explained: facts of a text by hand, wordings without common word order, and solutions that state every fact."""

from __future__ import annotations

from gradus.rewards.overlap import MEASURES
from gradus.tasks.text.explained import POOLS, WORDINGS, explained, stated
from gradus.types import Frozen, Key, Problem
from tests.tasks.contract import check_contract, check_read_back


def test_the_contract() -> None:
    check_contract(explained(), hints=False)
    check_read_back(explained())


def test_stated_facts_by_hand() -> None:
    p = Problem("p", "explained", text="", answer="B", meta=Frozen(facts=Frozen(job="baker", town="veld", pet="cat")))
    assert stated(p, "in veld the baker bob keeps one cat=B") == 1.0
    assert stated(p, "cat veld baker") == 1.0  # the order and the wording do not matter
    assert stated(p, "in kast the baker bob keeps one cat=B") == 2 / 3  # a wrong town
    assert stated(p, "in veld or kast the baker bob keeps one cat=B") == 2 / 3  # two towns
    assert stated(p, "=B cat") == stated(p, "=B") == 0.0  # only the text before the last mark counts


def test_all_wordings_state_all_facts_and_differ_from_each_other() -> None:
    problems = explained().source.draw(range(60), 2, Key(0))
    assert {p.meta["solution"].split()[0] for p in problems} > {"in", "this"}  # the wording of the solution is random
    for p in problems:
        texts = p.meta["documents"]
        assert p.meta["solution"] == f"{texts[0]}={p.answer}"
        assert [stated(p, text) for text in texts] == [1.0] * len(WORDINGS)
        assert all(MEASURES["rouge_l"](a, b) < 0.6 for a in texts for b in texts if a != b)
        shown = p.question.split("? ")[1].split()
        assert dict(zip(shown[::2], shown[1::2], strict=True))[p.answer] in p.meta["facts"].values()
    assert len({value for pool in POOLS.values() for value in pool}) == 24
