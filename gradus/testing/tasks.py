"""The contract of a task: problems depend only on the key; the verifier accepts only right answers, and no text breaks it."""

from __future__ import annotations

import hashlib
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from gradus.runtime.user_code import raised
from gradus.testing.environments import RULES as ENVIRONMENT_RULES
from gradus.testing.environments import played, told
from gradus.testing.report import Checked, Progress, Report, brief, run_rules, sentences
from gradus.testing.subject import Effort, Subject, Texts, allowed, content, full, no_outcome, of_arrays, plain, said, stored, subject_of
from gradus.testing.watched import Call, Limits, watch
from gradus.types import Problem, UserError
from gradus.types.parts import Task

DRAWING = 20.0  # limit in seconds of processor time for drawing the problems of one level
NOTHING = ("", " ", "\n", "?", "I do not know.", "No idea")  # empty answers
LENIENT = 0.5  # allowed share of right answers to other problems that are judged right, because in some tasks several problems have the same answer
SHRINKS = 0.9  # by chance, problems of a level may be shorter than those of the level below by this factor


def check_task(
    task: Task | str,
    *,
    right: Texts | None = None,
    wrong: Texts | None = None,
    effort: Effort = Effort(),
    limits: Limits = Limits(),
    only: Iterable[str] | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Tests a task against its contract. If the task has an environment, also tests the environment against the contract of environments.

    Args: `task`: a Task or its name (with a name, the task is also made in another process, which has other hashes). `right`: a function that returns answers
    to a problem; the verifier must judge them 1.0 (None: the worked solution, or else the answer). `wrong`: a function that returns wrong answers; the
    verifier must not judge them 1.0 (empty answers and right answers to other problems are always tried, too). `effort`: the number of problems and of
    hostile texts. `limits`: the limits of one call of the verifier. `only`: the rules to try, from `task_rules(task)` (None: all rules). `strict`: whether a
    finding raises an error. `progress`: a function that is called with each rule before the rule is tried.
    Raises: UserError for an unknown name. With `strict`, any finding raises ContractBroken, an AssertionError.

    >>> check_task("arithmetic", effort=Effort(problems=5, texts=60)).ok
    True
    """
    subject = subject_of(task, right=right, wrong=wrong, effort=effort, limits=limits)
    if progress is not None:
        progress(subject.task.name, "drawing problems")
    drawn = drawing(subject)
    if drawn.findings:  # without problems no other rule can be tried
        report = Report(subject.task.name, (drawn,))
        return report.demand() if strict else report
    return run_rules(subject, subject.task.name, task_rules(subject.task), only, strict=strict, progress=progress)


def task_rules(task: Task) -> dict[str, Any]:
    """The rules for a task, by name."""
    return RULES | (ENVIRONMENT_RULES if task.environment is not None else {})


def drawing(subject: Subject) -> Checked:
    """Problems can be drawn at every level."""
    levels = subject.levels

    def draw(level: float | None) -> list[str]:
        wrong = []
        for p in subject.draw(level):
            if not isinstance(p, Problem):
                wrong.append(f"the source gives {type(p).__name__}, not Problem")
            elif not p.id or not (p.messages or p.text):
                wrong.append(f"problem {p.id or 'without id'}{at(level)} has no {'question' if p.id else 'id'}")
        return wrong

    limits = subject.limits.freely(DRAWING)
    found: list[str] = []
    for call in watch(draw, lambda i: levels[i], len(levels), limits):
        found += [f"drawing problems{at(levels[call.index])} {call.error}"] if call.error else call.value
    if not found and len(subject.problems) == 0:
        found.append("the source gives no problem")
    return Checked("problems", len(levels) * len(subject.indices(subject.task.source)), sentences(found))


def equal_keys(subject: Subject) -> Checked:
    """A problem depends only on its index, level and key. A problem does not depend on other draws, their order or the time."""
    found: list[str | None] = []
    tried = 0
    for level in subject.levels:
        once = subject.drawn[level]
        order = list(range(len(once)))
        for way, indices in (("again, in another order", order[::-1]), ("alone", order[-1:])):
            for i, p in zip(indices, subject.draw(level, indices), strict=False):
                tried += 1
                if (p.id, content(p)) != (once[i].id, content(once[i])):
                    found.append(
                        f"problem {i}{at(level)} differs if drawn {way}: {brief(said(once[i]))}, then {brief(said(p))}; "
                        "draw from the key (or the given generator) alone"
                    )
    return Checked("equal keys", tried, sentences(found))


def another_process(subject: Subject) -> Checked:
    """Another process draws the same problems, although Python's hashes of text differ there."""
    if subject.spec is None:
        return Checked(
            "another process", skipped="only a task given by name, without options, can be made in another process (file.py:task)"
        )
    made = {seed: _digests(subject, seed) for seed in ("1", "2")}
    failed = next((text for text in made.values() if isinstance(text, str)), None)
    if isinstance(failed, str):
        return Checked("another process", 2, (f"the task cannot be made in another process: {failed}",))
    found = [
        f"the problems{at(level)} differ between processes; they depend on the order of a set, or on hash(): sort first"
        for level, one, two in zip(subject.levels, made["1"], made["2"], strict=True)
        if one != two
    ]
    return Checked("another process", 2 * len(subject.levels), tuple(found))


def _digests(subject: Subject, seed: str) -> list[str] | str:
    """Draws the problems in a new process. Returns one digest per level, or the error of that process as text."""
    assert subject.spec is not None
    words = [sys.executable, "-m", "gradus.testing.drawn", subject.spec, str(subject.effort.problems), str(subject.effort.seed)]
    words += [str(level) for level in subject.effort.levels or ()]
    try:
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed}, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return "it took longer than 300 s"
    return done.stdout.split() if done.returncode == 0 else " ".join(done.stderr.split())[-200:]


def digests(subject: Subject) -> list[str]:
    """Returns one digest per level, of the level's drawn problems."""
    return [hashlib.blake2b("\n".join(f"{p.id} {content(p)}" for p in drawn).encode()).hexdigest() for drawn in subject.drawn.values()]


def other_keys(subject: Subject) -> Checked:
    """An endless source gives other problems for another key. If the environment shows arrays, the first turns must differ for other keys of source and
    episode.
    """
    if subject.task.source.size is not None:
        return Checked("other keys", skipped=f"the source is finite ({subject.task.source.size} problems)")
    found = []
    for level in subject.levels:
        one, two = subject.drawn[level], subject.draw(level, key=subject.key.fold("another"))
        if of_arrays(subject.task.environment):
            pairs = zip(one, two, strict=True)
            if all(told(played(subject, p, [], subject.key)) == told(played(subject, q, [], subject.key.fold("another"))) for p, q in pairs):
                found.append("episodes of another key begin alike; draw the first state from the key")
        elif len(one) > 1 and [content(p) for p in one] == [content(p) for p in two]:
            found.append(f"another key gives the same problems{at(level)}; draw from the key (or the given generator)")
    return Checked("other keys", len(subject.levels) * len(subject.indices(subject.task.source)), tuple(found))


def growing(subject: Subject) -> Checked:
    """Problems of a higher level are longer (question, solution and other content). If a problem states its difficulty, this difficulty equals its
    level."""
    if len(subject.levels) < 2:
        return Checked("levels", skipped="the task has no levels" if subject.effort.levels is None else "only one level is tried")
    sizes = {level: [len(content(p)) for p in drawn] for level, drawn in subject.drawn.items()}
    found: list[str | None] = []
    for level, drawn in subject.drawn.items():
        stated = {str(p.meta.get("difficulty", level)) for p in drawn} - {str(level)}
        found.append(f"problems{at(level)} say that their difficulty is {min(stated)}" if stated else None)
    for low, high in pairwise(subject.levels):
        if smaller(sizes[high], [SHRINKS * size for size in sizes[low]]):
            found.append(f"problems{at(high)} are smaller than those{at(low)} {by(sizes[high], sizes[low])}; order the levels by size")
    low, high = subject.levels[0], subject.levels[-1]
    if not smaller(sizes[low], sizes[high], certain=False):
        found.append(f"problems{at(high)}, the highest, are no larger than those{at(low)}, the lowest {by(sizes[high], sizes[low])}")
    return Checked("levels", len(sizes), sentences(found))


def smaller(these: Sequence[float], others: Sequence[float], *, certain: bool = True) -> bool:
    """Whether the sizes in `these` are smaller on average than the sizes in `others`.

    With `certain`, the difference must be larger than three standard errors. So a test with few problems rarely fails by chance.
    """
    spread = sum(statistics.variance(sizes) / len(sizes) if len(sizes) > 1 else math.inf for sizes in (these, others))
    return statistics.mean(others) - statistics.mean(these) > (3 * math.sqrt(spread) if certain else 0)


def by(these: Sequence[float], others: Sequence[float]) -> str:
    return f"({statistics.mean(these):.0f} against {statistics.mean(others):.0f} characters on average)"


def kept_apart(subject: Subject) -> Checked:
    """No held-out problem is among the training problems."""
    held = subject.task.held_out
    try:
        kept = [p for key in (subject.key, subject.key.fold("held out")) for p in held.draw(subject.indices(held), subject.task.level, key)]
    except UserError as error:
        return Checked("held out", 1, (f"drawing {len(subject.indices(held))} held-out problems failed: {error}",))
    except Exception as error:
        return Checked("held out", 1, (f"drawing held-out problems raised {raised(error)}",))
    form = content if subject.task.environment is not None else said
    training = {form(p) for p in subject.problems}
    found = [f"held-out problem {p.id} is also drawn for training: {brief(said(p))}" for p in kept if form(p) in training]
    return Checked("held out", len(kept), tuple(found))


def right_answers(subject: Subject) -> Checked:
    """The verifier accepts every reference answer, both at the first and at the second judgement."""
    return _references("reference answers", subject, subject.problems)


def read_back(subject: Subject) -> Checked:
    """The verifier accepts every reference answer after the problem was stored with a run and read back."""
    return _references("stored and read", subject, [stored(p) for p in subject.problems])


def _references(rule: str, subject: Subject, problems: Sequence[Problem]) -> Checked:
    if subject.task.verify is None:
        return Checked(rule, skipped=NO_VERIFIER)
    asked = [(p, forms) for p, known in zip(problems, subject.problems, strict=True) for forms in subject.references(known)]
    if not asked:
        return Checked(rule, skipped='no problem has a reference answer; give one as "right", or a worked solution in meta')
    found: list[str | None] = []
    hung = False
    calls = iter(verdicts(subject, [(p, text) for p, forms in asked for text in forms]))
    for p, forms in asked:
        judged = [call for _, (_, call) in zip(forms, calls, strict=False)]
        hung = hung or any(call.late and call.final for call in judged)
        if len(judged) < len(forms):  # the remaining calls were not made
            found += [f"problem {p.id}: its reference answer {brief(forms[len(judged) - 1])} {judged[-1].complaint}"] if judged else []
            break
        wrong = next((text for call in judged if (text := call.complaint or no_outcome(call.value))), None)
        if wrong is None and not any(full(call.value) for call in judged):
            wrong = f"is judged {shown(judged[0].value)}, not 1.0" + (", nor is any other form of it" if len(forms) > 1 else "")
        found.append(f"problem {p.id}: its reference answer {brief(forms[0])} {wrong}" if wrong else None)
    return Checked(rule, len(asked), sentences(found), hung=hung)


def wrong_answers(subject: Subject) -> Checked:
    """The verifier does not accept empty answers, right answers to other problems, or the given wrong answers."""
    if subject.task.verify is None:
        return Checked("wrong answers", skipped=NO_VERIFIER)
    some = subject.problems
    nothing = [(p, text) for p in some for text in NOTHING if text.strip() not in {f[0].strip() for f in subject.references(p)}]
    others = [
        (p, text)
        for p, other in zip(some, [*some[1:], *some[:1]], strict=True)
        if p.answer != other.answer
        for forms in subject.references(other)
        for text in forms
    ]
    given = [(p, text) for p in some for text in (subject.wrong(p) if subject.wrong else ())]
    asked = nothing + given + others
    passed: list[tuple[Problem, str]] = []
    found: list[str | None] = []
    hung = False
    for i, ((p, text), call) in enumerate(verdicts(subject, asked)):
        hung = call.late and call.final
        wrong = call.complaint or no_outcome(call.value)
        if not wrong and full(call.value) and i < len(nothing) + len(given):
            wrong = "is judged right"
        elif not wrong and full(call.value):
            passed.append((p, text))
        found.append(f"problem {p.id}: the wrong answer {brief(text)} {wrong}" if wrong else None)
    if len(passed) > LENIENT * len(others):
        p, text = passed[0]
        found.append(
            f"right answers to other problems are judged right ({len(passed)} of {len(others)}): problem {p.id} takes {brief(text)}"
        )
    return Checked("wrong answers", len(asked), sentences(found), hung=hung)


def hostile_answers(subject: Subject) -> Checked:
    """Any text gets a verdict: the verifier does not raise, hang, run the text as code, or use files, processes or the network."""
    if subject.task.verify is None:
        return Checked("hostile answers", skipped=NO_VERIFIER)
    verify, found = subject.task.verify, []
    warmed = [(p, text) for p in subject.problems[:3] for text in (*[form for forms in subject.references(p) for form in forms], "no")]

    def judge(asked: tuple[Problem, str]) -> Any:
        return plain(verify(*asked))

    def ask(index: int) -> tuple[Problem, str]:
        return warmed[index] if index < len(warmed) else subject.hostile(index - len(warmed))

    limits = replace(subject.limits, allow=subject.limits.allow | allowed(verify))
    for call in watch(judge, ask, subject.effort.texts + len(warmed), limits):
        if call.index < len(warmed):  # reads files and modules for the first time, so this does not count; "reference answers" reports errors
            continue
        wrong = call.complaint or no_outcome(call.value)
        if wrong:
            found.append(f"hostile text {call.index - len(warmed)} of seed {subject.effort.seed}, {brief(ask(call.index)[1])}: {wrong}")
    return Checked("hostile answers", subject.effort.texts, sentences(found))


def verdicts(subject: Subject, asked: Sequence[tuple[Problem, str]]) -> Iterable[tuple[tuple[Problem, str], Call]]:
    """Yields every pair of problem and text with its verdict. The verifier judges each text twice. If the second verdict differs, this is an error."""
    verify = subject.task.verify
    assert verify is not None

    def twice(pair: tuple[Problem, str]) -> Any:
        asked = content(pair[0])
        first, second = plain(verify(*pair)), plain(verify(*pair))
        if content(pair[0]) != asked:
            return {"changed": True}
        return first if first == second else {"not": f"{shown(first)}, then {shown(second)} when asked again"}

    freely = replace(subject.limits, allow=subject.limits.allow | allowed(verify)).freely(0)  # "hostile answers" reports the resources used
    for call in watch(twice, lambda i: asked[i], len(asked), freely):
        yield asked[call.index], call


def shown(value: Any) -> str:
    return f"failed ({value['failed']})" if isinstance(value, dict) and "failed" in value else str(value)


def at(level: float | None) -> str:
    return "" if level is None else f" of level {level}"


NO_VERIFIER = "the task has no verifier of text"
RULES = {
    "problems": drawing,
    "equal keys": equal_keys,
    "another process": another_process,
    "other keys": other_keys,
    "levels": growing,
    "held out": kept_apart,
    "reference answers": right_answers,
    "stored and read": read_back,
    "wrong answers": wrong_answers,
    "hostile answers": hostile_answers,
}
"""The rules for every task, in the order in which they are tried."""
