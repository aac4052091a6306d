"""The task text2sql: queries that run, that fail and that write, results in and out of order."""

from __future__ import annotations

import pytest

from gradus.tasks.code.text2sql import Executed, query_of, result, same, text2sql
from gradus.testing import Effort, check_task
from gradus.types import Key
from tests.tasks.contract import HOSTILE, check_read_back, check_split

ROWS = ((1, 3), (2, 3), (2, 4))


def run(query: str) -> object:
    return result("t", ("a", "b"), ROWS, query)


def test_the_contract() -> None:
    check_task(text2sql(), right=lambda p: [p.meta["solution"]], wrong=lambda p: HOSTILE, effort=Effort(problems=8, texts=100), strict=True)
    check_split(text2sql())
    check_read_back(text2sql())


def test_results_by_hand() -> None:
    assert run("SELECT a FROM t WHERE b = 3") == ((1,), (2,))
    assert run("select sum(a) from t") == ((5,),)
    assert run("SELECT a FROM t ORDER BY b DESC LIMIT 1") == ((2,),)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT c FROM t",
        "DROP TABLE t",
        "DELETE FROM t",
        "ATTACH DATABASE 'x' AS y",
        "PRAGMA table_info(t)",
        "SELECT 1; SELECT 2",
        "SELECT load_extension('x')",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
        "",
        "\x00",
        "SELECT " + "a," * 200 + "a FROM t",
    ],
)
def test_what_does_not_run(query: str) -> None:
    assert not run(query)


def test_the_order_counts_only_if_the_reference_orders() -> None:
    assert same([(1,), (2,)], [(2,), (1,)], "SELECT a FROM t")
    assert not same([(1,), (2,)], [(2,), (1,)], "SELECT a FROM t order  by a")
    assert not same([(1,)], [(1,), (1,)], "SELECT a FROM t")  # as multisets


def test_the_query_of_an_answer() -> None:
    assert query_of("<answer>a</answer><answer> b </answer>") == "b"
    assert [query_of("so => SELECT 1"), query_of("SELECT 1")] == ["SELECT 1", None]
    (p,) = text2sql().source.draw([0], 2, Key(0))
    assert Executed().executed(p, p.meta["solution"]) == (p.answer, True, True)
    assert Executed().executed(p, "none") == (None, False, False)
