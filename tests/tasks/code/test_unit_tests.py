"""The verifier that runs code: its forms of tests, its verdicts, what deceives it and what does not, and its facts."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from gradus.sandbox import End, Isolation, Ran, Sandbox, SandboxError
from gradus.tasks.code import unit_tests
from gradus.tasks.code.unit_tests import Test, UnitTests, parsed_tests, python_code
from gradus.tasks.data.loaders import load_task_file
from gradus.types import Failed, FailureKind, Key, Problem, UserError
from tests.sandbox.isolated import isolated


def problem(*tests: object) -> Problem:
    return Problem("p", "code", messages=({"role": "user", "content": "write f"},), answer=tests)


def test_assertions_are_taken_apart_where_the_right_side_is_a_literal():
    texts = ("assert f(2, k=[1]) == (3, -1)", "assert f(2) is None", "assert f('a')", "assert not f(-1)")
    assert parsed_tests(problem(*texts)) == (
        Test("f(2, k=[1])", (3, -1)),
        Test("f(2)", None),
        Test("bool(f('a'))", True),
        Test("bool(f(-1))", False),
    )
    whole = (
        "assert f(2) == g(3)",
        "assert f(x) == 1",
        "assert a.f(2) == 1",
        "assert f(1) < 2",
        "x = f(1)\nassert x == 2",
        "f(*[1])",
    )
    assert parsed_tests(problem(*whole)) == tuple(Test(statement=text) for text in whole)


@pytest.mark.parametrize(
    ("code", "plain"),
    [
        ("def f(): pass", "def f(): pass"),
        ("Here:\n```python\nx = 1\n```\nDone", "x = 1\n"),
        ("```\na\n```\nbetter:\n```py\nb\n```", "b\n"),
        ("```python\ncut off", "cut off"),
        ("```python\na\n``` and ```\n\n```", "a\n"),
        ("", ""),
    ],
)
def test_which_part_of_a_completion_is_the_program(code, plain):
    assert python_code(code) == plain


@isolated
@pytest.mark.parametrize(
    ("completion", "share"),
    [
        ("def f(x): return x * x", 1.0),
        ("```python\ndef f(x):\n    return x * x\n```", 1.0),
        ("def f(x): return 2 * x", 2 / 3),
        ("def f(x): return 4", 1 / 3),
        ("def g(x): return x * x", 0.0),
        ("I do not know", 0.0),
        ("", 0.0),
        ("\x00", 0.0),
        ("\ud800", 0.0),
        ("import os; os._exit(0)", 0.0),
        ("class Any:\n    def __eq__(self, o): return True\ndef f(x): return Any()", 0.0),
        ("def f(x): return str(x * x)", 0.0),
    ],
)
def test_verdicts_by_hand(completion, share):
    asked = problem("assert f(0) == 0", "assert f(2) == 4", "assert f(3) == 9")
    assert UnitTests(share=True)(asked, completion) == pytest.approx(share)
    assert UnitTests()(asked, completion) == float(share == 1.0)


@isolated
def test_whole_programs_that_read_and_print():
    asked = problem({"stdin": "2 3\n", "stdout": "5\n"}, {"stdin": "1 1", "stdout": "2"})
    assert UnitTests()(asked, "print(sum(map(int, input().split())))") == 1.0
    assert UnitTests(share=True)(asked, "print(5, ' ')") == 0.5
    assert UnitTests(share=True)(asked, "print(sum(map(int, input().split()))); 1/0") == 0.0  # it must end well, too


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("1\n2\n", "1\n2", True),
        ("1\r\n2\r\n", "1\n2\n", True),
        ("1 \t\n2\n\n", "1\n2", True),
        ("\n1", "1\n", True),
        ("", "\n", True),
        ("1\x0b2", "1\n2", False),
        ("1\x0c2", "1\n2", False),
        ("1\x1c2", "1\n2", False),
        ("1\x852", "1\n2", False),
        ("1\u20282", "1\n2", False),
        ("1\r2", "1\n2", False),
        ("1 2", "1\n2", False),
        ("1\n\n2", "1\n2", False),
        ("  1\n 2", "1\n 2", False),  # the beginning of a line counts, also of the first
        ("1\u00a0", "1", False),
        ("1\x1f", "1", False),
    ],
)
def test_which_output_is_the_expected_one(printed, expected, same):
    assert (unit_tests._lines(printed) == unit_tests._lines(expected)) is same


@pytest.mark.parametrize(("share", "programs", "expected"), [(True, [0, 1, 2], 0.25), (False, [0, 1], 0.0)])
def test_after_a_limit_or_a_failure_that_decides_no_further_test_is_run(monkeypatch, share, programs, expected):
    """Else a program that hangs would take its limit as many times as it has tests."""
    asked = problem(*({"stdin": str(i), "stdout": str(i)} for i in range(4)))
    ends = {0: ("0", End.OK), 1: ("wrong", End.OK), 2: ("", End.TIMEOUT), 3: ("3", End.OK)}
    reached = []

    def answer(self: Sandbox, program: str, *, stdin: str) -> Ran:
        reached.append(int(stdin))
        out, ended = ends[int(stdin)]
        return Ran(out, "", 0, ended, 0.1)

    monkeypatch.setattr(Sandbox, "run", answer)
    assert UnitTests(share=share)(asked, "print(input())") == expected
    assert reached == programs


DECEIVING = (
    "class E(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\n    __rsub__ = __sub__ = lambda s, o: 0\ndef f(n): return E(7)",
    "import builtins, math\nmath.isclose = lambda *a, **k: True\nbuiltins.sorted = builtins.abs = lambda *a: [0]\ndef f(n): return 0",
    "import builtins\nbuiltins.exec = lambda *a: None\ndef f(n): return 0",
    """import json, os, sys
frame, asked = sys._getframe(), None
while frame:
    here = frame.f_locals
    asked = here.get('asked', asked)
    if asked and 'channel' in here:
        for i in range(9): os.write(here['channel'], (json.dumps([asked['word'], i, True]) + chr(10)).encode())
        os._exit(0)
    frame = frame.f_back""",
    """import sys
def f(n):
    seen = [c for c in sys._getframe(1).f_code.co_consts if isinstance(c, (int, float))]
    return seen[-1] if seen and seen[-1] != n else 0""",
)


@isolated
@pytest.mark.parametrize("program", DECEIVING)
def test_a_program_that_deceives_passes_none_of_the_common_forms(program):
    """Each of these passes all or most of them where the assertions run beside it."""
    asked = problem(
        "import math\nassert math.isclose(f(2), 4)",
        "def check(candidate):\n    assert candidate(2) == 4, 'two'\n    assert abs(candidate(3) - 9) < 1e-6\n    assert 16 == candidate(4)",
        "check(f)",
        "assert sorted([f(2), f(1)]) == [1, 4]",
    )
    assert UnitTests(share=True)(asked, program) == 0.0
    assert UnitTests(share=True)(asked, "def f(n): return n * n") == 1.0


@isolated
def test_statements_beside_calls():
    asked = problem("import math\nassert math.isclose(f(2), 0.5)", "assert f(4) == 0.25", "assert f(1) == 2")
    assert UnitTests(share=True)(asked, "def f(x): return 1 / x") == pytest.approx(2 / 3)


@isolated
def test_tests_run_in_their_order_whatever_their_forms():
    program = "kept = {}\ndef put(k, v): kept[k] = v\ndef get(k): return kept.get(k)\ndef count(): return len(kept)"
    tests = (
        "assert get('a') is None",
        "put('a', 1)",
        "assert get('a') == 1",
        "put('b', 2)",
        "put('a', 1)",
        "assert count() == 2",
        "assert count() < 3",
    )
    assert UnitTests(share=True)(problem(*tests), program) == 1.0
    assert UnitTests()(problem(*tests), program.replace("kept[k] = v", "pass")) == 0.0


@isolated
def test_what_stands_under_a_main_guard_is_run():
    for guard in ("if __name__ == '__main__':", 'if __name__ == "__main__":'):
        asked = problem(f"def check(c):\n    assert c(2) == 4\n\n{guard}\n    check(f)")
        assert parsed_tests(asked) == (Test("f(2)", 4),)
        whole = problem(f"def check(c):\n    for i in range(3): assert c(i) == 2 * i\n\n{guard}\n    check(f)")
        assert [UnitTests()(whole, f"def f(x): return {x}") for x in ("2 * x", "x")] == [1.0, 0.0]
    with pytest.raises(UserError, match="only define"):
        parsed_tests(problem("import math\nif __name__ == '__main__':\n    x = 1"))


def test_stored_tests_judge_as_before():
    asked = problem("assert f(2) == 4", {"stdin": "", "stdout": "a"})
    stored = Problem("p", "code", messages=asked.messages, answer=json.loads(json.dumps(asked.answer)))
    assert parsed_tests(stored) == parsed_tests(asked)
    assert parsed_tests(Problem("p", "code", text="x", answer="assert f(1)")) == (Test("bool(f(1))", True),)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "problem p: the answer must be a list of tests"),
        ((), "name the column of the tests with --task.answer_column"),
        (7, "not '7'"),
        (("assert f(",), r"the test 'assert f\(' is not valid Python .*; fix it"),
        (({"stdin": "a"},), 'a test must be Python text, or an object with the texts "stdin" and "stdout"'),
        ((3,), "a test must be Python text"),
        (("  ",), "a test must be Python text"),
        (("def check(c):\n    assert c(1) == 2",), r"every program would pass; add an assertion, or a line such as check\(f\), which calls a defined function"),
        (("import math", "x = 3"), "its tests only define names, such as 'import math'"),
    ],
)
def test_tests_that_are_none(answer, said):
    with pytest.raises(UserError, match=said):
        parsed_tests(Problem("p", "code", text="x", answer=answer))


def test_a_sandbox_that_fails_is_a_failure_not_a_wrong_answer(monkeypatch):
    def refuse(*args: object, **more: object) -> None:
        raise SandboxError("the sandbox could not start: no memory")

    monkeypatch.setattr(unit_tests, "ask", refuse)
    found = UnitTests()(problem("assert f(2) == 4"), "def f(x): return 4")
    assert isinstance(found, Failed)
    assert "no memory" in found.reason


@isolated
def test_an_answer_that_cannot_be_read_back_is_wrong() -> None:
    """Its real part, an integer above the largest float, made `complex` raise in the verifier."""
    program = "class C(complex):\n    real = 10**400\ndef f(x): return C(1)"
    assert UnitTests()(problem("assert f(2) == 4"), program) == 0.0


def test_a_fault_of_the_verifier_on_one_answer_is_that_answers_failure(monkeypatch):
    """A program that finds a fault of the verifier costs its own reward, never the run. A keyboard interrupt still stops the run."""
    raised: BaseException = ZeroDivisionError("seven")

    def judge(self: UnitTests, problem: Problem, completion: str) -> float:
        if completion == "b":
            raise raised
        return 1.0

    monkeypatch.setattr(UnitTests, "__call__", judge)
    tried = [SimpleNamespace(id=f"0/{c}", problem=problem("assert f(2) == 4"), completion=c) for c in "abc"]
    first = Facts()
    found = asyncio.run(UnitTests().together(tried, first))
    assert [found[0], found[2]] == [1.0, 1.0]
    assert isinstance(found[1], Failed)
    assert found[1].kind is FailureKind.RAISED
    assert found[1].reason.startswith("the verifier raised ZeroDivisionError: seven (test_unit_tests.py, line ")
    assert asyncio.run(UnitTests().together(tried, Facts(first.known))) == found
    with monkeypatch.context() as fixed:
        fixed.setattr(UnitTests, "__call__", lambda self, problem, completion: 0.0)
        assert asyncio.run(UnitTests().together(tried, Facts(first.known))) == [1.0, 0.0, 1.0]  # that one is judged again
    raised = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        UnitTests()._outcome(tried[1])


def test_missing_isolation_stops_before_the_first_program(monkeypatch):
    monkeypatch.setattr("gradus.sandbox.bubblewrap.missing", lambda: "bubblewrap is not installed: apt-get install bubblewrap")
    with pytest.raises(UserError, match="apt-get install bubblewrap"):
        UnitTests().check()
    with pytest.raises(UserError, match="only in isolation"):
        UnitTests()(problem("assert f(2) == 4"), "def f(x): return 4")


class Facts:
    """A world that keeps what is decided."""

    def __init__(self, known: dict[str, str] | None = None) -> None:
        self.known: dict[str, str] = dict(known or {})
        self.calls: list[str] = []

    def call(self, name: str) -> str:
        self.calls.append(name)
        return f"train/{name}/{self.calls.count(name)}"

    def fact(self, call: str) -> str | None:
        return self.known.get(call)

    def decide(self, call: str, reason: str) -> None:
        self.known[call] = reason

    def waiting(self, what: str, about: str = "") -> nullcontext[None]:
        return nullcontext()


def test_a_step_that_is_done_again_is_judged_as_the_first_time(monkeypatch):
    answers = {"a": 1.0, "b": Failed("it did not start", FailureKind.DIED), "c": 0.0}
    monkeypatch.setattr(UnitTests, "__call__", lambda self, problem, completion: answers[completion])
    tried = [SimpleNamespace(id=f"0/{c}", problem=problem("assert f(2) == 4"), completion=c) for c in "abc"]
    first = Facts()
    found = asyncio.run(UnitTests().together(tried, first))
    assert found == [1.0, Failed("it did not start", FailureKind.DIED), 0.0]
    answers.update(a=0.0, b=1.0)  # a machine that is slower, and a sandbox that starts this time
    assert asyncio.run(UnitTests().together(tried, Facts(first.known))) == found
    assert asyncio.run(UnitTests().together(tried, Facts())) == [0.0, 1.0, 0.0]
    assert asyncio.run(UnitTests().together([], Facts())) == []
    forgotten = {call: "" if Failed.read(fact).kind.chance else fact for call, fact in first.known.items()}  # a run that ended by failures
    forgotten = {call: fact for call, fact in forgotten.items() if fact}
    assert asyncio.run(UnitTests().together(tried, Facts(forgotten))) == [1.0, 1.0, 0.0]


@isolated
def test_rows_of_a_file_bring_their_tests(tmp_path):
    rows = [{"prompt": f"write f, number {i}", "tests": [f"assert f({i}) == {i * i}", "assert f(-1) == 1"]} for i in range(12)]
    file = tmp_path / "code.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = load_task_file(file, answer_column="tests", verify="unit_tests")
    (p,) = task.source.draw([3], None, Key(0))
    assert task.verify is not None
    assert task.verify(p, "def f(x): return x * x") == 1.0
    assert task.verify(p, "def f(x): return 1") == 0.0
    half = load_task_file(file, answer_column="tests", verify="unit_tests_share")
    assert half.verify is not None
    assert half.verify(p, "def f(x): return 1") == 0.5
    printing = tmp_path / "printing.jsonl"
    lines = [json.dumps({"prompt": f"add {i}", "answer": [{"stdin": "1", "stdout": str(1 + i)}]}) + "\n" for i in range(12)]
    printing.write_text("".join(lines))
    task = load_task_file(printing, verify="unit_tests")
    (p,) = task.source.draw([3], None, Key(0))
    assert task.verify is not None
    assert task.verify(p, f"print(int(input()) + {p.question.split()[1]})") == 1.0


def test_the_weaker_isolation_can_be_named_for_a_file(tmp_path):
    file = tmp_path / "code.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"write f, number {i}", "tests": ["assert f(2) == 4"]}) + "\n" for i in range(12)))
    given = {"answer_column": "tests", "verify": "unit_tests_share"}
    task = load_task_file(file, isolation="rlimits", **given)
    assert task.verify is not None
    assert task.verify.sandbox.isolation is Isolation.RLIMITS
    (p,) = task.source.draw([3], None, Key(0))
    assert task.verify(p, "def f(x): return x * x") == 1.0
    with pytest.raises(UserError, match='unknown isolation "docker"'):
        load_task_file(file, isolation="docker", **given)
    with pytest.raises(UserError, match="isolation rlimits has no effect, because the verifier final_answer runs no program"):
        load_task_file(file, isolation="rlimits", answer_column="tests")
