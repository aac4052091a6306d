"""Reads documents of rules, and sorts their statements by category: facts, rules of behaviour, simple conditions, and conditions within conditions.

The first line is the name of the document. The other lines have the forms "fact: ...", "rule: ..." and "on TOPIC: if FIELD is VALUE (...) else (...)".
Reference: Liu et al., Analyzing and Internalizing Complex Policy Documents for LLM Agents, arXiv:2510.11588: the categories.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gradus.types import UserError

_VALUE = re.compile(r"(\w+) is (\w+) unless stated")
_CONDITION = re.compile(r"if (\w+) is (\w+) \(")
Leaf = tuple[tuple[tuple[str, str, bool], ...], str]
"""The conditions on the path to a leaf (field, value, whether the field has the value), and the decision."""


@dataclass(frozen=True)
class Statements:
    """The statements of a document by category. Conditional statements are pairs of topic and leaves."""

    name: str
    facts: tuple[str, ...]
    rules: tuple[str, ...]
    simple: tuple[tuple[str, tuple[Leaf, ...]], ...]
    complex: tuple[tuple[str, tuple[Leaf, ...]], ...]


def parsed(document: str, depth: int = 1) -> Statements:
    """Sorts the statements of a document. A conditional statement with a path of more than `depth` conditions is complex.

    Raises UserError for a line of another form.
    """
    name, *lines = document.strip().split("\n")
    facts, rules, conditional = list[str](), list[str](), list[tuple[str, tuple[Leaf, ...]]]()
    for line in lines:
        kind, _, body = line.partition(": ")
        if kind == "fact":
            facts.append(body)
        elif kind == "rule":
            rules.append(body)
        elif kind.startswith("on ") and body:
            conditional.append((kind[3:], tuple(leaves(body))))
        else:
            raise UserError(f'the document has the line {line!r:.60}; begin each line after the first with "fact: ", "rule: " or "on TOPIC: "')
    deep = [max(len(path) for path, _ in found) > depth for _, found in conditional]
    sorted_ = [tuple(c for c, is_deep in zip(conditional, deep, strict=True) if is_deep is wanted) for wanted in (False, True)]
    return Statements(name, tuple(facts), tuple(rules), *sorted_)


def leaves(text: str, path: tuple[tuple[str, str, bool], ...] = ()) -> Iterator[Leaf]:
    """Yields the leaves of a condition in order.

    >>> list(leaves("if tier is gold (refund) else (deny)"))
    [((('tier', 'gold', True),), 'refund'), ((('tier', 'gold', False),), 'deny')]
    """
    found = _CONDITION.match(text)
    if found is None:
        yield path, text
        return
    field, value = found.groups()
    end = closed(text, found.end())
    yield from leaves(text[found.end() : end], (*path, (field, value, True)))
    if not text.startswith(") else (", end) or not text.endswith(")"):
        raise UserError(f'the condition {text!r:.60} has no other branch; write "if FIELD is VALUE (...) else (...)"')
    yield from leaves(text[end + len(") else (") : -1], (*path, (field, value, False)))


def closed(text: str, start: int) -> int:
    """Returns the place of the bracket that closes the bracket before `start`; the length of the text if no bracket closes it."""
    open_ = 1
    for at in range(start, len(text)):
        open_ += {"(": 1, ")": -1}.get(text[at], 0)
        if not open_:
            return at
    return len(text)


def assumed(statements: Statements) -> dict[str, str]:
    """Returns the values of fields that a request does not state, as the facts give them."""
    found = (_VALUE.fullmatch(fact) for fact in statements.facts)
    return {match[1]: match[2] for match in found if match}
