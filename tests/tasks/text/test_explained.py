"""The task explained: wordings without common word order, and solutions that state every fact."""

from __future__ import annotations

from gradus.rewards.overlap import MEASURES
from gradus.tasks.text.explained import FACTS, POOLS, WORDINGS, explained
from gradus.types import Key
from tests.tasks.contract import check_contract, check_read_back


def test_the_contract() -> None:
    check_contract(explained(), hints=False)
    check_read_back(explained())


def test_all_wordings_state_all_facts_and_differ_from_each_other() -> None:
    problems = explained().source.draw(range(60), 2, Key(0))
    assert {p.meta["solution"].split()[0] for p in problems} > {"in", "this"}  # the wording of the solution is random
    for p in problems:
        texts = p.meta["documents"]
        assert p.meta["solution"] == f"{texts[0]}={p.answer}"
        assert all({value} == set(text.replace(",", "").replace(":", "").split()) & set(POOLS[kind]) for text in texts for kind, value in p.meta["facts"].items())
        assert len(texts) == len(WORDINGS)
        assert all(MEASURES["rouge_l"](a, b) < 0.6 for a in texts for b in texts if a != b)
        shown = p.question.split("? ")[1].split()
        assert dict(zip(shown[::2], shown[1::2], strict=True))[p.answer] in p.meta["facts"].values()
    assert len({value for pool in POOLS.values() for value in pool}) == 24
    assert len(set(FACTS.values())) == 12
    assert all(set(facts) == set(POOLS) and all(value in POOLS[kind] for kind, value in facts.items()) for facts in FACTS.values())
