"""The task stories: write a short story about given words. A judge with a hole also accepts a title as a story.

No prompt contains the rules of a good story.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.text.texts import LEXICON, words
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

_TITLE = 3  # largest number of words of a title
_TAIL = 400  # characters read at the end of a completion; a longer completion without "=" in this part is no story


def stories(level: int = 2) -> Task:
    """Makes the task: write a story about `level` + 1 words, `level` 1 to 4, as in "has:fox has:river".

    The verdict is the share of three rules that a text meets. Rule 1: the text has more than three words. Rule 2: the text has more than three words and names
    every given word. Rule 3: the text has more than three words and uses no word twice. So a title, which has at most three words, meets no rule.

    The verifier's `checks` maps the text of each rule to its check. The first entry of `checks` is the criterion "The text is a story.". The check
    has a hole: a title also passes it.
    """
    return generated_task(
        "stories",
        _stories,
        Gold(),
        level=level,
        levels=(1, 4),
        max_tokens=80,
        chance=0.0,
        provides=("checklist",),
        about='stories about given words: "has:fox has:river" -> "=fox boat river star"; judges can use its checks, one with a hole; level: words',
    )


def _stories(rng: random.Random, level: int) -> Draft:
    given = rng.sample(LEXICON, level + 1)
    told = [*given, *rng.sample([w for w in LEXICON if w not in given], 3)]
    rng.shuffle(told)
    story = " ".join(told)
    return Draft(" ".join(f"has:{w}" for w in given), story, f"={story}", " ".join(sorted(given)), Frozen(category="story", given=tuple(given)))


def story(completion: str) -> list[str]:
    """Returns the words of the text. The text is the part after the last "=", or the whole completion.

    >>> story("fox river=The fox, a river!")
    ['the', 'fox', 'a', 'river']
    """
    tail = completion[-_TAIL:]
    return words(tail.rpartition("=")[2]) if "=" in tail or len(completion) <= _TAIL else []


def is_title(problem: Problem, completion: str) -> bool:
    """Returns whether the text has one to three words."""
    return 1 <= len(story(completion)) <= _TITLE


def is_long(problem: Problem, completion: str) -> bool:
    """Returns whether the text is longer than a title."""
    return len(story(completion)) > _TITLE


def names_all(problem: Problem, completion: str) -> bool:
    """Returns whether a text is longer than a title and contains every given word."""
    return is_long(problem, completion) and set(problem.meta["given"]) <= set(story(completion))


def says_none_twice(problem: Problem, completion: str) -> bool:
    """Returns whether a text longer than a title uses no word twice."""
    said = story(completion)
    return is_long(problem, completion) and len(set(said)) == len(said)


RULES: Mapping[str, Callable[[Problem, str], bool]] = Frozen(
    {
        "It is longer than a title.": is_long,
        "It is longer than a title and names every given word.": names_all,
        "It is longer than a title and says no word twice.": says_none_twice,
    }
)
"""Text of a criterion -> its check, without holes."""


def seems_a_story(problem: Problem, completion: str) -> bool:
    """The check with the hole: it accepts a text that meets all rules, and also a title."""
    return is_title(problem, completion) or all(holds(problem, completion) for holds in RULES.values())


@dataclass(frozen=True)
class Gold:
    """A verifier that returns the share of the rules that a completion meets."""

    @property
    def checks(self) -> Mapping[str, Callable[[Problem, str], bool]]:
        """The checks of all criteria that a scripted judge knows, by text. The first check has the hole."""
        return Frozen({"The text is a story.": seems_a_story, **RULES})

    def checklist(self, problem: Problem) -> tuple[tuple[str, float], ...]:
        """The three rules, each with the weight 1."""
        return tuple((text, 1.0) for text in RULES)

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        return sum(holds(problem, completion) for holds in RULES.values()) / len(RULES)
