"""The shell: output and exit codes, a folder that lasts, limits, and a folder shared with the editor."""

from __future__ import annotations

import asyncio
import json

import pytest

from gradus.environments.tools import Tools
from gradus.sandbox import End, Ran
from gradus.tools.editor import Editor
from gradus.tools.forms import JsonCalls
from gradus.tools.shell import Folder, Shell, inner
from gradus.tools.tool import Result
from gradus.types import Frozen, Key, Problem, UserError
from tests.sandbox.isolated import isolated

PROBLEM = Problem("p", "t", meta=Frozen(files={"a/x.txt": "one\ntwo\n", "run.sh": "echo hi"}))


def folder(**fields: object) -> Folder:
    return Shell(**fields).open(PROBLEM, Key(0), None)  # type: ignore[arg-type]


def ran(session: Folder, *commands: str) -> list[Result]:
    async def all() -> list[Result]:
        return [await session.call(command) for command in commands]

    return asyncio.run(all())


@isolated
def test_commands_by_hand() -> None:
    session = folder()
    assert ran(session, "wc -l < a/x.txt", "cat none", "true", "echo a; echo b >&2; exit 3") == [
        Result("2"),
        Result("cat: none: No such file or directory\nexit code 1", ok=False),
        Result("(no output)"),
        Result("a\nb\nexit code 3", ok=False),
    ]


@isolated
def test_the_folder_lasts_and_a_fork_has_its_own() -> None:
    session = folder()
    ran(session, "mkdir -p b && echo three > b/y.txt && rm run.sh && printf '#!/bin/sh\\necho ran' > go && chmod +x go && ln -s /etc/passwd link")
    assert sorted(session.files) == ["a/x.txt", "b/y.txt", "go"]  # no link
    assert ran(session, "./go; cat b/y.txt") == [Result("ran\nthree")]
    other = session.fork(Key(1))
    ran(other, "rm -r b")
    assert sorted(other.files) == ["a/x.txt", "go"]
    assert "b/y.txt" in session.files


@isolated
def test_limits_leave_the_folder_as_it_was() -> None:
    session = folder(seconds=0.5, disk=1)
    late, large, loud = ran(session, "echo begun; rm a/x.txt; sleep 60", "rm a/x.txt; head -c 2000000 /dev/zero > z", "head -c 3000000 /dev/zero | tr '\\0' a")
    assert late == Result("begun\nerror: stopped: it took longer than 0.5 seconds; the files are as before", ok=False)
    assert (large.ok, "the files are as before" in large.text) == (False, True)
    assert loud.ok
    assert len(loud.text) <= 20_001
    assert sorted(session.files) == ["a/x.txt", "run.sh"]
    assert ran(session, "cat /proc/self/environ | wc -c; ls / | grep -c work")[0].text.splitlines()[-2:-1] == ["0"]


def test_a_forged_report_is_not_trusted() -> None:
    session = Folder(Shell(), {"a": b"1"})
    for told in ("", "[]", "{}", '{"files": {"../x": ["", false]}, "output": "", "exit": 0, "late": false}', '{"files": {"a": 3}}', "[" * 100_000):
        assert session._after(Ran(told, "", 0, End.OK, 0.1)).ok is False
        assert session.files == {"a": b"1"}
    good = {"files": {"b": ["Mg==", True]}, "output": "x\n", "exit": 0, "late": False}
    assert session._after(Ran(json.dumps(good), "", 0, End.OK, 0.1)) == Result("x")
    assert (session.files, session.runs) == ({"b": b"2"}, {"b"})


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", ".", "a\0b", "a" * 201])
def test_paths_out_of_the_folder_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="no path in the folder"):
        inner(path)


def test_values_out_of_range_are_refused() -> None:
    for fields in ({"seconds": 0}, {"memory": 1}, {"disk": 0}, {"isolation": "none"}):
        with pytest.raises(UserError):
            Shell(**fields)  # type: ignore[arg-type]


@isolated
def test_the_editor_and_the_shell_share_the_folder() -> None:
    environment = Tools([Shell(), Editor()], form=JsonCalls())  # type: ignore[arg-type]
    episode = environment.start(PROBLEM, Key(0), None)

    def said(name: str, **arguments: str) -> str:
        turn = asyncio.run(episode.step(f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"))
        return str(turn.observation).removeprefix("<tool_response>\n").removesuffix("\n</tool_response>")

    assert said("edit", action="create", path="n.txt", text="x = 1\n") == "n.txt is written"
    assert said("shell", command="cat n.txt; echo y >> n.txt") == "x = 1"
    assert said("edit", action="view", path="n.txt") == "1: x = 1\n2: y"
    assert said("edit", action="replace", path="n.txt", old="x = 1", text="x = 2") == "n.txt is changed"
    copy = episode.fork(Key(1))
    episode = copy
    assert said("shell", command="cat n.txt") == "x = 2\ny"


def test_edits_by_hand() -> None:
    folder = Folder(Shell(), {"a": b"one one two"})
    edit = Editor().on(folder).call
    results = [
        asyncio.run(edit(*call))
        for call in (("replace", "a", "x", "one"), ("replace", "a", "x", ""), ("view", "b"), ("replace", "a", "x", "two"), ("create", "../b", "x"))
    ]
    assert [(r.ok, r.text) for r in results[:4]] == [
        (False, "error: `old` occurs 2 times in a; give a text that occurs once"),
        (False, "error: `old` is empty; give the text to replace"),
        (False, "error: there is no file b"),
        (True, "a is changed"),
    ]
    assert results[4].ok is False
    assert folder.files == {"a": b"one one x"}
    with pytest.raises(UserError, match='works in the session of "shell"'):
        Tools([Editor()])  # type: ignore[arg-type]
