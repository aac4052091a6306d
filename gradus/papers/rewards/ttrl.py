"""TTRL: reinforcement learning on unlabelled test questions. The majority answer of many samples serves as the label.

    y = "the most frequent of" a_1, ..., a_N
    r_i = 1 "if" a_i = y "else" 0
    A_i = (r_i - mean(r)) / (std(r)), quad i = 1, ..., n

The policy answers a question N = 64 times; $a_i$ is the final answer of sample i. A sample without a final answer has no vote and gets 0. If several answers
are equally frequent, y is the first of them. GRPO trains on the first n = 32 samples, with mean and deviation over these n samples. The KL
coefficient is 0.001, and a batch is cut into 8 mini-batches.

Even if the label y is wrong, most rewards can be right: every wrong sample that differs from y gets the right reward 0. Metrics: `majority_share` is
the share of the samples with the answer y; `label_accuracy` is the share of questions with a right y; `reward_accuracy` is the share of samples whose
reward equals the true verdict. The last two metrics need the task's verdicts, which no other part of training reads. The held-out accuracy uses the
true labels. If the task has no verdicts, set `--reward.watch none`, and judge evaluations by `--study.reward MajorityReward`.

Use if: questions have short answers but no labels, and the majority of samples is right for a good part of the questions.
Avoid if: labels exist (see grpo), or the model is so weak that the majority is wrong and stable. The policy then becomes certain of wrong answers.
Reference: Zuo et al., TTRL: Test-Time Reinforcement Learning, arXiv:2504.16084, sections 2 and 4.3. The released scripts (PRIME-RL/TTRL) have N = 64,
n = 32 (the first n), 8 questions per batch in mini-batches of one question, clip 0.2, learning rate 5e-7, temperature 1.0 for a maths model and 0.6
for others, and the trainer's KL loss with coefficient 0.001.
Departures: In the released reward only an answer of the kind "none" has no vote; its extractor gives the empty text instead, so missing answers vote.
The released code counts votes as text, and compares an answer with the label as formulas; here both steps compare numbers. The deviation is the
population deviation. The task sets the temperature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.majority import MajorityReward
from gradus.rewards.verified import Verified
from gradus.selection.filters import learned
from gradus.study.held_out import HeldOut
from gradus.types import Group, Key
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class FirstSamples:
    """Keeps the first `count` answers of each group. All answers of the group were judged together."""

    count: int = 32

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        """Returns the shortened groups. Groups without an answer to train on are dropped."""
        kept = [g.but(trajectories=learned(g)[: self.count]) for g in groups if learned(g)]
        return kept, [g for g in groups if not learned(g)]


@dataclass(frozen=True)
class WatchedMajority(Combines):
    """The reward of `majority`. `watch` judges the same answers for two metrics, and nothing else reads its verdicts.

    `label_accuracy` is the share of groups whose most frequent answer is right, and `reward_accuracy` is the share of answers with the same value under both
    rewards.
    """

    majority: MajorityReward = MajorityReward()
    watch: Reward | None = Verified()  # None: these metrics are missing, for a task that knows no right answers
    name: ClassVar[str] = MajorityReward.name
    unmarked: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[Signal, ...]:
        return () if self.watch is None else self.watch.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `watch` does not fit the task."""
        if self.watch is not None:
            check_reward(self.watch, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = await self.majority.score(groups, signals, world)
        if self.watch is not None:
            for row, truth in zip(found, await self.watch.score(groups, signals, world), strict=True):
                pairs = [(float(a.reward), float(b.reward >= 1)) for a, b in zip(row, truth, strict=True) if isinstance(b.reward, int | float)]  # type: ignore[arg-type]
                if pairs:  # answers without a verdict do not count
                    world.note("reward_accuracy", sum(value == right for value, right in pairs) / len(pairs))
                    world.note("label_accuracy", next((right for value, right in pairs if value), 0.0))
        return found


ttrl = grpo.derive(
    "ttrl",
    "The majority answer of many samples serves as the label of an unlabelled question; GRPO learns from a part of the samples.",
    family="rewards",
    reward=WatchedMajority(),
    selection=FirstSamples(32),
    objective__kl=KL(0.001),
    update__count=8,
    study=HeldOut(reward=Verified()),
    setting__group=64,
)

_SCALE = {"prompts": "8", "group": "32", "selection.count": "16", "learning_rate": "2e-4", "warmup": "0", "study.greedy": "false"}

claims = (
    same_weights(
        says="With the task's verdicts as rewards and all samples trained on, the final weights are those of GRPO.",
        source="arXiv:2504.16084, without votes",
        against="grpo --objective.kl.coefficient 0.001 --update.count 8",
        own={"reward": "Verified", "selection": "Everything"},
    ),
    Claim(
        says="Without any label, held-out accuracy rises by at least 0.1 over the start within 8 steps.",
        source="arXiv:2504.16084, table 1 (AIME 2024 pass@1 from 12.9 to 40.2); task, sizes and the size of the effect are ours",
        measure="held_out/accuracy:gain",
        better_by=0.1,
        task="arithmetic",
        options={"level": "2"},
        fields={**_SCALE, "eval_every": "0", "study.problems": "100"},
        budget="steps=8",
    ),
    Claim(
        says="After 20 steps the accuracy of single answers is above that of a majority vote over 32 samples of the start model.",
        source="arXiv:2504.16084, section 4.1 (TTRL exceeds maj@n of the model that taught it); task and sizes are ours",
        against="ttrl --search Majority --search.count 32 --learning_rate 0 --selection.count 1",
        measure="held_out/accuracy:last",
        better_by=0.0,
        task="string_ops",
        options={"level": "3"},
        fields={"prompts": "8", "group": "32", "warmup": "0", "study.greedy": "false", "study.problems": "100", "eval_every": "0"},
        own={"learning_rate": "2e-4", "selection.count": "16"},
        budget="steps=20",
    ),
    Claim(
        says="With a seventh of that learning rate, single answers are after 20 steps above a majority vote over 32 samples of the start model.",
        source="arXiv:2504.16084, section 4.1; stated again after a look at the share of right labels, which falls at the first rate and rises at 3e-5",
        against="ttrl --search Majority --search.count 32 --learning_rate 0 --selection.count 1",
        measure="held_out/accuracy:last",
        better_by=0.0,
        task="string_ops",
        options={"level": "3"},
        fields={"prompts": "8", "group": "32", "warmup": "0", "study.greedy": "false", "study.problems": "100", "eval_every": "0"},
        own={"learning_rate": "3e-5", "selection.count": "16"},
        budget="steps=20",
    ),
)
