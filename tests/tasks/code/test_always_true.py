"""Tests in Python text that reward every program, and tests that do not."""

from __future__ import annotations

import ast
import json

import pytest

from gradus.checks.findings import Finding
from gradus.checks.judging import of_tests
from gradus.tasks.code.always_true import always_true, claims_nothing, fault, free_names
from gradus.tasks.code.unit_tests import UnitTests, parsed_tests, probes, refused
from gradus.tasks.data.loaders import load_task_file
from gradus.types import Problem, UserError
from tests.sandbox.isolated import isolated


def problem(*tests: object) -> Problem:
    return Problem("p", "code", text="write f", answer=tests)


NOTHING = {  # tests of one problem -> a part of the reason
    ("assert True",): "contain no assertion that can fail, such as 'assert True'",
    ("assert 1", "assert 'yes'"): "contain no assertion that can fail",
    ("assert 1 + 1 == 2",): "contain no assertion",
    ("assert not []",): "contain no assertion",
    ("assert f(1) == f(1)",): "contain no assertion",
    ("assert f(1) == 2 or True",): "contain no assertion",
    ("assert (f(i) == i for i in range(3))",): "contain no assertion",
    ("assert [f(1) == 2]",): "contain no assertion",
    ("assert lambda: f(1) == 2",): "contain no assertion",
    ("try:\n    assert f(1) == 2\nexcept Exception:\n    pass",): "contain no assertion",
    ("try:\n    assert f(1) == 2\nexcept:\n    print('failed')",): "contain no assertion",
    ("try:\n    assert f(1) == 2\nexcept (ValueError, AssertionError):\n    pass",): "contain no assertion",
    ("if False:\n    assert f(1) == 2",): "contain no assertion",
    ("while 0:\n    assert f(1) == 2",): "contain no assertion",
    ("for x in []:\n    assert f(x) == 2",): "contain no assertion",
    ("def check(c):\n    assert True\ncheck(f)",): "contain no assertion",
    ("def check(c):\n    assert c(1) == 2",): "only define names, such as 'def check(c):'",
    ("# nothing",): "contain no assertion",
    ("assert (f(1) == 2, 'message')",): "asserts a tuple, which is always true; leave out the brackets: assert f(1) == 2, 'message'",
    ("assert f(1) == 2", "assert (f(3) == 4, 'no')"): "asserts a tuple",
    ("def check(c):\n    assert (c(1) == 2, 'm')\n    assert c(2) == 3\ncheck(f)",): "asserts a tuple",
    ("f(1) == 2",): "'f(1) == 2' compares values but asserts nothing, so a wrong value passes; write assert f(1) == 2",
    ("assert f(1) == 2", "f(2) == 3 and f(3) == 4"): "compares values but asserts nothing",
    ("assert sorted([2, 1]) == [1, 2]",): "call no function of the program",
    ("def g(x): return x\nassert g(2) == 2",): "call no function of the program",
    ("x = 3\nassert x == 3",): "call no function of the program",
    ("import math\nassert math.isclose(math.pi, 3.14159265358979)",): "call no function of the program",
}
SOUND = [
    ("assert f(1) == 2",),
    ("assert True, 'so'", "assert f(1) == 2"),
    ("def check(c):\n    assert True, 'so'\n    assert c(1) == 2\ncheck(f)",),
    ("def check(c):\n    assert c(1) == 2", "check(f)"),
    ("try:\n    f(-1)\n    assert False\nexcept ValueError:\n    pass",),
    ("try:\n    f(-1)\nexcept Exception:\n    pass\nelse:\n    assert False",),
    ("try:\n    assert f(1) == 2\nexcept AssertionError:\n    raise SystemExit(1)",),
    ("for x in [1, 2]:\n    assert f(x) == x",),
    ("while True:\n    assert f(1) == 2\n    break",),
    ("x = f(1)\nassert x == 2",),
    ("f(1)",),
    ("from solution import f\nassert f(1) == 2",),
    ("assert globals()['f'](1) == 2",),
    ("import sys\nassert sys.modules['solution'].f(1) == 2",),
    ("if not f(1) == 2:\n    raise ValueError",),
    ("assert f(1) != f(2)",),
    ("assert not f(1)",),
    ("import math\nassert math.isclose(f(2), 4)",),
    ("with open('a', 'w') as file:\n    file.write('1')\nassert f('a') == '1'",),
]


@pytest.mark.parametrize(("tests", "said"), NOTHING.items(), ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_tests_that_every_program_passes_are_refused(tests, said):
    assert said in str(refused(problem(*tests)))
    with pytest.raises(UserError, match=r"^problem p: its test"):
        parsed_tests(problem(*tests))


@pytest.mark.parametrize("tests", SOUND, ids=lambda tests: tests[0])
def test_tests_that_a_program_can_fail_are_taken(tests):
    assert refused(problem(*tests)) is None


def test_outputs():
    assert "expect no output" in str(refused(problem({"stdin": "1", "stdout": " \n"})))
    assert refused(problem({"stdin": "1", "stdout": ""}, {"stdin": "2", "stdout": "2"})) is None
    assert refused(problem({"stdin": "1", "stdout": ""}, "assert f(1) == 2")) is None
    assert "asserts a tuple" in str(refused(problem({"stdin": "1", "stdout": "1"}, "assert (f(1), 2)")))
    assert refused(problem({"stdin": "1", "stdout": "1"}, "assert True")) is None


@isolated
def test_a_text_that_claims_nothing_is_no_test_of_its_own():
    """With the share of passed tests as the reward, it would give every program a part of it."""
    loop = "def check(c):\n    for i in range(3): assert c(i) == i"
    for tests in ((loop, "check(f)", "assert True"), ("assert True", loop, "check(f)"), (loop, "check(f)", "def more(): pass")):
        assert len(parsed_tests(problem(*tests))) == 1
        assert UnitTests(share=True)(problem(*tests), "def f(x): return 7") == 0.0
        assert UnitTests(share=True)(problem(*tests), "def f(x): return x") == 1.0


def test_conditions():
    for text, expected in (("True", True), ("0", False), ("None", False), ("[]", False), ("{1: 2}", True), ("f(1)", False), ("x <= x", True)):
        assert always_true(ast.parse(text, mode="eval").body) is expected, text
    assert claims_nothing(ast.parse("import math\nx = 3").body)
    assert not claims_nothing(ast.parse("check(f)").body)
    remedy = "add an assertion, or a line such as check(f), which calls a defined function"
    assert fault([]) == f"its tests contain no assertion that can fail, so every program would pass; {remedy}"


def test_the_programs_functions_are_the_names_that_nobody_else_defines():
    text = "import math\ndef check(c, n=2):\n    y = [c(x) for x in range(n)]\n    assert y == [g(1)], len(y)\ncheck(f)\nassert C().m(math.pi)"
    assert free_names([ast.parse(text).body]) == ["C", "f", "g"]
    assert probes(problem("assert f(1) == g(2)")) == [
        ("an empty program", "pass\n"),
        ("a program whose functions return None", "def f(*values, **named): return None\ndef g(*values, **named): return None\n"),
    ]
    assert probes(problem({"stdin": "", "stdout": "1"})) == [("an empty program", "pass\n")]


@isolated
def test_programs_that_solve_nothing_are_tried():
    verify = UnitTests()
    assert verify.passed_by(problem("assert f(1) == 2")) is None
    assert verify.passed_by(problem("assert f(1) is None")) == "a program whose functions return None"
    assert verify.passed_by(problem("f(1)")) == "a program whose functions return None"
    assert verify.passed_by(problem("import sys\nassert len(sys.argv) < 9")) == "an empty program"
    assert verify.passed_by(problem({"stdin": "", "stdout": "1"})) is None


def rows(*tests: list[object]) -> str:
    return "".join(json.dumps({"prompt": f"write f, number {i}", "tests": one}) + "\n" for i, one in enumerate(tests))


def test_a_file_with_such_a_row_is_refused_with_its_line(tmp_path):
    file = tmp_path / "code.jsonl"
    good: list[object] = ["assert f(1) == 2"]
    file.write_text(rows(good, good, ["assert True"], good))
    given = {"answer_column": "tests", "verify": "unit_tests"}
    with pytest.raises(UserError, match=r"code\.jsonl, line 3: \"tests\" cannot be used: its tests contain no assertion that can fail, such as 'assert True', so"):
        load_task_file(file, **given)
    assert load_task_file(file, bad_rows=0.25, **given).source.size == 2
    file.write_text(rows(good, [], good))
    with pytest.raises(UserError, match=r"line 2: \"tests\" cannot be used: the answer must be a list of tests"):
        load_task_file(file, **given)
    assert load_task_file(file, answer_column="tests").source.size == 2  # for another verifier these are answers


@isolated
def test_checks_name_the_problems_whose_tests_pass_a_program_that_solves_nothing(tmp_path):
    file = tmp_path / "code.jsonl"
    file.write_text(rows(["assert f(1) == 2"], ["import sys\nassert len(sys.argv) < 9"], ["f(1)"], ["assert f(2) == 4"]))
    task = load_task_file(file, answer_column="tests", verify="unit_tests")
    problems = [*task.source.draw(range(3), None, None), *task.held_out.draw([0], None, None)]
    found = list(of_tests(task, problems))
    remedy = "add a test with a value that only a real solution computes, or drop the row"
    assert [(f.verdict, f.says, f.remedy) for f in sorted(found, key=lambda f: f.verdict)] == [
        ("warning", "a program whose functions return None passes the tests of 1 of 4 problems", remedy),
        ("wrong", "an empty program passes the tests of 1 of 4 problems", remedy),
    ]
    assert all(isinstance(f, Finding) and len(f.details) == 1 for f in found)
