"""RLKF: samples show which questions the policy knows. A reward model learns from them: a right answer beats a refusal, and a refusal beats a wrong
answer.

    known(q) = 1{(c_q) / k >= 0.5}
    right > wrong, quad refusal > wrong, quad right > refusal "if" known(q)
    loss_RM = mean over pairs of -log sigmoid(s("better") - s("worse"))
    R = s - 0.1 (log pi_old(a_t) - log pi_ref(a_t)) "at each token"
    Rely = "Rate" "Truth" + (1 - "Rate") "Acc"

The policy samples k = 8 answers to each question, and $c_q$ of them are right. Pairs are made from the sampled answers and from the refusal. A question
without a right sample has only the pair of a refusal and a wrong answer. Without labels (`labelled` false), the most frequent answer beats the refusal if at
least half of the samples have this answer; otherwise the refusal beats the answer. Acc is the share of right answers, Truth is the share of right answers and
refusals, and Rate is the share of answered questions. Rely is low for a policy that refuses all questions, and for a policy that guesses.

Stages: `begin` imitates solutions; a refusal replaces 5 % of them, so that the policy sometimes refuses. `sample` makes the pairs and learns nothing.
`judge` trains the reward model, a copy of the policy with a value head. `policy` is PPO with the fixed reward model. Metrics: judge/pair_accuracy,
held_out/accuracy (Acc), held_out/uncertain (1 - Rate), held_out/reliability (Rely).

Use if: wrong answers do harm, the policy knows some questions and not others, and luck does not decide whether an answer is right.
Avoid if: an abstention can be rewarded directly, because RL has a verifier (see truthrl).
Reference: Xu et al., Rejection Improves Reliability: Training LLMs to Refuse Unknown Questions Using RL from Knowledge Feedback, arXiv:2403.18349,
abstract: reliability and its metrics, knowledge feedback, the reliable reward model, PPO. The formula of Rely comes from our catalogue.
Departures: No code was found, and only the abstract was read. The numbers k, the bound 0.5, the share 5 % and the KL coefficient 0.1 come from our
catalogue. Two rules are our choices. Known questions, too, have pairs of a refusal and a wrong answer. If a question has some right samples, but
fewer than the bound, it has no pair of a right answer and a refusal. The refusal in pairs is one fixed text. The other numbers are as in ppo. Numbers
of steps are our choices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.credit.groups import Constant
from gradus.objectives.ranking import BradleyTerry
from gradus.papers.bases.ppo import ppo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.reward_model import RewardModel
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import DemonstratedPairs, Demonstrations
from gradus.schedules.harvests import answers
from gradus.schedules.stages import Stage, Stages
from gradus.study.truthfulness import Truthfulness
from gradus.types import Frozen, Group, Problem, Request, Trajectory
from gradus.types.answers import abstains, answered
from gradus.types.moments import Steps
from gradus.types.parts import Task, World
from gradus.types.players import Copy, Head, Player
from gradus.types.ranges import check_ranges

REFUSAL = "=idk"


@dataclass(frozen=True)
class SomeRefusals:
    """Gives worked solutions without sampling. With probability `share` the refusal replaces the solution."""

    share: float = 0.05
    refusal: str = REFUSAL
    columns: ClassVar[frozenset[str]] = frozenset({"solution"})

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1]")

    @property
    def test(self) -> Auto:
        return Auto()

    def judges(self, task: Task) -> bool:
        """Returns False, because the trajectories never need judging."""
        return False

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        draws = [float(world.key.fold("refusals", r.problem.id, r.sample).uniform()) for r in requests]
        return await Demonstrations().run([self._refused(r) if u < self.share else r for r, u in zip(requests, draws, strict=True)], world)

    def _refused(self, request: Request) -> Request:
        return replace(request, problem=replace(request.problem, meta=Frozen({**request.problem.meta, "solution": self.refusal})))


def labelled_pairs(samples: Sequence[Trajectory], cut: float, refusal: str) -> list[tuple[str, str]]:
    """Returns the pairs (better, worse) of a question with verdicts. The first right sample and the first wrong sample represent all others; a
    refusal is neither right nor wrong."""
    right = [t.completion for t in samples if t.right]
    wrong = [t.completion for t in samples if not t.right and not abstains(t.completion)]
    known = len(right) >= cut * len(samples)
    found = [(right[0], wrong[0])] if right and wrong else []
    return found + ([(right[0], refusal)] if right and known else []) + ([(refusal, wrong[0])] if wrong else [])


def consistent_pairs(samples: Sequence[Trajectory], cut: float, refusal: str) -> list[tuple[str, str]]:
    """Returns the pair of a question without verdicts: the most frequent answer and the refusal. The answer is better if its share is at least `cut`."""
    texts = {str(answered(t.completion)): t.completion for t in reversed(samples)}
    counts = Counter(str(answered(t.completion)) for t in samples if not abstains(t.completion) and answered(t.completion) is not None)
    if not counts:
        return []
    answer, count = counts.most_common(1)[0]
    return [(texts[answer], refusal) if count >= cut * len(samples) else (refusal, texts[answer])]


@dataclass(frozen=True)
class KnowledgePairs:
    """Makes pairs for a reward model from all answers of the stage to a question: `labelled_pairs`, or `consistent_pairs` without labels."""

    cut: float = 0.5  # the smallest share of samples of a known question
    refusal: str = REFUSAL
    labelled: bool = True

    def __post_init__(self) -> None:
        check_ranges(self, cut="(0, 1]")

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"chosen", "rejected"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per pair: the problem, `chosen` and `rejected`. Problems are in the order of their first answers."""
        found: dict[str, tuple[Problem, list[Trajectory]]] = {}
        for t in answers(groups):
            found.setdefault(t.problem.id, (t.problem, []))[1].append(t)
        pairs = labelled_pairs if self.labelled else consistent_pairs
        made = [(problem, pair) for problem, samples in found.values() for pair in pairs(samples, self.cut, self.refusal)]
        return [{"problem": problem, "chosen": better, "rejected": worse} for problem, (better, worse) in made]


SAMPLE = Frozen({"setting.learning_rate": 0.0, "setting.group": 8, "rollout": Auto(), "reward": Verified()})
"""The fields that differ in stage `sample`: eight judged answers to each question, and nothing is learned."""
JUDGE = Frozen(
    {
        "rollout": DemonstratedPairs(),
        "objective": None,
        "credit": Constant(),
        "players.critic": None,
        "players.judge.objective": Frozen(pairs=BradleyTerry(source="expert")),
        "players.judge.learns_from": "policy",
        "players.judge.credit": Constant(),
    }
)
"""The fields that differ in stage `judge`: given pairs, and only the reward model learns."""

starting = sft.derive("rlkf_start", "Imitation of solutions, some of which are refusals.", rollout=SomeRefusals())

rlkf = ppo.derive(
    "rlkf",
    "A reward model learns that a right answer beats a refusal, and that a refusal beats a wrong answer; then PPO trains the policy.",
    family="rewards",
    reward=RewardModel("judge"),
    credit__coefficient=0.1,
    players__judge=Player(Head(of=Copy("policy"), bias=False)),
    schedule=Stages(
        Frozen(
            begin=Stage(starting, Steps(50)),
            sample=Stage(until=Steps(50), changes=SAMPLE, makes=KnowledgePairs()),
            judge=Stage(until=Steps(100), start="begin", task="made:sample", changes=JUDGE),
            policy=Stage(until=Steps(200), start="begin", players=Frozen(judge="judge.judge")),
        )
    ),
    study=Truthfulness(),
    requires=frozenset({"solution"}),
)

_STAGES = {
    "schedule.stages.begin.until": "Steps(count=8)", "schedule.stages.sample.until": "Steps(count=10)",
    "schedule.stages.judge.until": "Steps(count=20)", "schedule.stages.policy.until": "Steps(count=15)",
}  # fmt: skip
_TERMS = {"prompts": "8", "group": "4", "warmup": "0", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "64", **_STAGES}

claims = (
    same_weights(
        says="With the verdict as the reward and without the other stages, the final weights are those of PPO.",
        source="arXiv:2403.18349, plain PPO with an accuracy reward",
        against="ppo --credit.coefficient 0.1",
        own={"reward": "Verified", "schedule": "ConstantSchedule", "players.judge": "none"},
        budget="steps=4",
    ),
    Claim(
        says="Where half of the questions are far too hard, the reliability is at least 0.05 above that of PPO with an accuracy reward after as many steps.",
        source=(
            "arXiv:2403.18349, results against PPO; task, sizes and the size of the effect are ours; stated again after a look at the task facts, "
            "whose start model knew few answers to held-out questions"
        ),
        against="rlkf --reward Verified",
        measure="held_out/reliability:last",
        better_by=0.05,
        task="ladder",
        options={"levels": "1,6"},
        fields=_TERMS,
        budget="steps=53",
    ),
)
