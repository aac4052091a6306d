"""How a turn, an end and a verdict read."""

from __future__ import annotations

from gradus.cli.episodes import expected, finished, told, verdict
from gradus.types import NOT_APPLICABLE, Failed, Problem
from gradus.types.parts import Turn


def test_turns() -> None:
    assert told(Turn("")) == ""
    assert told(Turn("a board")) == "a board"
    assert told(Turn("hit", reward=-0.5)) == "hit\n(reward -0.5)"
    assert told(Turn(({"role": "user", "content": "no"},), valid=False)) == "no\n(not a legal action)"


def test_verdicts() -> None:
    assert [verdict(v) for v in (1.0, 0.25, 0.0)] == ["right (1)", "partly right (0.25)", "wrong (0)"]
    assert verdict(Failed("it hung")) == "not judged: it hung"
    assert verdict(NOT_APPLICABLE) == verdict(None) == "not judged: the verifier does not apply"


def test_answers_in_few_words() -> None:
    answers = (7, "yes", ["a", "b"], {"a": 1}, None, 10**5000)
    assert [expected(Problem("p", "t", text="?", answer=a)) for a in answers] == [", expected 7", ", expected yes", "", "", "", ""]


def test_what_still_waits_is_ended() -> None:
    import asyncio

    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("cancelled")

    async def work() -> int:
        asyncio.ensure_future(forever())  # noqa: RUF006
        await asyncio.sleep(0)
        return 3

    assert finished(work()) == 3
    assert ended == ["cancelled"]
