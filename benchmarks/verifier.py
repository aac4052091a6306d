"""The verifier of unit tests against programs that would rather not solve their problem, and against wrong values.

    python -m benchmarks.verifier

Every program must earn 0 without a failure of the verifier, every wrong value 0, every right one 1. The exit code is 1 if one does not.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from benchmarks.verifier_programs import RIGHT, SOLUTION, TESTS, WRONG, programs
from gradus.sandbox import Limits, Sandbox, missing
from gradus.tasks.code.unit_tests import UnitTests
from gradus.types import Failed, Outcome, Problem, Trajectory

VERIFIER = UnitTests(share=True, sandbox=Sandbox(limits=Limits(wall=2.0, memory=160 << 20, output=256 << 10)))


class World:
    """As much of a run as a verifier asks for, without facts."""

    def call(self, name: str) -> str:
        return name

    def fact(self, call: str) -> str | None:
        return None

    def decide(self, call: str, reason: str) -> None:
        pass

    def waiting(self, what: str, about: str = "") -> nullcontext[None]:
        return nullcontext()


def judged(given: Sequence[tuple[Sequence[str], str]]) -> list[Outcome]:
    """The outcome of each pair of tests and a program, by the route of a run."""
    problems = [(Problem(str(n), "code", text="Write f.", answer=tuple(tests)), program) for n, (tests, program) in enumerate(given)]
    asked = [Trajectory(p.id, p, (), completion=f"```python\n{program}\n```") for p, program in problems]
    world: Any = World()
    return asyncio.run(VERIFIER.together(asked, world))


def of_values(pairs: Sequence[tuple[str, str]]) -> list[tuple[Sequence[str], str]]:
    """Tests and program for each expected literal and returned value."""
    return [((f"assert f() == {expected}",), f"def f(): return {value}") for expected, value in pairs]


def complaint(outcome: Outcome, expected: float) -> str | None:
    """A text if the outcome is not the expected one."""
    if isinstance(outcome, Failed):
        return f"fails the verifier: {outcome.reason}"
    return None if outcome == expected else f"earns {outcome}, not {expected}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="one kind")
    options = parser.parse_args()
    if (reason := missing()) is not None:
        raise SystemExit(reason)
    asked = {kind: ([(TESTS, source) for source in named.values()], list(named), 0.0) for kind, named in programs().items()}
    asked["wrong values"] = (of_values(WRONG), [f"{value} for {expected}" for expected, value in WRONG], 0.0)
    asked["right values"] = (of_values(RIGHT), [f"{value} for {expected}" for expected, value in RIGHT], 1.0)
    asked["the solution"] = ([(TESTS, SOLUTION)], ["x * x"], 1.0)
    bad, count, begun = 0, 0, time.monotonic()
    for kind, (given, names, expected) in asked.items():
        if options.only not in ("", kind):
            continue
        started, wrong = time.monotonic(), 0
        for name, outcome in zip(names, judged(given), strict=True):
            if (text := complaint(outcome, expected)) is not None:
                wrong += 1
                print(f"  {kind}: {name}: {text}")
        print(f"{kind:<14} {len(given):>3} programs, {wrong} complaints, {time.monotonic() - started:.1f} s", flush=True)
        bad, count = bad + wrong, count + len(given)
    print(f"{'all':<14} {count:>3} programs, {bad} complaints, {time.monotonic() - begun:.1f} s")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
