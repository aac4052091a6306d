"""Checks the verifier and the reward before a run, on reference answers, on texts without an answer, and on samples of the model."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradus.checks.findings import Finding, counted
from gradus.checks.machine import sandboxes_of
from gradus.checks.prompts import shown
from gradus.checks.template import answers_of
from gradus.rewards.combine import check_reward
from gradus.rewards.verified import Verified, verdicts
from gradus.rollouts.demonstrations import told
from gradus.rollouts.ids import trajectory_name
from gradus.sandbox import SandboxError
from gradus.tasks.code.unit_tests import EMPTY, UnitTests
from gradus.types import Context, Failed, FailureKind, Group, Outcome, Problem, Request, Trajectory, UserError
from gradus.types.parts import OfSeveral, Task

NOTHING = "I do not know."
SECONDS = 10.0  # limit of one verdict, in seconds: in `of_verifier`, which judges in a separate process, processor time; in `of_references`, wall time


def of_verifier(task: Task, problems: Sequence[Problem]) -> Iterator[Finding]:
    """Checks the verifier.

    The verifier must judge every reference answer as right. The verifier must judge a text without an answer, and the answers to other problems, as wrong.
    """
    from gradus.testing.report import Checked, advice
    from gradus.testing.subject import Subject
    from gradus.testing.tasks import right_answers, wrong_answers
    from gradus.testing.watched import REACHES, Limits

    if task.verify is None:
        yield Finding("verifier", "not checked", f"task {task.name} has no verifier of texts")
        return
    boxes = list(sandboxes_of(task.verify))
    for box in boxes:
        box.check()  # once here; otherwise every answer would report a missing program
    # the contract test checks which resources a verifier uses; here the verifier must only give a verdict in time
    wall = 60.0 if boxes else 2 * SECONDS  # the programs of a sandbox have limits of their own
    subject = Subject(task, given=tuple(problems), limits=Limits(seconds=SECONDS, memory=0, allow=frozenset(REACHES), wall=wall))
    right = right_answers(subject)
    wrong = Checked("wrong answers", skipped="a right answer already took too long") if right.hung else wrong_answers(subject)
    if right.skipped:
        yield Finding("verifier", "not checked", "no problem has a reference answer")
    elif right.findings:
        says = f"{len(right.findings)} of {counted(right.tried, 'reference answer')} not judged right"
        remedy = 'fix the rows, or the verifier (for formulas --task.verify mathematics, else your own task, file.py:task)'
        yield Finding("verifier", "wrong", says, remedy, right.findings)
    if wrong.findings and not wrong.skipped:
        says = f"of {wrong.tried} wrong answers, some are judged right or break the verifier"
        yield Finding("verifier", "wrong", says, "; ".join(advice(wrong)), wrong.findings)
    elif right.tried and not right.findings:
        yield Finding("verifier", "ok", f"{counted(right.tried, 'reference answer')} judged right, {wrong.tried:,} wrong ones wrong")


def of_tests(task: Task, problems: Sequence[Problem]) -> Iterator[Finding]:
    """Runs the tests of problems on programs that contain no solution. An empty program must not pass, and a stub should not pass."""
    found: dict[str, list[str]] = {}
    tried = 0
    for problem in problems:
        verify = task.verify.of(problem) if isinstance(task.verify, OfSeveral) else task.verify
        if not isinstance(verify, UnitTests):
            continue
        try:
            passing = verify.passed_by(problem)
        except SandboxError as error:
            yield Finding("verifier", "warning", f"the sandbox failed: {error}", "see gradus doctor, and check whether other programs use all memory")
            return
        tried += 1
        if passing is not None:
            found.setdefault(passing, []).append(f"problem {problem.id}")
    for name, places in found.items():
        says = f"{name} passes the tests of {len(places)} of {counted(tried, 'problem')}"
        remedy = "add a test with a value that only a real solution computes, or drop the row"
        yield Finding("verifier", "wrong" if name == EMPTY else "warning", says, remedy, tuple(places))


def of_given(run: Any) -> Iterator[Finding]:
    """Yields a finding if the recipe trains on given answers and no part judges the task's answers. Otherwise yields nothing."""
    if getattr(run.recipe.rollout, "judges", lambda _: True)(run.task):
        return
    try:
        check_reward(run.recipe.reward, run.task)
    except UserError:
        given = "pairs" if {"chosen", "rejected"} <= run.task.provides else "solutions"
        yield Finding("reward", "not checked", f"{given} need no verdict")


async def of_reward(run: Any, problems: Sequence[Problem]) -> list[Finding]:
    """Checks the recipe's reward on reference answers, and on the answer "I do not know."."""
    if not run.task.of_text or run.task.environment is not None:
        return [Finding("reward", "not checked", "it is tried only on samples of the policy, because an answer in this task is not a single text")]
    world = run.world(run.recipe, "check")
    tests = getattr(run.task.verify, "answers_are_tests", False)
    texts = [(p, answers_of(p)) for p in problems if not tests or isinstance(p.meta.get("solution"), str)]
    asked = [(p, kind, text) for p, known in texts if known for kind, text in (("reference", known[0]), ("nothing", NOTHING))]
    if not asked:
        return [Finding("reward", "not checked", "no problem has a reference answer to try it on")]
    groups = [Group(f"check/{i}", (_given(world, p, text, i),)) for i, (p, _, text) in enumerate(asked)]
    started = time.perf_counter()
    judged = await world.judge(groups)
    seconds = time.perf_counter() - started
    rewards = [g.trajectories[0] for g in judged]
    failed = [t for t in rewards if t.failed is not None]
    if failed:
        details = tuple(dict.fromkeys(f"problem {t.problem.id}: {t.failed}" for t in failed))
        return [Finding("reward", "wrong", f"{len(failed)} of {counted(len(rewards), 'answer')} got no reward", "fix the reward function", details)]
    good, bad = ([t.value for t, (_, kind, _) in zip(rewards, asked, strict=True) if kind == wanted] for wanted in ("reference", "nothing"))
    says = f"reference answers {spread(good)}, {NOTHING!r} {spread(bad)}; {1000 * seconds / len(rewards):.2g} ms per answer"
    if np.mean(good) <= np.mean(bad):
        return [Finding("reward", "warning", says, "reference answers should earn more than a non-answer: check the reward, else it teaches the wrong behaviour")]
    return [Finding("reward", "ok", says)]


def _given(world: Any, problem: Problem, text: str, index: int) -> Trajectory:
    """Makes a trajectory from a given answer, as if the policy had sampled it."""
    request = Request(problem, tags=("check", index))
    context: Context = told(world.prompt(request), text, request, world)
    name = trajectory_name(0, request, 0)
    return Trajectory(name, problem, (context,), completion=world.text(context.tokens[context.chosen]), source="expert")


def spread(values: Sequence[float]) -> str:
    """Describes the range of some rewards in words."""
    low, high = min(values), max(values)
    return f"earn {low:.3g}" if low == high else f"earn {low:.3g} to {high:.3g}, mean {float(np.mean(values)):.3g}"


async def of_samples(run: Any, problems: Sequence[Problem], count: int) -> list[Finding]:
    """Checks the reward on `count` sampled answers of the policy to each problem."""
    world = run.world(run.recipe, "check")
    started = time.perf_counter()
    groups = await run.memory.answer(run.recipe, [Request(p, count=count, tags=("check",)) for p in problems], world)
    seconds = time.perf_counter() - started
    trajectories = [t for g in groups for t in g.trajectories]
    failed = [t for t in trajectories if t.failed is not None]
    share, allowed = len(failed) / max(1, len(trajectories)), run.recipe.setting.max_failed
    if failed:
        details = tuple(dict.fromkeys(f"{t.failed}" for t in failed))
        says = f"{len(failed)} of {counted(len(trajectories), 'sampled answer')} got no reward"
        verdict: Any = "wrong" if share > allowed else "warning"
        return [Finding("samples", verdict, says, "fix the reward; training never uses failed answers", details)]
    values = [t.value for t in trajectories]
    cut = sum(t.ended.value in ("length", "context") for t in trajectories)
    says = f"{counted(len(values), 'sampled answer')} {spread(values)}; {seconds / len(values):.2g} s per answer"
    found = [_mixed(groups, says) if any(values) else with_example(_mixed(groups, says), trajectories, run)]
    if cut * 2 > len(values):
        says = f"{cut} of {counted(len(values), 'sampled answer')} were cut at the limit of {world.sampling.limit} tokens"
        found.append(Finding("samples", "warning", says, "raise --max_tokens, unless answers should become shorter"))
    return found


def _mixed(groups: Sequence[Group], says: str) -> Finding:
    """Checks whether the reward gives different values to answers to the same problem. Methods that compare answers need this."""
    several = [g for g in groups if len(g.trajectories) > 1]
    mixed = [g for g in several if len({t.value for t in g.trajectories}) > 1]
    if several and not mixed:
        remedy = "take an easier level, a larger --group, a stronger model, or a reward with partial credit"
        return Finding("samples", "warning", f"{says}; all answers to a problem earn the same, so comparing them teaches nothing", remedy)
    return Finding("samples", "ok", says + (f"; rewards differ in {len(mixed)} of {len(several)} problems" if several else ""))


def with_example(found: Finding, trajectories: Sequence[Trajectory], run: Any) -> Finding:
    """Adds an example to the finding that all answers get reward 0: an answer and its reference. If possible, the example is an answer that contains its
    reference.
    """
    known = [(t.completion, str(t.problem.reference).strip()) for t in trajectories if str(t.problem.reference or "").strip()]
    if not known or run.task.environment is not None or getattr(run.task.verify, "answers_are_tests", False):
        return found
    around = [(text, wanted) for text, wanted in known if re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", text)]
    text, wanted = (around or known)[0]
    example = f'sampled "{shown(text)}", expected "{shown(wanted)}", reward 0'
    if not around or not isinstance(run.recipe.reward, Verified):
        return replace(found, details=(*found.details, example))
    contains = "the answer contains the reference but is not equal to it"
    remedy = "use a reward function, or a prompt that asks for the answer alone"
    return replace(found, details=(*found.details, example, contains), remedy=remedy)


def of_references(task: Task, problems: Sequence[Problem]) -> Iterator[Finding]:
    """Yields a warning if the verifier does not judge a worked solution, or any usual form of a reference answer, as right.

    The verifier is called as in a run. Answers are judged one after another. If an answer takes too long, no further answers are judged, because these checks
    must not delay the run.
    """
    from gradus.testing.subject import Subject

    if task.verify is None:
        return
    subject, refused = Subject(task), []
    for problem in problems:
        for forms in subject.references(problem):
            values = list(_until_right(task, problem, forms))
            last = values[-1] if values else None
            if isinstance(last, Failed) and last.kind is FailureKind.TIMEOUT:
                says = (
                    f"the verifier took more than {SECONDS:g} seconds for {forms[len(values) - 1][:60]!r} (problem {problem.id}), "
                    "so the other answers were not judged"
                )
                yield Finding("verifier", "warning", says, "make the verifier faster; see all answers with gradus check")
                return
            if values and not _is_right(last):
                first = values[0].told if isinstance(values[0], Failed) else values[0]
                refused.append(f"problem {problem.id}: {forms[0][:60]!r} is judged {first}")
    if refused:
        says = f"{len(refused)} of {counted(len(problems), 'reference answer')} not judged right"
        yield Finding("verifier", "warning", says, "see all of them with gradus check", tuple(refused))


def _until_right(task: Task, problem: Problem, forms: Sequence[str]) -> Iterator[Outcome]:
    """Yields the verdict on each form, up to the first form that is right or exceeds the time limit."""

    limits = Verified(timeout=SECONDS, retries=0).limits
    for number, text in enumerate(forms):
        (value,) = verdicts(task, [Trajectory(f"check/{number}", problem, (), completion=text)], limits)
        yield value
        if _is_right(value) or (isinstance(value, Failed) and value.kind is FailureKind.TIMEOUT):
            return


def _is_right(value: Outcome | None) -> bool:
    return isinstance(value, float) and value >= 1
