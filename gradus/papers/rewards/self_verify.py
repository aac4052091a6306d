"""Self-verify: one policy learns to answer and to judge its own answers in the same run. At test time its verdicts weight the votes of its answers.

    r_i = 1 "if answer" i "is right, else" 0
    r'_j = 1 "if verdict" j "on an own answer is true, else" 0
    A = (r - mean(r)) / (std(r)) "within each group of answers, and within each group of verdicts"
    "score"(a) = sum_(i : a_i = a) 1/M sum_(m=1)^M "yes"_(i,m)

A buffer stores the judged answers of the last 2 steps with their questions. Verification problems are drawn from the buffer: one right and one wrong
answer to each question that has both. So a constant verdict earns 0.5. The policy reads question and answer, and ends with "yes" or "no"; a
verification problem gets the same number of verdicts as a question gets answers. The verdicts form auxiliary groups: the policy learns from them, but
they are not part of the step's accuracy. `share` is the largest share of auxiliary groups among all groups (0.5). Apart from this, the method is
GRPO.
Metrics: `verdicts`, the share of true verdicts; `verified_items`, the number of verification problems of a step.

At test time the weight of a sample's vote is the mean of M = 4 verdicts on the sample (`--search Vote --search.weight SelfVerdicts`). The largest
score wins.

Use if: many samples per question are affordable at test time, and no verifier exists at test time.
Avoid if: nearly all answers are right or nearly all wrong, because balanced pairs are then missing; or test time allows only one answer per question
(see grpo).
Reference: Zhang et al., Incentivizing LLMs to Self-Verify Their Answers, arXiv:2506.01369, sections 3 and 4: one run for both problems, the buffer of
the policy's own answers, and votes weighted by verdicts. The repository of the authors could not be read.
Departures: Our own choices are the buffer of 2 steps, the share 0.5, M = 4, and the steps without verification at the start (`warmup`, by default none). The
verification problem shows only the final answer; `{solution}` in the template shows the whole solution. If there are more pairs than the share allows, the
newest pairs are used. A verdict without "yes" or "no" is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto, rolled
from gradus.search.self_verdicts import CHECKS, TEMPLATE, Item, item_of, says_yes, verification
from gradus.types import Frozen, Group, Key, Request, Trajectory
from gradus.types.parts import Judgement, Reward, Rollout, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def balanced_items(buffer: Sequence[Item], most: int, key: Key) -> list[Item]:
    """Returns up to `most` items, the newest questions first. A question with right and wrong answers in one step gives one right and one wrong answer, drawn
    at random."""
    found: dict[tuple[int, str], tuple[list[Item], list[Item]]] = {}
    for item in reversed(buffer):
        found.setdefault((item["step"], item["id"]), ([], []))[0 if item["right"] else 1].append(item)
    pairs = [(key.fold(*name).choice(right), key.fold(*name).fold("wrong").choice(wrong)) for name, (right, wrong) in found.items() if right and wrong]
    return [item for pair in pairs[: most // 2] for item in pair]


@dataclass(frozen=True)
class TrueVerdicts(Combines):
    """Judges answers by `reward`, and the policy's verdicts on its own answers by their truth."""

    reward: Reward = Verified()
    name: ClassVar[str] = "verdict"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        answers = [g for g in groups if not _checks(g)]
        judged = iter(await self.reward.score(answers, signals, world) if answers else [])
        return [[self.judged(t, world) for t in g.trajectories] if _checks(g) else next(judged) for g in groups]

    def judged(self, t: Trajectory, world: World) -> Judgement:
        """Judges one verdict."""
        value = float(says_yes(t.completion) is (t.problem.answer == "yes"))
        world.note("verdicts", value)
        return Judgement(value, Frozen({self.name: value}))


def _checks(group: Group) -> bool:
    return bool(group.trajectories) and CHECKS in group.trajectories[0].problem.meta


@dataclass(frozen=True)
class WithVerification:
    """Runs `rollout`, and adds auxiliary groups of verdicts on the policy's own recent answers. Evaluations run `rollout` alone."""

    rollout: Rollout = Auto()
    share: float = 0.5  # largest share of verification groups among all groups; 0: none
    steps: int = 2  # the buffer has the answers of the last `steps` steps, including the present step
    warmup: int = 0  # steps without verification at the start of the run
    template: str = TEMPLATE
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1)", steps="[1, inf)", warmup="[0, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def start(self) -> dict[str, Any]:
        return {"buffer": []}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """Returns the groups of answers and the new buffer. The groups of verdicts are auxiliary."""
        groups = await rolled(self.rollout, requests, world)
        fresh = [item_of(t, world.step) for g in groups for t in g.trajectories if t.failed is None]
        buffer = [*(item for item in state["buffer"] if item["step"] > world.step - self.steps), *fresh]
        most = math.floor(len(groups) * self.share / (1 - self.share)) if world.step >= self.warmup else 0
        items = balanced_items(buffer, most, world.key.fold("verification"))
        world.note("verified_items", len(items))
        if items:
            problems = [verification(item, self.template, i) for i, item in enumerate(items)]
            asked = [Request(problem, max(r.count for r in requests), tags=("verification",)) for problem in problems]
            world.also(await rolled(self.rollout, asked, world))
        return groups, {"buffer": buffer}


self_verify = grpo.derive(
    "self_verify",
    "The policy also learns to judge its own recent answers; at test time its verdicts weight the votes.",
    family="rewards",
    reward=TrueVerdicts(),
    rollout=WithVerification(),
)

_TERMS = {"prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4", "eval_every": "0", "study.greedy": "false", "study.problems": "60"}

claims = (
    same_weights(
        says="Without verification the final weights are those of GRPO.",
        source="arXiv:2506.01369, share 0; the limit is ours",
        against="grpo", own={"rollout.share": "0"},
    ),
    Claim(
        says="From a start that knows the form of a verdict, the share of true verdicts on balanced own answers is at least 0.1 higher after 30 steps.",
        source="arXiv:2506.01369, results on verification accuracy; task, start, sizes and the size of the effect are ours",
        against="self_verify --setting.learning_rate 0",
        measure="verdicts:last", better_by=0.1, task="arithmetic",
        fields={"prompts": "8", "group": "8", "warmup": "0", "study": "none"}, own={"setting.learning_rate": "3e-4"},
        budget="steps=30", script="benchmarks.warmed self_verify",
    ),
    Claim(
        says="After 10 steps from this start, a vote of 8 samples weighted by 4 own verdicts each is at least 0.03 above the majority vote of 8.",
        source="arXiv:2506.01369, test-time scaling; task, start, sizes and the size of the effect are ours",
        against="self_verify --search Majority --search.count 8",
        measure="held_out/accuracy:last", better_by=0.03, task="arithmetic",
        fields=_TERMS, own={"search": "Vote", "search.weight": "SelfVerdicts"},
        budget="steps=10", script="benchmarks.warmed self_verify-vote",
    ),
)
