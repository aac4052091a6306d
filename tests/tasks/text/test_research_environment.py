"""Research: what the explorer sees, what the main agent sees, and a report from its first page to its reward."""

from __future__ import annotations

import asyncio
import sys

import pytest

from gradus.tasks.text.research_environment import (
    EDITOR,
    EXPLORER,
    WRITER,
    Browsing,
    Desk,
    Drafting,
    Research,
    best,
    covered,
    found_pages,
    page,
    said,
)
from gradus.tasks.text.search_environment import corpus
from gradus.tools.search import index
from gradus.types import Key, UserError

SETTINGS = Research(seed=5, people=12)
WORLD = corpus(5, 12)
PERSON = WORLD.entities["person"][0]
HOME, EMPLOYER = (WORLD.facts[PERSON][name] for name in ("home", "employer"))


def test_every_page_is_found_by_its_title_and_holds_its_facts() -> None:
    for title, facts in WORLD.facts.items():
        assert found_pages(SETTINGS, f"what of {title}")[0] == title
        assert page(WORLD, title).startswith(f"{title}: ")
        assert all(f"{relation} {value}" in page(WORLD, title) for relation, value in facts.items())
    assert found_pages(SETTINGS, "zzz") == ()


def test_a_search_is_an_errand_and_the_fact_is_reached_by_a_click_alone() -> None:
    desk = Desk(HOME, (), SETTINGS)
    turn = desk.play(f"search: home of {PERSON}")
    assert turn.errand is not None
    assert (turn.errand.role, turn.errand.prompt.split("\n")[1], turn.errand.otherwise) == (EXPLORER, f"home of {PERSON}", "nothing found")
    explorer = turn.errand.episode
    assert isinstance(explorer, Browsing)
    assert HOME not in str(explorer.first.observation)  # titles only
    assert explorer.play(f"open: {PERSON.upper()}").observation == page(WORLD, PERSON)
    assert explorer.play("open: nobody").observation == "no such page"
    assert explorer.play(f"search: {HOME}").observation == "\n".join(found_pages(SETTINGS, HOME))
    assert not explorer.play("hm").valid
    done = explorer.play(f"found: it is {HOME}")
    assert (done.observation, done.reward, done.terminated) == (f"it is {HOME}", 1.0, True)
    assert page(WORLD, PERSON) in str(turn.observation)  # of a player without an explorer
    end = desk.play(f"answer: {HOME.lower()}")
    assert (end.reward, end.terminated) == (1.0, True)
    assert Desk(HOME, (), SETTINGS).play("answer: x").reward == 0.0


def test_the_explorer_has_ten_moves_and_ends_with_what_it_saw_last() -> None:
    explorer = Browsing(Desk(HOME, (), SETTINGS), "zzz")
    assert explorer.first.observation == "nothing found"
    turns = [explorer.play(f"open: {PERSON}") for _ in range(10)]
    assert [t.terminated for t in turns] == [False] * 9 + [True]
    assert (turns[-1].observation, turns[-1].reward) == (page(WORLD, PERSON), 0.0)


def test_a_report_by_hand() -> None:
    desk = Desk(None, (("home", HOME), ("employer", EMPLOYER)), SETTINGS)
    assert desk.play("check: outline").observation == "the report is empty"
    assert desk.play("edit: shorter").errand is None
    assert desk.play("answer: x").valid is False  # no verb of a report
    desk.play(f"search: {PERSON}")
    turn = desk.play("write: where it lives")
    assert turn.errand is not None
    assert turn.errand.role == WRITER
    assert page(WORLD, PERSON) in str(turn.errand.episode.first.observation)  # out of the memory of fetched pages
    done = asyncio.run(turn.errand.episode.step(f"lives in {HOME}"))
    assert (done.observation, done.terminated) == ("written: where it lives", True)
    assert desk.play("check: outline").observation == "where it lives"
    edit = desk.play("edit: add the employer").errand
    assert edit is not None
    assert edit.role == EDITOR
    assert edit.episode.first.observation == f"where it lives: lives in {HOME}"
    desk.turns = 0
    half = Desk(None, desk.facts, SETTINGS)
    half.report = desk.report
    assert half.play("done: report").reward == 0.5
    asyncio.run(edit.episode.step(f"lives in {HOME}, works for {EMPLOYER}"))
    assert desk.play("done: report").reward == 1.0


def test_a_section_without_a_writer_is_its_pages() -> None:
    desk = Desk(None, (("home", HOME),), SETTINGS)
    desk.play(f"search: {PERSON}")
    desk.play(f"write: {PERSON}")
    assert desk.play("done: report").reward == 1.0
    assert isinstance(Drafting(desk, "", None), Drafting)


def test_pages_that_fit_a_topic_best() -> None:
    titles = frozenset(list(WORLD.facts)[:8])
    assert best(WORLD, titles, PERSON)[0] == PERSON
    assert len(best(WORLD, titles, "x")) == 3
    assert best(WORLD, frozenset(), PERSON) == []


def test_words_of_an_action_and_facts_of_a_report() -> None:
    assert said("search: a\nanswer: b", ("search", "answer")) == ("answer", "b")
    assert said("nothing", ("search",)) == ("", "")
    assert covered("Bor, and Ann Lee.", (("home", "Bor"), ("teacher", "ann lee"), ("employer", "Zed"))) == pytest.approx(2 / 3)


def test_the_main_agent_is_cut_after_its_turns() -> None:
    desk = Desk(HOME, (), Research(5, 12, limit=2))
    assert [desk.play("search: x").truncated for _ in range(2)] == [False, True]


def test_a_copy_goes_its_own_way() -> None:
    desk = Desk(None, (("home", HOME),), SETTINGS)
    desk.play(f"search: {PERSON}")
    other = desk.fork(Key())
    other.play(f"write: {PERSON}")
    assert desk.report == ()
    assert (desk.turns, other.turns) == (1, 2)


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"Research.people is 3"):
        Research(people=3)
    index.cache_clear()
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(UserError, match=r"pip install .gradus\[search\]"):
        Desk(HOME, (), SETTINGS)
    index.cache_clear()
