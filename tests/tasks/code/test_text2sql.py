"""The task text2sql: the contract, questions of each level, hidden spellings, the music shop, and what is judged right."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from gradus.environments.tools import Tools
from gradus.tasks.code.database_questions import Asked, Link, drawn, run, schema_of
from gradus.tasks.code.text2sql import CITIES, SPELLINGS, Executed, query_of, same, script, text2sql
from gradus.testing import Effort, check_task
from gradus.tools.sql import Sql
from gradus.types import Frozen, Key, Problem, UserError
from tests.tasks.contract import HOSTILE, check_read_back, check_split

BASE = script("t", ("a", "b"), ((1, 3), (2, 3), (2, 4)))
SHOP = (
    "CREATE TABLE artist (artist_id INTEGER PRIMARY KEY, name TEXT); INSERT INTO artist VALUES (1, 'Ann'), (2, 'Bob');"
    "CREATE TABLE album (title TEXT, year INTEGER, artist_id INTEGER REFERENCES artist(artist_id));"
    "INSERT INTO album VALUES ('x', 1999, 1), ('y', 2001, 1), ('z', 2001, 2)"
)
LINK = Link("album", "artist_id", "artist", "artist_id")


def verdict(query: str, reference: str, base: str = BASE) -> float:
    problem = Problem("p", "text2sql", meta=Frozen(database=base, reference_query=reference))
    return Executed()(problem, f"<answer>{query}</answer>")


def test_the_contract() -> None:
    check_task(text2sql(), right=lambda p: [p.meta["solution"]], wrong=lambda p: HOSTILE, effort=Effort(problems=8, texts=100), strict=True)
    check_split(text2sql())
    check_read_back(text2sql())


@pytest.mark.parametrize("options", [{"hidden": True}, {"database": "chinook", "level": 1}, {"database": "chinook", "level": 6, "schema": "all"}])
def test_solutions_of_the_variants_are_right(options: dict[str, object]) -> None:
    task = text2sql(**options)  # type: ignore[arg-type]
    low, high = task.source.levels  # type: ignore[attr-defined]
    for level in range(low, high + 1):
        for p in [*task.source.draw(range(12), level, Key(0)), *task.held_out.draw(range(4), level, Key(0))]:
            assert task.verify(p, p.meta["solution"]) == 1.0  # type: ignore[misc]
            assert task.verify(p, p.answer) == 1.0  # type: ignore[misc]
            assert task.verify(p, "<answer>SELECT 1 WHERE 0</answer>") == 0.0  # type: ignore[misc]
            assert len(p.meta["solution"]) < task.sampling.max_tokens
            assert (p.question + p.meta["solution"]).isascii()


def test_questions_and_queries_by_hand() -> None:
    schema = schema_of(SHOP)
    assert schema.links == (LINK,)
    assert schema.text(["album"]) == "album(title,year,artist_id)"
    assert [(c.name, c.number, c.key) for c in schema.columns("album")] == [("title", False, False), ("year", True, False), ("artist_id", True, True)]
    rows = Asked("rows", "album", ("title",), "year", ">", 2000)
    assert (rows.words(), rows.query()) == ("List title of album where year is above 2000", "SELECT title FROM album WHERE year > 2000")
    assert run(SHOP, rows.query()).rows == (("y",), ("z",))  # type: ignore[union-attr]
    first = Asked("rows", "album", ("title",), "year", "=", 2001, first=1)
    assert first.words() == "List title of album where year is 2001, the first 1 by title"
    assert first.query() == "SELECT title FROM album WHERE year = 2001 ORDER BY title LIMIT 1"
    far = Asked("rows", "album", ("title", "year"), "name", "=", "Ann", link=LINK)
    assert far.words() == "List title and year of album where name of artist is 'Ann'"
    assert far.query() == "SELECT album.title, album.year FROM album JOIN artist ON album.artist_id = artist.artist_id WHERE artist.name = 'Ann'"
    assert run(SHOP, far.query()).rows == (("x", 1999), ("y", 2001))  # type: ignore[union-attr]
    back = Asked("rows", "artist", ("name",), "year", "=", 1999, link=LINK)
    assert back.query() == "SELECT artist.name FROM artist JOIN album ON album.artist_id = artist.artist_id WHERE album.year = 1999"
    each = Asked("each", "album", (), "name", link=LINK)
    assert each.words() == "Count album for each name of artist"
    assert run(SHOP, each.query()).rows == (("Ann", 2), ("Bob", 1))  # type: ignore[union-attr]
    assert Asked("max", "album", ("year",), "title", "=", "x").query() == "SELECT MAX(year) FROM album WHERE title = 'x'"
    assert Asked("count", "album", (), "year", "<", 2000).words() == "Count album where year is below 2000"


def test_names_are_quoted_if_necessary() -> None:
    base = 'CREATE TABLE "order" ("the day" TEXT, size INTEGER); INSERT INTO "order" VALUES (\'Mon\', 3)'
    asked = Asked("rows", "order", ("the day",), "size", "=", 3)
    assert asked.query() == 'SELECT "the day" FROM "order" WHERE size = 3'
    assert run(base, asked.query()).rows == (("Mon",),)  # type: ignore[union-attr]
    assert drawn(Key(0).random(), 2, base).table == "order"
    with pytest.raises(UserError, match="no question of level 5"):
        drawn(Key(0).random(), 5, base)
    with pytest.raises(UserError, match="no table"):
        schema_of("CREATE VIEW v AS SELECT 1")


def test_a_database_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    base = sqlite3.connect(path)
    base.executescript(SHOP)
    base.close()
    (p,) = text2sql(5, database=str(path), schema="all").source.draw([0], 5, Key(0))
    assert p.question.startswith("album(title,year,artist_id) artist(artist_id,name): List ")
    assert Executed()(p, p.answer) == 1.0
    with pytest.raises(UserError, match="there is no database"):
        text2sql(database=str(tmp_path / "none.sqlite")).source.draw([0], 2, Key(0))


def test_hidden_spellings_differ_and_only_the_table_shows_them() -> None:
    seen = Counter()
    for p in text2sql(hidden=True).source.draw(range(60), 2, Key(0)):
        asked = p.question.rpartition("=")[2]
        stored = p.answer.rpartition("= ")[2].strip("'")
        assert asked in CITIES
        assert stored != asked
        (_, trial), (told, answer) = p.meta["demonstration"]
        assert trial == f"sql: SELECT DISTINCT city FROM {p.question.partition('(')[0]}"
        assert stored in told.split("\n")[1:]
        assert answer == f"answer: {p.answer}"
        seen[next(name for name, spell in SPELLINGS.items() if spell(asked) == stored)] += 1
    assert min(seen[name] for name in SPELLINGS) > 2
    assert all(len({spell(city) for spell in SPELLINGS.values()}) == len(SPELLINGS) for city in CITIES)
    for wrong in ({"level": 1}, {"level": 5}, {"database": "chinook"}):
        with pytest.raises(UserError, match="hidden"):
            text2sql(hidden=True, **wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match='"some"'):
        text2sql(schema="some")  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"hidden": True}, {"database": "chinook", "level": 5}])
def test_the_demonstration_wins_with_the_tool(options: dict[str, object]) -> None:
    task = text2sql(**options)  # type: ignore[arg-type]
    environment = Tools([Sql(rows=3)], verify=task.verify)  # type: ignore[arg-type]
    environment.check_task(task)
    for p in task.source.draw(range(5), task.level, Key(1)):
        episode, pairs = environment.start(p, Key(0), None), environment.demonstration(p)
        first, last = (asyncio.run(episode.step(action)) for _, action in pairs)
        assert first.observation == pairs[1][0]
        assert first.calls == (("sql", True),)
        assert (last.reward, last.terminated) == (1.0, True)


def test_what_runs_and_what_does_not() -> None:
    assert verdict("select b from t where a = 2", "SELECT b FROM t WHERE a = 2") == 1.0
    assert verdict("SELECT a FROM t", "SELECT a FROM t WHERE b = 3") == 0.0  # one row too many
    assert verdict("SELECT DISTINCT a FROM t", "SELECT a FROM t") == 0.0  # as multisets
    assert verdict("SELECT a FROM t ORDER BY a DESC", "SELECT a FROM t") == 1.0
    assert verdict("SELECT a FROM t ORDER BY b DESC", "SELECT a FROM t ORDER BY b") == 0.0
    for query in ("DELETE FROM t", "SELECT 1; SELECT 2", "ATTACH 'x' AS y", "SELECT c FROM t", "", "SELECT " + "a," * 300 + "a FROM t"):
        problem = Problem("p", "t", meta=Frozen(database=BASE, reference_query="SELECT a FROM t"))
        assert Executed().executed(problem, f"<answer>{query}</answer>")[1:] == (False, False)


def test_the_order_counts_only_if_the_reference_orders() -> None:
    assert same([(1,), (2,)], [(2,), (1,)], "SELECT a FROM t")
    assert not same([(1,), (2,)], [(2,), (1,)], "SELECT a FROM t order  by a")
    assert not same([(1,)], [(1,), (1,)], "SELECT a FROM t")  # as multisets


def test_the_query_of_an_answer() -> None:
    assert query_of("<answer>a</answer><answer> b </answer>") == "b"
    assert [query_of("so => SELECT 1"), query_of(" select 1"), query_of("so SELECT 1")] == ["SELECT 1", "select 1", None]
    (p,) = text2sql().source.draw([0], 2, Key(0))
    assert Executed().executed(p, p.meta["solution"]) == (p.answer, True, True)
    assert Executed().executed(p, "none") == (None, False, False)
