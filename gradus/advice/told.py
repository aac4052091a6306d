"""Advice as text for a terminal. A line is wider than the terminal only if a name is too long."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from gradus.advice.advise import Advice
from gradus.advice.asked import Asked
from gradus.advice.facts import Facts
from gradus.advice.measured import Row
from gradus.runtime.terminal import columns, paragraph

INDENT = "  "
FEW = 100  # if there are fewer training problems, a note names this fact

OFFERS = {
    "verifier": "a verifier",
    "function": "a reward function",
    "learned": "a reward model",
    "turns": "episodes of many turns",
    "pairs": "preference pairs",
    "solutions": "worked solutions",
    "steps": "checked steps",
    "noisy": "noisy verdicts",
}
"""The facts about a task in words, in the order in which they are shown."""


NO_RULE = (
    "none, and no recipe fits as it is. A language model needs a reward (--reward), or a task with a verifier, pairs or solutions; "
    "a controller is set up as docs/how/control.md shows"
)


def told(advice: Advice) -> str:
    """Returns the advice as text: the facts, the rule, each recipe with its reason and command, the measurements, and the next step."""
    return "\n".join([*_seen(advice), *_recipes(advice), "", *_behind(advice), *_next(advice)])


def _seen(advice: Advice) -> Iterator[str]:
    asked, facts = advice.asked, advice.facts
    made = asked.experiment
    where = f" (ground {made.ground})" if made.ground is not None else ""
    model = "the built-in model" if made.model in (None, "tiny") else str(made.model)
    yield from _row("task", f"{asked.task.name}{where}, {model}")
    yield from _row("offers", ", ".join([words for name, words in OFFERS.items() if getattr(facts, name)] or ["nothing that judges an answer"]))
    if settings := _settings(facts):
        yield from _row("settings", "; ".join(settings))
    if facts.size is not None and facts.size < FEW:
        yield from _row("note", f"{facts.size} training problems are few, and no ground measures this: watch held-out accuracy, and start a race")
    if facts.pass_16 == 0:
        yield from _row("note", "no answer of the probe is right, so a reward teaches nothing yet: take easier problems, a stronger model or worked solutions")
    if facts.pass_1 == 1:
        yield from _row("note", "every answer of the probe is right, so these problems teach nothing more: take harder problems, or another goal (--measure length)")
    yield from _row("probe", _probe(facts, asked) if facts.pass_1 is not None else f"none: {advice.unprobed}")


def _settings(facts: Facts) -> list[str]:
    """Returns the settings and the goal if they differ from the defaults."""
    found = [f"{facts.updates} updates per batch"] if facts.updates > 1 else []
    found += [f"learning rate {facts.rate:.2g} times that of the rule"] if facts.rate != 1 else []
    return found + ([f"goal: {facts.goal}"] if facts.goal != "accuracy" else [])


def _probe(facts: Facts, asked: Asked) -> str:
    shares = {"mixed groups": facts.mixed, "truncated": facts.truncated, "reward above 1": facts.overpaid or None}
    told = [f"{name} {share:.0%}" for name, share in shares.items() if share is not None]
    most = min(16, asked.samples)
    return (
        f"{asked.problems} problems, {asked.samples} answers each: pass@1 {facts.pass_1:.2f}, pass@{most} {facts.pass_16:.2f}, "
        f"length {facts.length:.0f} tokens, {', '.join(told)}"
    )


def _recipes(advice: Advice) -> Iterator[str]:
    if advice.rule is not None:
        yield from _row("rule", f"{advice.rule.name}: {'; '.join(map(str, advice.rule.when))}")
    elif advice.choices:
        yield from _row("rule", "none; these recipes fit the task")
    else:
        yield from _row("rule", NO_RULE)
    for number, choice in enumerate(advice.choices, start=1):
        yield from ["", f"{number}. {choice.recipe}", paragraph(choice.why, "   "), *command_lines(choice.command, "   ")]


def _behind(advice: Advice) -> Iterator[str]:
    """Yields the measurements that support the first recipe, and the further rules that apply."""
    for row in advice.evidence:
        yield from _row("measured", sentence(row))
    if not advice.evidence:
        yield from _row("measured", "no ground measures this case; a race tries all recipes that fit")
    for rule in advice.also:
        yield from _row("also", f'the rule "{rule.name}" applies, too; its first recipe is {rule.choices[0].recipe.split()[0]}')
    for recipe, lacks in advice.misfits:
        yield from _row("left out", f"{recipe}: {lacks}")


def sentence(row: Row) -> str:
    """Returns a row of the measurements in words."""
    where = f"on ground {row.ground} by {row.measure}"
    if row.mean is None or row.low is None or row.high is None:
        return f"{where}: {row.first} is the reference, and no recipe was measured to be better"
    beside = "" if row.accuracy is None else f"; accuracy {row.accuracy:.2f} and {row.accuracy_against:.2f}"
    return (
        f"{where}: {row.first} {row.value:.2f}, {row.reference} {row.against:.2f}; advantage {row.mean:+.2f} "
        f"[{row.low:+.2f}, {row.high:+.2f}] ({row.level:.0%} interval, {len(row.seeds)} seeds): {row.verdict}{beside}"
    )


def _next(advice: Advice) -> Iterator[str]:
    yield "next"
    yield from command_lines(advice.next, INDENT)


def _row(name: str, text: str) -> list[str]:
    return [paragraph(text, " " * 10, f"{name:<10}")]


def command_lines(command: str, indent: str) -> list[str]:
    """Splits a command into lines that fit the terminal. A shell joins the lines again. An option and its value are on the same line."""
    lines: list[str] = []
    for part in _parts(shlex.split(command)):
        if lines and len(lines[-1]) + len(part) + 3 <= columns():
            lines[-1] += f" {part}"
        else:
            lines.append(f"{indent}{INDENT if lines else ''}{part}")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def _parts(words: Sequence[str]) -> list[str]:
    """Returns the quoted words of a command. Each option is together with its value."""
    found: list[str] = []
    for word in words:
        joined = bool(found) and found[-1].startswith("--") and " " not in found[-1] and not word.startswith("--")
        found[-1:] = [f"{found[-1]} {shlex.quote(word)}"] if joined else [*found[-1:], shlex.quote(word)]
    return found
