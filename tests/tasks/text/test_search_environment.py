"""Search QA: the made-up world, its search, and one inquiry by hand."""

from __future__ import annotations

import sys

import pytest

from gradus.tasks.text import search_environment as search_qa
from gradus.tasks.text.search_environment import (
    RELATIONS,
    Inquiry,
    SearchQA,
    calculated,
    chain,
    corpus,
    index,
    lookup,
    normal,
    parse,
    solution,
)
from gradus.tools.search import words
from gradus.types import Key, UserError

SETTINGS = SearchQA(seed=5, people=12)
WORLD = corpus(5, 12)


def test_the_world_is_whole_and_a_function_of_its_settings() -> None:
    assert corpus.__wrapped__(5, 12) == WORLD
    assert corpus(6, 12) != WORLD
    assert {kind: len(names) for kind, names in WORLD.entities.items()} == {"person": 12, "company": 3, "city": 3, "river": 3}
    assert len(WORLD.passages) == 12 * 3 + 3 * 2 + 3 * 2  # a fact is a passage
    kind_of = {name: kind for kind, names in WORLD.entities.items() for name in names}
    assert len(kind_of) == 21  # no name stands for two things
    for kind, relations in RELATIONS.items():
        for entity in WORLD.entities[kind]:
            for relation, to in relations.items():
                value = WORLD.facts[entity][relation]
                assert kind_of[value] == to
                assert value != entity
                (passage,) = (p for p in WORLD.passages if {relation, *words(entity), *words(value)} <= set(words(p)))
                assert entity in passage


@pytest.mark.parametrize("people", [4, 5, 7, 40])
def test_small_worlds_too(people: int) -> None:
    assert len(corpus(0, people).entities["person"]) == people


@pytest.mark.parametrize("settings", [SearchQA(), SearchQA(seed=2, people=900, top=2), SearchQA(seed=3, people=4, top=2)])
def test_every_fact_is_found_by_its_name(settings: SearchQA) -> None:
    world = corpus(settings.seed, settings.people)
    for entity, relations in world.facts.items():
        for relation, value in relations.items():
            found = [world.passages[i] for i in lookup(settings, f"{relation} of {entity}")]
            assert any({relation, *words(entity), *words(value)} <= set(words(passage)) for passage in found)


def test_search_ranks_by_shared_words_and_keeps_to_its_number() -> None:
    person = WORLD.entities["person"][0]
    assert len(lookup(SETTINGS, person)) == 3
    assert len(lookup(SearchQA(seed=5, people=12, top=2), person)) == 2
    assert lookup(SETTINGS, person) == lookup(SETTINGS, person.upper() + "?!")
    assert lookup(SETTINGS, "xylophone") == lookup(SETTINGS, "") == lookup(SETTINGS, "\x00 \n") == ()
    river = WORLD.entities["river"][0]
    assert len(lookup(SETTINGS, river)) == 1  # a passage that shares no word is not among the answers


def test_an_inquiry_by_hand() -> None:
    city = WORLD.entities["city"][0]
    mayor = WORLD.facts[city]["mayor"]
    actions = solution(WORLD, city, ("mayor", "home"))
    assert actions == [f"search: mayor of {city}", f"search: home of {mayor}", f"answer: {WORLD.facts[mayor]['home']}"]
    assert chain(WORLD, city, ("mayor", "home")) == [mayor, WORLD.facts[mayor]["home"]]
    inquiry = Inquiry(WORLD.facts[mayor]["home"], SETTINGS)
    one, two = inquiry.play(actions[0]), inquiry.play(actions[1])
    assert mayor in str(one.observation)
    assert (one.reward, one.terminated, one.valid) == (0.0, False, True)
    assert str(two.observation).count("\n") == 2
    last = inquiry.play(actions[2].upper())
    assert (last.observation, last.reward, last.terminated) == ("right", 1.0, True)


def test_what_was_seen_is_the_state_in_any_order() -> None:
    a, b = (f"search: {name}" for name in WORLD.entities["city"][:2])
    one, two = Inquiry("x", SETTINGS), Inquiry("x", SETTINGS)
    assert one.first.state == ""
    one.play(a)
    two.play(b)
    assert one.play(b).state == two.play(a).state != ""
    assert one.play(a).state == two.play(b).state  # seen again: nothing new


def test_other_answers() -> None:
    inquiry = Inquiry("Belo Nar", SearchQA(seed=5, people=12, limit=3))
    assert inquiry.play("search: xylophone").observation == "nothing found"
    muddle = inquiry.play("what?")
    assert (muddle.observation, muddle.valid, muddle.truncated) == ("write search: words, or answer: name", False, False)
    assert inquiry.play("search: xylophone").truncated
    wrong = Inquiry("Belo Nar", SETTINGS).play("answer: Belo")
    assert (wrong.observation, wrong.reward, wrong.terminated) == ("wrong", 0.0, True)


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("search: home of Belo", ("search", "home of Belo")),
        ("I need more.\n  Search:x ", ("search", "x")),
        ("search: a\nanswer: b", ("answer", "b")),
        ("research: a", ("", "")),
        ("answer:", ("answer", "")),
        ("", ("", "")),
    ],
)
def test_parse(action: str, parsed: tuple[str, str]) -> None:
    assert parse(action) == parsed


def test_exact_match_is_of_words() -> None:
    assert normal(" Belo  NAR.\n") == "belo nar"
    assert normal("Belonar") != normal("Belo Nar")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    monkeypatch.setattr(search_qa, "index", index.__wrapped__)
    with pytest.raises(UserError, match="gradus\\[search\\]"):
        Inquiry("x", SETTINGS)


@pytest.mark.parametrize(("field", "value"), [("people", 3), ("people", 10_001), ("top", 1), ("limit", 0)])
def test_settings_are_checked(field: str, value: int) -> None:
    with pytest.raises(UserError, match=f"`{field}` is {value}"):
        SearchQA(**{field: value})


def test_a_copy_goes_on_alone() -> None:
    one = Inquiry("x", SETTINGS)
    one.play("search: river")
    two = one.fork(Key(1))
    before = one.first.state, one.turns, one.seen
    two.play("search: mayor")
    assert (one.first.state, one.turns, one.seen) == before
    assert one.play("search: mayor") == two.fork(Key(2)).play("search: mayor")  # nothing is random, and what was seen is seen
    assert (one.turns, two.turns) == (2, 2)


def test_the_calculator_is_a_second_tool() -> None:
    tools = SearchQA(seed=5, people=12, calculator=True)
    person = tools.corpus.entities["person"][0]
    age = tools.corpus.facts[person]["age"]
    inquiry = Inquiry(str(int(age) + 7), tools)
    assert f"{age}" in str(inquiry.play(f"search: age of {person}").observation)
    told = inquiry.play(f"calculate: {age} + 7")
    assert (told.observation, told.valid, told.terminated) == (str(int(age) + 7), True, False)
    assert str(told.state).endswith(f"{age} + 7 = {int(age) + 7}")
    assert inquiry.play(f"answer: {int(age) + 7}").reward == 1.0
    assert [calculated(t) for t in ("3 - 5", "-4 * 3", " 2+2 ", "2 ** 9", "1/0", "1 + 1 + 1", "9999999999 + 1", "__import__('os')")] == [
        *("-2", "-12", "4"), *[None] * 5
    ]
    assert not inquiry.play("calculate: two").valid
    assert not Inquiry("x", SETTINGS).play("calculate: 2 + 2").valid  # without a calculator it is no tool


def test_ages_leave_the_rest_of_the_world_as_it_is() -> None:
    aged = corpus(5, 12, True)
    assert aged.entities == WORLD.entities
    for entity, facts in WORLD.facts.items():
        assert {r: v for r, v in aged.facts[entity].items() if r != "age"} == facts
    assert len(aged.passages) == len(WORLD.passages) + 12
