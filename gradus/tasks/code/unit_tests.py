"""A verifier that runs code: a completion's program is right where it passes its problem's tests, which it never sees.

The tests are the problem's answer: a list (or one alone) of
- Python text. `assert f(2) == 3`, and what else compares with literals, is taken apart (`gradus.tasks.code.assertion_parser`): the program computes f(2), and
  what is right is known only outside; a text of several assertions is several tests. Any other text runs in the program's own interpreter and
  passes where it does not raise; a program that is written to deceive can then forge the verdict;
- {"stdin": text, "stdout": text}: the whole program reads the one and must print the other; spaces at the ends of lines do not count.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from gradus.sandbox import End, Limits, Ran, Sandbox, SandboxError
from gradus.sandbox.calls import ask
from gradus.tasks.code.assertion_parser import Test, as_script, claimed, claims_nothing, right
from gradus.types import Failed, FailureKind, Outcome, Problem, Trajectory, UserError
from gradus.types.parts import World

_FENCED = re.compile(r"```[ \t]*(?:(?:python3?|py)[ \t]*)?\r?\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
OVER = (End.TIMEOUT, End.MEMORY, End.OUTPUT, End.DISK)
LIMITS = Limits(wall=10.0, memory=256 << 20, output=256 << 10)


@dataclass(frozen=True)
class UnitTests:
    """1.0 where the completion's program passes all tests of its problem. One over a limit fails the tests that it did not reach."""

    share: bool = False  # True: the share of tests passed
    sandbox: Sandbox = Sandbox(limits=LIMITS)
    answers_are_tests: ClassVar[bool] = True  # a problem's answer judges answers and is none itself

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        """Raises UserError for tests that are none, and where isolation is missing."""
        tests = parsed_tests(problem)
        program = python_code(completion)
        if not program.strip():
            return 0.0
        try:
            passed = self.passed(program, tests)
        except SandboxError as error:
            return Failed(str(error), FailureKind.DIED)
        return sum(passed) / len(passed) if self.share else float(all(passed))

    def passed(self, program: str, tests: Sequence[Test]) -> list[bool]:
        """Which tests a program passes; none after one in which it went over a limit, nor, without `share`, after one that it failed.

        Raises SandboxError where it could not be run.
        """
        called = [t for t in tests if t.expression is not None]
        stated = [t for t in tests if t.statement is not None]
        verdicts: dict[int, bool] = {}
        if called or stated:
            before = [sum(other.expression is not None for other in tests[:at]) for at, t in enumerate(tests) if t.statement is not None]
            answered = ask(self.sandbox, program, [str(t.expression) for t in called], [str(t.statement) for t in stated], before)
            verdicts |= {id(t): right(value, t) for t, value in zip(called, answered.values, strict=True)}
            verdicts |= {id(t): ok for t, ok in zip(stated, answered.passed, strict=True)}
        done = not self.share and not all(verdicts.values())
        for test in tests:
            if test.stdout is not None and not done:
                ran = self.sandbox.run(program, stdin=test.stdin)
                verdicts[id(test)] = passed = _printed(ran, test.stdout)
                done = ran.ended in OVER or not (passed or self.share)
        return [verdicts.get(id(test), False) for test in tests]

    async def together(self, trajectories: Sequence[Trajectory], world: World) -> list[Outcome]:
        """The outcomes of many at once. They are kept as a fact of the step: what a program does is no function of the run's seed."""
        if not trajectories:
            return []
        call = world.call(f"unit_tests/{trajectories[0].id}")
        known = world.fact(call)
        if known is not None:
            return [Failed.read(v["failed"]) if isinstance(v, dict) else float(v) for v in json.loads(known)]
        with world.waiting("the sandbox", f"the tests of {len(trajectories)} programs"):
            found = await asyncio.gather(*(asyncio.to_thread(self, t.problem, t.completion) for t in trajectories))
        world.decide(call, json.dumps([{"failed": o.told} if isinstance(o, Failed) else o for o in found]))
        return list(found)

    def check(self) -> None:
        """Raises UserError where programs cannot be isolated here."""
        self.sandbox.check()


def python_code(completion: str) -> str:
    """The last block between ``` that has anything in it, or the whole text where there is none."""
    blocks = [block for block in _FENCED.findall(completion) if block.strip()]
    return blocks[-1] if blocks else completion


def parsed_tests(problem: Problem) -> tuple[Test, ...]:
    """The tests of a problem. Raises UserError where its answer is none."""
    given = problem.answer
    given = [given] if isinstance(given, str | Mapping) else given
    if not isinstance(given, list | tuple) or not given:
        raise UserError(
            f"problem {problem.id}: its answer must be its tests, a list of Python text (assert f(2) == 3) or of "
            f'{{"stdin": ..., "stdout": ...}}, not {str(problem.answer)[:60]!r}; name the column that holds them with --task.answer_column'
        )
    texts = [_parsed(one, problem.id) for one in given if isinstance(one, str) and one.strip()]
    pairs = [_pair(one, problem.id) for one in given if not (isinstance(one, str) and one.strip())]
    if not pairs and all(claims_nothing(body) for _, body in texts):
        raise UserError(
            f"problem {problem.id}: its tests only define, such as {given[0][:80]!r}, so that every program would pass; "
            "add an assertion, or a line that calls what is defined: check(f)"
        )
    return (*claimed(texts), *pairs)


def _pair(given: Any, where: str) -> Test:
    if isinstance(given, Mapping) and set(given) == {"stdin", "stdout"} and all(isinstance(v, str) for v in given.values()):
        return Test(stdin=given["stdin"], stdout=given["stdout"])
    raise UserError(
        f'problem {where}: a test must be Python text, or hold the texts "stdin" and "stdout", not {str(given)[:80]!r}; mend the tests'
    )


@lru_cache(maxsize=4096)
def _parsed(text: str, where: str) -> tuple[str, list[ast.stmt]]:
    """A text as it is run, and its lines."""
    try:
        body = ast.parse(text).body
        script = as_script(body)
        return text if script == body else ast.unparse(ast.Module(script, [])), script
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UserError(f"problem {where}: the test {text[:80]!r} is no Python ({error}); mend it") from None


def _printed(ran: Ran, expected: str) -> bool:
    return ran.ok and _lines(ran.stdout) == _lines(expected)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]
