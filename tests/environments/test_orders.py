"""The desk of a shop: tools on the data base, the verifier of the final state, outputs that the customer must hear, and separate episodes."""

from __future__ import annotations

import asyncio

import pytest

from gradus.environments.orders import AtDesk, Orders, Shop, customer, rows_of, table_of, told
from gradus.environments.scripted_user import LEAVE
from gradus.tools.forms import JsonCalls
from gradus.types import Frozen, Key, Problem, UserError

ORDERS = {
    "k4": {"owner": "ann", "item": "cap", "colour": "red", "state": "new"},
    "m7": {"owner": "ann", "item": "cup", "colour": "blue", "state": "sent"},
    "b2": {"owner": "bob", "item": "cap", "colour": "red", "state": "new"},
}
SLOTS = (((("i am ann",), "name"), (("change the colour",), None), (("it is the cap",), None), (("in pink",), None)), (((("the cup",), None)), (("price",), None)))
GOAL = {**ORDERS, "k4": {**ORDERS["k4"], "colour": "pink"}, "m7": {**ORDERS["m7"], "state": "returned"}}
PROBLEM = Problem(
    "p",
    "orders",
    text="",
    meta=Frozen(orders=rows_of(ORDERS), prices=(("cap", 12), ("cup", 30)), goal=rows_of(GOAL), outputs=("30",), slots=SLOTS, user=5, practice=True),
)
DOES = ["find: ann", "swap: k4 pink", "return: m7", "price: cup", "say: it is 30", "say: done"]


def played(*actions: str, settings: Orders = Orders(), key: int = 0, problem: Problem = PROBLEM):
    episode = settings.start(problem, Key(key), None)
    turns = [asyncio.run(episode.step(action)) for action in actions]
    return episode, turns


def test_the_order_of_the_calls_does_not_matter() -> None:
    for actions in (DOES, [DOES[2], DOES[4], DOES[1], DOES[5]]):
        _, turns = played(*actions)
        assert (turns[-1].reward, turns[-1].terminated, turns[-1].observation) == (1.0, True, LEAVE)
        assert [turn.reward for turn in turns[:-1]] == [0.0] * (len(turns) - 1)


@pytest.mark.parametrize(
    "actions",
    [
        [*DOES[:5], "cancel: b2", "say: done"],  # one extra write
        [*DOES[:5], "swap: k4 red", "say: done"],  # the right write is undone
        [*DOES[:4], "say: done"],  # the required output is missing
        [*DOES[:4], "price: 30", "say: done"],  # a call is no message
        [DOES[1], *DOES[3:]],  # a write is missing
        ["say: done"],
    ],
)
def test_a_wrong_state_or_a_missing_output_earns_nothing(actions: list[str]) -> None:
    _, turns = played(*actions)
    assert (turns[-1].reward, turns[-1].terminated) == (0.0, True)


def test_outputs_are_compared_without_commas_of_the_message() -> None:
    assert told(["Late FEE"], ["a late fee"])
    assert told(["1200", "ok"], ["1,200", "OK."])
    assert not told(["1,200"], ["1,200"])
    assert told([], [])
    assert not told(["12", "30"], ["12"])


def test_the_tools_by_hand() -> None:
    shop = Shop(ORDERS, {"cap": 12})
    assert shop.call(" Ann ") == "k4 cap red new; m7 cup blue sent"
    assert shop.call("eve") == "no orders"
    assert shop.price("cap") == "12"
    for call, why in ((lambda: shop.cancel("m7"), "the order is sent"), (lambda: shop.back("k4"), "the order is new"), (lambda: shop.swap("k4"), "no colour"),
                      (lambda: shop.cancel("z9"), "no such order"), (lambda: shop.price("tea"), "no such item"), (lambda: shop.swap("m7 red"), "sent")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            call()
    assert shop.orders == ORDERS
    assert [shop.cancel("K4"), shop.back("m7")] == ["ok", "ok"]
    with pytest.raises(ValueError, match="the order is cancelled"):
        shop.swap("k4 blue")
    assert ORDERS["k4"]["state"] == "new"


def test_calls_are_counted_and_errors_are_shown() -> None:
    _, turns = played("cancel: m7", "find: ann", "look: there", "say: name?")
    assert [turn.calls for turn in turns] == [(("cancel", False),), (("find", True),), (), ()]
    assert turns[0].observation == "error: the order is sent"
    assert [turn.valid for turn in turns] == [True, True, False, True]
    assert "i am ann" in turns[3].observation


def test_two_episodes_share_no_data() -> None:
    one, _ = played("swap: k4 pink")
    two, _ = played()
    assert one.shop.orders["k4"]["colour"] == "pink"
    assert two.shop.orders == ORDERS
    assert one.shop.orders is not two.shop.orders
    assert all(one.shop.orders[code] is not two.shop.orders[code] is not ORDERS[code] for code in ORDERS)
    copied = one.fork(Key(1))
    asyncio.run(copied.step("return: m7"))
    assert (one.shop.orders["m7"]["state"], copied.shop.orders["m7"]["state"]) == ("sent", "returned")
    assert isinstance(copied, AtDesk)
    assert copied.user is not one.user


def test_the_key_decides_the_order_of_the_slots() -> None:
    def order(key: int) -> str:
        user = customer(SLOTS, Key(key))
        return " ".join([user.first, *(user.reply("go on") for _ in range(6))])

    assert order(3) == order(3)
    assert len({order(key) for key in range(20)}) >= 2
    varied = Orders(varied=True)
    assert {played(key=key, settings=varied)[0].first.observation for key in range(20)} > {"it is the cap"}
    assert len({played(key=key)[0].first.observation for key in range(20)}) == 1  # else the problem decides


def test_rows_are_the_orders() -> None:
    assert rows_of(ORDERS)[0] == ("k4", "ann", "cap", "red", "new")
    assert table_of(rows_of(ORDERS)) == ORDERS


def test_the_limit_and_the_patience() -> None:
    _, turns = played(*DOES[:3], settings=Orders(limit=3))
    assert (turns[-1].truncated, turns[-1].terminated, turns[-1].reward) == (True, False, 0.0)
    _, turns = played(DOES[1], DOES[2], DOES[4], settings=Orders(limit=3))
    assert (turns[-1].truncated, turns[-1].reward) == (True, 1.0)  # the final state counts
    _, turns = played(*DOES[1:3], DOES[4], *["say: hm"] * 20)
    left = next(i for i, turn in enumerate(turns) if turn.terminated)
    assert 3 + 6 + 4 - 1 <= left + 1 <= 3 + 6 + 8  # six slots, and 4 to 8 messages more
    assert turns[left].reward == 1.0
    with pytest.raises(UserError, match="limit"):
        Orders(limit=0)


def test_open_customers_are_only_in_training() -> None:
    first = Orders(open=True).start(PROBLEM, Key(0), None).first.observation
    assert all(word in first for word in ("i am ann", "cap", "pink", "cup"))
    held = Problem("p", "orders", text="", meta=Frozen({**PROBLEM.meta, "practice": False}))
    assert Orders(open=True).start(held, Key(0), None).first == Orders().start(held, Key(0), None).first == Orders().start(PROBLEM, Key(0), None).first


def test_calls_as_json() -> None:
    call = '<tool_call>{"name": "swap", "arguments": {"change": "k4 pink"}}</tool_call><tool_call>{"name": "return", "arguments": {"order": "m7"}}</tool_call>'
    _, turns = played(call, "it is 30. Done", settings=Orders(JsonCalls()))
    assert (turns[-1].reward, len(turns[0].calls)) == (1.0, 2)
