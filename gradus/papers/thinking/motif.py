"""MOTIF: the model thinks over several rounds and carries only a progress note. Only the first round is trained; its reward is the success of later
rounds.

    R = 1/K sum_(k = 1)^K acc_k + tags + 1/2 [loose form] + 1/2 [strict form]
    acc_k = 2 "if the final answer is right, 1 if only the response is, else" 0
    A_i = (R_i - mean(R)) / (std(R))

A round writes `<reasoning>..</reasoning><answer>..</answer>`; the text of the answer is the note. Round t + 1 reads the question and the note of round t,
so no prompt grows with the number of rounds. In round T = 3 the answer is final. From each of 8 first-round responses, K = 4 independent continuations
to the last round are sampled with the current policy. The continuations are used only to estimate the value of the note; the loss is on tokens of the first
round. Each of the four tags gives 1/8 if it occurs exactly once, on its own line. Each character after the last tag costs 0.002: 0.001 for each
of the two closing tags. The policy is a LoRA adapter, and there is no KL term. In evaluation the same weights play all rounds. Metrics:
reward/continued, reward/tags, reward/loose, reward/strict.

Use if: a problem needs more thought than fits into one context, and a note can carry the state.
Avoid if: one round is enough, because K (T - 1) further responses per answer then bring nothing (see grpo, delethink).
Reference: Mitra and Ulukus, MOTIF: Modular Thinking via Reinforcement Fine-tuning in LLMs, arXiv:2507.02851. The released code (purbeshmitra/MOTIF)
has the rewards, rank 64 and K = 4, and a temperature of 0.8 with top-p 0.95 for the continuations.
Departures: In the released script the base model without the adapter samples the continuations; here the policy samples them, as in the paper
(`--reward.player NAME` sets another player). The temperature 0.8 applies to all rounds, without top-p; the code has no such setting for the first
round. The verdict of the task replaces the comparison of the answer in \\boxed{}. Forms may span several lines, and the strict form may end without a line
break; the code matches only single lines. White space after the last tag is free. If a closing tag is missing, no character costs reward; in the code all
characters of the text then cost reward. The code has a learning rate of 5e-6, one question per step, and a gradient norm of at most 0.1; here the
three numbers are the same as in grpo. The code divides by the sample deviation plus 0.0001; here A is divided by the population deviation. The texts of the
prompts are our own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.verified import Verified
from gradus.rollouts.notes import Notes, Rounds, later_rounds
from gradus.study.held_out import HeldOut
from gradus.types import Frozen, Group, Request, Trajectory
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.players import Adapter, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

_STRICT = re.compile(r"<reasoning>\n.*?\n</reasoning>\n<answer>\n.*?\n</answer>\n?", re.DOTALL)
_LOOSE = re.compile(r"<reasoning>.*?</reasoning>\s*<answer>.*?</answer>", re.DOTALL)


def tag_points(text: str) -> float:
    """Returns 1/8 for each tag that occurs exactly once, minus 0.001 for each character after the last closing tag; this subtraction is made for both
    closing tags.

    >>> tag_points("<reasoning>\\na\\n</reasoning>\\n<answer>\\nb\\n</answer>\\n")
    0.5
    """
    marks = ("<reasoning>\n", "\n</reasoning>\n", "\n<answer>\n", "\n</answer>")
    points = sum(0.125 for mark in marks if text.count(mark) == 1)
    rest = len(text.rpartition("\n</answer>")[2].strip()) if text.count("\n</answer>") == 1 else 0
    return points - 2 * 0.001 * rest


@dataclass(frozen=True)
class ContinuedSuccess(Combines):
    """The mean score of `continuations` that lead from a first-round response to the last round, plus the points for the form of the response.

    A continuation scores 2 if `reward` is 1 for its final note, 1 if `reward` is 1 only for the whole response, else 0. A response without a score is
    a failure.
    """

    rounds: int = 3
    continuations: int = 4
    notes: Notes = Notes()
    reward: Reward = Verified()
    player: str | None = None  # the player that continues; None: the player of the response
    form: float = 1.0  # weight of the points for the form
    name: ClassVar[str] = "continued"
    unmarked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self, rounds="[1, inf)", continuations="[1, inf)", form="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        firsts = [(Request(t.problem, player=t.player, tags=("continued", g.key)), t) for g in groups for t in g.trajectories]
        ends = await later_rounds(firsts, self.rounds, self.continuations, self.notes, world, self.player)
        notes = [
            Group(f"note/{i}", tuple(t.but(id=f"{t.id}/note/{k}", completion=self.notes.of(t.completion)) for k, t in enumerate(row)))
            for i, row in enumerate(ends)
        ]
        whole = [Group(f"whole/{i}", tuple(t.but(id=f"{t.id}/whole/{k}") for k, t in enumerate(row))) for i, row in enumerate(ends)]
        judged = await self.reward.score([*notes, *whole], signals, world)
        rows = iter(zip((t for _, t in firsts), judged[: len(ends)], judged[len(ends) :], strict=True))
        return [[self._judged(*next(rows)) for _ in g.trajectories] for g in groups]

    def _judged(self, first: Trajectory, notes: Sequence[Judgement], whole: Sequence[Judgement]) -> Judgement:
        lost = [j for j in (*notes, *whole) if not isinstance(j.reward, int | float)]
        if lost:
            return replace(lost[0], components=Frozen())
        mean = float(np.mean([2.0 if a.reward >= 1 else 1.0 if b.reward >= 1 else 0.0 for a, b in zip(notes, whole, strict=True)]))  # type: ignore[operator]
        text = first.completion
        parts = {"tags": tag_points(text), "loose": 0.5 * bool(_LOOSE.match(text)), "strict": 0.5 * bool(_STRICT.fullmatch(text))}
        return Judgement(mean + self.form * sum(parts.values()), Frozen(continued=mean, **parts))


motif = grpo.derive(
    "motif",
    "Notes link several rounds of thinking; the first round is trained by the success of the later rounds.",
    family="thinking",
    rollout=Rounds(),
    reward=ContinuedSuccess(),
    objective__kl=None,
    players__reference=None,
    players__policy=Player(Adapter(rank=64, alpha=64.0)),
    study=HeldOut(reward=Verified()),
    setting__temperature=0.8,
)

_SMALL = {"rollout.notes.first": "", "rollout.notes.later": "{}", "rollout.notes.last": "{}"}
_SMALL |= {name.replace("rollout", "reward"): value for name, value in _SMALL.items()}

claims = (
    same_weights(
        says="With one round, one continuation and no points for the form, the final weights are those of GRPO with doubled verdicts.",
        source="arXiv:2507.02851, the limit T = 1",
        against="grpo --objective.kl none --players.reference none --temperature 0.8 --players.policy Player --players.policy.model Adapter "
        "--players.policy.model.rank 64 --players.policy.model.alpha 64",
        own={"rollout.count": "1", "reward.rounds": "1", "reward.continuations": "1", "reward.form": "0", "rollout.notes.first": ""},
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "study": "none", "warmup": "0"},
    ),
    Claim(
        says="On sums that need more than one window of 31 tokens, three rounds solve at least 10 points more problems than GRPO with one.",
        source="arXiv:2507.02851, table 1 (3 to 4 points above GRPO); the ground, notes of whole responses, and the size of the effect are ours",
        against="grpo",
        measure="accuracy",
        better_by=0.1,
        ground="window",
        own={**_SMALL, "reward.continuations": "2"},
    ),
)
