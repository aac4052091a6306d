"""Tools that read linked pages. The first tool searches and lists titles; the others open a page, by its title or by its number in a list.

A page is a title with a text. If the title of another page occurs in the text, it is a link of the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.tools.search import found
from gradus.tools.tool import Opened, Result
from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges


def titled(pages: Mapping[str, Any], title: str) -> str | None:
    """Returns the title of a page in its own spelling; upper case and punctuation do not matter. None if there is no such page.

    >>> titled({"Ann Lee": "home Bor"}, "ann  lee."), titled({}, "Ann")
    ('Ann Lee', None)
    """
    asked = re.findall(r"\w+", title.casefold())
    return title if title in pages else next((name for name in pages if re.findall(r"\w+", name.casefold()) == asked), None)


def links(pages: Mapping[str, str], title: str) -> tuple[str, ...]:
    """Returns the titles of other pages that occur in the text of a page as whole words, in the order of the text. If two titles begin at the same position,
    the
    longer one counts.

    >>> links({"Bor": "river Ki, mayor Ann Lee", "Ann Lee": "home Bor", "Ki": "", "An": ""}, "Bor")
    ('Ki', 'Ann Lee')
    """
    text = pages[title]
    names = sorted((name for name in pages if name != title and name in text), key=len, reverse=True)
    return tuple(dict.fromkeys(re.findall(rf"\b({'|'.join(map(re.escape, names))})\b", text))) if names else ()


@dataclass
class Browsing:
    """The session of one episode. `listed`: the titles that `click` can open: the last results, or the links of the last page."""

    pages: Mapping[str, str]
    top: int = 3
    listed: tuple[str, ...] = ()

    def fork(self, key: Key) -> Browsing:
        return Browsing(self.pages, self.top, self.listed)

    def call(self, query: str) -> str:
        """Lists the titles of the `top` pages that fit the words best, with numbers from 1."""
        titles = tuple(self.pages)
        texts = tuple(f"{title}: {text}" for title, text in self.pages.items())
        self.listed = tuple(titles[i] for i in found(texts, query, self.top))
        return "\n".join(f"[{n}] {title}" for n, title in enumerate(self.listed, 1)) or "nothing found"

    def open(self, title: str) -> Result:
        """Returns the page of this title."""
        name = titled(self.pages, title)
        if name is None:
            return Result("no such page", ok=False)
        self.listed = links(self.pages, name)
        return Result(f"{name}: {self.pages[name]}")

    def click(self, link: str) -> Result:
        """Opens a listed page by its number or its title."""
        number = re.fullmatch(r"\s*\[?(\d{1,4})\]?\s*", link)
        if number is not None and 1 <= int(number[1]) <= len(self.listed):
            return self.open(self.listed[int(number[1]) - 1])
        name = titled(Frozen(dict.fromkeys(self.listed, "")), link)
        return Result("no such link", ok=False) if name is None else self.open(name)


@dataclass(frozen=True)
class Side:
    """The session of one tool: a function of the session that several tools share."""

    function: Callable[..., Any]

    def call(self, **arguments: Any) -> Any:
        return self.function(**arguments)


def browsing(world: World | None, top: int = 3) -> Browsing:
    """Opens a session with the pages of the task."""
    made = world.task.pages if world is not None else None
    return Browsing(made() if made is not None else Frozen(), top)


@dataclass(frozen=True)
class FindPages:
    """Lists the titles of the `top` pages that fit some words best. The pages come from `pages`, or from the task."""

    top: int = 3
    pages: Callable[[], Mapping[str, str]] | None = None
    name: str = "search"
    about: ClassVar[str] = "Lists the pages that fit some words best."
    parameters: ClassVar[Mapping[str, Any]] = Frozen(
        type="object", properties={"query": {"type": "string", "description": "the words"}}, required=["query"]
    )
    recorded: ClassVar[bool] = False
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self, top="[1, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if neither the tool nor the task has pages."""
        if self.pages is None and task.pages is None:
            raise UserError(f"the tool FindPages has no pages, and task {task.name} has none; take a task such as walks, or set the tool's pages")

    def open(self, problem: Problem, key: Key, world: World | None) -> Opened:
        return browsing(world, self.top) if self.pages is None else Browsing(self.pages(), self.top)


@dataclass(frozen=True)
class OpenPage:
    """Opens a page by its title. Then the tool `ClickLink` can open the links of the page."""

    shares: str = "search"  # the name of the tool FindPages
    name: str = "open"
    about: ClassVar[str] = "Opens the page of a title."
    parameters: ClassVar[Mapping[str, Any]] = Frozen(
        type="object", properties={"title": {"type": "string", "description": "the title of the page"}}, required=["title"]
    )
    recorded: ClassVar[bool] = False
    forks: ClassVar[bool] = True

    def open(self, problem: Problem, key: Key, world: World | None) -> Opened:
        return self.on(browsing(world))

    def on(self, session: Browsing) -> Opened:
        return Side(session.open)


@dataclass(frozen=True)
class ClickLink:
    """Opens a page by its number or title in the last list: the results of a search, or the links of an opened page."""

    shares: str = "search"  # the name of the tool FindPages
    name: str = "click"
    about: ClassVar[str] = "Opens a listed result, or a link of the open page."
    parameters: ClassVar[Mapping[str, Any]] = Frozen(
        type="object", properties={"link": {"type": "string", "description": "the number or the title"}}, required=["link"]
    )
    recorded: ClassVar[bool] = False
    forks: ClassVar[bool] = True

    def open(self, problem: Problem, key: Key, world: World | None) -> Opened:
        return self.on(browsing(world))

    def on(self, session: Browsing) -> Opened:
        return Side(session.click)
