"""Reads texts that consist of parts between tags such as `<think>` and `</think>`."""

from __future__ import annotations

from collections.abc import Sequence


def after_tags(text: str, order: Sequence[str]) -> str | None:
    """Returns the text after the last part. Returns None unless the text begins with the parts in this order.

    Each tag must occur once, and no part may be empty.
    """
    if any(text.count(tag) != 1 for name in order for tag in (f"<{name}>", f"</{name}>")):
        return None
    for name in order:
        before, _, rest = text.partition(f"<{name}>")
        inside, closed, text = rest.partition(f"</{name}>")
        if before.strip() or not closed or not inside.strip():
            return None
    return text


def contents(text: str, order: Sequence[str]) -> tuple[str, ...] | None:
    """Returns the contents of the parts of a text that consists of the parts in this order. Returns None for any other text.

    Each tag must occur once, no part may be empty, and only blanks may be outside the parts.

    >>> contents("<think>2+2</think> <answer>4</answer>", ("think", "answer")), contents("4", ("answer",))
    (('2+2', '4'), None)
    """
    rest = after_tags(text, order)
    if rest is None or rest.strip():
        return None
    return tuple(text.partition(f"<{name}>")[2].partition(f"</{name}>")[0] for name in order)
