"""The statements of a document by category, and documents of another form."""

from __future__ import annotations

import pytest

from gradus.rollouts.rule_documents import assumed, leaves, parsed
from gradus.types import UserError

FACTS = "fact: tier is silver unless stated\nfact: size is small unless stated\nfact: refunds take a day\n"
RULES = "rule: begin with the topic\nrule: end with thanks\n"
FLAT = "on delay: if tier is gold (refund) else (deny)\n"
DEEP = "on return: if tier is gold (if size is big (mail hold) else (swap)) else (deny)"
DOCUMENT = f"desk kora\n{FACTS}{RULES}{FLAT}{DEEP}"


def test_the_categories_by_hand():
    s = parsed(DOCUMENT)
    assert [len(part) for part in (s.facts, s.rules, s.simple, s.complex)] == [3, 2, 1, 1]
    assert (s.name, s.simple[0][0], s.complex[0][0]) == ("desk kora", "delay", "return")
    assert assumed(s) == {"tier": "silver", "size": "small"}
    assert s.complex[0][1] == (
        ((("tier", "gold", True), ("size", "big", True)), "mail hold"),
        ((("tier", "gold", True), ("size", "big", False)), "swap"),
        ((("tier", "gold", False),), "deny"),
    )
    assert [len(part) for part in (parsed(DOCUMENT, depth=2).simple, parsed(DOCUMENT, depth=0).complex)] == [2, 2]


def test_bad_documents_are_named():
    with pytest.raises(UserError, match="the line 'tier is gold'"):
        parsed("desk kora\ntier is gold")
    with pytest.raises(UserError, match="no other branch"):
        parsed("desk kora\non delay: if tier is gold (refund)")
    assert list(leaves("deny")) == [((), "deny")]
