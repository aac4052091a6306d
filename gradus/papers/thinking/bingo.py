"""Bingo: only insignificant tokens of an answer cost reward. At first wrong answers may grow; when accuracy stops rising, their length costs reward,
too.

    c = cos(clip(n / n_ref, 0, pi/2))
    r = 1 + 5 c "if right, else" min(0, 2 (c - 1) + k s / s_ref - 5)

An answer has n insignificant and s significant tokens; a reply of the start model to the same question has $n_ref$ and $s_ref$. The factor c is 1 for n = 0,
0.54 for $n = n_ref$, and 0 if n is at least 1.57 $n_ref$. So a right answer gets 1 to 6, and a wrong answer at most 0. In the first 50 steps k is $10 / pi$,
so more significant tokens raise the reward of a wrong answer. From then on, k depends on the slope of the mean accuracy over the last 10 steps (by least
squares). A fixed factor scales all slopes; with this factor the first slope has the size $10 / pi$. If the scaled slope is above 2.5, it becomes k. Else a
counter j rises by one, and $k = max(-20/pi, -j/2)$; a scaled slope above 2.5 resets j. Apart from this, the method is PPO. Metrics: reward/filler (n),
reward/significant (s), reward/factor (k).

Use if: a rule can find the filler in an answer, and hard questions need long answers.
Avoid if: no rule tells which tokens are insignificant, because every token then costs the same (see kimi_k1_5).
Reference: Liu et al., Bingo: Boosting Efficient Reasoning of LLMs via Dynamic and Significance-based Reinforcement Learning, arXiv:2506.08125. The
formula and the numbers are as in the released code (microsoft/Bingo): weights 5, 2 and 5, start at step 50, period 10, threshold 2.5.
Departures: The paper's compressor, a trained classifier of tokens, is not included: here a token is insignificant if it lies in a repeated n-gram.
The code scales the classifier's scores of an answer to the range from 0 to 1; tokens with a score below 0.5 are insignificant. To use another rule, give a
part with the method `significant`. The reference counts are means over `replies` replies, and at least 1; if one of them is 0, the code sets both ratios
to 0. KL coefficient, lambda and epochs are as in `ppo`; the script has the coefficient 0.001 and mini-batches of a quarter of the batch. Answers
without counts keep the verdict.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.length import right_of
from gradus.rewards.repetition import repeated, sampled
from gradus.rewards.reshaped import reshaped
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.single_turn import grouped
from gradus.types import Frozen, Group, Request, Trajectory, UserError
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.players import Copy, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

State = dict[str, Any]
COUNTS = ("filler", "significant", "filler_reference", "significant_reference")  # links of an answer


class Significance(Protocol):
    def significant(self, trajectory: Trajectory) -> np.ndarray:
        """Returns [A], bool: whether each token of an answer is significant."""


@dataclass(frozen=True)
class Unrepeated:
    """A token is significant unless it lies in an n-gram that occurred earlier in the answer."""

    n: int = 6

    def __post_init__(self) -> None:
        check_ranges(self, n="[1, inf)")

    def significant(self, trajectory: Trajectory) -> np.ndarray:
        return ~repeated(sampled(trajectory), self.n)


@dataclass(frozen=True)
class WithFiller:
    """Samples answers and replies of `player` to the same questions. The links COUNTS of an answer are its numbers of tokens, and the mean numbers of
    tokens of the replies (at least 1)."""

    rule: Significance = Unrepeated()
    player: str = "start"
    replies: int = 1  # replies per question; no update uses them, and no reward judges them
    gives: ClassVar[frozenset[str]] = frozenset({"filler"})
    plays: ClassVar[str] = "answers"
    names_players: ClassVar[tuple[str, ...]] = ("player",)
    test: ClassVar[Auto] = Auto()  # in evaluation the policy answers alone

    def __post_init__(self) -> None:
        check_ranges(self, replies="[1, inf)")

    def check_task(self, task: Task) -> None:
        if task.environment is not None:
            raise UserError(f'task "{task.name}" has an environment, but WithFiller counts tokens of one answer; take a task without an environment')

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        asked = [replace(r, player=self.player, count=self.replies, tags=(*r.tags, "reply"), trained=False) for r in requests]
        replies, groups = await asyncio.gather(grouped(asked, world), grouped(requests, world))
        return await world.judge([self._counted(group, reply) for group, reply in zip(groups, replies, strict=True)])

    def _counted(self, group: Group, replies: Group) -> Group:
        known = np.maximum(np.mean([self.counts(t) for t in replies.trajectories], axis=0), 1.0).tolist()
        counted = (t.but(links=Frozen(t.links, **dict(zip(COUNTS, [*self.counts(t), *known], strict=True)))) for t in group.trajectories)
        return group.but(trajectories=tuple(counted))

    def counts(self, trajectory: Trajectory) -> list[int]:
        """Returns the numbers of insignificant and of significant tokens."""
        return np.bincount(self.rule.significant(trajectory), minlength=2).tolist()


def slope_of(values: Sequence[float]) -> float:
    """Returns the least-squares slope of values at the places 0, 1, 2, ..."""
    places = np.arange(len(values)) - (len(values) - 1) / 2
    return round(float(places @ np.asarray(values, np.float64) / (places @ places)), 12)


@dataclass(frozen=True)
class SignificantLength(Combines):
    """A reward from the counts of `WithFiller`. A right answer earns more if it has few insignificant tokens. While k is positive, a wrong answer
    earns more if it has many significant tokens.

    `reward` decides which answers are right. An answer without counts keeps the value of `reward`.
    """

    reward: Reward = Verified()
    right: float = 5.0  # weight of c for right answers
    wrong: float = 2.0  # weight of c - 1 for wrong answers
    offset: float = 5.0  # this number is subtracted from the reward of a wrong answer
    first: float = 10 / math.pi  # k at first, and the size of the first scaled slope
    start_step: int = 50
    period: int = 10  # number of last steps over which the slope is measured
    threshold: float = 2.5
    name: ClassVar[str] = "significant_length"

    def __post_init__(self) -> None:
        check_ranges(self, start_step="[2, inf)", period="[2, inf)", first="[0, inf)", threshold="(-inf, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        check_reward(self.reward, task)

    def start(self) -> State:
        return {"accuracy": [], "steps": 0, "scale": None, "low": 0, "k": self.first}

    def values(self, group: Group, k: float) -> np.ndarray:
        """Returns the rewards [G] of a judged group with counts."""
        n, s, n_ref, s_ref = (np.array([t.links[name] for t in group.trajectories], np.float64) for name in COUNTS)
        c = np.cos(np.clip(n / n_ref, 0, math.pi / 2))
        wrong = np.minimum(0.0, self.wrong * (c - 1) + k * s / s_ref - self.offset)
        return np.where(right_of(group), 1 + self.right * c, wrong)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World, state: State) -> tuple[list[list[Judgement]], State]:
        seen: list[bool] = []

        def paid(group: Group) -> tuple[np.ndarray, dict[str, np.ndarray]]:
            seen.extend(right_of(group).tolist())
            known = all("filler" in t.links for t in group.trajectories)
            counts = {name: np.array([t.links[name] for t in group.trajectories]) for name in COUNTS[:2] if known}
            return self.values(group, state["k"]) if known else group.rewards, {**counts, "factor": np.full(len(group.trajectories), state["k"])}

        judged = await reshaped(self.reward, groups, signals, world, lambda judged: [paid(group) for group in judged])
        return judged, self.after(float(np.mean(seen)), state) if seen else state

    def after(self, accuracy: float, state: State) -> State:
        """Returns the state after a step with this mean accuracy. `low` counts the flat steps in a row."""
        state = {**state, "accuracy": [*state["accuracy"], accuracy][-self.period :], "steps": state["steps"] + 1}
        if state["steps"] < self.start_step:
            return state
        slope = slope_of(state["accuracy"])
        scale = state["scale"] or (self.first / max(1e-6, abs(slope)) if slope else self.first)
        steep = slope * scale > self.threshold
        low = 0 if steep else state["low"] + 1
        return {**state, "scale": scale, "low": low, "k": slope * scale if steep else max(-2 * self.first, -0.5 * low)}


bingo = ppo.derive(
    "bingo",
    "Right answers earn by little filler; wrong answers may think longer until the accuracy stops rising.",
    family="thinking",
    rollout=WithFiller(),
    reward=SignificantLength(),
    players__start=Player(Copy("policy")),
)

_FREE = {"reward.right": "0", "reward.wrong": "0", "reward.offset": "0", "reward.first": "0"}

claims = (
    same_weights(
        says="With all weights 0 and no factor k, the final weights are those of PPO.",
        source="arXiv:2506.08125, the plain reward",
        against="ppo",
        own=_FREE,
        options={"level": "2"},
        fields={"prompts": "4", "group": "2", "study": "none", "warmup": "0"},
    ),
    Claim(
        says="After 30 steps, answers have at most half of the repeated tokens that they have with the plain reward.",
        source="arXiv:2506.08125, section 4 (fewer insignificant tokens); the ground, the repeated n-grams, start at step 10 and the factor are ours",
        against="bingo " + " ".join(f"--{name} {value}" for name, value in _FREE.items()),
        measure="reward/filler:last",
        at_most=0.5,
        ground="wordy",
        fields={"reward.start_step": "10", "update.epochs": "1"},
        budget="steps=30",
    ),
)
