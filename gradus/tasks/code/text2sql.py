"""The task text2sql: questions about small tables, answered by queries that SQLite runs on generated rows."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

TABLES = ("pets", "cars", "shops", "films", "teams")
COLUMNS = ("age", "size", "cost", "year", "rank", "mass")
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_LONGEST = 200  # characters of a query
_STEPS = 20_000  # instructions of SQLite's machine that a query may take
_ROWS = 200  # rows of a result that are compared
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}


def text2sql(level: int = 2) -> Task:
    """Makes the task: a query for a question about one table of three columns. `level` 1: a column; 2: with a condition; 3: a count, sum or largest value with a
    condition; 4: in addition, an order and a limit.

    The prompt names the table with its columns, and asks in a few words, such as "pets(age,size,cost): age if size=3". The query is in the last `<answer>` tag, or
    after the last "=>". The verifier runs this query and the reference query on the problem's rows, which the prompt does not show. Results are
    compared as multisets, or in order if the reference has ORDER BY. A query may only read.
    """
    return generated_task(
        "text2sql", _text2sql, Executed(), level=level, levels=(1, 4), max_tokens=120, chance=0.0,
        about='queries for questions: "pets(age,size): age if size=3" -> "<answer>SELECT age FROM pets WHERE size = 3</answer>"; level: clauses',
    )  # fmt: skip


def _text2sql(rng: random.Random, level: int) -> Draft:
    table, columns = rng.choice(TABLES), rng.sample(COLUMNS, 3)
    rows = tuple(tuple(rng.randint(1, 6) for _ in columns) for _ in range(8))
    wanted, other = rng.sample(columns, 2)
    number = rng.choice([row[columns.index(other)] for row in rows])
    sign = rng.choice("=<>")
    kind = rng.choice(("count", "sum", "max")) if level == 3 else ""
    asked = f"{kind} {wanted}".strip() + (f" if {other}{sign}{number}" if level >= 2 else "")
    query = f"SELECT {f'{kind.upper()}({wanted})' if kind else wanted} FROM {table}" + (f" WHERE {other} {sign} {number}" if level >= 2 else "")
    if level == 4:
        first = rng.randint(1, 4)
        asked, query = f"{asked} by {wanted} first {first}", f"{query} ORDER BY {wanted} LIMIT {first}"
    question = f"{table}({','.join(columns)}): {asked}"
    meta = Frozen(category=kind or "rows", table=table, columns=tuple(columns), rows=rows, reference_query=query)
    return Draft(question, query, f"<reasoning>{table} {wanted}</reasoning><answer>{query}</answer>", question, meta)


@lru_cache(maxsize=2048)
def result(table: str, columns: tuple[str, ...], rows: tuple[tuple[int, ...], ...], query: str) -> tuple[tuple[Any, ...], ...] | None:
    """Runs a query on a table in memory. Returns the rows of the result; None if the query fails, writes, or takes too many steps.

    >>> result("pets", ("age",), ((3,), (5,)), "SELECT age FROM pets WHERE age > 3")
    ((5,),)
    """
    if len(query) > _LONGEST:
        return None
    base = sqlite3.connect(":memory:")
    try:
        base.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        base.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)
        base.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY)
        left = iter(range(_STEPS // 100))
        base.set_progress_handler(lambda: int(next(left, None) is None), 100)
        return tuple(base.execute(query).fetchmany(_ROWS))
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError):
        return None
    finally:
        base.close()


def query_of(completion: str) -> str | None:
    """Returns the query of a completion: in the last `<answer>` tag, or after the last "=>"; None if there is no query."""
    found = _ANSWER.findall(completion[-1000:])
    if found:
        return str(found[-1]).strip()
    _, mark, rest = completion[-_LONGEST:].rpartition("=>")
    return rest.strip() if mark else None


def same(said: Sequence[Any], due: Sequence[Any], query: str) -> bool:
    """Returns whether two results are equal: in order if the reference `query` has ORDER BY, else as multisets."""
    if re.search(r"\border\s+by\b", query, re.IGNORECASE):
        return list(said) == list(due)
    return sorted(said, key=repr) == sorted(due, key=repr)


@dataclass(frozen=True)
class Executed:
    """A verifier that runs queries."""

    def executed(self, problem: Problem, completion: str) -> tuple[str | None, bool, bool]:
        """Returns the query, whether it runs without an error, and whether its result equals the result of the reference."""
        query, meta = query_of(completion), problem.meta
        rows = tuple(tuple(row) for row in meta["rows"])
        run = None if query is None else result(str(meta["table"]), tuple(meta["columns"]), rows, query)
        due = result(str(meta["table"]), tuple(meta["columns"]), rows, str(meta["reference_query"]))
        return query, run is not None, run is not None and due is not None and same(run, due, str(meta["reference_query"]))

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        return float(self.executed(problem, completion)[2])
