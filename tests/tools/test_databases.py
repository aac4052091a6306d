"""Statements on databases: results by hand, what is refused, the limits, and hostile statements."""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path

import pytest

from gradus.tools import databases
from gradus.tools.databases import QueryError, QueryLimits, Rows, read
from gradus.types import UserError

PETS = "CREATE TABLE pets (name TEXT, age INTEGER); INSERT INTO pets VALUES ('Ann', 3), ('Bob', NULL), ('Cem', 5)"
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "


@pytest.fixture(params=["script", "file"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "script":
        return PETS
    path = tmp_path / "a ?b#.sqlite"
    base = sqlite3.connect(path)
    base.executescript(PETS)
    base.close()
    return str(path)


def test_results_by_hand(database: str) -> None:
    assert read(database, "SELECT name, age FROM pets WHERE age > 3") == Rows(("name", "age"), (("Cem", 5),))
    assert read(database, "select count(*), max(age) from pets;").rows == ((3, 5),)
    assert read(database, "SELECT age FROM pets ORDER BY age").rows == ((None,), (3,), (5,))
    assert read(database, "SELECT 1 WHERE 0") == Rows(("1",), ())
    assert read(database, "WITH p AS (SELECT age a FROM pets) SELECT sum(a) FROM p").rows == ((8,),)
    assert read(database, ENDLESS + "SELECT n FROM r LIMIT 3").rows == ((1,), (2,), (3,))  # a recursion with an end is allowed
    assert [row[1] for row in read(database, "PRAGMA table_info(pets)").rows] == ["name", "age"]
    assert read(database, "SELECT name FROM sqlite_master").rows == (("pets",),)


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH DATABASE '{path}' AS other",
        "ATTACH DATABASE ':memory:' AS other",
        "VACUUM INTO '{path}'",
        "VACUUM",
        "DETACH main",
        "DELETE FROM pets",
        "UPDATE pets SET age = 1",
        "INSERT INTO pets VALUES ('Dea', 1)",
        "INSERT INTO pets VALUES ('Dea', 1) RETURNING age",
        "DROP TABLE pets",
        "CREATE TABLE more (a)",
        "CREATE TEMP TABLE more (a)",
        "CREATE TEMP VIEW more AS SELECT 1",
        "CREATE VIRTUAL TABLE more USING fts5(a)",
        "ALTER TABLE pets ADD COLUMN more",
        "REINDEX",
        "ANALYZE",
        "BEGIN",
        "SAVEPOINT one",
        "COMMIT",
        "PRAGMA query_only = OFF",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA writable_schema = ON",
        "PRAGMA temp_store_directory = '/'",
        "PRAGMA hard_heap_limit = 1",
        "PRAGMA user_version",
        "SELECT load_extension('{path}')",
        "SELECT fts3_tokenizer('a')",
        "SELECT writefile('{path}', 'a')",
        "SELECT * FROM pragma_user_version",
        "SELECT 1; SELECT 2",
        "SELECT 1; DELETE FROM pets",
        "SELECT nothing FROM pets",
        "",
        "-- nothing",
        ";",
        "\x00",
        "SELECT '\ud800'",
        "SELECT 9999999999999999999999 -",
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELECT " + "1," * 20_000 + "1",
        " UNION ALL ".join(["SELECT 1"] * 500),
        "SELECT abs(-9223372036854775808)",
        "SELECT ?",
        "EXPLAIN DELETE FROM pets",
    ],
)
def test_what_is_refused(database: str, statement: str, tmp_path: Path) -> None:
    with pytest.raises(QueryError) as told:
        read(database, statement.replace("{path}", str(tmp_path / "made")))
    assert str(told.value)
    assert not (tmp_path / "made").exists()
    assert read(database, "SELECT count(*) FROM pets").rows == ((3,),)  # nothing has changed, and the next statement runs


@pytest.mark.parametrize(
    "statement",
    [
        ENDLESS + "SELECT n FROM r WHERE n < 0",
        ENDLESS + "SELECT count(*) FROM r",
        ENDLESS + "SELECT max(a.n) FROM r a, r b",
        "SELECT count(*) FROM pets " + " ".join(f", pets p{i}" for i in range(30)),
    ],
)
def test_the_time_ends_a_statement(database: str, statement: str) -> None:
    begin = time.monotonic()
    with pytest.raises(QueryError, match=r"longer than 0\.05 seconds"):
        read(database, statement, QueryLimits(seconds=0.05))
    assert time.monotonic() - begin < 5
    with pytest.raises(QueryError, match="more than 20000 steps"):
        read(database, statement, QueryLimits(steps=20_000))
    assert read(database, "SELECT 1").rows == ((1,),)


@pytest.mark.parametrize(
    "value", ["zeroblob(10000000)", "randomblob(10000000)", "hex(zeroblob(900000))", "replace(hex(zeroblob(9000)), '0', hex(zeroblob(9000)))"]
)
def test_a_value_of_ten_megabytes_is_never_made(database: str, value: str) -> None:
    with pytest.raises(QueryError, match="too big"):
        read(database, f"SELECT {value}")


def test_a_large_result_loses_its_end(database: str) -> None:
    many = read(database, ENDLESS + "SELECT n FROM r", QueryLimits(rows=10))
    assert (many.rows, many.more) == (tuple((n,) for n in range(1, 11)), True)
    assert read(database, ENDLESS + "SELECT n FROM r LIMIT 10", QueryLimits(rows=10)).more is False
    wide = read(database, ENDLESS + "SELECT zeroblob(100000) FROM r", QueryLimits(rows=1000, size=250_000))
    assert ([len(row[0]) for row in wide.rows], wide.more) == ([100_000, 100_000], True)


def test_bytes_that_are_no_text_are_replaced(database: str) -> None:
    assert read(database, "SELECT CAST(x'ff41' AS TEXT), x'ff'").rows == (("\ufffdA", b"\xff"),)


def test_a_database_that_is_missing_or_broken(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="built-in database: chinook"):
        read("nowhere.sqlite", "SELECT 1")
    (tmp_path / "text.sqlite").write_text("no database" * 100)
    with pytest.raises(UserError, match="cannot be opened"):
        read(str(tmp_path / "text.sqlite"), "SELECT 1")
    with pytest.raises(UserError, match="cannot be opened"):
        read("CREATE TABLE", "SELECT 1")


def test_chinook_is_built_in() -> None:
    assert read("chinook", "SELECT count(*) FROM Track").rows == ((3503,),)
    assert read("chinook", "SELECT count(*) FROM sqlite_master WHERE type = 'table'").rows == ((11,),)
    with pytest.raises(QueryError, match="refused"):
        read("chinook", "DELETE FROM Track")


def test_a_missing_duckdb_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UserError, match=r"gradus\[duckdb\]"):
        read(PETS, "SELECT 1", engine="duckdb")


class TestDuckDB:
    @pytest.fixture(autouse=True)
    def _needs(self) -> None:
        pytest.importorskip("duckdb")

    def test_results_by_hand(self, tmp_path: Path) -> None:
        import duckdb

        assert read(PETS, "SELECT name, age FROM pets WHERE age > 3", engine="duckdb") == Rows(("name", "age"), (("Cem", 5),))
        path = tmp_path / "pets.duckdb"
        with duckdb.connect(str(path)) as base:
            base.execute(PETS)
        assert read(str(path), "SELECT sum(age) FROM pets", engine="duckdb").rows == ((8,),)
        assert read(PETS, "SELECT * FROM range(100)", QueryLimits(rows=2), "duckdb") == Rows(("range",), ((0,), (1,)), more=True)
        with pytest.raises(UserError, match="SQLite file"):
            read("chinook", "SELECT 1", engine="duckdb")

    @pytest.mark.parametrize(
        "statement",
        [
            "ATTACH '{path}' AS other",
            "COPY pets TO '{path}'",
            "COPY (SELECT 1) TO '{path}'",
            "SELECT * FROM read_csv('/etc/passwd')",
            "SELECT * FROM '/etc/passwd'",
            "SELECT * FROM read_text('/etc/passwd')",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access = true",
            "PRAGMA enable_profiling",
            "DELETE FROM pets",
            "CREATE TABLE more (a INTEGER)",
            "EXPORT DATABASE '{path}'",
            "SELECT 1; SELECT 2",
            "SELECT nothing FROM pets",
            "",
        ],
    )
    def test_what_is_refused(self, statement: str, tmp_path: Path) -> None:
        with pytest.raises(QueryError):
            read(PETS, statement.replace("{path}", str(tmp_path / "made")), engine="duckdb")
        assert not list(tmp_path.iterdir())

    def test_the_time_ends_a_statement(self) -> None:
        with pytest.raises(QueryError, match=r"longer than 0\.1 seconds"):
            read(PETS, "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = -1", QueryLimits(seconds=0.1), "duckdb")


def test_the_licence_lies_beside_the_database() -> None:
    assert "Luis Rocha" in Path(databases.__file__).with_name("chinook_licence.txt").read_text(encoding="utf-8")
