"""MultiRole-R1: for questions whose answer depends on who is asked, chains of thought argue from several roles, and diversity is part of the reward.

    R_i = r_"acc" + lambda r_"div" 1{r_"acc" = 1} + 0.1 r_"fmt"
    r_"div" = 1/2 (m / n_max + 1/5 (d_1 + d_2 + d_3 + H / (ln T) + 1 - J))
    A_i = (R_i - mean(R)) / (std(R))

A response argues for roles under headers such as [owner], and ends with a final answer. m is the number of different roles with a real argument. A
real argument has at least 10 words and is no near copy of an earlier part (word overlap below 0.8). $d_n$ is the share of different n-grams among the n-grams
of the T words, and H is the entropy of the words. J is the mean overlap of the word sets of two parts; 1 - J is 0 for fewer than two parts. $n_max$
is 4, and lambda is 0.2. A wrong answer gets no bonus, so diversity cannot replace correctness. $r_fmt$ is 1 if there is a header before a final
answer. The KL coefficient is 0.001. Metrics: reward/roles (m), reward/diversity ($r_div$).

The start is fine-tuned on the model's own chains. The harvest `AgreedChains` keeps chains of several roles whose final answer is the answer of the
majority: `Stages(Frozen(write=Stage(makes=AgreedChains()), tune=Stage(recipe=sft, start="first", task="made:write"), learn=Stage()))`.

Use if: the right answer depends on a group's view, and a single view misses the reasons of the others.
Avoid if: answers are objective and short chains suffice (see grpo), or the length is limited.
Reference: Wang et al., Diversity-Enhanced Reasoning for Subjective Questions, arXiv:2507.20187: multi-role chains with a self-consistency filter,
GRPO with accuracy, diversity and format. The repository of the authors (yumeng-10/multirole-r1) could not be read.
Departures: Our own choices are lambda, $n_max$, the weight of the format, the five lexical measures in this form, the bonus for right answers alone, and the
least number of words of a part. Groups are as in the base. The deviation is the population deviation. The paper's study of diversity, length and
accuracy is left out; reward/diversity and the length are metrics.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.diversity import distinct_share
from gradus.rewards.reshaped import by_group, reshaped
from gradus.rewards.verified import Verified
from gradus.types import Group, Trajectory
from gradus.types.answers import answered, most_common_answer
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

_HEADER = re.compile(r"\[([A-Za-z][A-Za-z _-]{0,40})\]")


def parts_of(completion: str) -> list[tuple[str, list[str]]]:
    """Returns the role and the words of each part, up to the next header or the final answer.

    >>> parts_of("[owner] loud- so no [child] loud+ so yes =yes")
    [('owner', ['loud-', 'so', 'no']), ('child', ['loud+', 'so', 'yes'])]
    """
    body = completion.rpartition("=")[0] if "=" in completion else completion
    pieces = _HEADER.split(body)
    return [(role.strip().lower(), words.split()) for role, words in zip(pieces[1::2], pieces[2::2], strict=True)]


def jaccard(one: Sequence[str], other: Sequence[str]) -> float:
    """Returns the share of the words of two parts that both have; 0 if both are empty."""
    union = set(one) | set(other)
    return len(set(one) & set(other)) / len(union) if union else 0.0


def argued(parts: Sequence[tuple[str, Sequence[str]]], *, least: int, copy: float) -> int:
    """Returns the number of different roles with a real argument: it has at least `least` words, and less overlap than `copy` with every earlier argument."""
    kept: dict[str, Sequence[str]] = {}
    for role, words in parts:
        if len(words) >= least and role not in kept and all(jaccard(words, other) < copy for other in kept.values()):
            kept[role] = words
    return len(kept)


def lexical(words: Sequence[str], parts: Sequence[Sequence[str]]) -> float:
    """Returns the mean of five measures, in [0, 1]: distinct-1, distinct-2, distinct-3, the entropy of the words divided by ln T, and 1 minus the mean
    overlap of two parts."""
    numbers = {word: i for i, word in enumerate(dict.fromkeys(words))}
    shares = [distinct_share([[numbers[w] for w in words]], n) for n in (1, 2, 3)]
    total = len(words)
    entropy = -sum(c / total * math.log(c / total) for c in Counter(words).values()) / math.log(total) if total > 1 else 0.0
    overlaps = [jaccard(a, b) for a, b in combinations(parts, 2)]
    return (sum(shares) + entropy + (1 - sum(overlaps) / len(overlaps) if overlaps else 0.0)) / 5


@dataclass(frozen=True)
class Diverse(Combines):
    """Adds weight * diversity to the reward of right answers, and `form` to answers with a header before a final answer."""

    reward: Reward = Verified()
    weight: float = 0.2  # lambda
    form: float = 0.1
    most: int = 4  # n_max: further roles earn nothing
    least: int = 10  # words of a part that counts
    copy: float = 0.8  # a part with at least this overlap is a copy of an earlier part
    name: ClassVar[str] = "diverse"

    def __post_init__(self) -> None:
        check_ranges(self, weight="[0, inf)", form="[0, inf)", most="[1, inf)", least="[1, inf)", copy="(0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await reshaped(self.reward, groups, signals, world, by_group(self.paid))

    def paid(self, answers: Sequence[Trajectory]) -> list[tuple[float, Mapping[str, float]]]:
        """Returns the rewards of a group's answers, and the components `roles`, `diversity` and `form`."""
        return [self.of(t) for t in answers]

    def of(self, answer: Trajectory) -> tuple[float, Mapping[str, float]]:
        """Returns the reward of a judged answer and its components."""
        parts = parts_of(answer.completion)
        roles = argued(parts, least=self.least, copy=self.copy)
        words = [w for _, part in parts for w in part]
        diversity = (min(roles / self.most, 1.0) + lexical(words, [part for _, part in parts])) / 2
        form = float(bool(parts) and "=" in answer.completion and answered(answer.completion) is not None)
        total = answer.value + (self.weight * diversity if answer.right else 0.0) + self.form * form
        return total, {"roles": float(roles), "diversity": diversity, "form": form}


@dataclass(frozen=True)
class AgreedChains:
    """Makes demonstrations from the answers with at least `roles` roles, if the final answer is the majority answer of the group. No label is read."""

    roles: int = 2
    least: int = 10  # words of a part that counts

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"solution"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per kept answer."""
        out: list[Mapping[str, Any]] = []
        for group in (g for g in groups if not g.aside):
            winner = most_common_answer([t.completion for t in group.trajectories])
            for t in group.trajectories:
                enough = argued(parts_of(t.completion), least=self.least, copy=0.8) >= self.roles
                if winner is not None and enough and answered(t.completion) == winner:
                    out.append({"prompt": t.problem.question, "answer": str(winner), "solution": t.completion})
        return out


multirole_r1 = grpo.derive(
    "multirole_r1",
    "Right answers whose chains argue from several roles with varied words earn a bonus.",
    family="rewards",
    reward=Diverse(),
    objective__kl=KL(0.001),
)

_TERMS = {
    "prompts": "8", "group": "8", "warmup": "0", "learning_rate": "2e-4", "eval_every": "0", "study.problems": "100", "study.greedy": "false",
    "reward.least": "3",
}  # fmt: skip

claims = (
    same_weights(
        says="Without diversity and format, the final weights are those of GRPO.",
        source="arXiv:2507.20187, without shaping",
        against="grpo --objective.kl.coefficient 0.001",
        own={"reward.weight": "0", "reward.form": "0"},
    ),
    Claim(
        says="From a start with chains of one to four roles, the mean number of argued roles after 20 steps is at least 0.5 above that without the bonus.",
        source="arXiv:2507.20187, results on diversity; task, start, sizes and the size of the effect are ours",
        against="multirole_r1 --reward.weight 0",
        measure="reward/roles:last",
        better_by=0.5,
        task="dilemmas",
        fields=_TERMS,
        budget="steps=20",
        script="benchmarks.warmed multirole_r1",
    ),
    Claim(
        says="Held-out accuracy after these 20 steps is at least 0.02 above that without the bonus.",
        source="arXiv:2507.20187, results on accuracy; task, start, sizes and the size of the effect are ours",
        against="multirole_r1 --reward.weight 0",
        measure="held_out/accuracy:last",
        better_by=0.02,
        task="dilemmas",
        fields=_TERMS,
        budget="steps=20",
        script="benchmarks.warmed multirole_r1-accuracy",
    ),
)
