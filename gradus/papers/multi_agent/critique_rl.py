"""Critique-RL: a critic first learns to judge an answer, and then to help the actor that refines the answer. The verdict earns a reward in both stages.

    c ~ pi_c(. | x, y), quad y' ~ pi_a(. | x, y, c)
    r_1 = 1{v(c) = ok(y)} - 0.01 KL
    r_2 = ok(y') + 0.2 * 1{v(c) = ok(y)} - 0.01 KL
    A_k = r_k - 1/(K - 1) sum_(j != k) r_j, quad k = 1, ..., K, quad K = 4

The actor $pi_a$ has answered the problem x with y. The critic $pi_c$ reads both and writes a critique c: remarks, a suggestion, and a verdict v(c),
right or wrong. The actor then writes a refined answer y'. ok is 1 for a right answer. The K critiques of the same pair (x, y) are a group. Only the
tokens of the critic are trained; the actor is frozen.

If the critic earns only ok(y'), its critiques help more but its verdicts stay poor, and a poor verdict lets the actor spoil right answers. So stage I
trains the verdict against the answer key with $r_1$, and stage II adds the refined answer with $r_2$. A verdict that cannot be read earns nothing.
The KL term compares the critic with its start in stage I, and with the critic of stage I in stage II. Each stage has 500 steps. Metrics: `refined`,
the share of right refined answers; `fixed` and `broken`, the shares of wrong answers that become right, and of right answers that become wrong.

Use if: answers have a key, an actor can use feedback, and no stronger model writes critiques.
Avoid if: the actor ignores critiques, or all first answers are right (or all wrong), because a constant verdict is then enough.
Reference: Xi et al., Critique-RL: Training Language Models for Critiquing through Two-Stage Reinforcement Learning, arXiv:2510.24320: the two stages
and their rewards; the numbers 0.2, 0.01, 4 critiques and 500 steps, and a greedy refinement.
Departures: The leave-one-out baseline is our choice; the paper leaves the estimator of the policy gradient open. The KL is the sampled estimate on
the critic's own texts. The critic samples at the temperature of the run; the paper has 0.7. The paper fine-tunes actor and critic before stage I;
here the start model should already have these skills. The task `checked` gives the pairs (x, y), half of them right, in place of an actor's own first
answers; the verdicts of the task are "yes" and "no". In the released code (WooooDyy/Critique-RL) a true verdict earns 1, and a false or missing verdict earns
-1, in stage I; with the baseline this doubles the advantages. In stage II of the released code a true verdict earns ok(y') + 0.2; a false or missing verdict
earns -1, even if y' is right (`--reward.strict true`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.credit.groups import LeaveOneOut
from gradus.credit.kl_penalty import KLPenalty
from gradus.papers.bases.rloo import rloo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.downstream import Downstream
from gradus.rewards.verified import Verified
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen, Group, Trajectory
from gradus.types.moments import Steps
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.players import Copy, Player
from gradus.types.signals import Signal

REFINES = Downstream(player="actor", template="{question}\n{text}\nSolve the problem again.", max_tokens=64)


@dataclass(frozen=True)
class Helpful(Combines):
    """The reward of the refined answer (`refinement`), plus `weight` times the reward of the verdict (`verdict`).

    With `strict`, a critique with a false verdict earns -1. Components: "verified" (the verdict) and "refined". Records the shares of fixed and of broken
    answers. If the answer of a problem is "yes", the judged text is a right answer; otherwise the judged text is a wrong answer.
    """

    refinement: Reward = REFINES
    verdict: Reward = Verified()
    weight: float = 0.2
    strict: bool = False
    name: ClassVar[str] = "helpful"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return tuple(dict.fromkeys((*self.refinement.needs, *self.verdict.needs)))

    def check(self, task: Task) -> None:
        check_reward(self.refinement, task)
        check_reward(self.verdict, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        verdicts = await self.verdict.score(groups, signals, world)
        refined = await self.refinement.score(groups, signals, world)
        return [
            [self._judged(t, v, r, world) for t, v, r in zip(g.trajectories, true, found, strict=True)]
            for g, true, found in zip(groups, verdicts, refined, strict=True)
        ]

    def _judged(self, critique: Trajectory, verdict: Judgement, refined: Judgement, world: World) -> Judgement:
        if not isinstance(verdict.reward, int | float) or not isinstance(refined.reward, int | float):
            return refined if isinstance(verdict.reward, int | float) else verdict
        for name, value in changed(critique.problem.answer == "yes", refined.reward).items():
            world.note(name, value)
        total = -1.0 if self.strict and not verdict.reward else refined.reward + self.weight * verdict.reward
        return Judgement(total, Frozen(verified=verdict.reward, refined=refined.reward), extra=refined.extra)


def changed(right: bool, refined: float) -> dict[str, float]:
    """Returns the numbers to record for one refinement: `refined`, and `broken` for an answer that was right, else `fixed`.

    >>> changed(True, 0.0), changed(False, 1.0)
    ({'refined': 0.0, 'broken': 1.0}, {'refined': 1.0, 'fixed': 1.0})
    """
    return {"refined": refined, "broken": 1 - refined} if right else {"refined": refined, "fixed": refined}


critique_rl = rloo.derive(
    "critique_rl",
    "A critic learns to judge answers, and then to help a frozen actor to refine them; its verdicts are rewarded in both stages.",
    family="multi_agent",
    reward=Helpful(),
    credit=KLPenalty(LeaveOneOut(), 0.01, "k1"),
    players__actor=Player(Copy("policy")),
    players__reference=Player(Copy("policy")),
    schedule=Stages(
        Frozen(
            judge=Stage(until=Steps(500), changes=Frozen(reward=Verified())),
            help=Stage(until=Steps(500), players=Frozen(actor="judge.actor")),
        )
    ),
    setting__group=4,
    requires=frozenset({"questions"}),
)

_TERMS = {"prompts": "8", "group": "4", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "64", "study.greedy": "false"}

claims = (
    same_weights(
        says=(
            "From a start that was shown critiques, with the verdict in place of the refinement, in one stage, and with the weight and the KL coefficient 0, the "
            "final weights are those of RLOO on the verdicts."
        ),
        source=(
            "arXiv:2510.24320, stage I; the limit is ours; stated again after a look at the built-in model, whose answers earn no reward, so neither arm moves"
        ),
        against="rloo",
        own={"reward.refinement": "Verified", "reward.weight": "0", "schedule": "ConstantSchedule", "credit.coefficient": "0"},
        task="checked",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none"},
        script="benchmarks.warmed critique_rl-limit",
    ),
    Claim(
        says="After both stages the verdicts on held-out answers are at least 0.15 more often true than those of a critic that earns the refinement alone.",
        source="arXiv:2510.24320, the discrimination accuracy with indirect rewards alone; the task, the start and the size of the effect are ours",
        against="critique_rl --reward.weight 0 --schedule ConstantSchedule",
        measure="held_out/accuracy:last",
        better_by=0.15,
        task="checked",
        options={"level": "2"},
        fields=_TERMS,
        budget="steps=24",
        script="benchmarks.warmed critique_rl",
    ),
)
