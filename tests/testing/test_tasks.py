"""The contract of tasks: a sound one keeps it, and each way to break it is found by the rule that is there for it."""

from __future__ import annotations

import itertools
import os
import random
import time
from dataclasses import dataclass, replace

import pytest

from gradus.tasks.generated import Draft, Generated, generated_task
from gradus.testing import ContractBroken, Effort, Limits, check_task, task_rules
from gradus.testing.hostile import FIXED
from gradus.types import NOT_APPLICABLE, Failed, Problem, UserError
from gradus.types.parts import Task

pytestmark = pytest.mark.alone

SMALL = Effort(problems=6, texts=40)


def make(rng, level):
    digits = [rng.randrange(10) for _ in range(2 * level)]
    question = "max " + " ".join(map(str, digits))
    return Draft(question, answer=max(digits), solution=f"={max(digits)}", content=question)


def verify(problem, completion):
    return float(completion.rpartition("=")[2].strip() == str(problem.answer))


def sound(**changes):
    task = generated_task("largest", make, verify, level=2, levels=(1, 4), max_tokens=12, chance=0.1, about="the largest of a few digits")
    return replace(task, **changes)


def drawn(**changes):
    """The sound task with another generator, or other levels."""
    task = sound()
    return replace(task, source=replace(task.source, **changes), held_out=replace(task.held_out, **changes))


def broken(task, limits=Limits(), **more):
    """The rules that find something, with the first finding of each."""
    report = check_task(task, effort=SMALL, limits=limits, **more)
    return {c.rule: c.findings[0] for c in report.checked if c.findings}


def test_a_sound_task_keeps_it():
    report = check_task(sound(), effort=SMALL, strict=True)
    assert [c.rule for c in report.checked] == list(task_rules(sound()))
    assert [c.rule for c in report.checked if c.skipped] == ["another process"]
    assert report.table().startswith("largest\n")


once = itertools.count()


def unsteady(rng, level):
    return make(random.Random(rng.random() + next(once)), level)


def shrinking(rng, level):
    return make(rng, 40 // level)


def faulty(rng, level):
    return make(rng, level) if level < 3 else Draft(*[None] * 3)


@dataclass(frozen=True)
class Fixed(Generated):
    """Gives the same problems whatever the key."""

    def draw(self, indices, level, key):
        return super().draw(indices, level, key.__class__(0))


def fixed():
    task = sound()
    return replace(task, source=Fixed("largest", make, 2, (1, 4)))


def misnamed(rng, level):
    return replace(make(rng, level), meta={"difficulty": 1})


def test_generators_that_break_it():
    assert "drawn again" in broken(drawn(make=unsteady))["equal keys"]
    assert "problems of level 2 are smaller than those of level 1" in broken(drawn(make=shrinking))["levels"]
    assert "another key gives the same problems of level 1" in broken(fixed())["other keys"]
    assert "problems of level 2 say that their difficulty is 1" in broken(drawn(make=misnamed))["levels"]
    assert "is also drawn for training" in broken(sound(held_out=sound().source, level=1))["held out"]
    assert broken(drawn(make=faulty)).keys() == {"problems"}
    assert "drawing problems of level 3 raised TypeError" in broken(drawn(make=faulty))["problems"]


def judged_by(function):
    return broken(sound(verify=function))


def once_right(problem, completion):
    """Right when it is asked for the first time."""
    problem.__dict__["asked"] = problem.__dict__.get("asked", 0) + 1
    return verify(problem, completion) if problem.__dict__["asked"] % 2 else 0.0


def scribbling(problem, text):
    problem.messages[0]["content"] += "!"
    return 1.0


def test_verifiers_that_break_it():
    found = judged_by(scribbling)["reference answers"]
    assert found.endswith("makes the verifier change the problem, which is also used to judge other answers; change a copy")
    assert "is judged 0.0, not 1.0" in judged_by(lambda p, text: 0.0)["reference answers"]
    assert "is judged failed (why), not 1.0" in judged_by(lambda p, text: Failed("why"))["reference answers"]
    assert "is judged not applicable, not 1.0" in judged_by(lambda p, text: NOT_APPLICABLE)["reference answers"]
    assert judged_by(lambda p, text: 1.0)["wrong answers"].endswith("the wrong answer '' is judged right")
    lenient = judged_by(lambda p, text: float("=" in text))
    assert "right answers to other problems are judged right (" in lenient["wrong answers"]
    assert "float nan" not in (found := judged_by(lambda p, text: float("nan")))["wrong answers"]
    assert "is judged nan, which is not a reward" in found["wrong answers"]
    assert "is judged str 'yes', which is not a reward" in judged_by(lambda p, text: "yes")["hostile answers"]
    assert "is judged 1.0, then 0.0 when asked again" in judged_by(once_right)["reference answers"]
    tuples = judged_by(lambda p, text: verify(p, text) if isinstance(p.meta["difficulty"], int) and p.meta.get("solution") else 0.0)
    assert tuples == {}


def test_what_storing_changes_is_found():
    def pairs(rng, level):
        draft = make(rng, level)
        return replace(draft, answer=(draft.answer,))

    def exact(problem, completion):
        return float(completion in [f"={a}" for a in problem.answer] and isinstance(problem.answer, tuple))

    task = drawn(make=pairs)
    assert broken(replace(task, verify=exact)).keys() == {"stored and read"}


def raises(problem, completion):
    return verify(problem, completion) if completion.isascii() else int(completion.encode())


def hangs(problem, completion):
    while completion.count("boxed") == 1:
        pass
    return verify(problem, completion)


def runs(problem, completion):
    try:
        return float(eval(completion.rpartition("=")[2]) == problem.answer)
    except BaseException:
        return 0.0


def starts(problem, completion):
    if "import" in completion:
        os.system("true")
    return verify(problem, completion)


def reads(problem, completion):
    if completion.startswith("."):
        try:
            open(completion).close()
        except (OSError, ValueError):
            return 0.0
    return verify(problem, completion)


def sleeps(problem, completion):
    if completion == FIXED["white space"]:
        time.sleep(60)
    return verify(problem, completion)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (raises, "raised UnicodeEncodeError"),
        (hangs, "took more than 0.2 s of processor time"),
        (runs, "ran code (exec of <string>)"),
        (starts, "started or stopped a process (os.system b'true')"),
        (reads, "touched a file (open '../../../../etc/passwd"),
        (sleeps, "gave no answer within 2 s"),
    ],
)
def test_hostile_text_finds(function, told):
    report = check_task(sound(verify=function), effort=Effort(problems=3, texts=60), limits=Limits(seconds=0.2), only=["hostile answers"])
    assert any(told in text for text in report.findings), report.table()
    assert all("of seed 0" in text for text in report.findings)


def test_a_verifier_that_always_hangs_is_not_asked_for_every_rule(monkeypatch):
    monkeypatch.setattr("gradus.testing.watched.WASTED", 0.2)
    monkeypatch.setattr("gradus.testing.watched.DOUBTED", 0.0)
    names = ["reference answers", "stored and read", "wrong answers", "hostile answers"]
    report = check_task(sound(verify=lambda problem, text: time.sleep(60)), effort=SMALL, limits=Limits(seconds=0.05, wall=0.4), only=names)
    (found,) = report.findings
    assert found.endswith("gave no answer within 0.4 s; the rest was not tried")
    assert [c.skipped for c in report.checked] == ["", *['it would take too long again, as for "reference answers"'] * 3]


def test_what_is_allowed_is_no_finding():
    limits = Limits(seconds=0.2, allow=frozenset({"process"}))
    assert check_task(sound(verify=starts), effort=SMALL, limits=limits, only=["hostile answers"], strict=True)


def test_answers_of_ones_own():
    wrong = broken(sound(), right=lambda p: [f"={p.answer} "], wrong=lambda p: [f"= {p.answer}"])
    assert wrong.keys() == {"wrong answers"}
    assert "is judged right" in wrong["wrong answers"]
    assert "'=11' is judged 0.0" in broken(sound(), right=lambda p: ["=11"])["reference answers"]


class Rows:
    """Two problems from a file, without level or worked solution."""

    size = 2

    def __init__(self, first=0):
        self.first = first

    def draw(self, indices, level, key):
        return [Problem(f"row-{self.first + i}", "rows", text=f"{self.first + i}+1?", answer=str(self.first + i + 1)) for i in indices]


def test_a_task_with_an_end_and_no_solutions():
    task = Task("rows", Rows(), Rows(2), verify=lambda p, text: float(text == f"\\boxed{{{p.answer}}}"))
    report = check_task(task, effort=SMALL, strict=True)
    assert {c.rule: c.skipped for c in report.checked if c.skipped}.keys() == {"another process", "other keys", "levels"}
    assert next(c for c in report.checked if c.rule == "reference answers").tried == 2
    strict = broken(replace(task, verify=lambda p, text: float(text == "42")))
    assert "nor is any other form of it" in strict["reference answers"]
    unknown = check_task(replace(task, source=Blank(), held_out=Blank(2)), effort=SMALL)
    assert "no problem has a reference answer" in next(c for c in unknown.checked if c.rule == "reference answers").skipped


class Blank(Rows):
    def draw(self, indices, level, key):
        return [replace(p, answer=None) for p in super().draw(indices, level, key)]


HASHED = """
from gradus.tasks.generated import Draft, generated_task
def make(rng, level):
    items = {rng.choice("abcdefghij") for _ in range(6)}
    return Draft(" ".join(ITEMS), answer=min(items), solution="=" + min(items), content=str(sorted(items)))
def verify(problem, completion):
    return float(completion == "=" + problem.answer)
def task():
    return generated_task("hashed", make, verify, level=1, levels=(1, 1), max_tokens=9, chance=0.1, about="the first letter")
"""


def test_another_process_finds_what_hashes_decide(tmp_path):
    for name, items, found in (("set", "items", True), ("sorted", "sorted(items)", False)):
        file = tmp_path / f"hashed_{name}.py"
        file.write_text(HASHED.replace("ITEMS", items))
        report = check_task(f"{file}:task", effort=SMALL, only=["another process"])
        assert [c.tried for c in report.checked] == [2]
        assert ("the problems of level 1 differ between processes" in report.table()) == found


def test_what_is_no_task_is_refused():
    with pytest.raises(UserError, match="did you mean arithmetic"):
        check_task("arithmetik")
    with pytest.raises(UserError, match="needs a Task or its name, but it got an object of type dict"):
        check_task({})
    with pytest.raises(UserError, match="`problems` is 0"):
        Effort(problems=0)
    with pytest.raises(UserError, match="did you mean hostile answers"):
        check_task(sound(), effort=SMALL, only=["hostile"])
    with pytest.raises(ContractBroken, match="is judged right"):
        check_task(sound(verify=lambda p, text: 1.0), effort=SMALL, strict=True)
