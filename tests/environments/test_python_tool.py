"""The Python tool: what counts as a program, what the player is told, episodes by hand, and the same again when a step is done again."""

from __future__ import annotations

import asyncio

import pytest

from gradus.environments.python_tool import PythonTool, Workbench, parse
from gradus.sandbox import End, Limits, Ran, Sandbox
from gradus.tools.calls import cut, printable
from gradus.tools.python import output
from gradus.types import Failed, Key, Problem, UserError
from gradus.types.parts import Turn
from tests.sandbox.isolated import isolated
from tests.tasks.code.test_unit_tests import Facts

PROBLEM = Problem("p", "python_tool", messages=({"role": "user", "content": "2 to the power 10?"},), answer="1024")


def played(actions: list[str], settings: PythonTool = PythonTool(), world: object = None) -> list[Turn]:
    episode = settings.start(PROBLEM, Key(1), world)  # type: ignore[arg-type]

    async def run() -> list[Turn]:
        return [await episode.step(action) for action in actions]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("python: 2**10", ("python", "2**10")),
        ("I think\nPython: print(1)", ("python", "print(1)")),
        ("```python\nx = 1\nprint(x)\n```", ("python", "x = 1\nprint(x)\n")),
        ("answer: 3", ("answer", "3")),
        ("answer: 3\npython: 1", ("python", "1")),  # the last counts
        ("python: 1\nanswer: 3", ("answer", "3")),
        ("```python\nprint('''\nanswer: 3''')\n```", ("python", "print('''\nanswer: 3''')\n")),  # no answer: it stands in a program
        ("```py\ncut off", ("python", "cut off")),
        ("```\nnot said to be Python\n```", ("", "")),
        ("```python\n\n```", ("", "")),
        ("1024", ("", "")),
        ("", ("", "")),
    ],
)
def test_what_an_action_is(action, parsed):
    assert parse(action) == parsed


@pytest.mark.parametrize(
    ("ran", "text"),
    [
        (Ran("a\n", "", 0, End.OK, 0.1), "a"),
        (Ran("", "", 0, End.OK, 0.1), "(no output)"),
        (Ran("a\n", "Traceback\n  line\nKeyError: 'x'\n", 1, End.ERROR, 0.1), "a\nKeyError: 'x'"),
        (Ran("", "", 3, End.ERROR, 0.1), "exit code 3"),
        (Ran("a", "", -9, End.TIMEOUT, 9.0), "a\nstopped: it took too long"),
        (Ran("\x1b[31mred\x00", "", 0, End.OK, 0.1), "?[31mred?"),
        (Ran("0123456789" * 4, "", 0, End.OK, 0.1), "0123456789012\n...\n7890123456789"),
    ],
)
def test_what_is_told_of_a_run(ran, text):
    assert cut(printable(output(ran)), 31) == text


@isolated
def test_an_episode_by_hand():
    turns = played(["hm", "python: 2**10", "python: 1/0", "answer: 1024"])
    assert [t.observation for t in turns] == ["write python: code, or answer: ...", "1024", "ZeroDivisionError: division by zero", "right"]
    assert [t.valid for t in turns] == [False, True, True, True]
    assert [t.reward for t in turns] == [0.0, 0.0, 0.0, 1.0]
    assert [(t.terminated, t.truncated) for t in turns] == [(False, False)] * 3 + [(True, False)]
    assert len({t.state for t in turns}) == 3  # the answer tells nothing new
    assert played(["answer: 1023"])[0].reward == 0.0
    assert played(["python: 1"], PythonTool(limit=1))[0].truncated


@isolated
def test_programs_share_nothing_and_statements_print_no_value():
    turns = played(["python: x = 7", "python: x", "python: x = 7; x"])
    assert [t.observation for t in turns] == ["(no output)", "NameError: name 'x' is not defined", "7"]


@isolated
def test_a_program_over_its_limits_costs_its_turn():
    settings = PythonTool(Sandbox(limits=Limits(wall=1, memory=128 << 20, output=1000)))
    turns = played(["python: while True: pass", "python: print('x' * 9999)", "python: bytes(10**9)", "answer: 1024"], settings)
    assert [t.observation[-32:] for t in turns[:3:2]] == ["stopped: it took too long", "stopped: it took too much memory"]
    assert turns[1].observation.endswith("stopped: it printed too much")
    assert turns[3].reward == 1.0


@isolated
def test_what_was_told_is_told_again():
    """A program that reads the clock: the second time, it is not run but remembered."""
    first = Facts()
    told = played(["python: import time; time.time_ns()"], world=first)[0].observation
    assert list(first.known.values()) == [told]
    assert played(["python: import time; time.time_ns()"], world=Facts(first.known))[0].observation == told
    assert played(["python: import time; time.time_ns()"], world=Facts())[0].observation != told


@isolated
def test_a_verifier_that_fails_is_no_wrong_answer():
    with pytest.raises(RuntimeError, match="the verifier of p gave no reward: no disk"):
        played(["answer: 1"], PythonTool(verify=lambda problem, answer: Failed("no disk")))
    assert played(["answer: 1"], PythonTool(verify=lambda problem, answer: 0.25))[0].reward == 0.25


def test_missing_isolation_and_bad_settings_are_sentences(monkeypatch):
    monkeypatch.setattr("gradus.sandbox.bubblewrap.missing", lambda: "bubblewrap is not installed: apt-get install bubblewrap")
    with pytest.raises(UserError, match="apt-get install bubblewrap"):
        PythonTool().start(PROBLEM, Key(0), None)
    with pytest.raises(UserError, match="python_tool: `limit` is 0; it must be 1 or more"):
        PythonTool(limit=0)
    assert isinstance(PythonTool(), PythonTool)
    assert Workbench.__doc__


def test_a_copy_goes_on_alone(monkeypatch):
    """Copies with one key and other programs are told of their own programs; equal ones are told alike when the step is repeated."""

    async def running(self, command, files):
        return Ran(f"{files['tool.py']}\n", "", 0, End.OK, 0.0)

    monkeypatch.setattr(Sandbox, "running", running)
    facts = Facts()
    bench = Workbench(Problem("p", "t", text="?", answer="3"), Key(1), facts, PythonTool())

    async def play():
        await bench.step("python: 0")
        one, two = bench.fork(Key(2)), bench.fork(Key(2))
        first, second = await one.step("python: 1"), await two.step("python: 2")
        again = await bench.fork(Key(2)).step("python: 1")
        return first, second, again

    first, second, again = asyncio.run(play())
    assert [first.observation, second.observation, again.observation] == ["1", "2", "1"]
    assert (bench.turns, bench.told) == (1, ("0",))
    assert first.state == "0\n\x001"
