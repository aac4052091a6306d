"""RLHAIF with ReMax: the score of the policy's greedy answer is the baseline of a sampled answer, so no critic is needed.

    A = s(y) - s(y_"greedy")
    loss = -1/N sum_i sum_t A_i log pi(y_(i,t))

s is the score of the reward model that learns from the rankings by people and an AI, as in `physics_rlhaif`. The stages `sft` and `judge` are the same.
In stage `policy` ReMax starts from the supervised policy. An answer that equals the greedy answer has no gradient.

Use if: a critic does not fit into memory, and one greedy answer per problem is affordable.
Avoid if: scores differ mostly by errors of the reward model, because every advantage then contains the error in the greedy answer's score.
Reference: Anand et al., Enhancing LLMs for Physics Problem-Solving using Reinforcement Learning with Human-AI Feedback, arXiv:2412.06827, the arm
ReMax; the baseline comes from arXiv:2310.10505.
Departures: The departures of `physics_rlhaif` and `remax` apply here, too. There is no KL penalty.
"""

from __future__ import annotations

from gradus.papers.bases.remax import remax
from gradus.papers.rewards.physics_rlhaif import IMITATION, JUDGE, POLICY, SCORED, SCORER, STEPS, STILL, TERMS
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.verified import Verified
from gradus.schedules.stages import Stage, Stages
from gradus.study.held_out import HeldOut
from gradus.types import Frozen
from gradus.types.moments import Steps

physics_rlhaif_remax = remax.derive(
    "physics_rlhaif_remax",
    "ReMax on the score of a reward model that learns from rankings by a few people and an AI that follows their examples.",
    family="rewards",
    reward=SCORED,
    players__judge=SCORER,
    schedule=Stages(Frozen(sft=IMITATION, judge=Stage(until=Steps(50), changes=JUDGE), policy=POLICY)),
    study=HeldOut(reward=Verified()),
    requires=frozenset({"solution"}),
)

claims = (
    same_weights(
        says="With the task's verdict and without stages, the final weights are those of ReMax.",
        source="arXiv:2412.06827: ReMax",
        against="remax",
        own={"reward": "Verified", "schedule": "ConstantSchedule", "players.judge": "none"},
    ),
    Claim(
        says="ReMax on the score of the reward model raises the accuracy above that of the supervised policy by at least 0.05.",
        source="arXiv:2412.06827, results: ReMax above SFT; the size of the effect, the task and the numbers of steps are ours",
        against=f"physics_rlhaif_remax {STILL}",
        measure="accuracy",
        better_by=0.05,
        task="physics",
        model="gradus/policies/tiny/base",
        fields={**TERMS, **STEPS},
        budget="steps=80",
        problems=100,
        samples=2,
    ),
)
