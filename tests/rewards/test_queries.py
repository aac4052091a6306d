from __future__ import annotations

from gradus.rewards.queries import schema_overlap, tokens


def test_tokens_by_hand() -> None:
    assert tokens("SELECT a.b\nFROM a WHERE c='X'") == ["select", "a", ".", "b", "from", "a", "where", "c", "=", "'", "x", "'"]


def test_the_overlap_counts_each_name_once_and_no_other_word() -> None:
    assert schema_overlap("SELECT A, a FROM t", "SELECT b FROM t", ["t", "a", "b"]) == 1 / 3
    assert schema_overlap("SELECT ab FROM t", "SELECT a FROM t", ["t", "a"]) == 1 / 2  # ab is another word
    assert schema_overlap("SELECT 1", "SELECT 2", ["t"]) == 1.0
    assert schema_overlap("", "SELECT a FROM t", ["t", "a"]) == 0.0
