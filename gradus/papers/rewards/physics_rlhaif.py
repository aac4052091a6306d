"""RLHAIF: people rank a small share of the answers to physics problems, an AI ranks the rest after these examples, and PPO maximises the score of the reward
model.

    loss_RM = mean over problems of mean over pairs of -log sigmoid(s("better") - s("worse"))
    R = s(y) - 0.05 sum_t (log pi_old(a_t) - log pi_ref(a_t))

Stage `sft`: the policy imitates worked solutions. Stage `judge`: the policy answers each problem several times and does not learn. People compare the
answers to a tenth of the problems, at least to one problem per step; their first verdicts are examples at the start of the AI's prompt. The AI
compares all other answers. The rank of an answer is the number of comparisons that it wins. The judge, a copy of the supervised policy with a value
head, learns all pairs of a problem. Stage `policy`: the judge is fixed, and PPO starts from the supervised policy. The other two methods of the paper
are `physics_rlhaif_dpo`, which learns from the same pairs without a judge, and `physics_rlhaif_remax`, which needs no critic. Metrics:
`judge/pair_accuracy`, the agreement of the judge with the ranked pairs; `reward/scored`, the mean score.

Use if: worked solutions exist, quality has several sides (law, numbers, unit, result), and people can rank only a few answers.
Avoid if: a program can verify the result (see ppo), or the AI ranks at random, because its errors are then most of the data.
Reference: Anand et al., Enhancing LLMs for Physics Problem-Solving using Reinforcement Learning with Human-AI Feedback, arXiv:2412.06827, abstract
and method: mixed rankings, reward model, and PPO, DPO and ReMax from one supervised start.
Departures: No code was found, and only the abstract and summaries were read. The share 0.1, the KL weight 0.05, groups of four in stage `judge`, and
the lengths of stages are our choices. People and AI are scripted. Both know the quality of an answer (in the task `physics` four checks: law,
numbers, unit, result). The people reverse 2 % of the pairs, and the AI reverses 10 %. The paper has a reward model of 13B parameters and policies of
7B; here both have the same size. The problems of `physics` are generated. To use another judge, such as `PlayerJudge`, set `PeopleAndAI(ai=...)` in
the changes of the stage.
"""

from __future__ import annotations

from typing import Any

from gradus.credit.groups import Constant
from gradus.objectives.ranking import BradleyTerry
from gradus.papers.bases.ppo import ppo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.divided_judge import PeopleAndAI
from gradus.rewards.judged import JudgedPairs
from gradus.rewards.reward_model import RewardModel
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.schedules.stages import Stage, Stages
from gradus.selection.filters import Informative
from gradus.study.held_out import HeldOut
from gradus.types import Frozen
from gradus.types.moments import Steps
from gradus.types.players import Copy, Head, Player

RANKED = Frozen(
    {
        "rollout": Auto(),
        "reward": JudgedPairs(PeopleAndAI(), both_orders=False),
        "selection": Informative(),
        "credit": Constant(),
        "objective": None,
        "update.epochs": 1,
        "setting.group": 4,
    }
)
"""The fields that differ while the answers of the fixed policy are ranked."""

JUDGE = Frozen(
    {
        **RANKED,
        "players.judge.objective": Frozen(pairs=BradleyTerry()),
        "players.judge.learns_from": "policy",
        "players.judge.credit": Constant(),
    }
)
"""The fields that differ in stage `judge`: rankings, and only the judge learns."""

IMITATION = Stage(sft, Steps(50))
POLICY = Stage(until=Steps(100), start="sft", players=Frozen(judge="judge.judge"))
SCORED = RewardModel("judge")
SCORER = Player(Head(of=Copy("policy"), bias=False))

physics_rlhaif = ppo.derive(
    "physics_rlhaif",
    "A reward model learns from rankings by a few people and an AI that follows their examples; PPO learns from its scores.",
    family="rewards",
    reward=SCORED,
    credit__coefficient=0.05,
    players__judge=SCORER,
    schedule=Stages(
        Frozen(
            sft=IMITATION,
            judge=Stage(until=Steps(50), changes=Frozen({**JUDGE, "players.critic": None, "players.reference": None})),
            policy=POLICY,
        )
    ),
    study=HeldOut(reward=Verified()),
    requires=frozenset({"solution"}),
)

TERMS = Frozen(
    {
        "prompts": "8", "group": "8", "learning_rate": "1e-4", "warmup": "0", "eval_every": "0", "study.problems": "64", "study.greedy": "false",
        "schedule.stages.sft.until": "Steps(count=20)", "schedule.stages.sft.changes": '{"setting.learning_rate": 0.001}',
    }
)  # fmt: skip
"""The terms that the claims of the three recipes have in common."""

STILL = "--schedule.stages.policy.changes '{\"setting.learning_rate\": 0.0}'"
"""The option for a policy that stays the supervised policy."""

STEPS = Frozen(
    {
        "schedule.stages.judge.until": "Steps(count=40)", "schedule.stages.policy.until": "Steps(count=20)",
        "players.judge.optimizer": "AdamW", "players.judge.optimizer.lr": "3e-4",
    }
)  # fmt: skip
"""The terms of the claims with a judge: the judge has its own learning rate."""

_EXAM: dict[str, Any] = {"task": "physics", "model": "gradus/policies/tiny/base", "budget": "steps=80", "problems": 100, "samples": 2}

claims = (
    same_weights(
        says="With the task's verdict and without stages, the final weights are those of PPO with the same KL weight.",
        source="arXiv:2412.06827: PPO",
        against="ppo --credit.coefficient 0.05",
        task="physics",
        model="gradus/policies/tiny/base",
        own={"reward": "Verified", "schedule": "ConstantSchedule", "players.judge": "none"},
    ),
    Claim(
        says="PPO on the score of the reward model raises the accuracy above that of the supervised policy by at least 0.05.",
        source="arXiv:2412.06827, results: PPO above SFT; the size of the effect, the task and the numbers of steps are ours",
        against=f"physics_rlhaif {STILL}",
        measure="accuracy",
        better_by=0.05,
        fields={**TERMS, **STEPS},
        **_EXAM,
    ),
    Claim(
        says="PPO ends with at least the accuracy of ReMax on the same reward model and as many answers of the policy stage.",
        source="arXiv:2412.06827, results: PPO is the best of the three; the terms are ours",
        against="physics_rlhaif_remax",
        measure="accuracy",
        at_least=1.0,
        fields={**TERMS, **STEPS},
        **_EXAM,
    ),
)
