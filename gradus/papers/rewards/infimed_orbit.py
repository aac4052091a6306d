"""InfiMed-ORBIT: a rubric for each dialogue, with faults as negative criteria. Criteria and prompts that the policy already masters are filtered out.

    r = clip((sum_j w_j m_j) / (sum_(w_j > 0) w_j), 0, 1)
    A_i = (r_i - mean(r)) / (std(r))
    "criterion" j "counts if" 1/G sum_i m_(i,j) <= 0.75
    "a group counts if" mean(r) <= 0.75

A prompt is a medical consultation that ends with a turn of the patient. The rubric of a prompt has criteria with integer weights w from -10 to 10; a
negative weight names a fault. A judge decides for each criterion whether the answer meets it (m = 1) or not. A model writes the rubric, with similar
cases and similar criteria in its prompt: `retrieved` finds them by the cosine of TF-IDF vectors. A criterion that most answers meet no longer
separates answers, so it is left out. If no criterion is left, all criteria count. A prompt whose mean score is too high is dropped. The filters use
answers of the current policy, so training moves from easy to hard criteria. Apart from this, the method is GRPO.

Use if: answers are judged by many criteria, the criteria differ from case to case, and the policy always meets some of them.
Avoid if: the criteria are the same for all prompts (see mpo_meta), or answers can be verified (see grpo).
Reference: Wang et al., InfiMed-ORBIT: Aligning LLMs on Open-Ended Complex Tasks via Rubric-Based Incremental Training, arXiv:2510.15859: retrieval,
rubrics, both filters, GRPO; the score is as in HealthBench (arXiv:2505.08775). Only the abstract and summaries of the paper were read. The
released code (pidneuralode/ORBIT) has 8 answers to each of 64 problems, one update per batch and the learning rate 1e-6, and calls its settings
unconfirmed.
Departures: The released score has no limits, so faults can make it negative; here it lies between 0 and 1, as in HealthBench. The released
configuration trains as dapo does: upper clip 0.28, mean over tokens, further sampling, and a penalty for overlong answers. The configuration does not
compute the filters. Here all other settings are as in GRPO. The KL coefficient 0.04 of GRPO is our choice. The filters use the answers of the
step's own group. In the paper, the filters use eight extra answers before each of two parts of the training. A group with the mean 0 is kept, but has no
gradient. The bounds 0.75, three retrieved texts and TF-IDF in place of embeddings are our choices. The model that writes rubrics, the reranking and
the simulated consultations are not part of the recipe; no task has consultations, so the claims use the constraints of the task instructions, with a
scripted judge.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.checklist import Checklist, Items
from gradus.selection.filters import MeanReward
from gradus.types.players import Player
from gradus.types.ranges import check_ranges


def retrieved(query: str, base: Sequence[str], count: int = 3) -> list[int]:
    """Returns the indices of the `count` texts with the largest cosine of TF-IDF vectors to the query. Equal texts stay in their order.

    The weight of a word is its count times log(N / n), where n of the N texts contain the word.

    >>> retrieved("fever and cough", ["asks how long the fever lasts", "names the dose", "asks about a cough with fever"], 2)
    [2, 0]
    """
    texts = [Counter(re.findall(r"\w+", text.lower())) for text in (*base, query)]
    seen = Counter(word for text in texts[:-1] for word in text)
    vectors = [{w: n * math.log((len(base) + 1) / (seen[w] + 1)) for w, n in text.items()} for text in texts]
    asked = vectors.pop()

    def cosine(vector: dict[str, float]) -> float:
        size = math.sqrt(sum(x * x for x in vector.values()) * sum(x * x for x in asked.values()))
        return sum(x * asked.get(w, 0.0) for w, x in vector.items()) / size if size else 0.0

    return sorted(range(len(base)), key=lambda i: -cosine(vectors[i]))[:count]


@dataclass(frozen=True)
class UnmasteredChecklist(Checklist):
    """A checklist in which a criterion does not count if its mean grade over the group is above `most`. If no criterion with a positive weight is left, all
    criteria count."""

    most: float = 0.75

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, most="[0, 1]")

    def counting(self, rows: Sequence[Sequence[float]], items: Items) -> list[int]:
        """Returns the indices of the criteria that count.

        >>> UnmasteredChecklist().counting([[1, 1], [1, 0], [1, 1], [0, 1]], (("a", 1.0), ("b", -1.0)))
        [0, 1]
        >>> UnmasteredChecklist().counting([[1, 1], [1, 0]], (("a", 1.0), ("b", -1.0)))
        [0, 1]
        """
        used = [i for i, column in enumerate(zip(*rows, strict=True)) if sum(column) / len(column) <= self.most]
        return used if any(items[i][1] > 0 for i in used) else super().counting(rows, items)


infimed_orbit = grpo.derive(
    "infimed_orbit",
    "Each prompt has a rubric, with faults as negative criteria; criteria and prompts that the policy masters are filtered out.",
    family="rewards",
    reward=UnmasteredChecklist(),
    selection=MeanReward(0.0, 0.75),
    players__judge=Player(),
    requires=frozenset({"checklist"}),
)

_TERMS = {"prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4", "study.problems": "64", "study.greedy": "false"}
_SCRIPT = {"reward.judge": "ScriptedPoints"}
_STUDY = {"study.reward": "Checklist", "study.reward.judge": "ScriptedPoints"}

claims = (
    same_weights(
        says="Without filters, and with the task's verdict as the reward, the final weights are those of GRPO.",
        source="arXiv:2510.15859, without rubrics and filters",
        against="grpo",
        task="instructions",
        own={"reward": "Verified", "selection": "Everything"},
    ),
    Claim(
        says="On instructions with three constraints, the mean share of held-out constraints that are met rises by at least 0.05 within 20 steps.",
        source="arXiv:2510.15859, main results (HealthBench-Hard from 7.0 to 27.2); task, judge and the size of the effect are ours",
        measure="held_out/reward:gain",
        better_by=0.05,
        task="instructions",
        options={"level": "2"},
        fields={**_TERMS, **_STUDY, **_SCRIPT},
        budget="steps=20",
    ),
)
