"""Gazal-R1: medical choice questions, trained with adapters only. The reward for the answer depends on its length, and repetition lowers the reward.

    R = v(l) + 0.5 1{"form right"} - 0.5 c
    v(l) = v_"end" + (v_"start" - v_"end") (1 + cos(pi l / L)) / 2
    W' = m (W + alpha / sqrt(r) B A) / (norm(W + alpha / sqrt(r) B A))
    loss = -1/(N L) sum_i sum_t min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.28) A_i), quad A_i = R_i - mean(R)

l is the number of tokens, at most L, the limit of an answer. For right answers v falls from 1.0 to 0.5, so a short right answer is best. For wrong answers v
rises from -1.0 to -0.5, so a short wrong answer is worst. The form is one `<think>` part, then one
`\\boxed{letter}`. c is the share of repeated n-grams of words (n = 4). An n-gram is repeated if it occurred earlier in the answer. The loss is
divided by a constant length, the advantage is not divided by the deviation, and there is no KL term.

Only adapters are trained. An adapter is a change of rank r = 256 with the scale alpha / sqrt(r) (rank-stabilised LoRA). The norm of each row of the weight is
a trained magnitude m (DoRA). At the start, B is 0 and m is the norm of W, so W' = W. The first stage is supervised: `sft` with the
same adapter (`--players.policy.model ...`). Metrics: reward/length, reward/form, reward/repetition.

Use if: a large model is adapted on one machine, and its answers grow or repeat under a plain reward.
Avoid if: long answers are wanted, or all weights can be trained (see dr_grpo, dapo).
Reference: Adly et al., Gazal-R1: Achieving State-of-the-Art Medical Reasoning with Parameter-Efficient Two-Stage Training, arXiv:2506.21594: 107,033
examples for the first stage, DoRA with rank 256 and rank-stabilised scale, cosine of the length, form and repetition, GRPO without KL, with a larger
upper clip and a constant divisor. No code of the authors was found.
Departures: Our own choices are the weights 0.5 and 0.5, n = 4, the clip 0.2 and 0.28, and alpha. An answer with any letter can have the right form. The
divisor is the limit 1,024 of `ConstantLength`. The questions of the task `multiple_choice` are generated; their letters need no box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.objectives.aggregation import ConstantLength
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.length import CosineLength
from gradus.rewards.tags import Tags
from gradus.types import Frozen, Group
from gradus.types.parts import Judgement, Signals, World
from gradus.types.players import Adapter, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def repeated_share(words: Sequence[str], n: int) -> float:
    """Returns the share of n-grams that occurred before; 0 without n-grams.

    >>> repeated_share("a b c a b c a b c".split(), 3)
    0.5714285714285714
    """
    grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


@dataclass(frozen=True)
class RepeatedShare(Combines):
    """The share of the word n-grams of a completion that are repetitions. Give it a negative weight."""

    n: int = 4
    name: ClassVar[str] = "repetition"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, n="[1, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = [[repeated_share(t.completion.split(), self.n) for t in g.trajectories] for g in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in found]


_LENGTH = CosineLength(right=(1.0, 0.5), wrong=(-1.0, -0.5), exceeds=None)

gazal_r1 = grpo.derive(
    "gazal_r1",
    "Adapters with trained magnitudes; the reward for the answer depends on its length, and repetition lowers the reward.",
    family="rewards",
    reward=_LENGTH + 0.5 * Tags(("think",), answer="boxed") + (-0.5) * RepeatedShare(),
    credit__scale="none",
    objective__policy__trust=Clip(0.2, 0.28),
    objective__policy__average=ConstantLength(1024),
    objective__kl=None,
    players__reference=None,
    players__policy=Player(Adapter(rank=256, alpha=256.0, root=True, magnitude=True)),
)

_CHOICE = {
    "prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "128", "study.greedy": "false",
    "players.policy.model.rank": "8", "players.policy.model.alpha": "16", "objective.policy.average.length": "64",
}  # fmt: skip

claims = (
    same_weights(
        says="With all weights trained, the verdict alone and the same clip, the final weights are those of Dr. GRPO with one update per batch.",
        source="arXiv:2506.21594, without adapters and shaped rewards",
        against="dr_grpo --objective.policy.trust Clip(low=0.2,high=0.28) --objective.policy.average.length 1024 --update.count 1",
        own={"reward": "Verified", "players.policy": "none"},
    ),
    Claim(
        says="With adapters of rank 8, held-out accuracy rises by at least 0.03 over 15 steps.",
        source="arXiv:2506.21594, GRPO above the supervised model; task, start model, rank, sizes and bound are ours",
        measure="held_out/accuracy:gain",
        better_by=0.03,
        task="multiple_choice",
        options={"level": "1"},
        fields=_CHOICE,
        budget="steps=15",
    ),
)
