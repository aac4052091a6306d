"""Command lines of tests: a later option replaces an earlier one of the same name, as the command line itself refuses a repeated option."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def typed(line: str, **given: object) -> list[str]:
    """The words of a line with `{train}` and other fields filled in; its options replace those of `{train}`."""
    words = shlex.split(line.format(**given))
    return replaced(words) if "{train}" in line else words


def replaced(words: Sequence[str]) -> list[str]:
    """The words with only the last value of each option `--name value`."""
    kept: list[str] = []
    options: dict[str, list[str]] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            kept.append(word)
            continue
        value = [left.pop(0)] if left and not left[0].startswith("--") and "=" not in word else []
        options[word.partition("=")[0]] = [word, *value]
    return [*kept, *(word for option in options.values() for word in option)]
