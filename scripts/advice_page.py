"""Writes the tables of docs/how/choose.md between their marks from the rules and their measurements: python -m scripts.advice_page.

`<!-- generated: rules -->` begins the table of the rules, `<!-- generated: figures -->` that of the measurements, `<!-- generated: counts -->` their
counts. `<!-- end of generated -->` ends each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from gradus.advice.advise import evidence_of
from gradus.advice.asked import REFERENCE
from gradus.advice.measured import Row, rows
from gradus.advice.rule import Rule
from gradus.advice.rules import RULES
from gradus.comparison.ground import grounds
from scripts.reference_pages import table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how" / "choose.md"
MARKED = re.compile(r"(?<=^<!-- generated: )(\w+)( -->\n)(?:.*?)(?=^<!-- end of generated -->$)", re.M | re.S)
NUMBERS = {
    "{max_tokens}": "TOKENS",
    "{half}": "HALF",
    "{double}": "DOUBLE",
    "{beyond}": "BEYOND",
    "{rule_rate}": "RATE",
    "{third_rate}": "THIRD",
}
"""The numbers in the words of a recipe, as the page shows them."""


def shown(recipe: str) -> str:
    for name, word in NUMBERS.items():
        recipe = recipe.replace(name, word)
    return f"`{recipe}`"


def of_rules() -> str:
    """A table of the rules: conditions, the three recipes, the reason for the first, its figures; then the reasons for the others."""
    return "\n\n".join([table(["rule: conditions on task, settings and probe", "first, second, third", "why the first", "measured"], _rows()), _others()])


def _rows() -> list[list[str]]:
    return [[f"**{rule.name}**: {'; '.join(map(str, rule.when))}", _recipes(rule), rule.choices[0].why, evidence(rule)] for rule in RULES]


def _recipes(rule: Rule) -> str:
    return "<br>".join(f"{number}. {shown(choice.recipe)}" for number, choice in enumerate(rule.choices, start=1))


def _others() -> str:
    """The reasons for the second and the third recipes, folded."""
    lines = [f"- **{rule.name}**: {' '.join(f'{shown(choice.recipe)}: {choice.why}' for choice in rule.choices[1:])}" for rule in RULES]
    return "\n".join(["<details><summary>Why the second and the third</summary>", "", *lines, "", "</details>"])


def evidence(rule: Rule) -> str:
    """The figures of the rule's grounds in a cell."""
    against = {row.ground: "" if row.reference == REFERENCE else f" against `{row.reference}`" for row in evidence_of(rule)}
    cells = [f"[{row.ground}](grounds.md): {gap(row)}{against[row.ground]}" for row in evidence_of(rule)]
    return "; ".join(cells) or "not measured: race"


def gap(row: Row) -> str:
    """The advantage of the first recipe in a cell.

    >>> gap(Row("g", "r", "a", "b", "length", 20.0, 30.0, 10.0, 8.0, 12.0, 0.99, (0, 1), ""))
    '+10.0 [+8.0, +12.0] in length'
    """
    if row.mean is None or row.low is None or row.high is None:
        return "GRPO itself"
    digits = 1 if abs(row.mean) >= 3 else 2
    return f"{row.mean:+.{digits}f} [{row.low:+.{digits}f}, {row.high:+.{digits}f}] in {row.measure}"


def of_figures() -> str:
    """A row for each ground."""
    head = ["ground", "rule", "first recipe", "measure", "first", "GRPO", "advantage", "accuracy: first, GRPO", "seeds", "verdict"]
    return table(head, [_figures(row) for _, row in sorted(rows().items())])


def _figures(row: Row) -> list[str]:
    names = [f"[`{row.ground}`](grounds.md)", row.rule, f"`{row.first}`", row.measure]
    if row.mean is None:
        return [*names, "", "", "", "", "", row.verdict]
    right = "" if row.accuracy is None else f"{row.accuracy:.2f}, {row.accuracy_against:.2f}"
    found = [f"{row.value:.3g}", f"{row.against:.3g}", gap(row).partition(" in ")[0], right, ", ".join(map(str, row.seeds))]
    return [*names, *found, row.verdict]


def of_counts() -> str:
    """How many grounds have which verdict."""
    return f"{counts(rows().values())} There are {len(grounds())} grounds."


def counts(found: Iterable[Row]) -> str:
    verdicts = [row.verdict for row in found]
    worse = verdicts.count("worse")
    return (
        f"The first recipe is better than GRPO on {verdicts.count('better')} grounds. "
        f"The number of grounds without a clear difference is {verdicts.count('not worse')}. "
        f"The number of grounds on which the first recipe is GRPO itself is {verdicts.count('the same')}. "
        f"The first recipe is worse than GRPO on {worse or 'no'} ground{'s' * (worse > 1)}."
    )


GENERATED = {"rules": of_rules, "figures": of_figures, "counts": of_counts}


def filled(text: str) -> str:
    """A page with new text between its marks."""
    return MARKED.sub(lambda found: f"{found[1]}{found[2]}\n{GENERATED[found[1]]()}\n\n", text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE}")
