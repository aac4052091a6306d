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
the lengths of stages are ours. People and AI are scripted. Both know the quality of an answer (in the task `physics` four checks: law, numbers, unit,
result). The people reverse 2 % of the pairs, and the AI reverses 10 %. The paper has a reward model of 13B parameters and policies of 7B; here both
have the same size. The problems of `physics` are generated. To use another judge, such as `PlayerJudge`, set `PeopleAndAI(ai=...)` in the changes of
the stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from gradus.credit.groups import Constant
from gradus.objectives.ranking import BradleyTerry
from gradus.papers.bases.ppo import ppo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.judged import JudgedPairs
from gradus.rewards.reward_model import RewardModel
from gradus.rewards.scripted_judge import ScriptedJudge, chance
from gradus.rewards.verdicts import Arbiter, Case, Form, Kind, Verdict
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.schedules.harvests import answers
from gradus.schedules.stages import Stage, Stages
from gradus.selection.filters import Informative
from gradus.study.held_out import HeldOut
from gradus.types import Failed, Frozen, Group
from gradus.types.moments import Steps
from gradus.types.parts import Task, World
from gradus.types.players import Copy, Head, Player
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class WithExamples:
    """A form of pairs whose prompt begins with judged examples."""

    form: Form
    examples: str
    kind: ClassVar[Kind] = "pair"

    def prompt(self, case: Case) -> str:
        return self.examples + self.form.prompt(case)

    def read(self, text: str, case: Case) -> Verdict | None:
        return self.form.read(text, case)


@dataclass(frozen=True)
class PeopleAndAI:
    """A judge of pairs: `people` judge the problems of a share `share` of each batch, and `ai` judges the others after `examples` verdicts of people."""

    people: Arbiter = ScriptedJudge(reversed=0.02)
    ai: Arbiter = ScriptedJudge(reversed=0.1)
    share: float = 0.1  # share of the problems that people judge; at least one per batch, unless the share is 0
    examples: int = 2

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1]", examples="[0, inf)")

    def check_form(self, form: Form, task: Task) -> None:
        for judge in (self.people, self.ai):
            if hasattr(judge, "check_form"):
                judge.check_form(form, task)

    def by_people(self, cases: Sequence[Case]) -> set[str]:
        """Returns the ids of the problems that people judge. A hash of the problem decides the order."""
        found = {case.problem.id: chance("people", case) for case in cases}
        count = max(round(self.share * len(found)), 1) if self.share else 0
        return set(sorted(found, key=lambda name: found[name])[:count])

    async def decide(self, form: Form, cases: Sequence[Case], world: World) -> list[Verdict | Failed | None]:
        chosen = self.by_people(cases)
        first = [case for case in cases if case.problem.id in chosen]
        known = await self.people.decide(form, first, world) if first else []
        shown = [(case, v) for case, v in zip(first, known, strict=True) if isinstance(v, tuple)][: self.examples]
        told = "".join(f"{form.prompt(case)}{'A' if v[0] > 0.5 else 'B' if v[0] < 0.5 else 'tie'}\n\n" for case, v in shown)
        rest = [case for case in cases if case.problem.id not in chosen]
        others = iter(await self.ai.decide(WithExamples(form, told), rest, world) if rest else [])
        by_people = iter(known)
        return [next(by_people if case.problem.id in chosen else others) for case in cases]


@dataclass(frozen=True)
class AllPairs:
    """Makes all pairs of two different answers of a group with different rewards: `chosen` has the higher reward. Ranks can be compared only within a
    group."""

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"chosen", "rejected"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per pair, in the order of the groups."""
        pairs = [sorted(pair, key=lambda t: -t.value) for group in groups for pair in combinations(answers([group]), 2)]
        return [
            {"problem": a.problem, "chosen": a.completion, "rejected": b.completion} for a, b in pairs if a.value > b.value and a.completion != b.completion
        ]


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
