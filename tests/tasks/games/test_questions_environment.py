"""Twenty questions by hand, and the table."""

from __future__ import annotations

import itertools

import pytest

from gradus.tasks.games.questions_environment import Quiz, TwentyQuestions, attributes, best_question, parse, solution, table
from gradus.types import UserError

FOUR = ("cat", "oak", "knife", "coin")


def quiz(item: str = "oak", limit: int = 20) -> Quiz:
    return Quiz(item, FOUR, TwentyQuestions(limit))


def test_a_game_by_hand() -> None:
    game = quiz()
    assert (game.first.observation, game.first.state) == ("", "cat coin knife oak")
    alive = game.play("is it alive?")
    assert (alive.observation, alive.state, alive.reward, alive.terminated) == ("yes", "cat oak", 0.0, False)
    assert game.play("Is it an animal?").state == "oak"
    right = game.play("It's an oak!")
    assert (right.observation, right.reward, right.terminated) == ("right", 1.0, True)


def test_a_wrong_guess_ends_the_game() -> None:
    for action in ("it is cat", "is it a cat?", "it is zebra. it is moon"):
        turn = quiz().play(action)
        assert (turn.observation, turn.reward, turn.terminated) == ("wrong", 0.0, True)


def test_the_same_knowledge_is_the_same_state() -> None:
    one, two = quiz(), quiz()
    one.play("is it alive?")
    two.play("is it metal?")
    assert one.play("is it metal?").state == two.play("is it alive?").state == "cat oak"


def test_what_cannot_be_asked_is_told_what_can() -> None:
    game = quiz(limit=2)
    turn = game.play("is it zebra?")
    assert (turn.valid, turn.truncated, turn.state) == (False, False, game.first.state)
    assert turn.observation == "ask: alive animal plant wild furry flying"
    assert game.play("is it alive?").truncated
    assert quiz(limit=1).play("hm").truncated


def test_reminders_go_through_all_attributes() -> None:
    game = quiz()
    said = [str(game.play("?").observation).removeprefix("ask: ").split() for _ in range(4)]
    assert [attribute for few in said[:3] for attribute in few] == list(attributes())
    assert said[3] == said[0]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("is it big?", "big"),
        ("Perhaps. IS  IT\nthe Moon", "moon"),
        ("is it alive? it is cat", "cat"),
        ("this it is", ""),
        ("this is it", ""),
        ("analysis it big", ""),
        ("", ""),
    ],
)
def test_parse(action: str, said: str) -> None:
    assert parse(action) == said


def test_the_table_tells_all_items_apart() -> None:
    items = table()
    assert len(items) == 66
    assert len(set(items.values())) == 66
    assert {attribute for has in items.values() for attribute in has} == set(attributes())
    assert not set(items) & set(attributes())  # a word is an item or an attribute
    assert all(word.isascii() and word.isalpha() and word.islower() for word in (*items, *attributes()))


def test_the_best_question_halves() -> None:
    assert best_question(FOUR) == "alive"  # cat and oak are alive, knife and coin are not: 2 to 2, and the first such in the table
    assert solution("oak", FOUR) == ["is it alive?", "is it animal?", "it is oak"]
    assert solution("coin", FOUR) == ["is it alive?", "is it round?", "it is coin"]
    assert solution("cat", ("cat",)) == ["it is cat"]


def test_every_pair_can_be_told_apart_in_one_question() -> None:
    for pair in itertools.combinations(table(), 2):
        for item in pair:
            assert len(solution(item, pair)) == 2


def test_the_whole_table_is_found_in_twenty_turns() -> None:
    assert max(len(solution(item, tuple(table()))) for item in table()) <= 20


def test_bad_games_are_refused() -> None:
    with pytest.raises(ValueError, match="hidden item zebra"):
        quiz("zebra")
    with pytest.raises(ValueError, match="all candidates must be in the table"):
        Quiz("cat", ("cat", "zebra"), TwentyQuestions())
    with pytest.raises(UserError, match="`limit` is 0"):
        TwentyQuestions(0)
