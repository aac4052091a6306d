"""Con-RAG (PS-GRPO): differently worded versions of a question should get the same answer. The reward is the likeness to the other answers.

    r_ij = 1/((n - 1) g) sum_(u != i) sum_(m=1)^g sim(o_ij, o_um)
    A_ij = (r_ij - mean_j(r_i)) / (std_j(r_i))
    loss = GRPO with beta = 0.04

A question has n paraphrases. Each paraphrase has its own documents: a search found them for its wording. The policy answers each paraphrase g times;
$o_ij$ is answer j to paraphrase i. sim is BLEU. Each paraphrase is one group. No stored answer is needed. For short answers, the reward can add w times the
F1 with the stored answer (w = 1: `--reward.accuracy 1`).

The whole sum needs n (n - 1) g^2 comparisons. Here each answer is compared with s answers (`rollouts`, 2) to each of kappa other paraphrases
(`paraphrases`, 3), all drawn at random. This estimate needs n g kappa s comparisons, and its expected value is the same. An answer is not compared with other
answers to its own paraphrase. One constant answer to all questions would earn the full reward; the KL term prevents this. Metrics: reward/likeness,
reward/accuracy.

Use if: users word the same question in several ways, and a search in front of the model makes its answers depend on the wording.
Avoid if: right answers are known and accuracy is all that matters (see grpo), or the model already gives the same answer to all paraphrases.
Reference: Hamman et al., Improving Consistency in Retrieval-Augmented Systems with Group Similarity Rewards, arXiv:2510.04392: paraphrased sets, the
reward, its cheaper estimate, BLEU, and the three kinds of inconsistency. No code of the authors was found.
Departures: Our own choices are the numbers kappa 3, s 2, g 4, beta 0.04, and the weight 0 of the stored answer. BLEU is smoothed, because short
answers have no four equal words in a row. The wordings of the task `paraphrased` come from templates, and its search counts common words. A problem
without paraphrases gets the task's verdict as its reward. `inconsistency` measures the search and the answers; the judge of meaning is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.rewards.overlap import MEASURES, jaccard, part
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.types import Frozen, Group, Key, Request, Trajectory, unknown
from gradus.types.parts import Judgement, Rollout, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

SET = "paraphrase_of"  # key in `meta`: the id of the problem of which this problem is a paraphrase


@dataclass(frozen=True)
class Paraphrased:
    """Answers every paraphrase of a problem (`meta["paraphrases"]`, prompts as text) `request.count` times. Each paraphrase is one group.

    In an evaluation only the problem itself is answered.
    """

    rollout: Rollout = Auto()

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of all paraphrases, problem by problem."""
        asked = [paraphrase for request in requests for paraphrase in paraphrases_of(request)]
        return one_each(await rolled(self.rollout, asked, world), asked, self)


def paraphrases_of(request: Request) -> list[Request]:
    """Returns one request per paraphrase. A problem without paraphrases stays as it is."""
    problem = request.problem
    made = []
    for i, text in enumerate(problem.meta.get("paraphrases", ())):
        shown: dict[str, Any] = {"text": text} if problem.text is not None else {"messages": ({"role": "user", "content": text},)}
        own = replace(problem, id=f"{problem.id}-{i}", meta=Frozen({**problem.meta, SET: problem.id}), **shown)
        made.append(replace(request, problem=own))
    return made or [request]


@dataclass(frozen=True)
class Likeness(Combines):
    """The mean overlap of an answer with answers to other paraphrases of its problem, plus `accuracy` times its F1 with the stored answer.

    If a problem has no other paraphrase in the step, the reward is the task's verdict.
    """

    paraphrases: int | None = 3  # an answer is compared with answers to this many other paraphrases; None: to all
    rollouts: int | None = 2  # answers per other paraphrase that are compared; None: all
    measure: str = "bleu"  # a measure of `Overlap`
    accuracy: float = 0.0
    name: ClassVar[str] = "likeness"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, paraphrases="[1, inf)", rollouts="[1, inf)", accuracy="[0, inf)")
        if self.measure not in MEASURES:
            raise unknown("measure", self.measure, MEASURES, "Likeness.measure names it")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        sets: dict[str, list[list[str]]] = {}
        place: dict[str, tuple[str, int]] = {}
        for group in groups:
            name = str(group.trajectories[0].problem.meta.get(SET, group.key)) if group.trajectories else group.key
            place |= {t.id: (name, len(sets.get(name, ()))) for t in group.trajectories}
            sets.setdefault(name, []).append([answer_of(t) for t in group.trajectories])

        def terms(t: Trajectory, verdict: float) -> Terms | None:
            name, own = place[t.id]
            value = self.likeness(answer_of(t), [texts for i, texts in enumerate(sets[name]) if i != own], world.key.fold("likeness", t.id))
            if value is None:
                return None
            f1 = MEASURES["f1"](answer_of(t), str(t.problem.reference)) if t.problem.reference is not None else 0.0
            return value + self.accuracy * f1, {"likeness": value, "accuracy": f1}

        return await beside_verdict(groups, world, terms)

    def likeness(self, said: str, others: Sequence[Sequence[str]], key: Key) -> float | None:
        """Returns the mean overlap of `said` with texts drawn from `others`, which has one list per paraphrase; None if there is no text."""
        picked = [drawn(texts, self.rollouts, key.fold(i)) for i, texts in enumerate(drawn([o for o in others if o], self.paraphrases, key))]
        found = [MEASURES[self.measure](said, text) for texts in picked for text in texts]
        return sum(found) / len(found) if found else None


def drawn(items: Sequence[Any], count: int | None, key: Key) -> list[Any]:
    """Draws `count` of the items without replacement; all items if `count` is None or larger than their number."""
    return list(items) if count is None or count >= len(items) else [items[i] for i in key.permutation(len(items))[:count]]


def answer_of(trajectory: Trajectory) -> str:
    """Returns the part of the answer that is compared: the final answer after its last "="."""
    return part(trajectory.completion, "final") or ""


def inconsistency(texts: Sequence[Sequence[str]]) -> float:
    """Returns 1 - the mean Jaccard index over all pairs. `texts`: for each paraphrase, a list with the found documents, or a list with only its answer.

    >>> round(inconsistency([["a", "b"], ["a", "b"], ["b", "c"]]), 4)
    0.4444
    """
    return 1 - float(np.mean([jaccard(a, b) for a, b in combinations(texts, 2)]))


con_rag_ps_grpo = grpo.derive(
    "con_rag_ps_grpo",
    "An answer is rewarded for its likeness to the answers to other wordings of the same question.",
    family="rewards",
    rollout=Paraphrased(),
    reward=Likeness(),
    setting__group=4,
)

claims = (
    same_weights(
        says="On problems without paraphrases the reward is the verdict, and the final weights are those of GRPO.",
        source="arXiv:2510.04392, n = 1",
        against="grpo",
    ),
    Claim(
        says="The mean likeness of an answer to the answers to other wordings is after 12 steps at least 0.15 above that of the start model.",
        source="arXiv:2510.04392, end-to-end consistency rises; task, start model, sizes and bound are ours",
        against="con_rag_ps_grpo --setting.learning_rate 0",
        measure="reward/likeness:last",
        better_by=0.15,
        task="paraphrased",
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "reward.measure": "exact"},
        own={"setting.learning_rate": "3e-4"},
        budget="steps=12",
        script="benchmarks.warmed con_rag_ps_grpo",
    ),
    Claim(
        says="After these 12 steps without stored answers, held-out accuracy is at least 0.95 of that of the start model.",
        source="arXiv:2510.04392, accuracy holds or rises; task, start model, sizes and bound are ours",
        against="con_rag_ps_grpo --setting.learning_rate 0",
        measure="accuracy",
        at_least=0.95,
        task="paraphrased",
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "reward.measure": "exact"},
        own={"setting.learning_rate": "3e-4"},
        budget="steps=12",
        problems=200,
        script="benchmarks.warmed con_rag_ps_grpo-accuracy",
    ),
)  # fmt: skip
