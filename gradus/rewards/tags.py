"""A reward for the form of a completion: the parts between tags such as `<think>` and `</think>`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from gradus.rewards.combine import Combines
from gradus.types import Frozen, Group, UserError
from gradus.types.answers import boxed
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal
from gradus.types.tags import after_tags

Answer = Literal["none", "any", "boxed", "boxed or code"]
_CODE = re.compile(r"```[^\n]*\n.*?```", re.DOTALL)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Tags(Combines):
    """Gives 1 to a completion that consists of the parts `<NAME>...</NAME>` in the given order, with only blanks outside the parts, and 0 to any
    other completion.

    Each tag occurs once, and no part is empty. The reward judges only the form, so it is added to a reward for the answer: `Verified() + Tags()`. `answer`
    names the kind of text that must follow the last part.
    """

    order: tuple[str, ...] = ("think", "answer")
    answer: Answer = "none"  # the text after the last part: only blanks; any text; a \boxed{...} with content; or such a box or a closed block of code
    name: ClassVar[str] = "tags"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        if not self.order:
            raise UserError('Tags.order is empty; give the names of the tags, for example ("think", "answer")')
        if wrong := [n for n in self.order if not _NAME.fullmatch(n)]:
            raise UserError(f'Tags.order has "{wrong[0]}"; a name may have only letters, digits, "-" and "_", and no brackets')
        if len(set(self.order)) < len(self.order):
            raise UserError(f"Tags.order names a tag twice: {', '.join(self.order)}; give each name once")
        if self.answer not in ("none", "any", "boxed", "boxed or code"):
            raise UserError(f'Tags.answer is "{self.answer}"; it must be "none", "any", "boxed" or "boxed or code"')

    def value(self, text: str) -> float:
        """Returns the value of a completion, 1 or 0."""
        rest = after_tags(text, self.order)
        return float(rest is not None and answered(rest, self.answer))

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = [[self.value(t.completion) for t in group.trajectories] for group in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in found]


def in_tags(text: str, order: Sequence[str]) -> bool:
    """Whether the text consists of the parts `<NAME>...</NAME>` in this order.

    Each tag must occur once, no part may be empty, and only blanks may be outside the parts.

    >>> [in_tags(text, ("think", "answer")) for text in ("<think>2+2</think> <answer>4</answer>", "<answer>4</answer>")]
    [True, False]
    """
    rest = after_tags(text, order)
    return rest is not None and not rest.strip()


def answered(text: str, answer: Answer) -> bool:
    """Whether a text is an answer of the kind `answer`.

    There are four kinds. "none" is only blanks, and "any" is a text that is not blank. "boxed" is a \\boxed{...} with content. "boxed or code" is such a box or
    a closed block of code.
    """
    if answer in ("none", "any"):
        return bool(text.strip()) == (answer == "any")
    return bool(boxed(text)) or (answer == "boxed or code" and _CODE.search(text) is not None)
