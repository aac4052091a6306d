"""Posterior-GRPO: the quality of the written reasoning is rewarded only if the outcome is right, so a wrong answer cannot collect this reward.

    R = R_f + R_o + R_o R_t, quad R_t = sigmoid(s)
    A_i = (R_i - mean(R))/(std(R))
    loss_RM = mean over pairs of -log sigmoid(s("better") - s("worse"))

$R_f$ is 1 if the form is right, and $R_o$ is 1 if the outcome is right, else 0. s is the score of a reward model. All wrong answers of one form have
equal rewards. In a group without wrong answers, GRPO learns nothing; here the answers are ranked by their reasoning.

Stage `judge`: the policy answers each problem once and does not learn. The answer z becomes an optimised answer z+ and a degraded answer z-. The judge,
a copy of the policy with a value head, learns the pairs (z+, z), (z, z-) and (z+, z-). If z equals z+, there is only one pair. Stage `policy`: the
judge is fixed, and the policy learns from R. Metrics: `judge/pair_accuracy`; `reward/scored`, the mean of $R_t$ over all answers, right or wrong.

Use if: the outcome can be right by luck, or most groups have only right answers, and the reasoning can be improved and spoilt for pairs.
Avoid if: right answers all have the same reasoning, or the steps can be checked exactly (reward SoundSteps).
Reference: Fan et al., Posterior-GRPO: Rewarding Reasoning Processes in Code Generation, arXiv:2508.05170, abstract: rewards of the reasoning only for
successful outcomes, and pairs by optimising and degrading.
Departures: No code was found. In the paper a language model optimises and degrades the reasoning, along accuracy, logic and coherence. Here z+ is the
worked solution, and z- is z with a step that is dropped, moved or spoilt. The judge reads the whole answer, not the reasoning alone. The sigmoid and
the equal weights are our choices. The form here is one "=" in the answer, because the answers of the built-in model have no tags; for an answer with
tags set `--reward.parts.form Tags`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.credit.groups import Constant
from gradus.objectives.ranking import BradleyTerry
from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.hrpo import MarkedOnce
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Sum
from gradus.rewards.levels import GatedReward
from gradus.rewards.reward_model import RewardModel
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.demonstrations import answer_text, given, told
from gradus.rollouts.ids import group_name
from gradus.schedules.stages import Stage, Stages
from gradus.selection.filters import Informative
from gradus.study.held_out import HeldOut
from gradus.types import Frozen, Group, Request
from gradus.types.moments import Steps
from gradus.types.parts import Rollout, Task, World
from gradus.types.players import Copy, Head, Player


def degraded(text: str, draw: random.Random) -> str:
    """Returns the answer with one step of its reasoning dropped, moved or spoilt. The steps are the words before the last "=".

    If the answer has a single step, this step is dropped or spoilt. An answer without steps gets a spoilt result.
    """
    before, marker, result = text.rpartition("=")
    steps = before.split() if marker else text.split()
    if not steps:
        return f"{before}{marker}{spoilt(result)}"
    at = draw.randrange(len(steps))
    way = draw.choice(("drop", "move", "spoil") if len(steps) > 1 else ("drop", "spoil"))
    if way == "move":
        other = (at + 1) % len(steps)
        steps[at], steps[other] = steps[other], steps[at]
    else:
        steps[at : at + 1] = [] if way == "drop" else [spoilt(steps[at])]
    return f"{' '.join(steps)}{marker}{result if marker else ''}"


def spoilt(word: str) -> str:
    """Moves the first character of the word to the end. If this changes nothing, doubles the word.

    >>> spoilt("anetp"), spoilt("aa"), spoilt("7+5=12")
    ('netpa', 'aaaa', '+5=127')
    """
    turned = word[1:] + word[:1]
    return turned if turned != word else word + word


@dataclass(frozen=True)
class OptimisedAndDegraded:
    """Samples one answer z per request, and gives the worked solution, z, and a degraded z, with the rewards 2, 1 and 0. Texts that repeat are left out."""

    rollout: Rollout = Auto()
    columns: ClassVar[frozenset[str]] = frozenset({"solution"})
    plays: ClassVar[str] = "answers"

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def judges(self, task: Task) -> bool:
        """Returns False, because the three answers already have rewards."""
        return False

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        once = [Request(r.problem, count=1, sampling=r.sampling, tags=r.tags) for r in requests]
        found = await rolled(self.rollout, once, world)
        return [self._made(request, group.trajectories[0].completion, world) for request, group in zip(requests, found, strict=True)]

    def _made(self, request: Request, base: str, world: World) -> Group:
        draw = random.Random(f"{request.problem.id} {base}")
        texts = (answer_text(request.problem, "solution"), base, degraded(base, draw))
        rewards = dict(zip(reversed(texts), (0.0, 1.0, 2.0), strict=True))  # if texts are equal, the best reward counts
        prompt = world.prompt(request)
        made = [given(request, i, told(prompt, text, request, world), world, reward=r, component="quality") for i, (text, r) in enumerate(rewards.items())]
        return Group(group_name(request), tuple(made), pool=tuple(rewards.values()))


JUDGE = Frozen(
    {
        "rollout": OptimisedAndDegraded(),
        "selection": Informative(),
        "objective": None,
        "players.judge.objective": Frozen(pairs=BradleyTerry(source="expert")),
        "players.judge.learns_from": "policy",
        "players.judge.credit": Constant(),
    }
)
"""The fields that differ in stage `judge`: pairs of answers of the fixed policy, and only the judge learns."""

posterior_grpo = grpo.derive(
    "posterior_grpo",
    "The score of the reasoning counts only if the outcome is right; the judge learns from improved and spoilt reasoning.",
    family="rewards",
    reward=Sum(Frozen(form=MarkedOnce("=", required=True), verified=Verified(), thinking=GatedReward(Verified(), RewardModel("judge", chance=True)))),
    players__judge=Player(Head(of=Copy("policy"), bias=False)),
    schedule=Stages(
        Frozen(judge=Stage(until=Steps(50), changes=JUDGE), policy=Stage(until=Steps(100), start="first", players=Frozen(judge="judge.judge")))
    ),
    study=HeldOut(reward=Verified()),
    requires=frozenset({"solution"}),
)

_STEPS = {"schedule.stages.judge.until": "Steps(count=30)", "schedule.stages.policy.until": "Steps(count=20)"}

claims = (
    same_weights(
        says="Without the stage of the judge and with the outcome alone, the final weights are those of GRPO.",
        source="arXiv:2508.05170, abstract: outcome rewards alone",
        against="grpo",
        own={"reward": "Verified", "schedule": "ConstantSchedule", "players.judge": "none"},
    ),
    Claim(
        says="Where only the first letter of a result is checked, the share of answers with right steps is at least 0.02 above that without the thinking reward.",
        source="arXiv:2508.05170, abstract (4.5 % above outcome-only baselines); the size of the effect and the ground are ours",
        against='posterior_grpo --reward.weights \'{"thinking": 0.0}\'',
        measure="accuracy",
        better_by=0.02,
        ground="flawed",
        fields=_STEPS,
        budget="steps=50",
    ),
    Claim(
        says="On the same ground the share of answers with right steps is at least 0.95 times that without the gate.",
        source="arXiv:2508.05170, abstract (the gate mitigates reward hacking); the bound and the ground are ours",
        against="posterior_grpo --reward.parts.thinking \"RewardModel(player='judge', chance=True)\"",
        measure="accuracy",
        at_least=0.95,
        ground="flawed",
        fields=_STEPS,
        budget="steps=50",
    ),
)
