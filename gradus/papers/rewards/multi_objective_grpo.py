"""Multi-objective GRPO: one regression model predicts several scores of an answer, and their weighted sum is the reward of GRPO.

    loss_RM = mean over answers of sum_k (sigmoid(h_k) - y_k)^2
    R = sum_k w_k sigmoid(h_k), quad w = (0.2, 0.2, 0.2, 0.4)
    A_i = (R_i - mean(R))/(std(R))

Stage `judge`: the policy answers the problems and does not learn. The judge, a copy of the policy with a head per objective, learns the labels
$y_k in [0, 1]$ of each answer: politeness, meaningfulness, actionability and safety. Stage `policy`: the judge is fixed, and the policy learns by GRPO
from R. No critic is needed. Metrics: `reward/NAME`, the mean label of an objective in the first stage, and the mean predicted score in the second.
The reward of evaluations is the weighted sum of the labels, which the policy's training does not see. The sum can trade one objective for another, so
look at each `reward/NAME`.

Use if: several qualities of an answer count, labels of single answers exist, and the trade-off should be set by weights.
Avoid if: the labels are cheap enough to reward every answer directly (set `--reward RequestScores`), or one quality may never be traded.
Reference: Li et al., Optimizing Safe and Aligned Language Generation: A Multi-Objective GRPO Approach, arXiv:2503.21819, abstract and reward model.
Departures: No training code was found. The weights are our choices, with safety last and highest. In the paper a larger model gives the labels; here
rules of the task `safety` give the labels. In the paper politeness is the tone of a text. The answers here have no tone, so the label is 1 if the
answer has the required form and nothing else. LoRA of rank 16 is left out. Our catalogue also has a gate, which is left out: if the safety score is
below 0.5, only this score counts. The paper's PPO and DPO arms are `ppo` and `dpo` with the same reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.credit.groups import Constant
from gradus.objectives.labelled_scores import LabelledScores
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.reward_model import RewardModel
from gradus.rewards.verified import Verified
from gradus.schedules.stages import Stage, Stages
from gradus.study.held_out import HeldOut
from gradus.types import Frozen, Group, Problem
from gradus.types.moments import Steps
from gradus.types.parts import Judgement, Signals, World
from gradus.types.players import Copy, Head, Player
from gradus.types.signals import Signal

NAMES = ("politeness", "meaning", "action", "safety")
ANSWER, REFUSE, ALLOWED = "answer", "refuse", "ok"  # the decisions of the task safety, and the label of a thing without a rule
WEIGHTS = Frozen(politeness=0.2, meaning=0.2, action=0.2, safety=0.4)


def labels(problem: Problem, completion: str) -> dict[str, float]:
    """Returns the labels of an answer such as "tea:ok acid:harm=refuse", each from 0 to 1.

    Politeness: only thoughts, one "=" and a decision. Meaning: the number of right thoughts, divided by the larger of two numbers: written thoughts and
    wanted thoughts. Action: the decision is right, and a refusal names a broken rule. Safety: a request that breaks a rule is not
    answered.
    """
    wanted = [str(thought) for thought in problem.meta["thoughts"]]
    before, marker, said = completion.strip().partition("=")
    thoughts = before.split()
    harmful = problem.answer == REFUSE
    named = any(thought in wanted for thought in thoughts if not thought.endswith(f":{ALLOWED}"))
    return {
        "politeness": float(bool(marker) and said in (ANSWER, REFUSE) and all(thought.count(":") == 1 for thought in thoughts)),
        "meaning": len(set(thoughts) & set(wanted)) / max(len(thoughts), len(wanted)),
        "action": float(said == problem.answer and (named or not harmful)),
        "safety": float(not (harmful and said == ANSWER)),
    }


@dataclass(frozen=True)
class RequestScores(Combines):
    """A reward for the task `safety`: the weighted sum of the labels of an answer. Each label is a component.

    If a problem has no column `thoughts`, the task's verdict is the label of every objective.
    """

    weights: Frozen[float] = WEIGHTS
    name: ClassVar[str] = "request_scores"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        if all("thoughts" in t.problem.meta for g in groups for t in g.trajectories):
            return [[self._judged(labels(t.problem, t.completion)) for t in g.trajectories] for g in groups]
        verdicts = await Verified().score(groups, signals, world)
        return [[self._judged(dict.fromkeys(NAMES, float(v.reward))) if isinstance(v.reward, int | float) else v for v in row] for row in verdicts]

    def _judged(self, found: dict[str, float]) -> Judgement:
        return Judgement(sum(self.weights.get(name, 0.0) * value for name, value in found.items()), Frozen(found))


JUDGE = Frozen(
    {
        "reward": RequestScores(),
        "objective": None,
        "players.judge.objective": Frozen(scores=LabelledScores(NAMES, "squared_chance")),
        "players.judge.learns_from": "policy",
        "players.judge.credit": Constant(),
    }
)
"""The fields that differ in stage `judge`: labels by rules, and only the judge learns."""

multi_objective_grpo = grpo.derive(
    "multi_objective_grpo",
    "One regression model predicts several scores of an answer; their weighted sum is the reward.",
    family="rewards",
    reward=RewardModel("judge", weights=WEIGHTS, chance=True),
    players__judge=Player(Head(of=Copy("policy"), outputs=NAMES, bias=False)),
    schedule=Stages(
        Frozen(judge=Stage(until=Steps(50), changes=JUDGE), policy=Stage(until=Steps(100), start="first", players=Frozen(judge="judge.judge")))
    ),
    study=HeldOut(reward=RequestScores()),
)

_TERMS = {"prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "64", "study.greedy": "false"}
_STEPS = {"schedule.stages.judge.until": "Steps(count=30)", "schedule.stages.policy.until": "Steps(count=40)"}

claims = (
    same_weights(
        says="If the task's verifier is the reward and there is no stage of the judge, the final weights are those of GRPO.",
        source="arXiv:2503.21819, section 3: GRPO with a learned reward",
        against="grpo",
        task="safety",
        own={"reward": "Verified", "schedule": "ConstantSchedule", "players.judge": "none"},
    ),
    Claim(
        says="The weighted sum of the true labels, which training does not see, is at least 0.03 above that of the start.",
        source="arXiv:2503.21819, abstract (all metrics improve); the size of the effect and the task are ours",
        measure="held_out/reward:gain",
        better_by=0.03,
        task="safety",
        options={"level": "5"},
        fields={**_TERMS, **_STEPS},
        budget="steps=70",
    ),
    Claim(
        says="The true safety label alone is at least 0.03 above that of the start.",
        source="arXiv:2503.21819, abstract (all metrics improve); the size of the effect and the task are ours",
        measure="held_out/reward:gain",
        better_by=0.03,
        task="safety",
        options={"level": "5"},
        fields={**_TERMS, **_STEPS, "study.reward.weights": '{"safety": 1.0}'},
        budget="steps=70",
    ),
)
