"""Selecting: the documents that an episode gathers, the turns, and the tasks that are refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.environments.selecting import Selecting, Selection, gathered
from gradus.tasks.text.search_qa import search_qa
from gradus.types import Key, UserError

PASSAGES = (*(f"red {i} fox" for i in range(8)), *(f"blue {i} dog" for i in range(3)))


def select(ids: str) -> str:
    return f"<important_info>{ids}</important_info>"


def test_selected_documents_come_first_and_a_block_without_a_selection_counts_whole() -> None:
    reds, blues = PASSAGES[:8], PASSAGES[8:]
    assert gathered("red", (), PASSAGES) == reds
    assert gathered("red", [select("[2, 5]")], PASSAGES) == (reds[1], reds[4])
    assert gathered("red", [select("[5, 2, 5]")], PASSAGES) == (reds[1], reds[4])
    assert gathered("red", [f"{select('[2]')}<query>blue</query>"], PASSAGES) == (reds[1], *blues)
    assert gathered("red", ["<query>blue</query>", select("[3]")], PASSAGES) == (blues[2], *reds)
    assert gathered("red", [select("[1]") + select("[2]")], PASSAGES) == (reds[0],)  # the first selection of a block
    assert gathered("red", [select("[]")], PASSAGES) == ()
    assert gathered("red", [select("[0, 9, 4]")], PASSAGES) == (reds[3],)
    assert gathered("red", [select("[1, 2, 3, 4]")], PASSAGES) == reds[:3]  # at most three
    assert gathered("red", [f"{select('[1]')}<query>red</query>", select("[1, 2]")], PASSAGES) == reds[:2]  # each document once


def test_only_the_executed_queries_bring_documents() -> None:
    said = [f"{select('[]')}<query>red 1</query>", f"{select('[]')}<query>red 2</query>", f"{select('[]')}<query>blue</query>"]
    assert gathered("red", said, PASSAGES, limit=3) == ()
    assert gathered("red", said, PASSAGES, limit=4) == PASSAGES[8:]
    none = select("[]")
    assert gathered("red", [f"{none}<query>blue</query><search_complete>true</search_complete>"], PASSAGES) == ()  # the end brings no documents
    assert gathered("red", [f"{none}<query>red</query><query>blue</query>", none], PASSAGES) == ()  # the first query of an action alone is executed
    assert gathered("red", [f"{none}<query>blue</query>{select('[1]')}"], PASSAGES) == PASSAGES[8:]  # a selection cannot be of documents to come


def test_an_episode_has_at_most_three_turns() -> None:
    episode = Selection(PASSAGES, "blue", Selecting())
    assert episode.first.observation == "[1] blue 0 dog\n[2] blue 1 dog\n[3] blue 2 dog"
    first = asyncio.run(episode.step("<query> red </query>"))
    assert str(first.observation).startswith("[1] red 0 fox\n")
    assert (first.truncated, first.valid) == (False, True)
    copy = episode.fork(Key(0))
    assert asyncio.run(copy.step("hm")).valid is False
    second = asyncio.run(episode.step("<query>zzz</query>"))
    assert second.observation == "nothing found"
    third = asyncio.run(episode.step("<query>red</query>"))
    assert (third.truncated, third.observation) == (True, "")
    stop = asyncio.run(Selection(PASSAGES, "blue", Selecting()).step(f"{select('[1]')}<search_complete> True </search_complete>"))
    assert (stop.terminated, stop.reward) == (True, 0.0)


def test_a_task_without_passages_is_refused() -> None:
    task = search_qa(1, people=40)
    Selecting().check_task(task)
    with pytest.raises(UserError, match="has none"):
        Selecting().check_task(replace(task, passages=None))
    with pytest.raises(UserError, match="limit"):
        Selecting(limit=0)
