"""A tool that runs SQL statements on a database. A statement can only read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.tools.databases import Engine, QueryError, QueryLimits, Rows, read
from gradus.tools.tool import Result
from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Sql:
    """Runs one statement and shows the names of the columns and the first `rows` rows. The database is `database`, or the database of the problem.

    A statement fails if it writes, opens another file, or takes longer than `seconds`. The player then sees the reason. `database` is a path, a
    script that begins with CREATE, or "chinook".
    """

    database: str | None = None  # None: the problem's own database, `meta["database"]`
    engine: Engine = "sqlite"  # "sqlite", or "duckdb" with the package duckdb
    seconds: float = 2.0
    rows: int = 20
    width: int = 60  # characters of a value that are shown
    name: str = "sql"
    about: ClassVar[str] = "Runs one SQL statement that reads the database, and returns the first rows."
    parameters: ClassVar[Mapping[str, Any]] = Frozen(
        type="object", properties={"query": {"type": "string", "description": "the statement"}}, required=["query"]
    )
    recorded: ClassVar[bool] = True
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self, seconds="(0, inf)", rows="[1, inf)", width="[4, inf)")
        if self.engine not in ("sqlite", "duckdb"):
            raise UserError(f'Sql.engine is "{self.engine}"; it must be "sqlite" or "duckdb"')

    def check_task(self, task: Task) -> None:
        """Raises UserError if neither the tool nor the task has a database."""
        if self.database is None and "database" not in task.provides:
            raise UserError(f"the tool Sql has no database, and task {task.name} has none; take the task text2sql, or set the tool's database")

    def open(self, problem: Problem, key: Key, world: World | None) -> Querying:
        found = self.database or problem.meta.get("database")
        if not isinstance(found, str):
            raise UserError(f'problem {problem.id} has no "database"; set the database of the tool Sql')
        return Querying(found, self)


@dataclass(frozen=True)
class Querying:
    """A session, which has no state."""

    database: str
    settings: Sql

    def call(self, query: str) -> Result:
        """Returns the result of a statement as text, or the reason why there is no result."""
        one = self.settings
        try:
            found = read(self.database, query, QueryLimits(one.seconds, rows=one.rows), one.engine)
        except QueryError as error:
            return Result(f"error: {error}", ok=False)
        return Result(table(found, one.width))

    def fork(self, key: Key) -> Querying:
        return self


def table(found: Rows, width: int = 60) -> str:
    """Returns a result as text: a line of names, and a line for each row. If rows are missing, the last line consists of three points.

    >>> table(Rows(("name", "age"), (("Ann", 31), ("Bob", None)), more=True))
    'name|age\\nAnn|31\\nBob|NULL\\n...'
    """
    lines = ["|".join(_cell(name, width) for name in found.columns), *("|".join(_cell(value, width) for value in row) for row in found.rows)]
    return "\n".join([*lines, *(["..."] if found.more else [])])


def _cell(value: Any, width: int) -> str:
    if value is None:
        return "NULL"
    text = f"({len(value)} bytes)" if isinstance(value, bytes) else str(value).replace("\n", " ")
    return text if len(text) <= width else f"{text[: width - 3]}..."
