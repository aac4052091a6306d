"""Rank-GRPO: in answers that are ranked lists, the advantage and the importance ratio belong to the rank, not to the token or to the whole list.

    r_(i,k) = rel_(i,k), quad "or" quad r_(i,k) = sum_(j >= k) rel_(i,j) / log_2(j + 1), quad "with" quad rel_(i,k) = 1 "for a hit"
    A_(i,k) = (r_(i,k) - mean_i(r_(i,k))) / (std_i(r_(i,k)) + 0.0001)
    w_(i,k) = exp(mean over t in S_(i,k) of log (pi(o_(i,t)) / pi_old(o_(i,t))))
    loss = mean over tokens of -min(w A, clip(w, 1 - 0.06, 1 + 0.08) A) + 0.001 k_3

An answer is a list of N items, one per line. $S_(i,k)$ is the set of the tokens of line k, with the line break at its end. An item is a hit if the
user wants the item, has not seen the item, and the list has not named the item before. The first form of $r_(i,k)$ is the default. The second form
(`--reward.form tail`) is the discounted gain of rank k and of all later ranks, so a hit gives no credit to the ranks after it. The mean and the
deviation are over the G answers to a problem at the same rank. $k_3$ estimates the KL to the policy at the start of the stage.

Text after item N is one more span, with the advantage -0.1. The end token has the advantage 0.1 if it comes right after item N. If it comes earlier,
or after a further line break, its advantage is -0.1. An answer without rewards of ranks gets one advantage from its whole reward; its lines still
have one ratio each.

Stage `clone`: supervised fine-tuning on the lists of another recommender, after three corrections. Remap: the score of an item of the catalogue is the
largest similarity of its name with a listed name. Reflect: for the ten best items, the score rises by the item's fit to the user; a judge rates this
fit. Adjust: the score rises by 0.1 ln((c + 1) / (l + 1)). In 256 training problems, c users chose the item, and the other recommender listed the item
l times. The five best items are the target. Stage `rank`: the loss above. Metrics: reward/rank_1 and so on, marked, clip_share.

Use if: an answer is a list of items in order of preference, each rank can be judged alone, and hits at early ranks hide misses at later ranks.
Avoid if: only the whole answer has a reward (see gspo, grpo), or an item needs many tokens of reasoning before it.
Reference: Zhu et al., Rank-GRPO: Training LLM-based Conversational Recommender Systems with Reinforcement Learning, arXiv:2510.20150: the warm start
from corrected lists, rewards, advantages and ratios of ranks. All constants, except the ones below, come from the released code (yaochenzhu/Rank-GRPO),
which has lists of 20 items, 8 answers per problem, and one update per batch.
Departures: Lists have 5 items. A batch is cut into four mini-batches, because at one update per batch the ratio is 1 and the clip never acts. An
empty line belongs to the line before it; in the released code an empty line begins a new rank, although the reward skips empty lines. If an end token
follows item N - 1 and a line break, it counts as early here; in the released code it counts as right after item N. The end token shares the ratio of
the last line, even after a further line break. In the released code the end token has its own ratio after such a line break. The paper learns the correction
of `Adjust`, and a language model judges how well an item suits the user. Here the correction is a ratio of counts, and the verifier's function `fit` judges
the item. The number of candidates, the weight 0.1 and the lengths of the stages are our choices.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from gradus.credit.groups import Constant, group_relative
from gradus.credit.spans import spans_of
from gradus.curricula.shuffled_epochs import Once
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.kl import KL
from gradus.objectives.ratios import SpanRatio
from gradus.objectives.terms import Imitation
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.ranks import RankRewards, rank_rewards
from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import Demonstrations, given, told
from gradus.rollouts.ids import group_name
from gradus.rollouts.spans import WithSpans
from gradus.schedules.stages import Stage, Stages
from gradus.types import Ended, Frozen, Group, Problem, Request, Trajectory
from gradus.types.moments import Steps
from gradus.types.parts import Credited, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.types.spans import Separated


def rank_advantages(rewards: np.ndarray, *, epsilon: float = 1e-4) -> np.ndarray:
    """Returns A_ik = (r_ik - mean_i r_ik) / (std_i r_ik + epsilon), float64 [G, N], from `rewards` [G, N]. std is the sample deviation. If all rewards at a
    rank are equal, A is 0.

    >>> rank_advantages(np.array([[1.0, 0.0], [0.0, 0.0]]), epsilon=0.0).round(4).tolist()
    [[0.7071, 0.0], [-0.7071, 0.0]]
    """
    columns = [np.ascontiguousarray(column) for column in np.asarray(rewards, np.float64).T]
    return np.stack([_over(group_relative(c, scale="none"), c, epsilon) for c in columns], 1)


def _over(centred: np.ndarray, rewards: np.ndarray, epsilon: float) -> np.ndarray:
    return centred / (rewards.std(ddof=1) + epsilon) if np.any(centred) else centred


@dataclass(frozen=True)
class RankRelative:
    """Gives the actions of a rank's span the reward of the rank, standardised over the group's answers at this rank."""

    epsilon: float = 1e-4  # this number is added to the deviation
    finished: float = 0.1  # advantage of the end token right after the last item
    early: float = -0.1  # advantage of the end token before the last item
    further: float = -0.1  # advantage of all text after the last item
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"spans": "--rollout WithSpans"})

    def __post_init__(self) -> None:
        check_ranges(self, epsilon="[0, inf)")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._group(g) for g in groups]

    def _group(self, group: Group) -> list[Credited]:
        ranks = [rank_rewards(t) for t in group.trajectories]
        if not all(ranks):
            whole = rank_advantages(np.array([[t.value] for t in group.trajectories]), epsilon=self.epsilon)[:, 0]
            return [Credited(np.full(t.actions, a)) for t, a in zip(group.trajectories, whole, strict=True)]
        rows = rank_advantages(np.array(ranks), epsilon=self.epsilon)
        return [Credited(self._row(t, row)) for t, row in zip(group.trajectories, rows, strict=True)]

    def _row(self, trajectory: Trajectory, row: np.ndarray) -> np.ndarray:
        spans, count = spans_of(trajectory), len(row)
        out = np.append(row, [self.further, 0.0])[np.where(spans < 0, count + 1, np.minimum(spans, count))]
        if trajectory.ended is Ended.STOP and len(spans):
            broken = trajectory.completion.endswith("\n")
            out[-1] = self.early if spans[-1] < count - 1 else self.further if broken or spans[-1] >= count else self.finished
        return out


@lru_cache(maxsize=1 << 14)
def near(name: str, item: str) -> float:
    """Returns the likeness of two names in [0, 1]: twice the number of letters that both have in the same order, divided by the number of all letters
    of both.

    >>> near("opak", "opal")
    0.75
    """
    return SequenceMatcher(None, name, item, autojunk=False).ratio()


def corrected(listed: Sequence[str], fits: Mapping[str, float], bias: Mapping[str, float], *, count: int = 5) -> list[str]:
    """Returns the `count` items of the catalogue with the largest score, the best first: Remap, Reflect, Adjust.

    Args: listed: names, which need not be in the catalogue; fits, bias: catalogue item -> number. If several items have the same score, the first of
    them in the catalogue wins.

    >>> corrected(["opak", "fern"], {"fern": 0.0, "opal": 1.0, "zinc": 0.5}, {"fern": 0.0, "opal": 0.0, "zinc": 0.2}, count=2)
    ['opal', 'fern']
    """
    score = {item: max((near(name, item) for name in listed), default=0.0) for item in fits}
    best = sorted(score, key=lambda item: -score[item])[: 2 * count]
    return sorted(best, key=lambda item: -(score[item] + fits[item] + bias[item]))[:count]


@dataclass(frozen=True)
class CorrectedLists:
    """Gives one list per request without sampling: the corrected list of the other recommender, or the worked solution if there is no such list."""

    weight: float = 0.1  # weight of the correction by counts
    problems: int = 256  # number of training problems whose choices are counted

    def __post_init__(self) -> None:
        check_ranges(self, weight="[0, inf)", problems="[1, inf)")

    @property
    def test(self) -> Auto:
        return Auto()

    def judges(self, task: Task) -> bool:
        """Returns False, because no list needs a judgement."""
        return False

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group per request, with one trajectory."""
        verify: Any = world.task.verify
        if not hasattr(verify, "catalogue") or any("listed" not in r.problem.meta for r in requests):
            return await Demonstrations().run(requests, world)
        bias = self.bias(world.task.source.draw(range(self.problems), world.task.level, world.seed.fold("problems")), verify.catalogue)
        texts = ["\n".join(corrected(r.problem.meta["listed"], {i: verify.fit(r.problem, i) for i in bias}, bias)) for r in requests]
        contexts = [told(world.prompt(r), text, r, world) for r, text in zip(requests, texts, strict=True)]
        made = [given(r, 0, c, world, reward=1.0, component="demonstration") for r, c in zip(requests, contexts, strict=True)]
        return [Group(group_name(r), (t,), pool=(1.0,)) for r, t in zip(requests, made, strict=True)]

    def bias(self, problems: Sequence[Problem], catalogue: Mapping[str, float]) -> dict[str, float]:
        """Returns weight * ln((c + 1) / (l + 1)) for every item; c users chose the item, and l lists contain the item."""
        chosen = Counter(item for p in problems for item in str(p.answer).split("\n"))
        listed = Counter(name for p in problems for name in p.meta["listed"])
        return {item: self.weight * math.log((chosen[item] + 1) / (listed[item] + 1)) for item in catalogue}


CLONE = Frozen({"curriculum": Once(), "rollout": CorrectedLists(), "credit": Constant(), "objective": Frozen(imitation=Imitation())})
"""The fields that differ in stage `clone`."""

rank_grpo = grpo.derive(
    "rank_grpo",
    "For ranked lists, advantages are standardised and ratios are averaged per rank, after imitation of corrected lists.",
    family="credit",
    rollout=WithSpans(marking=Separated(r"\n+", most=6)),
    reward=RankRewards(),
    credit=RankRelative(),
    objective__policy__ratio=SpanRatio(),
    objective__policy__trust=Clip(0.06, 0.08),
    objective__policy__average=TokenMean(),
    objective__kl=KL(0.001, average=TokenMean()),
    update__count=4,
    schedule=Stages(Frozen(clone=Stage(until=Steps(200), changes=CLONE), rank=Stage(until=Steps(100)))),
    requires=frozenset({"solution"}),
)

claims = (
    same_weights(
        says="If answers have no ranks, the final weights are those of sequence ratios with the unbiased deviation of the group.",
        source="arXiv:2510.20150, advantage and ratio at one rank",
        against="rank_grpo --schedule ConstantSchedule --credit GroupRelative --credit.scale sample --objective.policy.ratio SequenceRatio",
        own={"schedule": "ConstantSchedule", "credit.epsilon": "0"},
        within=1e-5,
    ),
    Claim(
        says="On recommendation, after the same 40 steps of imitation, 20 steps give a held-out NDCG at least 1.05 times that of whole-list rewards.",
        source="arXiv:2510.20150, main results (NDCG above GRPO and GSPO); the task and the size of the effect are ours",
        against="rank_grpo --credit GroupRelative --credit.scale sample --objective.policy.ratio TokenRatio",
        measure="held_out/reward:last",
        at_least=1.05,
        task="recommendation",
        model="gradus/policies/tiny/base",
        options={"level": "1"},
        fields={
            "prompts": "4",
            "group": "8",
            "learning_rate": "1e-3",
            "eval_every": "0",
            "study.problems": "64",
            "study.greedy": "false",
        },
        budget="steps=60",
    ),
)
