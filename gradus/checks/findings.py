"""The findings of `gradus check`. Findings are shown as a list, or as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gradus.runtime.terminal import paint, paragraph, printable

Verdict = Literal["ok", "note", "warning", "wrong", "not checked"]
SHOWN = 10  # largest number of details that a table lists; JSON has all details
STYLES = {"ok": "good", "note": "name", "warning": "warning", "wrong": "bad", "not checked": "quiet"}
"""The style of each verdict, by its name in `gradus.runtime.terminal`."""


@dataclass(frozen=True)
class Finding:
    """A result of a check. `details`: the problems, rows or fields in question, one per line. `remedy`: the action for the user; '' if there is none."""

    check: str  # recipe, method, data, task, fit, model, prompts, template, verifier, reward, samples, sandbox, disk, memory, kernels, the rest
    verdict: Verdict
    says: str
    remedy: str = ""
    details: tuple[str, ...] = ()


def of_error(check: str, error: Exception, verdict: Verdict = "wrong") -> Finding:
    """Makes a finding from an error. The text after its last semicolon or full stop is the remedy.

    If the error is a fault of Gradus, it is raised again.
    """
    from gradus.runtime.user_code import blamed
    from gradus.types import UserError

    text = str(error) if isinstance(error, UserError) else blamed(error)
    if text is None:
        raise error
    says, _, remedy = text.rpartition("; " if "; " in text and ". " not in text.rpartition("; ")[2] else ". ")
    return Finding(check, verdict, says or text, remedy if says else "")


def guarded(check: str, found: list[Finding], work: Callable[[], Any]) -> Any:
    """Calls `work` and returns its result. If `work` raises an error that a user can fix, adds the error to the findings and returns None."""
    try:
        return work()
    except Exception as error:  # of_error raises a fault of Gradus or of a library again
        finding = of_error(check, error)
        found += [finding] if finding not in found else []  # one fault can fail two checks
        return None


def collected(check: str, found: list[Finding], findings: Iterable[Finding]) -> None:
    """Adds the findings one by one. If `findings` raises an error that a user can fix, adds this error as the last finding."""
    guarded(check, found, lambda: found.extend(findings))


def passed(found: Sequence[Finding]) -> bool:
    """Whether no finding has the verdict "wrong"."""
    return all(finding.verdict != "wrong" for finding in found)


def as_json(found: Sequence[Finding]) -> dict[str, Any]:
    """Returns the findings as plain values."""
    return {"ok": passed(found), "findings": [dataclasses.asdict(finding) for finding in found]}


def summary(found: Sequence[Finding]) -> str:
    """Writes the last line, which tells whether a run may start."""
    wrong, warnings = (sum(f.verdict == verdict for f in found) for verdict in ("wrong", "warning"))
    if wrong:
        return f"{counted(wrong, 'thing')} {'is' if wrong == 1 else 'are'} wrong: fix {'it' if wrong == 1 else 'them'} before training"
    warned = f" ({counted(warnings, 'warning')})" if warnings else ""
    return f"nothing is wrong{warned}: a run may start"


def counted(number: int, thing: str) -> str:
    """Writes a number with its noun: '1 prompt', '2,000 prompts'."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def show(found: Sequence[Finding]) -> None:
    """Prints the list of findings. Each finding has its check, its verdict, its text with the details, and the remedy."""
    first, second = (max((len(getattr(one, name)) for one in found), default=0) + 2 for name in ("check", "verdict"))
    indent = " " * (first + second)
    for one in found:
        details = [*one.details[:SHOWN], *([f"and {left} more"] if (left := len(one.details) - SHOWN) > 0 else [])]
        start = paint(one.check, "name") + " " * (first - len(one.check)) + paint(one.verdict, STYLES[one.verdict]) + " " * (second - len(one.verdict))
        print(_flow(one.says, indent, start))
        for line in details:
            print(_flow(line, f"{indent}    ", f"{indent}  "))
        if one.remedy:
            print(_flow(f"remedy: {one.remedy}", indent, indent))
    wrong = any(one.verdict == "wrong" for one in found)
    print(f"\n{paint(summary(found), 'bad' if wrong else 'good')}")


def _flow(text: str, indent: str, first: str) -> str:
    """Wraps a text of one or more lines to the width of the terminal."""
    lines = printable(text).split("\n")
    return "\n".join(paragraph(line, indent, indent if number else first) for number, line in enumerate(lines))
