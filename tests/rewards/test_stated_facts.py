"""The share of stated facts by hand."""

from __future__ import annotations

from dataclasses import replace

from gradus.rewards.stated_facts import StatedFacts
from gradus.testing.methods import toy_trajectory
from gradus.types import NOT_APPLICABLE, Frozen


def test_stated_facts_by_hand() -> None:
    pools = Frozen(job=("baker", "nurse"), town=("veld", "kast"), pet=("cat", "hen"))
    meta = Frozen(facts=Frozen(job="baker", town="veld", pet="cat"), pools=pools)
    texts = ("in veld the baker bob keeps one cat=B", "cat, veld: baker", "in kast the baker bob keeps one cat=B", "veld or kast, baker cat=B", "=B cat", "=B")
    t = toy_trajectory([1])
    rows = [t.but(problem=replace(t.problem, meta=meta), completion=text) for text in texts]
    # all facts; the order does not matter; a wrong town; two towns; nothing before the last mark
    assert [StatedFacts().value(row) for row in rows] == [1.0, 1.0, 2 / 3, 2 / 3, 0.0, 0.0]
    assert StatedFacts().value(t) is NOT_APPLICABLE
