"""The task code_repair: edits by hand, the planted faults, both forms, what is judged right, and the contract."""

from __future__ import annotations

import random

import pytest

from gradus.environments.program_edits import Edit, EditError, applied, block, edits_of, fix_of, proposed
from gradus.tasks.code.code_repair import FAULTS, OPERATIONS, code_repair, faulty, function_text, repaired, rewritten, value
from gradus.testing import Effort, check_task
from gradus.types import Frozen, Key, Problem, UserError
from tests.sandbox.isolated import isolated
from tests.tasks.contract import HOSTILE, check_read_back, check_split

FILES = {"a.py": "def f(x):\n x=x+3\n x=x+3\n return x", "b.py": "def g(x):\n return x"}


@isolated
@pytest.mark.nightly
@pytest.mark.parametrize("form", ["edit", "function"])
def test_the_contract(form) -> None:
    task = code_repair(level=1, form=form)
    check_task(task, right=lambda p: [p.meta["solution"]], wrong=lambda p: HOSTILE, effort=Effort(problems=2, texts=8), strict=True)
    check_split(task)


@isolated
@pytest.mark.nightly
def test_problems_are_read_back() -> None:
    check_read_back(code_repair(level=1))


@pytest.mark.parametrize(("name", "operation"), OPERATIONS.items())
def test_every_operation_means_the_same_in_python_and_as_a_function(name, operation) -> None:
    """The code is our own text, and is run here; what models write never is."""
    for x in (-7, -1, 0, 2, 9, 15):
        for k in (2, 5, 9):
            assert eval(operation.code.format(k=k), {"x": x}) == operation.does(x, k), (name, x, k)
    assert OPERATIONS[operation.other].other == name


def test_faults_by_hand() -> None:
    steps = [("add", 3), ("times", 2), ("cap", 9)]
    assert value(steps, 1) == 8
    assert value(steps, 5) == 9
    for seed in range(20):
        number, _ = faulty(random.Random(seed), steps, "number")
        operation, at = faulty(random.Random(seed), steps, "operation")
        order, two = faulty(random.Random(seed), steps, "order")
        assert [a == b for a, b in zip(number, steps, strict=True)].count(False) == 1
        assert operation[at][0][0] == OPERATIONS[steps[at][0][0]].other
        assert order in ([steps[1], steps[0], steps[2]], [steps[0], steps[2], steps[1]])
        assert two.stop - two.start == 2
    assert function_text("f", steps) == "def f(x):\n x=x+3\n x=x*2\n x=min(x,9)\n return x"


def test_the_fault_is_the_only_difference_and_the_prompt_shows_all_files() -> None:
    kinds = set()
    for level, sizes in ((1, [5]), (2, [10]), (3, [10, 10]), (4, [14, 14])):
        for p in code_repair(level=level).source.draw(range(12), level, Key(level)):
            files, oracle = p.meta["files"], p.meta["oracle"]
            assert [len(text.split("\n")) for text in files.values()] == sizes
            assert sum(files[name] != oracle[name] for name in files) == 1
            assert proposed(files, p.meta["solution"]) == {n: t for n, t in oracle.items() if t != files[n]}
            assert all(f"### {name}\n{text}" in p.question for name, text in files.items())
            kinds.add(p.meta["category"])
    assert kinds == set(FAULTS)


def test_edits_by_hand() -> None:
    assert applied(FILES, [Edit("a.py", " x=x+3", " x=x+4")]) == {"a.py": "def f(x):\n x=x+4\n x=x+4\n return x"}  # every occurrence
    twice = [Edit("b.py", "def g", "def h"), Edit("b.py", "def h", "def g")]
    assert applied(FILES, twice) == {"b.py": FILES["b.py"]}
    for wrong in (
        [],
        [Edit("a.py", "x=x+3", "x=x+4")],  # not at the start of a line
        [Edit("a.py", " x=x+9", " x=x+4")],
        [Edit("c.py", "def f", "def g")],  # an empty file
        [Edit("a.py", " x=x+3", " x=x+3")],
        [Edit("a.py", "", " x=x+3")],
    ):
        with pytest.raises(EditError):
            applied(FILES, wrong)


def test_replies_by_hand() -> None:
    long = "```python\n### a.py\n<<<<<<< SEARCH\n x=x+3\n=======\n x=x+4\n>>>>>>> REPLACE\n```"
    assert edits_of(long) == [Edit("a.py", " x=x+3", " x=x+4")]
    assert edits_of("### a.py\n<<<\n x=1\n===\n>>>") == [Edit("a.py", " x=1", "")]
    both = f"{block(Edit('a.py', ' a', ' b'))}\n{block(Edit('b.py', ' c', ' d'))}"
    assert [e.path for e in edits_of(both)] == ["a.py", "b.py"]
    right = f"<think>t</think><solution>{long}</solution>"
    assert proposed(FILES, right)["a.py"].count("x+4") == 2
    swapped = f"<solution>{long}</solution><think>t</think>"
    for text in (long, f"<think> </think><solution>{long}</solution>", f"{right}<think>", swapped, "<think>t</think><solution>no</solution>"):
        with pytest.raises(EditError):
            proposed(FILES, text)
    problem = Problem("p", "code_repair", text="q", meta=Frozen(files=FILES))
    assert repaired(problem, right) == "def f(x):\n x=x+4\n x=x+4\n return x\ndef g(x):\n return x"
    assert repaired(problem, long) == ""


def test_functions_by_hand() -> None:
    problem = Problem("p", "code_repair", text="q", meta=Frozen(files={"a.py": "def f(x):\n return x"}))
    reply = "<explanation>add 3 must be add 4</explanation><fix>\ndef f(x):\n return x+4\n</fix>"
    assert fix_of(reply) == "def f(x):\n return x+4"
    assert rewritten(problem, reply) == "def f(x):\n return x\ndef f(x):\n return x+4"
    assert rewritten(problem, "def f(x):\n return x+4") == fix_of("<fix>x</fix>") == ""


@isolated
def test_another_repair_is_right_and_a_repair_that_breaks_another_function_is_wrong() -> None:
    task = code_repair(level=2, reward="share")
    (p,) = task.source.draw([1], 2, Key(0))
    name, path = p.meta["function"], "a.py"
    text = p.meta["oracle"][path].split(f"def {name}(x):\n")[1].split("\n return x")[0]
    body = p.meta["files"][path].split(f"def {name}(x):\n")[1].split("\n return x")[0]
    other = f"<think>t</think><solution>{block(Edit(path, body, f'{text}{chr(10)} x=x+0'))}</solution>"
    spoiled = f"<think>t</think><solution>{block(Edit(path, body, text))}\n{block(Edit(path, 'def ' + ('f' if name == 'g' else 'g'), 'def q'))}</solution>"
    assert task.verify(p, other) == 1.0
    assert task.verify(p, spoiled) == pytest.approx(8 / 10)
    assert task.verify(p, "nothing") == 0.0


@pytest.mark.parametrize("options", [{"form": "x"}, {"reward": "x"}, {"isolation": "x"}])
def test_unknown_options_are_refused(options) -> None:
    with pytest.raises(UserError):
        code_repair(**options)
