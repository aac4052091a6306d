"""RLHAIF with DPO: the policy learns directly from the pairs that people and an AI rank, without a reward model.

    loss = mean over pairs of -log sigmoid(0.1 (h_w - h_l)), quad h = sum_t log pi(y_t) - log pi_ref(y_t)

Stage `sft` is the same as in `physics_rlhaif`. In stage `rank` the supervised policy answers each problem four times, and people and the AI rank the
answers. No player learns in this stage. Every pair of different answers of a group with different ranks becomes a row. In stage `policy` DPO learns
the rows; the reference is the supervised policy. No answer is sampled in this stage.

Use if: rankings of a policy's own answers exist, and no run should depend on a reward model.
Avoid if: new answers of the policy can be scored (see physics_rlhaif), or the rankings come from answers of another model.
Reference: Anand et al., Enhancing LLMs for Physics Problem-Solving using Reinforcement Learning with Human-AI Feedback, arXiv:2412.06827, the arm DPO;
the loss is eq. 7 of arXiv:2305.18290.
Departures: The departures of `physics_rlhaif` apply here, too. Our own choices are the coefficient 0.1 and the use of all pairs of a problem as rows.
"""

from __future__ import annotations

from gradus.papers.bases.dpo import dpo
from gradus.papers.rewards.physics_rlhaif import IMITATION, RANKED, STILL, TERMS
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.verified import Verified
from gradus.schedules.harvests import AllPairs
from gradus.schedules.stages import Stage, Stages
from gradus.study.held_out import HeldOut
from gradus.types import Frozen
from gradus.types.moments import Steps

physics_rlhaif_dpo = dpo.derive(
    "physics_rlhaif_dpo",
    "DPO on pairs of the supervised policy's answers, ranked by a few people and an AI that follows their examples.",
    family="rewards",
    schedule=Stages(
        Frozen(
            sft=IMITATION,
            rank=Stage(until=Steps(50), changes=Frozen({**RANKED, "players.reference": None}), makes=AllPairs()),
            policy=Stage(until=Steps(100), start="sft", task="made:rank"),
        )
    ),
    study=HeldOut(reward=Verified()),
    requires=frozenset({"solution"}),
)

claims = (
    same_weights(
        says="Without stages, the final weights are those of DPO.",
        source="arXiv:2412.06827: DPO",
        against="dpo",
        task="noisy_pairs",
        own={"schedule": "ConstantSchedule"},
    ),
    Claim(
        says="DPO on the ranked pairs raises the accuracy above that of the supervised policy by at least 0.05.",
        source="arXiv:2412.06827, results: DPO above SFT; the size of the effect, the task and the numbers of steps are ours",
        against=f"physics_rlhaif_dpo {STILL}",
        measure="accuracy",
        better_by=0.05,
        task="physics",
        model="gradus/policies/tiny/base",
        fields={**TERMS, "schedule.stages.rank.until": "Steps(count=40)", "schedule.stages.policy.until": "Steps(count=60)"},
        budget="steps=120",
        problems=100,
        samples=2,
    ),
)
