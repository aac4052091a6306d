import asyncio
import json
import subprocess
import sys

import pytest

from gradus.types import NOT_APPLICABLE, Failed, FailureKind
from gradus.workers.worker import answer, read_outcomes

CODE = """
import sys
import helper_of_mine

print("on import", flush=True)

def f(completions, **kwargs):
    print("in a call")
    input_was = sys.stdin.read()
    return [float(len(c)) for c in completions] + [None, "x"] if not input_was else []
"""


def talk(folder, spec, *calls):
    """What the worker writes to its output, line by line (hello, then an answer a call), and what it prints."""
    with (folder / "prints").open("w") as prints:
        command = [sys.executable, "-m", "gradus.workers.worker", spec]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=prints)
        lines = [worker.stdout.readline()]
        for number, call in enumerate(calls):
            worker.stdin.write(f"{number} {json.dumps(call)}\n".encode())
            worker.stdin.flush()
            told, _, line = worker.stdout.readline().partition(b" ")
            assert told == str(number).encode()
            lines.append(line)
        worker.stdin.close()  # its sign to end
        rest = worker.stdout.read()
        worker.wait(timeout=30)
    assert rest == b""
    return [json.loads(line) for line in lines], (folder / "prints").read_text()


def test_one_line_a_call_and_nothing_else_on_the_pipe(tmp_path):
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "helper_of_mine.py").write_text("")
    call = {"completions": ["ab", "a", ""], "trainer_state": {}}
    answers, prints = talk(tmp_path, f"{tmp_path}/mine.py:f", call, {**call, "completions": []})
    # the function returns two values too many, whatever it is given
    wrong = [{"failed": f"returned {n + 2} rewards for {n} completions"} for n in (3, 0)]
    assert answers == [{"required": [], "taken": None}, *wrong]
    assert prints == "on import\nin a call\nin a call\n"


def test_a_neighbour_shadows_no_library_module(tmp_path):
    (tmp_path / "string.py").write_text("raise RuntimeError('the neighbour was imported')")
    (tmp_path / "mine.py").write_text("import string\ndef f(completions):\n    return [1.0 if c in string.digits else 0.0 for c in completions]\n")
    call = {"completions": ["7", "a"], "trainer_state": {}}
    assert talk(tmp_path, f"{tmp_path}/mine.py:f", call)[0][1] == {"outcomes": [1.0, 0.0]}


def test_outcomes_as_json(tmp_path):
    (tmp_path / "mine.py").write_text("def f(completions):\n    return [1, None, float('nan'), 0.1]\n")
    call = {"completions": ["a", "b", "c", "d"], "trainer_state": {}}
    assert talk(tmp_path, f"{tmp_path}/mine.py:f", call)[0][1] == {"outcomes": [1.0, None, {"failed": "returned nan"}, 0.1]}


def test_a_function_that_cannot_be_loaded_is_told_in_one_line(tmp_path):
    (tmp_path / "mine.py").write_text("print('}{')\nf = 5\n")
    assert talk(tmp_path, f"{tmp_path}/mine.py:f")[0] == [{"error": f"{tmp_path}/mine.py:f is of type int; it must be a function"}]


@pytest.mark.parametrize("value", [[1.0, 2.0], [1, 2]])
def test_an_answer_of_either_kind_of_function(value):
    async def later(completions):
        await asyncio.sleep(0)
        return value

    arguments = {"completions": ["a", "b"], "trainer_state": {"global_step": 1}}
    assert answer(later, arguments, asyncio.run, "") == [1.0, 2.0]
    assert answer(lambda completions: value, arguments, asyncio.run, "") == [1.0, 2.0]
    left = answer(lambda: sys.exit(2), arguments, asyncio.run, __file__)
    assert left.kind is FailureKind.RAISED
    assert left.reason.startswith("raised SystemExit: 2 (test_worker.py, line ")
    assert answer(lambda completions: [float(len(completions.pop())) for _ in range(2)], arguments, asyncio.run, "") == [1.0, 1.0]
    arguments["completions"] += ["a", "b"]
    stepped = answer(lambda trainer_state: [trainer_state.global_step] * 3, arguments, asyncio.run, "")
    assert stepped == Failed("returned 3 rewards for 2 completions")


def test_a_copy_of_the_process_that_user_code_forks_answers_nothing(tmp_path):
    (tmp_path / "mine.py").write_text("import os\ndef f(completions):\n    os.fork()\n    return [1.0]\n")
    call = {"completions": ["a"], "trainer_state": {}}
    assert talk(tmp_path, f"{tmp_path}/mine.py:f", call, call)[0][1:] == [{"outcomes": [1.0]}] * 2


@pytest.mark.parametrize(
    "message",
    [5, None, [], {}, {"outcomes": [1.0]}, {"outcomes": [1.0, True]}, {"outcomes": [1.0, "2"]}, {"outcomes": [1.0, float("inf")]}],
)
def test_what_is_no_answer_is_refused(message):
    with pytest.raises(ValueError, match=r"^$"):
        read_outcomes(message, 2)


def test_answers_are_read_as_they_were_written():
    found = [1.0, NOT_APPLICABLE, Failed("died: no", FailureKind.INVALID), Failed("late", FailureKind.TIMEOUT)]
    written = {"outcomes": [1.0, None, {"failed": "invalid: died: no"}, {"failed": "timed out: late"}]}
    assert read_outcomes(written, 4) == found
    assert read_outcomes({"failed": "out of memory: full"}, 4) == Failed("full", FailureKind.MEMORY)
