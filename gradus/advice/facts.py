"""The facts on which advice depends. Facts come from the task, from the settings of a run, and from a short probe of the model.

The name of a ground is not a fact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from gradus.comparison.experiment import Elsewhere
from gradus.types.parts import Task

ACCURACY, SHORT, VARIED, KEPT, HARDER = "accuracy", "short", "varied", "kept", "harder"
"""The goals: right answers; short answers; varied answers; an old skill that must stay; right answers to harder problems than in training."""


@dataclass(frozen=True)
class Facts:
    """The facts that are known before training. A fact of the probe is None if nothing was sampled."""

    verifier: bool = False  # whether a verifier decides if answers are right
    function: bool = False  # whether a reward function of the user judges the answers
    learned: bool = False  # whether a reward model judges the answers
    solutions: bool = False  # whether the problems have worked solutions
    pairs: bool = False  # whether each problem has a better and a worse answer
    steps: bool = False  # whether the verifier can check single steps
    turns: bool = False  # whether the task has episodes of text in an environment
    chance: float = 0.0  # accuracy of random guesses
    noisy: bool = False  # whether the task or the user declares that verdicts can be wrong
    size: int | None = None  # number of training problems; None: endless
    goal: str = ACCURACY
    rate: float = 1.0  # the learning rate, divided by the rate that the rule gives
    updates: int = 1  # updates per batch of samples
    max_tokens: int = 64  # limit on the tokens of one answer
    pass_1: float | None = None  # mean share of right answers
    pass_16: float | None = None  # share of problems with at least one right answer among 16
    mixed: float | None = None  # share of groups with right and wrong answers
    solved: float | None = None  # share of problems that have only right answers
    unsolved: float | None = None  # share of problems that have only wrong answers
    length: float | None = None  # mean length of an answer, in tokens
    short: float | None = None  # the length, in tokens, that a tenth of the right answers do not exceed
    truncated: float | None = None  # share of answers that the limit of tokens cuts off
    overpaid: float | None = None  # share of answers with a reward above 1, which is the reward of a right answer

    @property
    def judged(self) -> bool:
        """Whether a verifier, a reward or an environment judges the answers."""
        return self.verifier or self.function or self.learned or self.turns

    @property
    def guesses(self) -> bool | None:
        """Whether pass@1 is at most 1.5 times the accuracy of random guesses; None without a probe."""
        return None if self.pass_1 is None else self.pass_1 <= 1.5 * self.chance

    def known(self) -> dict[str, Any]:
        """Returns the facts as plain values. If there was no probe, the facts of the probe are left out."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None} | {"judged": self.judged, "guesses": self.guesses}


def reads_text(task: Task) -> bool:
    """Whether a language model can read the prompts of the task, or the observations of its environment."""
    return "text" in task.showing


def offers(task: Task) -> dict[str, Any]:
    """Returns the facts that are known from the task alone."""
    return {
        "verifier": task.verify is not None,
        "solutions": "solution" in task.provides,
        "pairs": {"chosen", "rejected"} <= task.provides,
        "steps": getattr(task.verify, "steps", None) is not None,
        "turns": task.environment is not None and reads_text(task),
        "size": task.source.size,
        "chance": task.chance,
    }


def goal_of(measure: str, task: str, others: Sequence[Elsewhere]) -> str:
    """Returns the goal that belongs to a measure. `measure`: its name, as in `gradus compare --measure`.

    >>> goal_of("length", "arithmetic", ()), goal_of("entropy:last", "arithmetic", ()), goal_of("accuracy", "arithmetic", ())
    ('short', 'varied', 'accuracy')
    >>> goal_of("accuracy@old", "arithmetic", [Elsewhere("old", "countdown")])
    'kept'
    """
    name, _, other = measure.partition("@")
    if name in ("length", "tokens"):
        return SHORT
    if name == "distinct" or measure.startswith("entropy:"):
        return VARIED
    if name == "accuracy" and other:
        return HARDER if task in {one.task for one in others if one.name == other} else KEPT
    return ACCURACY


def rewards_of(rewards: Sequence[str], is_folder: Mapping[str, bool]) -> dict[str, bool]:
    """Returns two truth values: whether the rewards include a reward model (a folder), and whether they include a function."""
    named = [text for text in rewards if text != "Verified"]
    return {"learned": any(is_folder[text] for text in named), "function": any(not is_folder[text] for text in named)}
