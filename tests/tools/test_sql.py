"""The tool Sql: results as text, errors as observations, and the database of the problem."""

from __future__ import annotations

import asyncio

import pytest

from gradus.environments.tools import Tools
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tools.databases import Rows
from gradus.tools.forms import TaggedCalls
from gradus.tools.sql import Sql, table
from gradus.tools.tool import Result
from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.spaces import text_inserted

TEN = "CREATE TABLE t (a, b); INSERT INTO t VALUES " + ", ".join(f"({n}, 'word {n}')" for n in range(10))
PROBLEM = Problem("p", "t", meta=Frozen(database=TEN))


def called(query: str, **fields: object) -> Result:
    return Sql(**fields).open(PROBLEM, Key(0), None).call(query)  # type: ignore[arg-type]


def test_results_by_hand() -> None:
    assert called("SELECT a, b FROM t WHERE a = 3") == Result("a|b\n3|word 3")
    assert called("SELECT a FROM t", rows=3) == Result("a\n0\n1\n2\n...")
    assert called("SELECT a FROM t WHERE a > 20") == Result("a")
    assert called("SELECT 'a\nb' AS x, NULL AS y, x'00ff' AS z") == Result("x|y|z\na b|NULL|(2 bytes)")
    assert table(Rows(("a",), (("x" * 20,),)), width=10) == "a\nxxxxxxx..."


def test_an_error_is_an_observation() -> None:
    assert called("DROP TABLE t") == Result("error: refused: only a statement that reads is allowed", ok=False)
    assert called("SELECT c FROM t") == Result("error: no such column: c", ok=False)
    assert called("SELECT 1; SELECT 2").ok is False
    episode = Tools([Sql(rows=3)], form=TaggedCalls()).start(PROBLEM, Key(0), None)  # type: ignore[arg-type]
    turn = asyncio.run(episode.step("<sql>SELECT c FROM t</sql>"))
    assert text_inserted(turn.observation) == "<result>error: no such column: c</result>"
    assert turn.calls == (("sql", False),)


def test_the_database_of_the_tool_comes_first() -> None:
    own = Sql("CREATE TABLE u (c); INSERT INTO u VALUES (7)")
    assert own.open(PROBLEM, Key(0), None).call("SELECT c FROM u") == Result("c\n7")
    with pytest.raises(UserError, match='has no "database"'):
        Sql().open(Problem("p", "t"), Key(0), None)
    with pytest.raises(UserError, match="task arithmetic has none"):
        Sql().check_task(arithmetic())
    Sql(TEN).check_task(arithmetic())


def test_values_out_of_range_are_refused() -> None:
    for fields in ({"seconds": 0}, {"rows": 0}, {"width": 2}, {"engine": "oracle"}):
        with pytest.raises(UserError):
            Sql(**fields)  # type: ignore[arg-type]
