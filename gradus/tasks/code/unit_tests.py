"""A verifier that runs code: a completion's program is right if it passes the tests of the problem.

The problem's answer is a test or a list of tests. A test has one of two forms:
- Python text. A comparison with a literal, such as `assert f(2) == 3`, is split (`gradus.tasks.code.assertion_parser`): the program
  computes f(2), and only the verifier knows the expected value. A text with several assertions gives several tests. Any other text runs in the
  program's own interpreter and passes if it raises no exception. In this case, a program that is written to deceive can forge the verdict.
- {"stdin": text, "stdout": text}. The whole program reads `stdin` and must print `stdout`. Spaces at the ends of lines, and empty lines at the
  beginning and the end, are ignored.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from gradus.runtime.user_code import raised
from gradus.sandbox import End, Limits, Ran, Sandbox, SandboxError
from gradus.sandbox.calls import Raised, ask
from gradus.tasks.code.always_true import claims_nothing, fault, free_names, mistake
from gradus.tasks.code.assertion_parser import Test, as_script, claimed, right
from gradus.types import Failed, FailureKind, Outcome, Problem, Trajectory, UserError
from gradus.types.parts import World

_FENCED = re.compile(r"```[ \t]*(?:(?:python3?|py)[ \t]*)?\r?\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
OVER = (End.TIMEOUT, End.MEMORY, End.OUTPUT, End.DISK)
EMPTY = "an empty program"
LIMITS = Limits(wall=10.0, memory=256 << 20, output=256 << 10)


def written(problem: Problem, completion: str) -> str:
    """Returns the program that a completion writes: see `python_code`."""
    return python_code(completion)


@dataclass(frozen=True)
class UnitTests:
    """1.0 if the completion's program passes all tests of its problem, else 0.0. If a program exceeds a limit, it fails all remaining tests."""

    share: bool = False  # True: the reward is the share of tests passed
    sandbox: Sandbox = Sandbox(limits=LIMITS)
    program: Callable[[Problem, str], str] = written  # the program of a completion; an empty program is wrong
    answers_are_tests: ClassVar[bool] = True  # a problem's answer contains tests, not a right completion

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        """Returns the reward of a completion. Raises UserError for malformed tests, and if this machine cannot isolate programs."""
        tests = parsed_tests(problem)
        program = self.program(problem, completion)
        if not program.strip():
            return 0.0
        try:
            passed = self.passed(program, tests)
        except SandboxError as error:
            return Failed(str(error), FailureKind.DIED)
        return sum(passed) / len(passed) if self.share else float(all(passed))

    def passed(self, program: str, tests: Sequence[Test]) -> list[bool]:
        """Returns for each test whether a program passes it. Raises SandboxError if the program could not run.

        After the program exceeds a limit, all remaining tests count as failed. Without `share`, tests with `stdin` that have not run before the first failure
        also count as failed.
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

    def failure(self, problem: Problem, completion: str) -> str:
        """Returns the result of the first test with an expression that fails, such as "f(2) is 3, not 4"; an empty text if none fails.

        Raises SandboxError if the program could not run.
        """
        tests = [test for test in parsed_tests(problem) if test.expression is not None]
        found = ask(self.sandbox, self.program(problem, completion), [str(test.expression) for test in tests]).values
        failed = [(test, value) for test, value in zip(tests, found, strict=True) if not right(value, test)]
        return "".join(f"{t.expression} is {'an error' if isinstance(v, Raised) else repr(v)}, not {t.expected!r}" for t, v in failed[:1])

    async def together(self, trajectories: Sequence[Trajectory], world: World) -> list[Outcome]:
        """Judges many trajectories in parallel. If an exception is raised while an answer is judged, the outcome of this answer is `Failed`.

        The outcomes are recorded with the step (as facts), because a program may behave differently each time. A failure by an exception other than
        MemoryError is not recorded. A repeated step judges that answer again, because the user may have fixed the verifier.
        """
        if not trajectories:
            return []
        call = world.call(f"unit_tests/{trajectories[0].id}")
        found = _recorded(world, call, len(trajectories))
        asked = [n for n, known in enumerate(found) if known is None]
        if asked:
            with world.waiting("the sandbox", f"the tests of {len(trajectories)} programs"):
                judged = await asyncio.gather(*(asyncio.to_thread(self._outcome, trajectories[n]) for n in asked))
            for n, one in zip(asked, judged, strict=True):
                found[n] = one
                if isinstance(one, Failed) and one.kind.chance:
                    world.decide(f"{call}/{n}", one.told)
            world.decide(call, json.dumps([one if isinstance(one, float) else None for one in found]))
        return [one for one in found if one is not None]

    def _outcome(self, trajectory: Trajectory) -> Outcome:
        try:
            return self(trajectory.problem, trajectory.completion)
        except Exception as error:
            kind = FailureKind.MEMORY if isinstance(error, MemoryError) else FailureKind.RAISED
            return Failed(f"the verifier raised {raised(error)}", kind)

    def passed_by(self, problem: Problem) -> str | None:
        """Returns the name of a program in `probes` that passes all tests of a problem, although it solves nothing; None if the tests reject all `probes`.

        Raises: UserError for unusable tests, and if this machine cannot isolate programs; SandboxError if the program could not run.
        """
        tests = parsed_tests(problem)
        return next((name for name, program in probes(problem) if all(self.passed(program, tests))), None)

    def check(self) -> None:
        """Raises UserError if this machine cannot isolate programs."""
        self.sandbox.check()


def _recorded(world: World, call: str, count: int) -> list[Outcome | None]:
    """Returns the recorded outcomes of an earlier call, with None for every answer that must be judged again."""
    known = world.fact(call)
    rewards = [None] * count if known is None else [float(v) if isinstance(v, int | float) else None for v in json.loads(known)]
    failures = [world.fact(f"{call}/{n}") for n in range(count)]
    return [reward if failure is None else Failed.read(failure) for reward, failure in zip(rewards, failures, strict=True)]


def python_code(completion: str) -> str:
    """Returns the last block between ``` marks that is not empty, or the whole text if there is no such block."""
    blocks = [block for block in _FENCED.findall(completion) if block.strip()]
    return blocks[-1] if blocks else completion


def parsed_tests(problem: Problem) -> tuple[Test, ...]:
    """Returns the tests of a problem. Raises UserError if the problem's answer has no usable tests, or if every program would pass them."""
    reason, texts, pairs = _read(problem.answer)
    if reason is not None:
        raise UserError(f"problem {problem.id}: {reason}")
    return (*claimed(_joined(texts)), *pairs)


def refused(problem: Problem) -> str | None:
    """Returns the reason why the tests of a problem cannot be used, with the remedy; None if they can be used."""
    return _read(problem.answer)[0]


def _read(given: Any) -> tuple[str | None, list[tuple[str, list[ast.stmt]]], list[Test]]:
    """Returns (reason why the tests cannot be used or None, texts with their statements, tests of whole programs)."""
    texts: list[tuple[str, list[ast.stmt]]] = []
    pairs: list[Test] = []
    tests = [given] if isinstance(given, str | Mapping) else given
    if not isinstance(tests, list | tuple) or not tests:
        asked = "the answer must be a list of tests, each a Python text (assert f(2) == 3) or " + '{"stdin": ..., "stdout": ...}'
        return f"{asked}, not {str(given)[:60]!r}; name the column of the tests with --task.answer_column", texts, pairs
    for one in tests:
        if isinstance(one, str) and one.strip():
            text, body = _parsed(one)
            if isinstance(body, str):
                return body, texts, pairs
            texts.append((text, body))
        elif isinstance(one, Mapping) and set(one) == {"stdin", "stdout"} and all(isinstance(v, str) for v in one.values()):
            pairs.append(Test(stdin=one["stdin"], stdout=one["stdout"]))
        else:
            return f'a test must be Python text, or an object with the texts "stdin" and "stdout", not {str(one)[:80]!r}; fix the tests', texts, pairs
    bodies = [body for _, body in texts]
    reason = mistake(bodies) or (None if pairs else fault(bodies))
    silent = pairs and not any(_lines(str(pair.stdout)) for pair in pairs) and all(map(claims_nothing, bodies))
    if silent and reason is None:
        reason = "its tests expect no output, so every program that prints nothing would pass; add a test with an output"
    return reason, texts, pairs


def _joined(texts: Sequence[tuple[str, list[ast.stmt]]]) -> list[tuple[str, list[ast.stmt]]]:
    """Joins each text that is not a test by itself, such as a definition, to the next text that is a test; if no test follows, to the last test."""
    found: list[tuple[str, list[ast.stmt]]] = []
    before: list[tuple[str, list[ast.stmt]]] = []
    for one in texts:
        before.append(one)
        if not claims_nothing(one[1]):
            found.append(("\n".join(text for text, _ in before), [line for _, body in before for line in body]))
            before = []
    if before and found:
        text, lines = found[-1]
        found[-1] = ("\n".join([text, *(more for more, _ in before)]), [*lines, *(line for _, body in before for line in body)])
    return found


def probes(problem: Problem) -> list[tuple[str, str]]:
    """Returns (name, source) of useless programs: an empty program, and a program with functions that return None."""
    given = [problem.answer] if isinstance(problem.answer, str | Mapping) else problem.answer
    bodies = [body for one in given if isinstance(one, str) and isinstance(body := _parsed(one)[1], list)]
    stubs = "".join(f"def {name}(*values, **named): return None\n" for name in free_names(bodies))
    return [(EMPTY, "pass\n"), *([("a program whose functions return None", stubs)] if stubs else [])]


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[str, list[ast.stmt] | str]:
    """Returns (the text as it is run, its statements). If the text is not Python, the second element is the reason."""
    try:
        body = ast.parse(text).body
        script = as_script(body)
        return text if script == body else ast.unparse(ast.Module(script, [])), script
    except (SyntaxError, ValueError, RecursionError) as error:
        return text, f"the test {text[:80]!r} is not valid Python ({error}); fix it"


def _printed(ran: Ran, expected: str) -> bool:
    return ran.ok and _lines(ran.stdout) == _lines(expected)


def _lines(text: str) -> list[str]:
    """Splits an output into lines. Spaces and tabs at the ends of lines, and empty lines at the beginning and the end of the output, are removed.

    A line ends with a newline, with or without a carriage return before it. Python also splits lines at other characters; here these characters are part of a
    line.
    """
    lines = [line.rstrip(" \t") for line in text.replace("\r\n", "\n").split("\n")]
    full = [number for number, line in enumerate(lines) if line]
    return lines[full[0] : full[-1] + 1] if full else []
