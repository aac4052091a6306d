"""What a contract test found: a row a rule, and a sentence a finding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gradus.types import unknown

SHOWN = 5  # findings of one rule that a table lists
REMEDIES: Mapping[str, str] = {
    "problems": "mend the source: it gives Problems, each with an id and a question",
    "held out": "let the content of a problem decide whether it is held out, as generated_task does",
    "reference answers": "mend the worked solution, or the verifier",
    "stored and read": "compare what JSON gives back: lists for tuples, text for keys",
    "wrong answers": "make the verifier stricter: a policy would learn such answers",
    "reference actions": "mend the solution (one action a line) or the demonstration, or the environment",
    "hostile answers": "read the text and never run it, look at a bounded part of it; what is meant so: --allow WHAT, --seconds S",
    "hostile actions": "read the text and never run it, answer whatever it is by a Turn; what is meant so: --allow WHAT, --seconds S",
}
"""What to do about the findings of a rule that do not say so themselves."""
RAISING = "catch what it raises: an answer that cannot be read is worth 0"
JUDGING = ("reference answers", "stored and read", "wrong answers")  # rules whose answers a verifier may trip over instead of judging them
Progress = Callable[[str, str], None]
"""Is told a subject and a rule before the rule is tried on it."""
S = TypeVar("S")


class ContractBroken(AssertionError):
    """A contract is not kept; the message is the report's table, so that a test that fails shows it."""


@dataclass(frozen=True)
class Checked:
    """What one rule found. `skipped`: why it could not be tried, '' where it was."""

    rule: str
    tried: int = 0
    findings: tuple[str, ...] = ()
    skipped: str = ""
    hung: bool = False  # what was called did not come to an end, so that it is not called for another rule


@dataclass(frozen=True)
class Report:
    """What the contract tests of one subject found. True in a condition where nothing was found."""

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
        """A line a rule, its findings under it."""
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
        """The report itself. Raises ContractBroken with its table where anything was found."""
        if not self.ok:
            raise ContractBroken(f"{self.table()}")
        return self


def advice(checked: Checked) -> list[str]:
    """What to do about the findings of a rule: catching for those that raise, the rule's remedy for the others."""
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
    """The report of the rules named (None: all), in their order; none is tried after one whose calls did not come to an end.

    Raises: UserError for a rule that is not known; ContractBroken with `strict` where anything was found.
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
    """Some of many findings: those that end in different words first, as a hundred texts may be tripped by one fault."""
    first = {re.sub("[0-9]+", "", text)[-24:]: text for text in reversed(findings)}
    chosen = [text for text in findings if text in first.values()]
    rest = [text for text in findings if text not in first.values()]
    return [text for text in findings if text in [*chosen, *rest][:SHOWN]]


def brief(text: str, most: int = 60) -> str:
    """A text as a short literal, with its length where it is cut."""
    return ascii(text) if len(text) <= most else f"{text[:most]!a}... ({len(text)} characters)"


def sentences(found: Sequence[str | None]) -> tuple[str, ...]:
    """The findings among these, each once, in order."""
    return tuple(dict.fromkeys(text for text in found if text))
