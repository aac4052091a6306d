"""A scripted user: one or two slots per answer, the order of parts, the guarded slot, patience, and the open user."""

from __future__ import annotations

from random import Random

from gradus.environments.scripted_user import LAST, LEAVE, ScriptedUser, Slot, words

NAME = Slot(("i am ann",), "name")
FIRST, SECOND = [Slot((letter,)) for letter in "abc"], [Slot((letter,)) for letter in "de"]


def heard(seed: int, *messages: str, patience: int = 9, open: bool = False) -> list[str]:
    user = ScriptedUser([[NAME, *FIRST], SECOND], Random(seed), patience, open=open)
    return [user.first, *map(user.reply, messages)]


def test_slots_come_one_or_two_at_a_time_and_part_by_part() -> None:
    orders, sizes = set(), set()
    for seed in range(20):
        told = [line.split(", ") for line in heard(seed, *["go on"] * 5)]
        assert 1 <= len(told[0]) <= 2
        sizes |= {len(line) for line in told if LAST not in line}
        slots = [slot for line in told for slot in line if slot != LAST]
        assert (sorted(slots[:3]), sorted(slots[3:])) == (list("abc"), list("de"))
        assert not any(set(line) & set("abc") and set(line) & set("de") for line in told)  # an answer stays in one part
        assert heard(seed, *["go on"] * 5) == heard(seed, *["go on"] * 5)
        orders.add("".join(slots))
    assert sizes == {1, 2}
    assert len(orders) > 4


def test_the_last_slot_is_announced_once_all_are_told() -> None:
    told = heard(0, *["go on"] * 6)
    done = next(i for i, line in enumerate(told) if line.endswith(LAST))
    assert told[done] != LAST
    assert all(line == LAST for line in told[done + 1 :])
    assert not any(LAST in line for line in told[:done])


def test_a_guarded_slot_is_told_only_if_asked() -> None:
    assert not any("ann" in line for line in heard(1, *["go on"] * 6))
    asked = heard(1, "Your NAME?", "rename", "name")
    assert ["ann" in line for line in asked] == [False, True, False, True]  # also a second time, and not for a part of a word
    assert all(1 <= len(line.split(", ")) <= 2 for line in asked[:3])


def test_patience() -> None:
    assert heard(0, "a", "b", "c", "d", patience=2)[3:] == [LEAVE, LEAVE]
    user = ScriptedUser([FIRST], Random(0), 1)
    user.reply("go on")
    assert not user.over
    user.reply("go on")
    assert user.over


def test_an_open_user_tells_everything_at_once() -> None:
    (first,) = heard(3, open=True)
    assert sorted(first.removesuffix(f", {LAST}").split(", ")) == ["a", "b", "c", "d", "e", "i am ann"]
    assert first.endswith(LAST)


def test_words() -> None:
    assert words("It's 1,200. Done!") == ["it", "s", "1", "200", "done"]
