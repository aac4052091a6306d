"""Runs single statements that read a database. SQLite is part of Python; DuckDB is an extra.

A database is the name of a built-in database, the path of a file, or a script that begins with CREATE and makes the database in memory. A statement can
neither write nor open a file.
"""

from __future__ import annotations

import lzma
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from gradus.types import UserError
from gradus.types.ranges import check_ranges

BUILT_IN = ("chinook",)  # Luis Rocha's music shop, 11 tables; MIT licence, in chinook_licence.txt
Engine = Literal["sqlite", "duckdb"]

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_PRAGMAS = {"table_info", "table_xinfo", "foreign_key_list", "index_list", "index_info"}  # these pragmas describe the schema
_TICK = 1000  # number of instructions between two checks of the limits
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,  # largest length of a value, because SQLite does not check the time while it makes a value
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 10_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}


class QueryError(Exception):
    """The error for a statement that was refused, failed or took too long. The text is the reason, which a player may see."""


@dataclass(frozen=True)
class QueryLimits:
    """The limits of a statement. If a result exceeds `rows` or `size`, its end is left out."""

    seconds: float = 2.0
    steps: int | None = None  # largest number of instructions of SQLite's virtual machine; this limit does not depend on the computer's speed; None: no limit
    rows: int = 1000
    size: int = 1 << 20  # largest number of characters and bytes of all values together

    def __post_init__(self) -> None:
        check_ranges(self, seconds="(0, inf)", steps="[1, inf)", rows="[1, inf)", size="[1, inf)")


@dataclass(frozen=True)
class Rows:
    """The result of a statement: the names of the columns, and the rows. `more`: whether the end of the result was left out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool = False


def read(database: str, statement: str, limits: QueryLimits = QueryLimits(), engine: Engine = "sqlite") -> Rows:
    """Runs one statement and returns its result.

    Raises: QueryError if the text is not a single statement that reads, if the statement fails, or if it takes too long. UserError if there is no such
    database.

    >>> read("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)", "SELECT a FROM t WHERE a > 1")
    Rows(columns=('a',), rows=((2,),), more=False)
    """
    return _by_duckdb(database, statement, limits) if engine == "duckdb" else _by_sqlite(database, statement, limits)


def _by_sqlite(database: str, statement: str, limits: QueryLimits) -> Rows:
    base = _opened(database, threading.get_ident())
    end, ticks, late = time.monotonic() + limits.seconds, 0, ""

    def look() -> int:
        nonlocal ticks, late
        ticks += 1
        if limits.steps is not None and ticks * _TICK > limits.steps:
            late = f"stopped: it took more than {limits.steps} steps"
        elif time.monotonic() > end:
            late = f"stopped: it took longer than {limits.seconds:g} seconds"
        return int(bool(late))

    base.set_progress_handler(look, _TICK)
    try:
        with closing(base.cursor()) as cursor:
            cursor.execute(statement)
            return _result(cursor.description, cursor, limits)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
        raise QueryError(late or _reason(error)) from None
    finally:
        base.set_progress_handler(None, 0)


def _result(description: Any, found: Iterable[tuple[Any, ...]], limits: QueryLimits) -> Rows:
    """Returns the rows of a cursor, up to the limits. Raises QueryError for a statement without a result."""
    if not description:
        raise QueryError("this is no statement that reads; write a SELECT")
    rows, size, more = list[tuple[Any, ...]](), 0, False
    for row in found:
        size += sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
        if len(rows) == limits.rows or size > limits.size:
            more = True
            break
        rows.append(tuple(row))
    return Rows(tuple(str(column[0]) for column in description), tuple(rows), more)


def _reason(error: BaseException) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_AUTH" or "prohibited" in str(error):
        return "refused: only a statement that reads is allowed"
    return str(error) or type(error).__name__


@lru_cache(maxsize=64)
def _opened(database: str, thread: int) -> sqlite3.Connection:
    """Opens a database for one thread. Statements cannot change the connection, so all of them share it."""
    try:
        base = _connected(database)
        base.text_factory = lambda raw: raw.decode("utf-8", "replace")
        base.isolation_level = None
        base.execute("PRAGMA query_only = ON")
        base.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except sqlite3.Error as error:
        raise UserError(f"the database {database[:80]!r} cannot be opened: {error}; give an SQLite file, or a script that begins with CREATE") from None
    for limit, most in _LIMITS.items():
        base.setlimit(limit, most)
    base.set_authorizer(_permission)
    return base


def _permission(action: int, one: str | None, two: str | None, *_: Any) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        allowed = two not in ("load_extension", "fts3_tokenizer")
    elif action == sqlite3.SQLITE_PRAGMA:
        allowed = one in _PRAGMAS
    else:
        allowed = action in _ALLOWED
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _connected(database: str) -> sqlite3.Connection:
    if is_script(database):
        base = sqlite3.connect(":memory:")
        base.executescript(database)
        return base
    if database in BUILT_IN:
        base = sqlite3.connect(":memory:")
        base.deserialize(_packed(database))
        return base
    return sqlite3.connect(f"{existing(database).resolve().as_uri()}?mode=ro", uri=True)


def is_script(database: str) -> bool:
    """Returns whether a database is given as a script."""
    return database.lstrip()[:7].upper() == "CREATE "


def existing(database: str) -> Path:
    """Returns the path of a database. Raises UserError if there is no such file."""
    path = Path(database).expanduser()
    if not path.is_file():
        raise UserError(f"there is no database {database[:200]!r}; give the path of a file, or a built-in database: {', '.join(BUILT_IN)}")
    return path


@lru_cache(maxsize=1)
def _packed(name: str) -> bytes:
    return lzma.decompress(Path(__file__).with_name(f"{name}.sqlite.xz").read_bytes())


def _by_duckdb(database: str, statement: str, limits: QueryLimits) -> Rows:
    try:
        import duckdb
    except ImportError as error:
        raise UserError('engine "duckdb" uses the package duckdb, which is not installed: pip install "gradus[duckdb]"') from error
    with closing(_duckdb_opened(database)) as base, _interrupted_after(limits.seconds, base.interrupt) as late:
        try:
            statements = base.extract_statements(statement)
            if len(statements) != 1:
                raise QueryError(f"{len(statements)} statements were given; write one")
            if statements[0].type != duckdb.StatementType.SELECT:
                raise QueryError("refused: only a statement that reads is allowed")
            cursor = base.execute(statements[0])
            return _result(cursor.description, _one_by_one(cursor), limits)
        except (duckdb.Error, ValueError, RuntimeError, OverflowError, MemoryError) as error:
            raise QueryError(f"stopped: it took longer than {limits.seconds:g} seconds" if late.is_set() else str(error)) from None


def _duckdb_opened(database: str) -> Any:
    import duckdb

    if database in BUILT_IN:
        raise UserError(f'the built-in database {database} is an SQLite file; take engine "sqlite"')
    made = is_script(database)
    config: dict[str, Any] = {"memory_limit": "256MB", "threads": "1", "temp_directory": ""}
    base = duckdb.connect(":memory:" if made else str(existing(database)), read_only=not made, config=config)
    if made:
        base.execute(database)
    for name in ("enable_external_access = false", "autoinstall_known_extensions = false", "autoload_known_extensions = false", "lock_configuration = true"):
        base.execute(f"SET {name}")
    return base


def _one_by_one(cursor: Any) -> Iterator[tuple[Any, ...]]:
    while (row := cursor.fetchone()) is not None:
        yield row


@contextmanager
def _interrupted_after(seconds: float, interrupt: Any) -> Iterator[threading.Event]:
    """Calls `interrupt` after `seconds`. Yields an event, which is set at this call."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        interrupt()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
