"""Direct Advantage Policy Optimization: a critic learns values of steps first; then log-ratios of single steps are fitted to its advantages.

    y(s) = 1/K sum_(k=1)^K R(s, c_k), quad c_k ~ pi_ref(s)
    loss_V = mean over states of -y log V(s) - (1 - y) log(1 - V(s))
    A(s, a) = V(s + a) - V(s); quad A(s, a) = R(s + a) - V(s) if a ends the answer
    loss = mean over (s, a) of 1/2 (log (pi(a | s))/(pi_ref(a | s)) - A(s, a)/beta)^2

A state s is a problem with the first steps of an answer, and an action a is the next step of the answer. $pi_ref$ is the start model, R is the reward
of the whole text, and $V = sigmoid(v)$ with the output v of a value head.

Stage `critic`: $pi_ref$ answers each problem, and K = 8 continuations from the beginning of each step give y(s). The critic, a copy of the model with
a head, learns the shares y(s); the policy does not learn. The stage makes a row of each different state with 0 < y < 1. Stage `fit`: at each of these
states $pi_ref$ writes M = 4 next steps, and the policy learns by least squares. The critic is fixed, so critic and policy never train together. The
log pi of a step is the sum over its tokens, and beta is 0.1. The answers that the policy itself writes are never used.

Here stage `fit` gives only the last step of an answer its reward, so the reward of its metrics is low.

Metrics: critic/chance_error (mean of (V - y)^2), fit_error, fit_log_ratio, last (share of candidates that end the answer).

Use if: answers have steps that differ in worth, and the samples of the start model should be used without further sampling of the policy.
Avoid if: the policy can sample during training, which teaches more (see vineppo, grpo), or a step is the whole answer (see dpo, a_star_po).
Reference: Liu et al., Improving Multi-Step Reasoning Abilities of Large Language Models with Direct Advantage Policy Optimization, arXiv:2412.18279:
critic from Monte Carlo values, step advantages, the squared loss. The paper's rates are 5e-7 for the actor and 5e-6 for the critic. This method is
not dapo, which has the same short name.
Departures: No released code was found. The numbers K = 8, M = 4, beta = 0.1 and one round are chosen here. Only states with 0 < y < 1 are kept; this
choice is ours. Actor and critic learn at the setting's rate. The least loss over all distributions is not at pi_ref exp(A/beta)/Z, the optimum with a
KL penalty. It is at log-ratios x with x + lambda e^x = A/beta, where lambda normalises them. For small A/beta the two optima are close. The
candidates of stage `fit` are drawn when they are needed, from the same fixed $pi_ref$.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradus.credit.step_values import steps_of
from gradus.objectives.chances import ChanceLoss
from gradus.objectives.regression import LogRatioRegression
from gradus.papers.bases.dpo import dpo
from gradus.papers.credit.vineppo import SEPARATOR
from gradus.recipe.claim import Claim
from gradus.rollouts.spans import STREAM, places
from gradus.rollouts.step_candidates import LAST, STATE, StepCandidates
from gradus.rollouts.values import VALUES, MonteCarloValues
from gradus.schedules.harvests import answers
from gradus.schedules.stages import Stage, Stages
from gradus.selection.filters import Everything
from gradus.types import Frozen, Group, Problem, Trajectory, UserError
from gradus.types.moments import Steps
from gradus.types.parts import Credited, Signals
from gradus.types.players import Copy, Head, Player
from gradus.types.readers import After
from gradus.types.signals import Read, Signal, Value, Values, Viewed
from gradus.types.spans import Separated


@dataclass(frozen=True)
class StepChances:
    """Gives the value before each step as return, from the stream `value`. Only the first action of a step has a weight."""

    needs: ClassVar[tuple[Signal, ...]] = ()
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})
    asks: ClassVar[Mapping[str, str]] = Frozen({"step values": "--rollout MonteCarloValues"})

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [[_chances(t) for t in g.trajectories] for g in groups]


def _chances(trajectory: Trajectory) -> Credited:
    numbers, values = steps_of(trajectory)
    if wrong := [v for v in values if not 0 <= v <= 1]:
        raise UserError(
            f"the critic learns probabilities, so the values of steps must be from 0 to 1, but a step of {trajectory.id} has the value "
            f"{wrong[0]:g}; scale the reward"
        )
    first = (numbers >= 0) & (np.diff(numbers, prepend=-1) != 0)
    return Credited(np.zeros(len(numbers)), np.where(numbers >= 0, np.append(values, 0.0)[numbers], 0.0), first.astype(np.float64))


@dataclass(frozen=True)
class StepStates:
    """Makes one row for each different state before a step whose value lies between 0 and 1: the problem, and the tokens of the answer as `state`."""

    sure: bool = False  # True: also the states with value 0 or 1

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


def sigmoid(values: np.ndarray) -> np.ndarray:
    """Returns 1 / (1 + exp(-v)), without overflow."""
    return 0.5 * (1 + np.tanh(np.asarray(values, np.float64) / 2))


@dataclass(frozen=True)
class CriticAdvantage:
    """V(s + a) - V(s) at all tokens of a step, R - V(s) at those of a last step. V is the sigmoid of a head of `critic`."""

    critic: str = "critic"
    names_players: ClassVar[tuple[str, ...]] = ("critic",)

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Values(player=self.critic), Read(player=self.critic, reads=Viewed(Value(), After())))

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [[self._one(t, *(signals[need][t.id] for need in self.needs)) for t in g.trajectories] for g in groups]

    def _one(self, t: Trajectory, before: np.ndarray, after: np.ndarray) -> Credited:
        if not t.actions:
            return Credited(np.zeros(0))
        reached = t.value if t.links.get(LAST, True) else float(sigmoid(after[-1]))
        return Credited(np.full(t.actions, reached - float(sigmoid(before[0]))))


CRITIC = Frozen(
    {
        "rollout": MonteCarloValues(marking=Separated(SEPARATOR), count=8),
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
