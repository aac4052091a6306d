"""The task service_desk: replies by hand, the dials of a document, and requests that are never trained on."""

from __future__ import annotations

import pytest

from gradus.tasks.text.service_desk import FIELDS, Choice, Document, made, service_desk, walked
from gradus.types import Frozen, Key, UserError
from tests.tasks.contract import check_contract, check_read_back

NESTED = Choice("tier", "gold", Choice("size", "big", ("mail", "hold"), ("swap",)), ("deny",))
DESK = Document("kora", Frozen(tier="silver", size="small"), "thanks", Frozen({"return": NESTED}))


def test_the_contract():
    check_contract(service_desk(), hints=False)
    check_read_back(service_desk())
    check_contract(service_desk(topics=1, steps=3, tools=8, stated=0.5), hints=False)


@pytest.mark.parametrize(
    ("stated", "reply"),
    [
        ({"tier": "gold", "size": "big"}, "return tier gold size big =mail hold thanks"),
        ({"size": "small", "tier": "gold"}, "return tier gold size small =swap thanks"),
        ({"tier": "gold"}, "return tier gold size small =swap thanks"),  # the size is not stated: small
        ({"size": "big"}, "return tier silver =deny thanks"),
        ({}, "return tier silver =deny thanks"),
    ],
)
def test_the_reply_by_hand(stated, reply):
    assert DESK.reply("return", stated) == reply


def test_the_text_of_a_document():
    assert DESK.text.split("\n") == [
        "desk kora",
        "fact: tier is silver unless stated",
        "fact: size is small unless stated",
        "rule: begin with the topic",
        "rule: end with thanks",
        "on return: if tier is gold (if size is big (mail hold) else (swap)) else (deny)",
    ]


def leaves(tree):
    return [*leaves(tree.then), *leaves(tree.otherwise)] if isinstance(tree, Choice) else [tree]


def choices(tree):
    return [tree, *choices(tree.then), *choices(tree.otherwise)] if isinstance(tree, Choice) else []


def test_every_condition_decides_something():
    trees = [tree for seed in range(20) for tree in made(2, topics=2, fields=3, tools=2, steps=1, seed=seed).trees.values()]
    assert all(choice.then != choice.otherwise for tree in trees for choice in choices(tree))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_dials(depth):
    for seed in range(5):
        document = made(depth, topics=3, fields=5, tools=6, steps=2, seed=seed)
        assert (len(document.trees), len(document.assumed)) == (3, 5)
        for tree in document.trees.values():
            assert len(leaves(tree)) == 2**depth
            assert all(len(set(tools)) == 2 for tools in leaves(tree))
            for values in (dict(document.assumed), {name: FIELDS[name][1] for name in document.assumed}):
                path, tools = walked(tree, values)
                assert len({field for field, _ in path}) == depth  # no field twice
                assert tools in leaves(tree)
    assert len({made(depth, 2, 4, 6, 1, seed).text for seed in range(8)}) == 8


def test_requests_follow_the_document_of_the_prompt():
    for p in service_desk(level=3, stated=0.4).source.draw(range(40), None, Key(1)):
        document = made(3, 2, 4, 6, 1, 0)
        name, request = p.question.split("\n")
        assert name == f"desk {document.name}"
        topic, said = request.partition(" has a ")[2].split(": ")
        stated = {} if said == "nothing stated" else dict(pair.split(" ") for pair in said.split(", "))
        assert p.meta["solution"] == document.reply(topic, stated)
        assert p.answer == p.meta["solution"].rpartition("=")[2]
        assert p.meta["document"] == document.text
    whole = service_desk(document=True).source.draw([0], None, Key(0))[0]
    assert whole.question.startswith(whole.meta["document"] + "\n")
    assert service_desk(stated=0.0).source.draw([0], None, Key(0))[0].question.endswith("nothing stated")


def test_the_chance_of_a_guess():
    assert (service_desk().chance, service_desk(tools=8, steps=3).chance) == (1 / 6, 1 / (8 * 7 * 6))  # no tool twice


def test_few_training_requests_and_what_is_refused():
    few = service_desk(examples=16)
    assert few.source.size == 16
    assert few.held_out.size is None
    for options, word in (({"topics": 5}, "`topics` is 5"), ({"fields": 1}, "`fields` is 1"), ({"steps": 6}, "`steps` is 6"), ({"stated": 2}, "`stated` is 2")):
        with pytest.raises(UserError, match=word):
            service_desk(**options)
