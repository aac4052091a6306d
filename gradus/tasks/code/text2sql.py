"""The task text2sql: questions about a database, answered by queries that SQLite runs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from gradus.tasks.code.database_questions import LEVELS, RUNS, drawn, run, schema_of
from gradus.tasks.generated import Draft, generated_task
from gradus.tools.databases import QueryError, read
from gradus.tools.sql import table as written_table
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.parts import Task

TABLES = ("pets", "cars", "shops", "films", "teams")
COLUMNS = ("age", "size", "cost", "year", "rank", "mass")
CITIES = ("rome", "oslo", "lima", "bern", "paris", "cairo", "quito", "tunis")  # the first letters differ
SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "upper": str.upper, "title": str.title, "three": lambda city: city[:3].upper(), "low": lambda city: city[:3], "dot": lambda city: f"{city[:3].title()}.",
    "star": lambda city: f"*{city.upper()}",
}  # fmt: skip
SHOWN = 3  # rows of a result that a demonstration shows
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_BARE = re.compile(r"\s*(select|with)\b", re.IGNORECASE)
_LONGEST = 400  # characters of a query


def text2sql(level: int = 2, database: str = "generated", hidden: bool = False, schema: Literal["asked", "all"] = "asked") -> Task:
    """Makes the task: a query for a question about a database. `level` 1: columns; 2: a column with a condition; 3: a count, sum or largest value with a condition;
    4: a condition, an order and a limit; 5: a condition on another table; 6: counts for each value of a column of another table.

    `database`: "generated", a new small database for each problem; "chinook", the database of a music shop; or the path of an SQLite file. The prompt names
    the tables of the question with their columns; with `schema` "all" the prompt names all tables. Up to level 4, questions about generated databases are
    short: "pets(age,size,cost): age if size=3". All others are in words: "Genre(GenreId,Name): Count Genre where Name is 'Rock'". `hidden` (generated
    databases, levels 2 to 4): the condition is on a city. The table spells the city in one of six ways, so only a query shows the spelling.

    The query is in the last `<answer>` tag, or after the last "=>", or it is the whole answer. The verifier runs this query and the reference query on
    the database, whose rows the prompt does not show. Results are compared as multisets, or in order if the reference has ORDER BY. A query may only
    read. The demonstration first runs a query with the tool `Sql`: the answer itself, or with `hidden` a query that reads the spellings. Then it gives the
    answer.
    """
    if hidden and (database != "generated" or not 2 <= level <= 4):
        raise UserError('text2sql: `hidden` is true, so the condition is on a city; set `database` to "generated" and `level` to 2, 3 or 4')
    if schema not in ("asked", "all"):
        raise UserError(f'text2sql: `schema` is "{schema}"; it must be "asked" or "all"')
    make = partial(_about, database=database, whole=schema == "all") if database != "generated" else partial(_generated, hidden=hidden)
    short = database == "generated" and level <= 4
    return generated_task(
        "text2sql", make, Executed(), level=level, levels=(2, 4) if hidden else LEVELS, max_tokens=120 if short else 300, chance=0.0,
        about='queries for questions: "pets(age,size): age if size=3" -> "<answer>SELECT age FROM pets WHERE size = 3</answer>"; level: clauses',
        provides=("database", "demonstration"),
    )  # fmt: skip


def _generated(rng: random.Random, level: int, hidden: bool = False) -> Draft:
    return _two_tables(rng, level) if level >= 5 else _one_table(rng, level, hidden)


def _one_table(rng: random.Random, level: int, hidden: bool) -> Draft:
    table, columns = rng.choice(TABLES), rng.sample(COLUMNS, 3)
    rows: list[tuple[Any, ...]] = [tuple(rng.randint(1, 6) for _ in columns) for _ in range(8)]
    wanted, other = rng.sample(columns, 2)
    number: Any = rng.choice([row[columns.index(other)] for row in rows])
    sign = rng.choice("=<>")
    kind = rng.choice(("count", "sum", "max")) if level == 3 else ""
    stored = str(number)
    if hidden:
        cities, spelling = rng.sample(CITIES, SHOWN), rng.choice(list(SPELLINGS.values()))
        columns, rows = [c for c in columns if c != other] + ["city"], [(*row[:2], spelling(cities[i % SHOWN])) for i, row in enumerate(rows)]
        other, sign, number = "city", "=", rng.choice(cities)
        stored = f"'{spelling(number)}'"
    asked = f"{kind} {wanted}".strip() + (f" if {other}{sign}{number}" if level >= 2 else "")
    query = f"SELECT {f'{kind.upper()}({wanted})' if kind else wanted} FROM {table}" + (f" WHERE {other} {sign} {stored}" if level >= 2 else "")
    if level == 4:
        first = rng.randint(1, 4)
        asked, query = f"{asked} by {wanted} first {first}", f"{query} ORDER BY {wanted} LIMIT {first}"
    question = f"{table}({','.join(columns)}): {asked}"
    made = script(table, columns, rows)
    trial = f"SELECT DISTINCT city FROM {table}" if hidden else query
    meta = _meta(made, query, trial, kind or "rows", [table, *columns])
    return Draft(question, query, f"<reasoning>{table} {wanted}</reasoning><answer>{query}</answer>", question, meta)


def _two_tables(rng: random.Random, level: int) -> Draft:
    """Draws a database of two tables with a link between them, and a question about both."""
    (one, two), columns = rng.sample(TABLES, 2), rng.sample(COLUMNS, 4)
    near = [(n, rng.randint(1, 6), rng.randint(1, 6)) for n in range(1, 6)]
    far = [(rng.randint(1, 6), rng.randint(1, 6), rng.randint(1, 5)) for _ in range(8)]
    key = one.removesuffix("s")
    made = "; ".join(
        (
            script(one, [f"{key}_id INTEGER PRIMARY KEY", *(f"{c} INTEGER" for c in columns[:2])], near),
            script(two, [*(f"{c} INTEGER" for c in columns[2:]), f"{key}_id INTEGER REFERENCES {one}({key}_id)"], far),
        )
    )
    return _about(rng, level, made, whole=True)


def _about(rng: random.Random, level: int, database: str, whole: bool) -> Draft:
    """Draws a question about a database. `whole`: whether the prompt shows all tables."""
    schema, asked = schema_of(database), drawn(rng, level, database)
    tables = [name for name, _ in schema.tables] if whole else asked.tables
    query = asked.query()
    question = f"{schema.text(tables)}: {asked.words()}"
    names = [*tables, *(column.name for table in tables for column in schema.columns(table))]
    meta = _meta(database, query, query, asked.kind, names)
    return Draft(question, query, f"<reasoning>{' '.join((*asked.tables, *asked.columns))}</reasoning><answer>{query}</answer>", asked.words(), meta)


def _meta(database: str, query: str, trial: str, category: str, names: Sequence[str]) -> Frozen[Any]:
    """Returns the meta of a problem. The demonstration runs `trial` with the tool `Sql`, and then answers."""
    shown = (("", f"sql: {trial}"), (_shown(database, trial), f"answer: {query}"))
    return Frozen(category=category, database=database, names=tuple(dict.fromkeys(names)), reference_query=query, demonstration=shown)


def _shown(database: str, query: str) -> str:
    return written_table(read(database, query, replace(RUNS, rows=SHOWN)))


def script(table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Returns the script that makes a table.

    >>> script("pets", ["age", "city"], [(3, "Rome")])
    "CREATE TABLE pets (age, city); INSERT INTO pets VALUES (3, 'Rome')"
    """
    values = ", ".join(f"({', '.join(map(repr, row))})" for row in rows)
    return f"CREATE TABLE {table} ({', '.join(columns)}); INSERT INTO {table} VALUES {values}"


def query_of(completion: str) -> str | None:
    """Returns the query of a completion: in the last `<answer>` tag, or after the last "=>", or the whole text if it begins with SELECT or WITH."""
    found = _ANSWER.findall(completion[-1000:])
    if found:
        return str(found[-1]).strip()
    _, mark, rest = completion[-_LONGEST:].rpartition("=>")
    if mark:
        return rest.strip()
    return completion.strip() if len(completion) <= _LONGEST and _BARE.match(completion) else None


def same(said: Sequence[Any], due: Sequence[Any], query: str) -> bool:
    """Returns whether two results are equal: in order if the reference `query` has ORDER BY, else as multisets."""
    if re.search(r"\border\s+by\b", query, re.IGNORECASE):
        return list(said) == list(due)
    return sorted(said, key=repr) == sorted(due, key=repr)


@dataclass(frozen=True)
class Executed:
    """A verifier that runs queries."""

    def results(self, problem: Problem, completion: str) -> tuple[str | None, Sequence[Any] | None, Sequence[Any]]:
        """Returns the query, the rows of its result (None if it does not run), and the rows of the reference's result."""
        query, meta = query_of(completion), problem.meta
        ran = None if query is None or len(query) > _LONGEST else run(str(meta["database"]), query)
        due = run(str(meta["database"]), str(meta["reference_query"]))
        if due is None:
            raise QueryError(f"the reference query of {problem.id} does not run")
        return query, None if ran is None else ran.rows, due.rows

    def executed(self, problem: Problem, completion: str) -> tuple[str | None, bool, bool]:
        """Returns the query, whether it runs without an error, and whether its result equals the result of the reference."""
        query, ran, due = self.results(problem, completion)
        return query, ran is not None, ran is not None and same(ran, due, str(problem.meta["reference_query"]))

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        return float(self.executed(problem, completion)[2])
