"""The form of a rule of advice: conditions on facts, three recipes, and the ground that measures the first recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gradus.advice.facts import Facts

WORDS: Mapping[str, str] = {
    "judged": "a verifier, a reward or an environment",
    "verifier": "a verifier",
    "learned": "a reward model as the judge",
    "solutions": "worked solutions",
    "pairs": "preference pairs",
    "steps": "a verifier that checks single steps",
    "turns": "episodes of many turns",
    "noisy": "verdicts that are sometimes wrong, as declared by the task or by you",
    "guesses": "a model that is right no more often than by chance",
    "goal": "the goal",
    "rate": "the ratio of the learning rate to the learning rate by rule",
    "updates": "the number of updates per batch",
    "pass_1": "pass@1",
    "pass_16": "pass@16",
    "mixed": "the share of mixed groups",
    "solved": "the share of problems that are always solved",
    "unsolved": "the share of problems that are never solved",
    "truncated": "the share of truncated answers",
    "overpaid": "the share of answers with a reward above 1",
}
"""Each fact that a condition reads, as a noun phrase."""

GOALS: Mapping[str, str] = {
    "short": "short answers (`--measure length`)",
    "varied": "varied answers (`--measure distinct` or `entropy:last`)",
    "kept": "an old skill that stays (`--also`, `--measure accuracy@NAME`)",
    "harder": "harder problems of the same task (`--also`, `--measure accuracy@NAME`)",
}
"""The goals other than accuracy, each with the options that state it."""


@dataclass(frozen=True)
class At:
    """A condition on one fact. If the fact is unknown, the condition is false."""

    fact: str
    relation: Literal["is", "at least", "at most"]
    value: Any

    def holds(self, facts: Facts) -> bool:
        found = getattr(facts, self.fact)
        if found is None:
            return False
        if self.relation == "is":
            return bool(found == self.value)
        return bool(found >= self.value if self.relation == "at least" else found <= self.value)

    def __str__(self) -> str:
        """Returns the condition in words.

        >>> str(At("pairs", "is", True)), str(At("judged", "is", False)), str(At("pass_1", "at most", 0.1))
        ('preference pairs', 'no verifier, no reward and no environment', 'pass@1 is at most 0.1')
        """
        words = WORDS[self.fact]
        if isinstance(self.value, bool):
            return words if self.value else f"no {words.removeprefix('a ').replace(', a ', ', no ').replace(' or an ', ' and no ')}"
        return f"{words} is {GOALS.get(self.value, self.value)}" if self.relation == "is" else f"{words} is {self.relation} {self.value:g}"


@dataclass(frozen=True)
class Choice:
    """A recipe in the words of `gradus compare`, and the reason for it. The words may contain {names} of `numbers`."""

    recipe: str
    why: str


@dataclass(frozen=True)
class Rule:
    """If all conditions are true, the three recipes are advised in this order.

    `grounds`: the proving grounds that compare the first recipe with GRPO. If `grounds` is empty, no ground measures this rule. `pair`: if GRPO
    cannot be used, a ground whose calibrated pair begins with the first recipe. If the rule has neither `grounds` nor `pair`, a race decides.
    """

    name: str
    when: tuple[At, ...]
    choices: tuple[Choice, ...]
    grounds: tuple[str, ...] = ()
    pair: str = ""

    def holds(self, facts: Facts) -> bool:
        return all(condition.holds(facts) for condition in self.when)


def numbers(facts: Facts, rate: float) -> dict[str, str]:
    """Returns the numbers that the words of a recipe may name.

    `max_tokens`, `half` and `double` are the limit on new tokens, half of the limit, and twice the limit. `rule_rate` is `rate`, the learning rate by rule,
    and `third_rate` is a third of `rate`. A tenth of the right answers have at most s tokens. `beyond` is the limit minus s / 2. So a
    penalty on the last `beyond` tokens before the limit begins at the length s / 2, which nearly all answers exceed.
    """
    begin = (facts.short if facts.short is not None else facts.max_tokens) / 2
    return {
        "max_tokens": str(facts.max_tokens),
        "half": str(-(-facts.max_tokens // 2)),
        "double": str(2 * facts.max_tokens),
        "beyond": str(max(1, round(facts.max_tokens - begin))),
        "rule_rate": f"{rate:.2g}",
        "third_rate": f"{rate / 3:.2g}",
    }
