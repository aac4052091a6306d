"""GRPO-CARE: a right answer that follows from its reasoning gets a bonus. A slowly moving copy of the policy judges whether the answer follows.

    c_i = min(exp(1/|a_i| sum_t log pi_ref(a_(i,t) | q, z_i, a_(i,<t))), u)
    "accurate: " b_i > 0.1 "and" b_i >= mean(b)
    r_i = b_i + beta_c b_i "if" i "is accurate and" c_i >= mean over accurate c - 0.01, quad "else" r_i = b_i
    A_i = (r_i - mean(r)) / (std(r))

An answer consists of reasoning $z_i$ and the final answer $a_i$, the tokens after the last mark ("=" here). $b_i$ is the verdict, in [0, 1]. The
reference pi_ref is a moving average of the policy: after every 10 updates, ref becomes 0.995 ref + 0.005 policy. c is the chance that the reference gives the
same answer after the same reasoning. The limit u = 0.95 keeps very likely answers from dominating the mean; beta_c is 0.5. The bonus replaces the KL
term. If all accurate answers get the bonus, advantages do not change, because they are divided by the deviation. So the bonus has an effect only if chances
below u differ by more than the margin 0.01. An answer without a mark, or without a token after it, gets no bonus. Metrics: reward/bonus, the mean
bonus; `chance`, the mean of c; with `check_by` also `consistency`, the share of answers whose reasoning implies their own answer.

Use if: answers come after reasoning, and right answers often do not follow from it.
Avoid if: the reasoning does not determine the answer, or the reference finds every right answer likely, so that all right answers get the bonus (see grpo).
Reference: Chen et al., GRPO-CARE: Consistency-Aware Reinforcement Learning for Multimodal Reasoning, arXiv:2506.16141, section 4: bonus, reference,
no KL. The released trainer (TencentARC/GRPO-CARE) has the clamp before the mean, the margin, and 0.995 every 10 steps. The trainer also has the sample
deviation plus 1e-4, the mean over the tokens of each answer, one update per batch, and a largest gradient norm of 5.
Departures: The deviation has no epsilon. The tokens of the answer do not include the end token. The released code finds the answer by its tags, and
leaves out the last tokens, which are the closing tag. The terms for format and length of the released code are left out (add `Tags`). `ReadsShapes`,
the consistency check of the task `shapes`, is our own choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.reshaped import by_group, reshaped
from gradus.rewards.verified import Verified
from gradus.types import Group, Problem, Trajectory
from gradus.types.answers import answered
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.players import MovingAverage, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProbs, Signal
from gradus.types.spans import ends


class Check(Protocol):
    def consistent(self, problem: Problem, completion: str) -> bool | None:
        """Returns whether the reasoning of a completion implies its answer; None if the completion cannot be read."""
        ...


@dataclass(frozen=True)
class ReadsShapes:
    """The check for the task `shapes`: the entries after "see" must imply the answer. Completions without such a part cannot be read."""

    def consistent(self, problem: Problem, completion: str) -> bool | None:
        seen, mark, said = completion.rpartition("=")
        words = seen.split()
        if not mark or words[:1] != ["see"]:
            return None
        entries = [e.split() for e in " ".join(words[1:]).split(",") if e.split() and e.split() != ["none"]]
        answer = " ".join(said.split())
        if problem.question.startswith("how many"):
            return answer == str(len(entries))
        wanted = {"what colour": slice(0, 1), "what shape": slice(1, 2), "where is": slice(2, None)}
        part = next((place for start, place in wanted.items() if problem.question.startswith(start)), None)
        return None if part is None or len(entries) != 1 else answer == " ".join(entries[0][part])


def bonuses(base: Sequence[float], chances: Sequence[float], *, beta: float, upper: float, margin: float) -> list[float]:
    """Returns the bonus of each answer of a group: beta * base for accurate answers whose clamped chance reaches the threshold, else 0.

    A chance of NaN means that no answer was found; then the answer counts as not accurate.

    >>> bonuses([1, 1, 0, 1], [0.9, 0.6, 0.8, 0.3], beta=0.5, upper=0.95, margin=0.01)
    [0.5, 0.5, 0.0, 0.0]
    """
    b, c = np.asarray(base, np.float64), np.minimum(np.asarray(chances, np.float64), upper)
    accurate = (b > 0.1) & (b >= b.mean() if len(b) else True) & ~np.isnan(c)
    threshold = c[accurate].mean() - margin if accurate.any() else math.inf
    return np.where(accurate & (np.nan_to_num(c, nan=-1.0) >= threshold), beta * b, 0.0).tolist()


@dataclass(frozen=True)
class Consistent(Combines):
    """Adds a bonus to `reward` for accurate answers that fit their reasoning: their probability under `player` is at least the mean over accurate
    answers minus `margin`.

    The probability means the probability of the final answer after the reasoning.
    """

    reward: Reward = Verified()
    beta: float = 0.5  # the bonus as a share of the reward
    upper: float = 0.95  # larger chances count as this number
    margin: float = 0.01
    mark: str = "="  # the answer is the text after the last mark
    player: str = "reference"
    check_by: Check | None = None  # measures the consistency of reasoning and answer, for the metric alone
    name: ClassVar[str] = "consistent"
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, beta="[0, inf)", upper="(0, 1]", margin="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (*self.reward.needs, LogProbs(player=self.player))

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        rows = signals[LogProbs(player=self.player)]
        return await reshaped(self.reward, groups, signals, world, by_group(lambda answers: self.paid(answers, rows, world)))

    def paid(self, answers: Sequence[Trajectory], rows: Mapping[str, np.ndarray], world: World) -> list[tuple[float, Mapping[str, float]]]:
        """Returns the rewards of a group's answers, and the bonus as a component."""
        chances = [self.chance(t, rows[t.id], world) for t in answers]
        found = bonuses([t.value for t in answers], chances, beta=self.beta, upper=self.upper, margin=self.margin)
        for t, c in zip(answers, chances, strict=True):
            if not math.isnan(c):
                world.note("chance", c)
            holds = self.check_by.consistent(t.problem, t.completion) if self.check_by is not None else None
            if holds is not None:
                world.note("consistency", float(holds))
        return [(t.value + bonus, {"bonus": bonus}) for t, bonus in zip(answers, found, strict=True)]

    def chance(self, t: Trajectory, logprobs: np.ndarray, world: World) -> float:
        """Returns exp(mean log-probability) of the tokens after the last mark, without the end token; NaN if there are none."""
        last = t.contexts[-1]
        tokens = last.sequence[last.action_positions]
        place = t.completion.rfind(self.mark)
        if place < 0 or answered(t.completion[place:]) is None:
            return math.nan
        until = ends(tokens, lambda piece: world.text(piece, t.player))
        begin = np.concatenate([[0], until[:-1]])
        mine = (until > place + len(self.mark)) & (until > begin)
        row = np.asarray(logprobs, np.float64)[-len(tokens) :][mine]
        return math.exp(float(row.mean())) if len(row) else math.nan


grpo_care = grpo.derive(
    "grpo_care",
    "A right answer that a slowly moving copy of the policy finds likely after its reasoning gets a bonus, which replaces the KL term.",
    family="rewards",
    reward=Consistent(),
    credit=GroupRelative("sample"),
    objective__kl=None,
    players__reference=Player(MovingAverage("policy", decay=0.995, every=10)),
    optimizer__clip=5.0,
)

_TERMS = {
    "prompts": "8", "group": "8", "warmup": "0", "learning_rate": "1e-4", "eval_every": "0", "study.problems": "100", "study.greedy": "false",
    "reward.check_by": "ReadsShapes",
}  # fmt: skip

claims = (
    same_weights(
        says="Without the bonus the final weights are those of GRPO without a KL term.",
        source="arXiv:2506.16141, bonus 0",
        against="grpo --objective.kl=none --players.reference=none --credit.scale sample --optimizer.clip 5",
        own={"reward.beta": "0"},
    ),
    Claim(
        says="In 20 steps the share of answers whose reasoning implies them is on average at least 0.03 above that without the bonus.",
        source="arXiv:2506.16141, abstract (consistency by 24.5 points); task, sizes and the size of the effect are ours",
        against="grpo_care --reward.beta 0",
        measure="consistency:mean",
        better_by=0.03,
        task="shapes",
        options={"level": "3"},
        fields=_TERMS,
        budget="steps=20",
    ),
    Claim(
        says="Held-out accuracy after these 20 steps is at least 0.97 times that without the bonus.",
        source="arXiv:2506.16141, abstract (accuracy rises); task, sizes and the bound are ours",
        against="grpo_care --reward.beta 0",
        measure="held_out/accuracy:last",
        at_least=0.97,
        task="shapes",
        options={"level": "3"},
        fields=_TERMS,
        budget="steps=20",
    ),
)
