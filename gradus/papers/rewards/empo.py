"""EMPO: no labels at all. The reward of an answer is the share of the group's answers with the same meaning, so the semantic entropy of the policy
falls.

    p_k = |C_k| / G
    H = - sum_k p_k ln p_k
    r_i = p_k "of the class of answer" i "if" delta_l < H < delta_h "else" 0
    A_i = (r_i - mean(r)) / (std(r))

The G answers to a question are sorted into classes $C_k$ of equal final answers. The expected reward is $sum_k p_k^2$, so a higher reward means a
lower entropy. An answer without a final answer forms its own class, and its reward is 0. $delta_l$ is 0 and $delta_h$ is ln G. So only groups in
which all answers agree, or all differ, get no reward. Apart from this, the method is GRPO with groups of 7 and without a KL term. Only the evaluation
reads the task's verdict. Metrics: `semantic_entropy`, the mean of H; `certain_groups`, the share of groups within the bounds.

Use if: questions have no labels, answers can be compared, and the frequent answers of the model are more often right than wrong.
Avoid if: labels exist (see grpo), or the model's most frequent answer is usually wrong, because the policy then becomes certain of it. A majority
label (see ttrl) gives nothing to minorities; here a minority still gets its share.
Reference: Zhang et al., Right Question is Already Half the Answer: Fully Unsupervised LLM Reasoning Incentivization, arXiv:2504.05812, sections 3 and 4:
classes, entropy, reward and thresholds. Groups of 7, no KL, the reward 0 for a missing answer and the upper bound ln G come from the released code
for mathematics (QingyangZhang/EMPO, trl). Another released set-up (verl-empo) has groups of 16 and gives a missing answer the reward 1/G.
Departures: Equal numbers and equal texts form a class. In the paper, formulas are compared as formulas, and a small verifier model compares free
text. The bounds are compared with a slack of 1e-9, because rounding can put H of G classes below ln G. The paper leaves the lower bound open; 0 is
our choice. Penalties for free text (no answer, a repeated question) are left out. The deviation is the population deviation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.verified import Verified
from gradus.study.held_out import HeldOut
from gradus.types import Frozen, Group
from gradus.types.answers import answer_classes, answered, semantic_entropy
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

SLACK = 1e-9


@dataclass(frozen=True)
class ClassShare(Combines):
    """The share of the group's answers that equal the answer, if the entropy of the shares is between `low` and `high`. The right answer is not read."""

    low: float = 0.0  # nats; the entropy must be above this bound
    high: float | None = None  # nats; the entropy must be below this bound; None: ln G
    name: ClassVar[str] = "class_share"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True  # frequent answers may be wrong

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, inf)", high="[0, inf)")

    def of(self, completions: Sequence[str]) -> tuple[list[float], float, bool]:
        """Returns the rewards of a group, its entropy in nats, and whether the entropy is within the bounds."""
        classes = answer_classes(completions)
        counts = Counter(classes)
        entropy = semantic_entropy(list(counts.values()), form="shannon")
        high = math.log(max(len(completions), 1)) if self.high is None else self.high
        inside = self.low + SLACK < entropy < high - SLACK
        shares = [counts[k] / len(completions) if inside and answered(text) is not None else 0.0 for k, text in zip(classes, completions, strict=True)]
        return shares, entropy, inside

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [self.judged(group, world) for group in groups]

    def judged(self, group: Group, world: World) -> list[Judgement]:
        """Judges one group. Answers whose rollout failed do not count; they get 0, and their failure stays."""
        counted = [t.reward is None or t.failed is None for t in group.trajectories]
        shares, entropy, inside = self.of([t.completion for t, counts in zip(group.trajectories, counted, strict=True) if counts])
        world.note("semantic_entropy", entropy)
        world.note("certain_groups", float(inside))
        left = iter(shares)
        values = [next(left) if counts else 0.0 for counts in counted]
        return [Judgement(value, Frozen({self.name: value})) for value in values]


empo = grpo.derive(
    "empo",
    "The share of equal answers in the group is the reward, so the policy's semantic entropy falls; no labels are read.",
    family="rewards",
    reward=ClassShare(),
    objective__kl=None,
    players__reference=None,
    study=HeldOut(reward=Verified()),
    setting__group=7,
)

_TERMS = {"prompts": "16", "learning_rate": "2e-4", "warmup": "0", "eval_every": "0", "study.problems": "100", "study.greedy": "false"}

claims = (
    same_weights(
        says="With the task's verdicts as rewards, the final weights are those of GRPO without a KL term.",
        source="arXiv:2504.05812, without classes",
        against="grpo --objective.kl=none --players.reference=none",
        own={"reward": "Verified"},
    ),
    Claim(
        says="After 20 steps without labels, the semantic entropy of the answers is at most 0.7 times that of an untrained policy.",
        source="arXiv:2504.05812, section 3 (the objective minimises semantic entropy); task, sizes and the factor are ours",
        against="empo --setting.learning_rate 0",
        measure="semantic_entropy:last",
        at_most=0.7,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "16", "warmup": "0", "study": "none"},
        own={"setting.learning_rate": "2e-4"},
        budget="steps=20",
    ),
    Claim(
        says="Without any label, held-out accuracy rises by at least 0.05 over the start within 20 steps.",
        source="arXiv:2504.05812, table 1 (mean over mathematics from 30.7 to 48.1); task, sizes and the size of the effect are ours",
        measure="held_out/accuracy:gain",
        better_by=0.05,
        task="arithmetic",
        options={"level": "2"},
        fields=_TERMS,
        budget="steps=20",
    ),
    Claim(
        says="The gain in held-out accuracy is at least half of that with the true verdicts as rewards.",
        source="arXiv:2504.05812, table 1 (comparable to supervised GRPO); task, sizes and the factor are ours",
        against="empo --reward Verified",
        measure="held_out/accuracy:gain",
        at_least=0.5,
        task="arithmetic",
        options={"level": "2"},
        fields=_TERMS,
        budget="steps=20",
    ),
)
