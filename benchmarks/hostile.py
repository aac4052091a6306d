"""Fuzzes every function that judges a model's text: verifiers, environments and other readers of answers, in a watched process.

    python -m benchmarks.hostile --texts 1000000

No function may raise an error, take more than a second of processor time, run text as code, or use files, processes or the network.
Prints for each the texts per second, and the slowest text with its time. The exit code is 1 if there is a finding. A text is a function
of seed and number, so every text of a finding can be made again: gradus.testing.hostile_text(number, answers, seed).
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.mathematics_pairs import pairs
from gradus.recipe.registry import task_maker, task_modules
from gradus.rollouts.experience_extractors import parsed
from gradus.sandbox import missing
from gradus.tasks.code import unit_tests
from gradus.tasks.data import final_answer, gsm8k
from gradus.tasks.maths import mathematics
from gradus.testing.hostile import hostile_text
from gradus.testing.report import brief
from gradus.testing.subject import Effort, allowed, plain, subject_of
from gradus.testing.watched import Limits, watch
from gradus.types import Key, Problem
from gradus.workers.trl_signature import outcome

SHARES = {
    "mathematics": 8.0,
    "final_answer": 4.0,
    "code": 0.02,
    "python_tool": 0.02,
}  # shares of the texts; the others have share one. A program takes 50 ms to run
LEFT = (
    ("gsm8k", "flow_2d") if missing() is None else ("gsm8k", "flow_2d", "code", "python_tool")
)  # needs a file; judges no text; needs a sandbox
PROBLEMS = 3  # per level
WARM = 3  # plain texts before the hostile ones, so that all imports are done


@dataclass(frozen=True)
class Judge:
    """A function that judges text. `call` takes a number, which chooses the problem, and the text; `like`: right answers."""

    call: Callable[[int, str], Any]
    like: Sequence[str]
    allow: frozenset[str] = frozenset()  # resources that it may use


def judges(names: Sequence[str] = ()) -> dict[str, Judge]:
    """The judges by name: all, or those in `names`."""
    made: dict[str, Callable[[], Judge]] = {name: lambda name=name: of_task(name) for name in task_modules() if name not in LEFT}
    made |= {
        "gsm8k": lambda: verifier(gsm8k.verify, ["72", "-3/4", "1080", "0.5"], ["#### 72", "\\boxed{-0.75}", "It is $1,080.00."]),
        "final_answer": lambda: verifier(final_answer.verify, *golds(200)),
        "majority vote": lambda: Judge(lambda i, text: str(final_answer.answered(text))[:100], golds(200)[1]),
        "mathematics": lambda: verifier(mathematics.mathematics, *golds(400)),
        "edits of a library": lambda: Judge(
            lambda i, text: [str(edit)[:100] for edit in parsed(text, 5)], ["Add: check the sign", "Modify 3: use units", "Delete 1\nKeep"]
        ),
        "programs in text": lambda: Judge(
            lambda i, text: unit_tests.python_code(text)[:100], ["```python\ndef f(x):\n    return sum(x)\n```\nDone."]
        ),
        "text as a reward": lambda: Judge(lambda i, text: plain(outcome(text)), ["1.0"]),
    }
    if missing := [name for name in names if name not in made]:
        raise SystemExit(f"there is no judge {missing[0]}; known: {', '.join(made)}")
    return {name: make() for name, make in made.items() if not names or name in names}


def of_task(name: str) -> Judge:
    """A task's verifier or environment over problems of all levels; a text is the answer or the first action."""
    subject = subject_of(task_maker(name)(), effort=Effort(problems=PROBLEMS))
    problems, task = subject.problems, subject.task
    if task.verify is not None:
        verify = task.verify
        return Judge(lambda i, text: plain(verify(problems[i % len(problems)], text)), subject.like, allowed(verify))
    environment, loop = task.environment, asyncio.new_event_loop()
    assert environment is not None
    nothing: Any = None  # the built-in environments need no world

    def step(i: int, text: str) -> Any:
        episode = environment.start(problems[i % len(problems)], Key(i), nothing)
        return plain(loop.run_until_complete(episode.step(text)).reward)

    actions = [action for p in problems for _, action in p.meta.get("demonstration", ())]
    actions += getattr(getattr(environment, "acts", None), "names", ())  # of a choice, which a text may name
    return Judge(step, [*subject.like, *actions], allowed(environment))


def verifier(verify: Callable[[Problem, str], Any], answers: Sequence[Any], like: Sequence[str]) -> Judge:
    """A verifier of data files, over problems with these answers."""
    problems = [Problem(str(i), "data", text="?", answer=answer) for i, answer in enumerate(answers)]
    return Judge(lambda i, text: plain(verify(problems[i % len(problems)], text)), like)


def golds(count: int) -> tuple[list[str], list[str]]:
    """Mathematical answers of all kinds, and texts with such answers."""
    made = list(pairs(count, seed=5))
    return [p.gold for p in made], [p.answer for p in made]


@dataclass
class Found:
    """The results of one judge."""

    texts: int
    wall: float
    worst: float
    worst_text: str
    wrong: list[str]

    @property
    def line(self) -> str:
        return f"{self.texts:>8} {self.texts / self.wall:>9,.0f}/s {1000 * self.worst:>8.0f} ms  {brief(self.worst_text, 48)}"


def fuzz(judge: Judge, texts: int, seed: int, limits: Limits = Limits()) -> Found:
    """Judges hostile texts 0 to `texts` of a seed."""
    found = Found(texts, 0.0, 0.0, "", [])

    def ask(index: int) -> tuple[int, str]:
        number = index - WARM
        return number, hostile_text(number, judge.like, seed) if number >= 0 else judge.like[index % len(judge.like)]

    began = time.perf_counter()
    limits = replace(limits, allow=limits.allow | judge.allow)
    for call in watch(lambda asked: judge.call(*asked), ask, texts + WARM, limits):
        if call.index < WARM:
            began = time.perf_counter()
            continue
        wrong = call.complaint or (f"gives {call.value['not']}" if isinstance(call.value, dict) and "not" in call.value else "")
        if wrong:
            found.wrong.append(f"text {call.index - WARM} of seed {seed}, {brief(ask(call.index)[1])}: {wrong}")
        if call.seconds > found.worst:
            found.worst, found.worst_text = call.seconds, ask(call.index)[1]
    found.wall = max(time.perf_counter() - began, 1e-9)
    return found


def shares(names: Sequence[str], texts: int) -> dict[str, int]:
    """The number of texts per judge; together at least `texts`."""
    parts = sum(SHARES.get(name, 1.0) for name in names)
    return {name: math.ceil(texts * SHARES.get(name, 1.0) / parts) for name in names}


def run(texts: int, seed: int = 0, names: Sequence[str] = (), limits: Limits = Limits()) -> Iterator[tuple[str, Found]]:
    """Every judge's results, one judge after another."""
    all_of: Mapping[str, Judge] = judges(names)
    for name, count in shares(list(all_of), texts).items():
        yield name, fuzz(all_of[name], count, seed, limits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="names of judges, with commas between them")
    parser.add_argument("--seconds", type=float, default=1.0, help="limit of processor time per text")
    options = parser.parse_args()
    names, limits = [n for n in options.only.split(",") if n], replace(Limits(), seconds=options.seconds)
    began, total, wrong, worst = time.perf_counter(), 0, 0, 0.0
    print(f"{'':<20} {'texts':>8} {'texts/s':>11} {'slowest':>11}", flush=True)
    for name, found in run(options.texts, options.seed, names, limits):
        print(f"{name:<20} {found.line}", flush=True)
        for text in found.wrong[:10]:
            print(f"    {text}", flush=True)
        total, wrong, worst = total + found.texts, wrong + len(found.wrong), max(worst, found.worst)
    took = time.perf_counter() - began
    print(f"{total:,} texts in {took:,.0f} s ({os.cpu_count()} cores), slowest {1000 * worst:,.0f} ms, {wrong} findings")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
