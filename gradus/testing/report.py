"""The report of a contract test: one row per rule, one sentence per finding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gradus.types import unknown

SHOWN = 5  # largest number of findings of one rule in a table
REMEDIES: Mapping[str, str] = {
    "problems": "correct the source: it must give Problems, each with an id and a question",
    "held out": "let the content of a problem decide whether it is held out, as generated_task does",
    "reference answers": "correct the worked solution, or the verifier",
    "stored and read": "compare with the form that JSON gives back: lists for tuples, text for keys",
    "wrong answers": "make the verifier stricter: a policy would learn such answers",
    "reference actions": "correct the solution (one action per line) or the demonstration, or the environment",
    "hostile answers": "never run the text, and read a bounded part of it; if the behaviour is intended: --allow WHAT, --seconds S",
    "hostile actions": "never run the text, and answer any text with a Turn; if the behaviour is intended: --allow WHAT, --seconds S",
}
"""The remedy for the findings of a rule, if the findings themselves name no remedy."""
RAISING = "catch the exception: an answer that cannot be read is worth 0"
JUDGING = ("reference answers", "stored and read", "wrong answers")  # rules in which a verifier may raise instead of judging
Progress = Callable[[str, str], None]
"""A function that is called with a subject and a rule before the rule is tried on the subject."""
S = TypeVar("S")


class ContractBroken(AssertionError):
    """A contract is broken. The message is the report's table, so that a failing test shows it."""


@dataclass(frozen=True)
class Checked:
    """The findings of one rule. `skipped`: the reason why the rule could not be tried; '' if it was tried."""

    rule: str
    tried: int = 0
    findings: tuple[str, ...] = ()
    skipped: str = ""
    hung: bool = False  # whether a call did not end; then no further rule calls the same code


@dataclass(frozen=True)
class Report:
    """The findings of all contract tests of one subject. In a condition such as `if report:`, a report without findings is true."""

    subject: str
    checked: tuple[Checked, ...]

    @property
    def findings(self) -> tuple[str, ...]:
        return tuple(f"{c.rule}: {text}" for c in self.checked for text in c.findings)

    @property
    def ok(self) -> bool:
        return not self.findings

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """One line per rule, with its findings below."""
        wide = max((len(c.rule) for c in self.checked), default=0)
        lines = [self.subject]
        for c in self.checked:
            found = f"not tried: {c.skipped}" if c.skipped else f"{len(c.findings)} found" if c.findings else "ok"
            lines.append(f"  {c.rule:<{wide}}  {'' if c.skipped else c.tried:>7}  {found}")
            lines += [f"      {text}" for text in telling(c.findings)]
            lines += [f"      and {len(c.findings) - SHOWN} more"] if len(c.findings) > SHOWN else []
            lines += [f"      -> {text}" for text in advice(c)]
        total = len(self.findings)
        return "\n".join([*lines, "the contract is kept" if not total else f"{total} findings" if total > 1 else "1 finding"])

    def as_json(self) -> dict[str, Any]:
        """The report as plain values."""
        rows = [{"rule": c.rule, "tried": c.tried, "findings": list(c.findings), "skipped": c.skipped} for c in self.checked]
        return {"subject": self.subject, "ok": self.ok, "rules": rows}

    def demand(self) -> Report:
        """Returns the report. Raises ContractBroken with its table if there are findings."""
        if not self.ok:
            raise ContractBroken(f"{self.table()}")
        return self


def advice(checked: Checked) -> list[str]:
    """The remedies for the findings of a rule: RAISING for exceptions, the rule's remedy for other findings."""
    raising = [text for text in checked.findings if checked.rule in JUDGING and re.search(r" raised [A-Za-z]", text)]
    remedy = REMEDIES.get(checked.rule) if len(raising) < len(checked.findings) else None
    return [*([RAISING] if raising else []), *([remedy] if remedy else [])]


def run_rules(
    subject: S,
    name: str,
    rules: Mapping[str, Callable[[S], Checked]],
    only: Iterable[str] | None,
    *,
    strict: bool,
    progress: Progress | None = None,
) -> Report:
    """Tries the named rules (None: all) in order and returns the report. If a call of a rule does not end, no further rule is tried.

    Raises: UserError for an unknown rule. With `strict`, findings raise ContractBroken.
    """
    wanted = list(rules) if only is None else list(only)
    for rule in wanted:
        if rule not in rules:
            raise unknown("rule", rule, rules)
    checked: list[Checked] = []
    for rule in (rule for rule in rules if rule in wanted):
        hung = next((c.rule for c in checked if c.hung), None)
        if hung is not None:
            checked.append(Checked(rule, skipped=f'it would take too long again, as for "{hung}"'))
            continue
        if progress is not None:
            progress(name, rule)
        checked.append(rules[rule](subject))
    report = Report(name, tuple(checked))
    return report.demand() if strict else report


def telling(findings: Sequence[str]) -> list[str]:
    """Returns at most SHOWN findings. If possible, their endings differ, because one fault may give a hundred similar findings."""
    first = {re.sub("[0-9]+", "", text)[-24:]: text for text in reversed(findings)}
    chosen = [text for text in findings if text in first.values()]
    rest = [text for text in findings if text not in first.values()]
    return [text for text in findings if text in [*chosen, *rest][:SHOWN]]


def brief(text: str, most: int = 60) -> str:
    """Returns a text as a short literal, with its length if it is cut off."""
    return ascii(text) if len(text) <= most else f"{text[:most]!a}... ({len(text)} characters)"


def sentences(found: Sequence[str | None]) -> tuple[str, ...]:
    """Returns the findings in order, without repetitions and without empty texts."""
    return tuple(dict.fromkeys(text for text in found if text))
