"""GroupRank: a reranker gives one score to each document of a group. The reward is for the order, and for scores that mean the same in every group.

    R = 0.3 R_recall + 0.4 R_ndcg + 0.3 R_dist, quad R = 0 "if the ids are not those of the group"
    R_recall = ("positives in the first" k) / k, quad k = "number of positives"
    R_ndcg = (sum_p y_p / log_2(p + 1)) / (sum_p y_p^* / log_2(p + 1))
    R_dist = 1 - 1/g sum_d |s_d - y_d| / 10
    A_i = (R_i - mean(R)) / (std(R))

A query comes with g documents. The answer gives a score $s_d$ from 0 to 10 to every document d. The documents are sorted by score; equal scores keep
the given order. $y_d$ is the label of document d, $y_p$ is the label at place p, and $y^*$ are the labels in descending order. A document is positive if its
label is above 0. Without positives, recall and NDCG are 0.

At test time the candidates of a query are cut into groups, each group is scored alone, and all scores are sorted together (`merged`). So a score of 7
must mean the same in every group. Only $R_dist$ depends on a shift of all scores of a group, because a shift does not change the order. Metrics:
reward/recall, reward/ndcg, reward/distribution.

Use if: many candidates are ranked in parallel groups, and graded labels exist on the scale of the scores.
Avoid if: one list fits into one prompt and only its order matters (see rank_grpo), or labels are not comparable between queries.
Reference: Sun et al., GroupRank: A Groupwise Reranking Paradigm Driven by Reinforcement Learning, arXiv:2511.11653: groups with one score each, a
reward of ranking metrics and of the distribution of scores, GRPO after supervised fine-tuning. Only the abstract and overviews could be read. The
authors' repository (AQ-MedAI/Diver) has the scoring of groups and the supervised stage, but no reward.
Departures: Our own choices are the form of $R_dist$, the three weights, k, and the rule for groups without a positive document. The paper's answers
are JSON; pairs such as "A7 B3" before the last "=" are read too, because the built-in model writes them. The labels are the `grades` of the problem;
on the task `ranking` they are counts of words, so set `--reward.most` to the largest count. The released code scores shuffled groups of 10 twice,
takes the mean, and adds the retriever's score with a weight of 0.4; `merged` scores once, and the retriever's order decides between equal scores. The
synthesis of queries and labels, and the supervised stage (`Stages`), are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.types import Group, Problem, Trajectory
from gradus.types.gains import ndcg
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

_PAIR = re.compile(r"\b([A-Za-z_]+)[ :]?(\d{1,6}(?:\.\d{1,6})?)\b")
_LONGEST = 4000  # characters of an answer that are read


def scores_of(completion: str) -> list[tuple[str, float]]:
    """Returns the pairs of document and score: of the last JSON object, or of text such as "A7 B3" before the last "=".

    >>> scores_of('{"A": 7, "B": 3}'), scores_of("A7 B3=A B")
    ([('A', 7.0), ('B', 3.0)], [('A', 7.0), ('B', 3.0)])
    """
    text = completion[-_LONGEST:]
    if "{" in text:
        try:
            found = json.loads(text[text.rindex("{") : text.rindex("}") + 1], object_pairs_hook=list)
            return [(str(name), float(score)) for name, score in found]
        except (ValueError, TypeError, RecursionError):
            return []
    return [(name, float(score)) for name, score in _PAIR.findall(text.rpartition("=")[0] or text)]


def ranked(scores: Mapping[str, float], order: Sequence[str]) -> list[str]:
    """Returns the documents in descending order of their scores. Documents with equal scores keep their `order`."""
    return sorted(order, key=lambda name: -scores[name])


def merged(groups: Sequence[Mapping[str, float]], order: Sequence[str]) -> list[str]:
    """Returns all documents of independently scored groups in descending order of their scores. Documents with equal scores keep their `order`, which is the
    retriever's order."""
    return ranked({name: score for group in groups for name, score in group.items()}, order)


def recall(order: Sequence[str], labels: Mapping[str, float]) -> float:
    """Returns the share of the k positive documents that are among the first k; 0 without a positive document."""
    k = sum(label > 0 for label in labels.values())
    return sum(labels[name] > 0 for name in order[:k]) / k if k else 0.0


def likeness(scores: Mapping[str, float], labels: Mapping[str, float], most: float) -> float:
    """Returns R_dist = 1 - mean |score - label| / most."""
    return 1 - sum(abs(scores[name] - label) for name, label in labels.items()) / (len(labels) * most)


@dataclass(frozen=True)
class GroupScores(Combines):
    """The weighted sum of recall, NDCG and the likeness of scores and labels (`grades` of the problem); 0 unless every document has one score in [0, most].

    If a problem has no grades, the reward is the task's verdict.
    """

    recall: float = 0.3
    ndcg: float = 0.4
    distribution: float = 0.3
    most: float = 10.0  # the highest score, and the highest label
    name: ClassVar[str] = "group_scores"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, recall="[0, inf)", ndcg="[0, inf)", distribution="[0, inf)", most="(0, inf)")

    def terms(self, problem: Problem, completion: str) -> Mapping[str, float]:
        """Returns the three terms without their weights. If the answer is malformed, all terms are 0."""
        labels, pairs = problem.meta["grades"], scores_of(completion)
        scores = dict(pairs)
        if sorted(name for name, _ in pairs) != sorted(labels) or not all(0 <= score <= self.most for score in scores.values()):
            return {"recall": 0.0, "ndcg": 0.0, "distribution": 0.0}
        order = ranked(scores, list(labels))
        gain = ndcg([labels[name] for name in order], empty=0.0)
        return {"recall": recall(order, labels), "ndcg": gain, "distribution": likeness(scores, labels, self.most)}

    def total(self, trajectory: Trajectory, verdict: float) -> Terms | None:
        if "grades" not in trajectory.problem.meta:
            return None
        terms = self.terms(trajectory.problem, trajectory.completion)
        return sum(getattr(self, name) * value for name, value in terms.items()), terms

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await beside_verdict(groups, world, self.total)


grouprank = grpo.derive(
    "grouprank",
    "A reranker scores the documents of a group, with rewards for the order and for scores that are comparable between groups.",
    family="rewards",
    reward=GroupScores(),
)

_RANKING = {"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4", "reward.most": "2"}

claims = (
    same_weights(
        says="With the task's verdict, the NDCG of the written list, as reward, the final weights are those of GRPO.",
        source="arXiv:2511.11653, without the rewards of the scores",
        against="grpo",
        task="ranking",
        options={"level": "1"},
        own={"reward": "Verified"},
    ),
    Claim(
        says="Training with R_dist leaves scores that are nearer to the labels: R_dist after 15 steps is at least 0.03 above that of training on the order alone.",
        source="arXiv:2511.11653, reward of the distribution of scores; the task, the sizes and the bound are ours",
        against="grouprank --reward.distribution 0",
        measure="reward/distribution:last",
        better_by=0.03,
        task="ranking",
        options={"level": "2"},
        fields=_RANKING,
        budget="steps=15",
    ),
)
