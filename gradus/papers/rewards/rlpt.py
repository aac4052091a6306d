"""RLPT: reinforcement learning on plain text. The policy thinks, and then predicts a segment of a document. The judge knows the true text.

The segment is the next segment of the document, or a hidden segment.

    J = E_"next"[R] + lambda E_"gap"[R]
    R = 1 "if the prediction is a valid prefix of the reference, else" 0
    A_i = (R_i - mean(R)) / (std(R))

A document is cut into segments $s_1, ..., s_n$, such as sentences. "Next": the prompt shows $s_1, ..., s_(i-1)$, and the reference is $s_i$ and the
segments after it. "Gap": $s_i$ is hidden, and the prompt also shows the segment after it. A prediction and the true segment often end at different
places. So the prediction only has to be a prefix: it may not contradict the reference, and may not go beyond the reference. The advantages of gap
answers are multiplied by lambda. Apart from this, the method is GRPO without a KL term.

The judge of the paper is a generative model. Here `Prefixed` replaces the judge. This part compares the prediction with the nearest prefix of the reference.
The likeness 1 - edits / words must be at least 0.9, where words is the number of words of the longer text. All numbers must be exact. Metrics:
reward/prefix, reward/likeness.

Use if: plain text is abundant, questions with answers are few, and later parts of a text follow from earlier parts.
Avoid if: problems with answers exist (see grpo), or the next segment is mostly free choice. For single hidden words, see pretrain_zero.
Reference: Li et al., Reinforcement Learning on Pre-Training Data, arXiv:2509.19249: the two predictions, the prefix reward, GRPO without KL, batches of
512, 8 answers, learning rate 1e-6, temperature 1. No code of the authors was found.
Departures: The judge that counts edits is our choice; a prediction of up to nine words must match exactly. lambda is 1. A step has predictions of
both kinds, and the mean of the loss is over all of them. The instruction stage is plain `sft` on the task's solutions. Filters of trivial segments
and of overlap with tests are left out (see `gradus leaks`). The documents of the task `segments` are generated. A problem without a reference gets
the task's verdict as its reward.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.scaled import Scaled
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.rewards.overlap import part
from gradus.types import Frozen, Group, Trajectory
from gradus.types.edits import edit_distances
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

_NUMBER = re.compile(r"\d+")
_LONGEST = 400  # characters that are compared


def words(text: str) -> list[str]:
    return text.casefold().replace(".", " ").split()


def prefix_likeness(said: str, reference: str, *, strict: bool = False) -> float:
    """Returns the likeness to the nearest prefix of the reference: 1 - edits / longer length, in words. Returns 0 if a number differs, or if there is no
    prediction.

    With `strict`, only the whole reference counts.

    >>> [round(prefix_likeness(text, "a b c d e f"), 3) for text in ("a b c", "a x c", "a b c d e f g")]
    [1.0, 0.667, 0.857]
    """
    a, b = words(said[:_LONGEST]), words(reference[:_LONGEST])
    if not a or not b:
        return 0.0
    edits = edit_distances(a, b)
    lengths = [len(b)] if strict else list(range(1, len(b) + 1))
    found = [(1 - edits[n] / max(len(a), n), n) for n in lengths]
    best, length = max(found)
    due = _NUMBER.findall(" ".join(b[:length]))
    return best if _NUMBER.findall(" ".join(a)) == due else 0.0


@dataclass(frozen=True)
class Prefixed(Combines):
    """The reward is 1 if the prediction has at least the likeness `least` to a prefix of the problem's `reference`, and otherwise 0. A problem without a
    reference gets the task's verdict as its reward."""

    least: float = 0.9
    of: str = "final"  # the part of a completion that is the prediction, as in `Overlap`
    strict: bool = False  # True: the prediction must match the whole reference
    name: ClassVar[str] = "prefixed"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, least="[0, 1]")

    def terms(self, trajectory: Trajectory, verdict: float) -> Terms | None:
        reference = trajectory.problem.meta.get("reference")
        if reference is None:
            return None
        value = prefix_likeness(part(trajectory.completion, self.of) or "", str(reference), strict=self.strict)
        return float(value >= self.least), {"prefix": float(value >= self.least), "likeness": value}

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await beside_verdict(groups, world, self.terms)


@dataclass(frozen=True)
class ByCategory:
    """A factor for each category of problems. Other categories have the factor 1."""

    factors_of: Frozen[float] = Frozen(gap=1.0)
    needs: ClassVar[tuple[Signal, ...]] = ()

    def factors(self, groups: Sequence[Group], signals: Signals) -> list[list[np.ndarray]]:
        return [[np.full(t.actions, self.factors_of.get(str(t.problem.meta.get("category")), 1.0)) for t in g.trajectories] for g in groups]


rlpt = grpo.derive(
    "rlpt",
    "The policy predicts the next or a hidden segment of plain text, and a prefix of the true text is right.",
    family="rewards",
    reward=Prefixed(),
    credit=Scaled(factor=ByCategory()),
    objective__kl=None,
    players__reference=None,
    setting__group=8,
)

claims = (
    same_weights(
        says="With the task's verdict and lambda 1, the final weights are those of GRPO without a KL term.",
        source="arXiv:2509.19249, a reward of exact segments",
        against="grpo --objective.kl none --players.reference none",
        own={"reward": "Verified"},
    ),
    Claim(
        says="The accuracy on held-out segments rises by at least 0.05 over 15 steps.",
        source="arXiv:2509.19249, RLPT above its start model; task, start model, sizes and bound are ours",
        measure="held_out/accuracy:gain",
        better_by=0.05,
        task="segments",
        options={"level": "1"},
        fields={
            "prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "100", "study.greedy": "false",
        },
        budget="steps=15",
        script="benchmarks.warmed rlpt",
    ),
)  # fmt: skip
