"""Questions about any database, made from its schema and its values, with the queries that answer them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gradus.tools.databases import QueryError, QueryLimits, Rows, read
from gradus.types import UserError

RUNS = QueryLimits(seconds=10.0, steps=2_000_000, rows=10_000, size=4 << 20)  # the limits of a query that is judged
LEVELS = (1, 6)
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_WORDS = frozenset(
    "all and as by case check default desc from group having in index into is join key limit not null on or order primary references select set table to "  # noqa: SIM905
    "union unique values when where".split()
)
_NUMBER = re.compile(r"INT|REAL|FLO|DOU|NUM|DEC", re.IGNORECASE)
_SIGNS = {"=": "is", "<": "is below", ">": "is above"}
_TRIES = 500


@dataclass(frozen=True)
class Column:
    """A column. `number`: whether the column contains numbers. `key`: whether its values identify rows of this table or of another table."""

    name: str
    number: bool
    key: bool


@dataclass(frozen=True)
class Link:
    """A column of a table that points to a column of another table."""

    table: str
    column: str
    to: str
    of: str


@dataclass(frozen=True)
class Schema:
    """The tables of a database with their columns, and the links between tables."""

    tables: tuple[tuple[str, tuple[Column, ...]], ...]
    links: tuple[Link, ...]

    def columns(self, table: str) -> tuple[Column, ...]:
        return dict(self.tables)[table]

    def text(self, tables: Sequence[str]) -> str:
        """Returns these tables with their columns.

        >>> Schema((("pets", (Column("age", True, False), Column("size", True, False))),), ()).text(["pets"])
        'pets(age,size)'
        """
        return " ".join(f"{table}({','.join(column.name for column in columns)})" for table, columns in self.tables if table in tables)


@dataclass(frozen=True)
class Asked:
    """A question: its kind, the columns of a table, and the condition. `link`: the join with the table whose column is used in the condition or gives the
    groups."""

    kind: str  # rows, count, sum, max, or each: a count for each value of a column
    table: str
    columns: tuple[str, ...]
    other: str = ""  # the column of the condition or of the groups
    sign: str = ""  # empty: no condition
    value: Any = None
    first: int | None = None  # the number of rows, in the order of the first column
    link: Link | None = None

    @property
    def beside(self) -> str:
        """The name of the table that has the column `other`."""
        return self.table if self.link is None else self.link.to if self.link.table == self.table else self.link.table

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.table, self.beside)))

    def query(self) -> str:
        """Returns the reference query."""
        far = self.link is not None
        columns = ", ".join(_name(column, self.table if far else "") for column in self.columns)
        other = _name(self.other, self.beside if far else "")
        shown = {"rows": columns, "count": "COUNT(*)", "each": f"{other}, COUNT(*)"}.get(self.kind, f"{self.kind.upper()}({columns})")
        text = f"SELECT {shown} FROM {_name(self.table)}"
        if self.link is not None:
            text += f" JOIN {_name(self.beside)} ON {_name(self.link.column, self.link.table)} = {_name(self.link.of, self.link.to)}"
        text += f" WHERE {other} {self.sign} {written(self.value)}" if self.sign else ""
        text += f" GROUP BY {other}" if self.kind == "each" else ""
        return text + (f" ORDER BY {columns} LIMIT {self.first}" if self.first else "")

    def words(self) -> str:
        """Returns the question in words."""
        of = f" of {self.beside}" if self.link is not None else ""
        begin = {"rows": "List {} of", "count": "Count", "each": "Count", "sum": "Add up {} of", "max": "Find the largest {} of"}[self.kind]
        text = f"{begin.format(' and '.join(self.columns))} {self.table}"
        if self.kind == "each":
            return f"{text} for each {self.other}{of}"
        text += f" where {self.other}{of} {_SIGNS[self.sign]} {written(self.value)}" if self.sign else ""
        return text + (f", the first {self.first} by {self.columns[0]}" if self.first else "")


def drawn(rng: random.Random, level: int, database: str) -> Asked:
    """Draws a question of a level whose answer has at least one row. Raises UserError if the database has no question of this level.

    Level 1: one to three columns. 2: a column with a condition. 3: a count, a sum or the largest value with a condition. 4: a column with a condition, an
    order and a limit. 5: one or two columns with a condition on another table. 6: counts for each value of a column of another table.
    """
    schema = schema_of(database)
    for _ in range(_TRIES):
        asked = _drawn(rng, level, database, schema)
        if asked is not None and (found := run(database, asked.query())) is not None and not found.more and told(found):
            return asked
    raise UserError(f"the database {database[:80]!r} has no question of level {level}; take another level, or a database with more tables and values")


def _drawn(rng: random.Random, level: int, database: str, schema: Schema) -> Asked | None:
    if level >= 5:
        return _joined(rng, level, database, schema)
    table, columns = rng.choice(schema.tables)
    names = [column.name for column in columns]
    if level == 1:
        return Asked("rows", table, tuple(rng.sample(names, min(len(names), rng.randint(1, 3)))))
    other = rng.choice(columns)
    rest = [column for column in columns if column != other]
    condition = _condition(rng, database, table, other)
    if condition is None or not rest:
        return None
    kind = rng.choice(("count", "sum", "max")) if level == 3 else "rows"
    if kind in ("sum", "max"):
        rest = [column for column in rest if column.number and not column.key]
    if not rest:
        return None
    wanted = () if kind == "count" else (rng.choice(rest).name,)
    return Asked(kind, table, wanted, other.name, *condition, first=rng.randint(1, 4) if level == 4 else None)


def _joined(rng: random.Random, level: int, database: str, schema: Schema) -> Asked | None:
    if not schema.links:
        return None
    link = rng.choice(schema.links)
    table, beside = (link.table, link.to) if rng.random() < 0.5 else (link.to, link.table)
    others = [column for column in schema.columns(beside) if not column.key]
    wanted = [column.name for column in schema.columns(table) if not column.key]
    if not others or not wanted:
        return None
    other = rng.choice(others)
    if level == 6:
        return Asked("each", table, (), other.name, link=link)
    condition = _condition(rng, database, beside, other)
    if condition is None:
        return None
    return Asked("rows", table, tuple(rng.sample(wanted, min(len(wanted), rng.randint(1, 2)))), other.name, *condition, link=link)


def _condition(rng: random.Random, database: str, table: str, column: Column) -> tuple[str, Any] | None:
    """Draws a sign and a value of the column. Returns None if the column has no short value."""
    known = values(database, table, column.name)
    if not known:
        return None
    return rng.choice("=<>") if column.number and not column.key else "=", rng.choice(known)


@lru_cache(maxsize=256)
def schema_of(database: str) -> Schema:
    """Reads the schema of a database. Raises UserError if the database has no table."""
    found = read(database, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name", RUNS).rows
    names = [str(name) for (name,) in found]
    if not names:
        raise UserError(f"the database {database[:80]!r} has no table; give a database with tables")
    links = [Link(t, str(row[3]), str(row[2]), str(row[4])) for t in names for row in read(database, f"PRAGMA foreign_key_list({_quoted(t)})", RUNS).rows if row[4]]
    links = sorted((link for link in links if link.table != link.to), key=repr)
    keys = {(link.table, link.column) for link in links} | {(link.to, link.of) for link in links}
    tables = []
    for table in names:
        rows = read(database, f"PRAGMA table_info({_quoted(table)})", RUNS).rows
        columns = (Column(str(row[1]), bool(_NUMBER.search(str(row[2]))), bool(row[5]) or (table, str(row[1])) in keys) for row in rows)
        tables.append((table, tuple(columns)))
    return Schema(tuple(tables), tuple(links))


@lru_cache(maxsize=4096)
def values(database: str, table: str, column: str) -> tuple[Any, ...]:
    """Returns the different values of a column that a question can name: numbers, and short ASCII texts without quotes."""
    name = _name(column)
    found = read(database, f"SELECT DISTINCT {name} FROM {_name(table)} WHERE {name} IS NOT NULL ORDER BY {name}", RUNS).rows
    return tuple(value for (value,) in found if not isinstance(value, bytes) and _short(str(value)))


def _short(text: str) -> bool:
    return 0 < len(text) <= 12 and text.isascii() and text.isprintable() and "'" not in text and text == text.strip()


def written(value: Any) -> str:
    """Returns the form of a value in a query."""
    return f"'{value}'" if isinstance(value, str) else str(value)


def _name(name: str, table: str = "") -> str:
    """Returns the form of a name in a query. The name is in quotes only if necessary."""
    text = name if _PLAIN.fullmatch(name) and name.lower() not in _WORDS else _quoted(name)
    return f"{_name(table)}.{text}" if table else text


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def told(found: Rows) -> bool:
    """Returns whether a result has a value."""
    return any(value is not None for row in found.rows for value in row)


@lru_cache(maxsize=1024)
def run(database: str, query: str) -> Rows | None:
    """Runs a query within the limits `RUNS`. Returns None if the query fails."""
    try:
        return read(database, query, RUNS)
    except QueryError:
        return None
