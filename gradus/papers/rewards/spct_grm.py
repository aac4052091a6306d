"""SPCT: a generative reward model writes its own principles and critiques, then a score per response. Votes of many samples make it better at test time.

    r = 1 "if" S_j > S_i "for all" i != j, quad "else" -1
    A_i = (r_i - mean(r)) / (std(r))
    loss = "GRPO with" G = 4, quad beta = 0.08
    S_i^"sum" = sum_(m in M) S_(i,m), quad M = "the" k/2 "samples with the largest meta score"

The policy is the reward model. The policy reads a query with n responses and ends with n scores $S_1, ..., S_n$ from 1 to 10; j is the preferred response. If
there is a single response, its score must equal its label. There is no reward for the form; the large KL weight keeps the form. The sum of k samples has
about k times as many values, so ties are rare. Each sample sees the responses in another random order.

Stages. `sample`: three samples per item, and a fourth with the number of the best response in the prompt; nothing is learned. Samples with a wrong
ranking are dropped, and items whose three samples are all right are dropped, too (`RankedRightly`). `tune`: fine-tuning on the kept samples, under
the plain prompt. `reinforce`: GRPO with r. `meta`: the meta model, a copy of the policy with a value head, learns by cross-entropy whether a sample has the
right ranking; the policy is fixed. In this stage evaluations vote (`ScoreVote`, with the meta model). Elsewhere `--search "ScoreVote(meta=None)"` votes with
all samples. Metric: reward/verified.

Use if: preferences over responses exist, principles differ between queries, and a reward may cost several samples.
Avoid if: a score must be cheap (see reward_model), or a fixed list of criteria is known (see infimed_orbit).
Reference: Liu et al., Inference-Time Scaling for Generalist Reward Modeling, arXiv:2504.02495, sections 3 and 4: both stages, the rule-based reward, KL weight
0.08, groups of 4, three samples and one hinted sample per item, summed scores of k = 32 samples, and the meta model with the best half.
Departures: No training code was found. The item, the reward and the stages come from our catalogue. General instruction data is left out of `tune`. The KL
weight is the weight of the paper's model with 27B parameters. The meta model learns from samples of the trained policy alone; the paper adds earlier
samples without a hint. The vote is reported as the mean of the scores, which gives the same order as the sum. If no sample can be read, the vote is
the first sample. If k is odd, k/2 is rounded up. Clip and number of updates are as in grpo.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.credit.groups import Constant
from gradus.objectives.labelled_scores import LabelledScores
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.reprompted import reprompted
from gradus.schedules.stages import Stage, Stages
from gradus.search.score_vote import ScoreVote
from gradus.types import Frozen, Group, Problem, Request, Trajectory, UserError
from gradus.types.moments import Steps
from gradus.types.parts import Rollout, World
from gradus.types.players import Copy, Head, Player
from gradus.types.prompts import after, prompt_of


@dataclass(frozen=True)
class AlsoHinted:
    """Adds one hinted answer to the answers of `rollout`. The prompt of this answer contains the number of the best response. The answer is stored with the
    plain prompt and the source "expert"."""

    rollout: Rollout = Auto()
    form: str = "best: {}"
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        if "{}" not in self.form:
            raise UserError("AlsoHinted.form does not contain {}; add {}, because the number of the best response replaces it")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of `rollout`. The hinted answer is the last of its group. A problem without `preferred` gets no hint."""
        groups = one_each(await rolled(self.rollout, requests, world), requests, self)
        at = [i for i, r in enumerate(requests) if "preferred" in r.problem.meta]
        asked = [self._hinted(requests[i], world) for i in at]
        for i, g in zip(at, one_each(await rolled(self.rollout, asked, world), asked, self) if asked else [], strict=True):
            moved = await reprompted(g, world.prompt(requests[i]), world, source="expert")
            groups[i] = groups[i].but(trajectories=(*groups[i].trajectories, *moved.trajectories))
        return groups

    def _hinted(self, request: Request, world: World) -> Request:
        hint = self.form.replace("{}", str(request.problem.meta["preferred"] + 1))
        return replace(request, count=1, prompt=after(prompt_of(request, world.task.system), hint), tags=(*request.tags, "hinted"))


@dataclass(frozen=True)
class RankedRightly:
    """Makes demonstrations of the right answers to each problem, sampled and hinted. A problem whose sampled answers are all right is left out as too easy."""

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"solution"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per different right answer. Problems are in the order of their first answers."""
        found: dict[str, tuple[Problem, list[Trajectory]]] = {}
        for t in (t for g in groups if not g.aside for t in g.trajectories if t.failed is None):
            found.setdefault(t.problem.id, (t.problem, []))[1].append(t)
        rows: list[Mapping[str, Any]] = []
        for problem, made in found.values():
            if not all(t.right for t in made if t.source == "policy"):
                rows += [{"problem": problem, "solution": text} for text in dict.fromkeys(t.completion for t in made if t.right)]
        return rows


SAMPLE = Frozen({"setting.learning_rate": 0.0, "setting.group": 3, "rollout": AlsoHinted()})
"""The fields that differ in stage `sample`: three samples and a hinted sample, and nothing is learned."""
META = Frozen(
    {
        "reward": Verified(),
        "objective": None,
        "players.meta.objective": Frozen(scores=LabelledScores(fit="cross_entropy")),
        "players.meta.learns_from": "policy",
        "players.meta.credit": Constant(),
        "search": ScoreVote(),
    }
)
"""The fields that differ in stage `meta`: only the meta model learns, and evaluations vote."""

spct_grm = grpo.derive(
    "spct_grm",
    "A generative reward model writes principles, critiques and scores, learns to rank, and votes at test time.",
    family="rewards",
    reward=2 * Verified() - 1,
    objective__kl__coefficient=0.08,
    players__meta=Player(Head(of=Copy("policy"), bias=False)),
    schedule=Stages(
        Frozen(
            sample=Stage(until=Steps(50), changes=SAMPLE, makes=RankedRightly()),
            tune=Stage(sft, Steps(100), start="first", task="made:sample"),
            reinforce=Stage(until=Steps(200)),
            meta=Stage(until=Steps(50), changes=META),
        )
    ),
    setting__group=4,
)

claims = (
    same_weights(
        says="Without the other stages and with the plain verdict as the reward, the final weights are those of GRPO.",
        source="arXiv:2504.02495, rule-based RL alone",
        against="grpo --objective.kl.coefficient 0.08",
        own={"reward": "Verified", "schedule": "ConstantSchedule", "players.meta": "none"},
        budget="steps=4",
    ),
    Claim(
        says="After RL, the summed scores of 8 samples rank rightly at least 0.03 more often than one sample.",
        source="arXiv:2504.02495, inference-time scaling; task, start, sizes and the size of the effect are ours",
        against='spct_grm --search "ScoreVote(count=1, meta=None)"',
        measure="held_out/accuracy:last",
        better_by=0.03,
        task="scoring",
        options={"level": "1"},
        fields={
            "prompts": "8", "group": "4", "warmup": "0", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "100", "study.greedy": "false",
            "schedule": "ConstantSchedule",
        },
        own={"search": "ScoreVote(count=8, meta=None)"},
        budget="steps=20",
        script="benchmarks.warmed spct_grm",
    ),
)  # fmt: skip
