"""Direct Advantage Policy Optimization: first a critic learns values of steps; then log-ratios of single steps are fitted to the critic's advantages.

    loss_V = mean over states of -y log V(s) - (1 - y) log(1 - V(s)), quad y(s) = 1/K sum_(k=1)^K R(s, c_k), quad c_k ~ pi_ref(s)
    A(s, a) = V(s + a) - V(s); quad A(s, a) = R(s + a) - V(s) if a ends the answer
    loss = mean over (s, a) of 1/2 (log (pi(a | s))/(pi_ref(a | s)) - A(s, a)/beta)^2

A state s is a problem with the first steps of an answer, and an action a is the next step of the answer. $pi_ref$ is the start model, and R is the reward of
the whole text. $V = sigmoid(v)$, where v is the output of a value head. For a step, log pi is the sum over its tokens; beta is 0.1.

Stage `critic`: $pi_ref$ answers each problem, and K = 8 continuations from the start of each step give y(s). The critic, a copy of the model with a
head, learns the shares y(s). The stage makes a row of each different state with 0 < y < 1. Stage `fit`: at each of these states $pi_ref$ writes M = 4
next steps, and the policy learns by least squares; the critic is fixed. Only the last step of an answer has a reward, so the reward of this stage's
metrics is low. Metrics: critic/chance_error, fit_error, fit_log_ratio, last (share of candidates that end the answer).

Use if: answers have steps of different importance, and the policy should learn only from samples of the start model.
Avoid if: the policy can sample during training, because such samples teach more (see vineppo, grpo), or a step is the whole answer (see dpo,
a_star_po).
Reference: Liu et al., Improving Multi-Step Reasoning Abilities of Large Language Models with Direct Advantage Policy Optimization, arXiv:2412.18279.
The paper's rates are 5e-7 (actor) and 5e-6 (critic). The recipe dapo is another method.
Departures: No released code was found. Our own choices are K, M, beta, one round and the choice of states with 0 < y < 1. Actor and critic learn at
the setting's rate. With a KL penalty the optimum would be pi_ref exp(A/beta)/Z. This loss has another minimum over all distributions: log-ratios x
with x + lambda e^x = A/beta, where lambda normalises the distribution. For small A/beta the two optima are close.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gradus.credit.step_values import CriticAdvantage, StepChances
from gradus.objectives.chances import ChanceLoss
from gradus.objectives.regression import LogRatioRegression
from gradus.papers.bases.dpo import dpo
from gradus.recipe.claim import Claim
from gradus.rollouts.spans import STREAM, places
from gradus.rollouts.step_candidates import STATE, StepCandidates
from gradus.rollouts.values import VALUES, MonteCarloValues
from gradus.schedules.harvests import answers
from gradus.schedules.stages import Stage, Stages
from gradus.selection.filters import Everything
from gradus.types import Frozen, Group, Problem
from gradus.types.moments import Steps
from gradus.types.players import Copy, Head, Player


@dataclass(frozen=True)
class StepStates:
    """Makes one row for each different state with a value above 0 and below 1: the problem, and the tokens of the answer before a step as `state`."""

    sure: bool = False  # True: also makes rows of states with the value 0 or 1

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({STATE})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns the rows. States are in the order of the answers in which they occur first."""
        found: dict[tuple[str, tuple[int, ...]], Problem] = {}
        for answer in answers(groups, cut=True):
            (context,) = answer.contexts
            row, value = context.streams[STREAM], context.streams[VALUES]
            for at, number in zip(places(context, row), dict.fromkeys(row[row >= 0].tolist()), strict=True):
                if self.sure or 0 < value[row == number][0] < 1:
                    said = context.sequence[context.action_positions[context.action_positions < at]]
                    found.setdefault((answer.problem.id, tuple(said.tolist())), answer.problem)
        return [{"problem": problem, STATE: list(said)} for (_, said), problem in found.items()]


CRITIC = Frozen(
    {
        "rollout": MonteCarloValues(count=8),
        "credit": None,
        "objective": None,
        "players.policy.learns_from": "own",
        "players.critic": Player(Head(of=Copy("policy")), objective=Frozen(value=ChanceLoss()), credit=StepChances(), learns_from="policy"),
    }
)
"""The fields that differ in stage `critic`: answers of the fixed policy with values of their steps, and only the critic learns."""

direct_advantage_po = dpo.derive(
    "direct_advantage_po",
    "A critic learns the values of steps from continuations; then the log-ratio of each single step is fitted to its advantage.",
    family="credit",
    rollout=StepCandidates(),
    selection=Everything(),
    credit=CriticAdvantage(),
    objective=Frozen(policy=LogRatioRegression(beta=0.1, coefficient=50.0)),  # 1 / (2 beta^2) times (A - beta x)^2 is (x - A / beta)^2 / 2
    players__policy__learns_from="reference",
    players__critic=Player(Head(of=Copy("policy"))),
    schedule=Stages(
        Frozen(
            critic=Stage(until=Steps(50), changes=CRITIC, makes=StepStates()),
            fit=Stage(until=Steps(100), task="made:critic", players=Frozen(critic="critic.critic")),
        )
    ),
    setting__group=4,
)

_STAGES = "schedule.stages"

claims = (
    Claim(
        says="At the start model the gradient of the regression is that of the policy gradient with the critic's advantages, divided by beta.",
        source="arXiv:2412.18279, the gradient of the loss at log-ratio 0",
        against=(
            "direct_advantage_po --objective.policy PolicyGradient --objective.policy.trust Unclipped --objective.policy.average SequenceSum "
            "--objective.policy.coefficient 10"
        ),
        measure="grad_norm:mean",
        at_least=0.9999,
        task="arithmetic",
        fields={
            "prompts": "4", "learning_rate": "0", "study": "none", f"{_STAGES}.critic.until": "Steps(count=2)", f"{_STAGES}.fit.until": "Steps(count=4)",
        },
        budget="steps=6",
        seeds=2,
    ),
    Claim(
        says="From samples of the start model alone, held-out accuracy after one round is at least 0.03 above that of DPO from samples of the same model.",
        source="arXiv:2412.18279, experiments (above the start model and baselines on MATH and GSM8K); the task and the size of the effect are ours",
        against="dpo --rollout \"BehaviourPolicy(player='reference')\" --players.policy.learns_from reference --objective.given none",
        measure="accuracy",
        better_by=0.03,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "4", "learning_rate": "1e-4", "warmup": "0", "eval_every": "0", "study.problems": "16"},
        own={f"{_STAGES}.critic.until": "Steps(count=20)", f"{_STAGES}.fit.until": "Steps(count=40)"},
        budget="steps=60",
        problems=128,
        samples=2,
    ),
)  # fmt: skip
