"""The browser: pages and links, the shared session of three tools, and the tasks that are refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.environments.tools import Tools
from gradus.tasks.text.walks import walks
from gradus.testing.methods import TOY
from gradus.tools.browse import Browsing, ClickLink, FindPages, OpenPage, links, titled
from gradus.tools.forms import LineCalls
from gradus.types import Frozen, Key, UserError

PAGES = Frozen({"Bor": "river Ki, mayor Ann Lee", "Ann Lee": "home Bor, age 30", "Ki": "a river", "Ann": "a name"})
TOOLS = Tools([FindPages(), OpenPage(), ClickLink()], form=LineCalls())


def episode(pages=PAGES):
    task = replace(TOY, pages=lambda: pages)
    world = type("World", (), {"task": task, "fact": lambda self, name: None, "waiting": lambda self, *a: __import__("contextlib").nullcontext()})()
    (problem,) = TOY.source.draw([0], None, Key(0))
    return TOOLS.start(problem, Key(0), world)


def say(one, action: str) -> str:
    return str(asyncio.run(one.step(action)).observation)


def test_titles_and_links() -> None:
    assert titled(PAGES, "ann lee") == "Ann Lee"
    assert titled(PAGES, "Lee") is None
    assert links(PAGES, "Bor") == ("Ki", "Ann Lee")
    assert links(PAGES, "Ann Lee") == ("Bor",)
    assert links(Frozen({"A": "Bork and Bor", "Bor": ""}), "A") == ("Bor",)  # whole words


def test_the_tools_share_one_session() -> None:
    one = episode()
    assert say(one, "search: home Bor age") == "[1] Ann Lee\n[2] Bor"
    assert say(one, "click: 2") == "Bor: river Ki, mayor Ann Lee"
    assert say(one, "click: 1") == "Ki: a river"  # now the links of the page
    assert say(one, "click: Ann Lee") == "no such link"  # Ki has no links
    assert say(one, "open: ann lee") == "Ann Lee: home Bor, age 30"
    assert say(one, "click: [1]") == "Bor: river Ki, mayor Ann Lee"
    assert list(one.opened) == ["search"]


def test_a_missing_page_is_a_failed_call() -> None:
    turn = asyncio.run(episode().step("open: Zed"))
    assert (turn.observation, turn.calls, turn.valid) == ("no such page", (("open", False),), True)
    assert asyncio.run(episode().step("click: 1")).calls == (("click", False),)
    assert say(episode(), "search: zzz") == "nothing found"
    assert say(episode(Frozen()), "search: home") == "nothing found"


def test_a_copy_of_an_episode_has_its_own_page() -> None:
    one = episode()
    say(one, "open: Bor")
    two = one.fork(Key(1))
    say(two, "open: Ann Lee")
    assert say(one, "click: 1") == "Ki: a river"
    assert say(two, "click: 1") == "Bor: river Ki, mayor Ann Lee"


def test_a_click_needs_a_list() -> None:
    session = Browsing(PAGES, top=1)
    assert not session.click("1").ok
    session.call("Ann name")
    assert session.listed == ("Ann",)
    assert session.click("2").text == "no such link"


def test_a_task_without_pages_is_refused() -> None:
    TOOLS.check_task(walks(1, people=40))
    with pytest.raises(UserError, match="has none"):
        TOOLS.check_task(replace(TOY, pages=None))
    with pytest.raises(UserError, match="top"):
        FindPages(top=0)
    with pytest.raises(UserError, match="works in the session of"):
        Tools([OpenPage()])
