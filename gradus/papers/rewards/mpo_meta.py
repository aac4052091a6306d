"""MPO: a meta reward model rewrites the judging model's rubric during training, so that the policy cannot keep exploiting a gap in the rubric.

    r(y) = sum_(c in Q) points_c(y)
    R = (r - mean(r)) / (std(r))
    Q_i = refine(analyse(x_i, y_i, Q, r_i)), quad i = 1, ..., n
    Q becomes merge(Q_1, ..., Q_n)

The reward model is a language model with a rubric Q, a list of criteria c with points. For an answer y the reward model writes points for each
criterion. A criterion without readable points counts as 0. The policy learns from the reward R. The mean and the deviation of r are over the whole run so
far, because the range of the sum grows with the rubric. The policy learns by PPO with a critic, KL 0.05 in the reward, lambda 0.95, clip 0.2, four
epochs (see ppo).

The meta reward model is a larger language model. After the update of batches M, 2M, ... (M = 10) this model reads n = 20 tuples of prompt $x_i$,
answer $y_i$, Q and reward $r_i$, and works in stages. In pre-screening, which is optional and off by default, the model calls each tuple's score
good, ok or bad. Only bad tuples go to the next stage. In meta-analysis it writes for each tuple whether the score is deserved, which blind spots or
exploits it sees, and which criteria to add, split or rescale. In meta-refinement it writes for each tuple a whole new rubric $Q_i$ from the analysis.
In meta-merge it joins the $Q_i$ into one rubric without overlap, which is Q for the following batches.

Rewards that were given under an earlier Q are kept. Metrics: `rubric/items`, the number of criteria after the batch; `reward/rubric`, the mean of r;
`gold`, the mean verdict of the task's verifier, if the task has one. No reward reads `gold`; if r rises while gold falls, the policy hacks the
reward. If M is larger than the number of steps, the rubric is fixed, which is the paper's baseline. The method has two limits: an exploit that no
sample shows stays possible, and the meta model must understand answers better than the judge.

Use if: a language model judges by a rubric, the policy finds gaps in the rubric, and a model that understands answers better than the judge is
available.
Avoid if: a verifier judges the answers (see grpo, ppo), or no model understands answers better than the judge.
Reference: Kim et al., Toward Evaluative Thinking: Meta Policy Optimization with Evolving Reward Models, arXiv:2504.20157, section 2, which has the
three stages. M is 10 for essays and ethics, 20 for summaries and 30 for mathematics. The number n = 20, KL, lambda, clip, epochs and the value
coefficient 0.1 are the defaults of the released code. The launch script for mathematics has M = 20, n = 16 and KL 0.02, and subtracts 1 from the
reward of an answer without an end.
Departures: The tuples are drawn from the last batch, so no earlier answers are stored. Refinement sees the analysis and the criteria. One reply of
the judge has a line for each criterion, and a rubric is written in lines "POINTS: CRITERION". Points outside a criterion's range count as 0. Repeated
criteria are dropped. If the merged rubric cannot be read, the $Q_i$ are joined in order; if no $Q_i$ can be read, the rubric stays unchanged. Rewards
are standardised. There is no value coefficient, because the critic is a separate network. The judge and the meta model are copies of the policy, unless
`--players.judge.model` and `--players.meta.model` name larger models. The paper's plans for clusters of problems are left out. In the released code
the judge writes one sentence and then an integer, criterion by criterion. The analysis and the refinement are one conversation. In it the meta model first
gives the number of criteria, and then each criterion. Pre-screening keeps n tuples: first those with the score bad, then those with the score ok. In
the released code the n tuples come from all batches since the last change of the rubric. The released code whitens advantages, but does not
standardise rewards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim
from gradus.rewards.combine import Combines, Sum
from gradus.rewards.judge import Check, Criterion, WrittenPoints, checks_for, question
from gradus.rewards.rubric import Rubric
from gradus.rewards.standardised import Standardised
from gradus.rewards.verified import Verified
from gradus.types import NOT_APPLICABLE, Frozen, Group, Request, Sampling, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.players import Copy, Player
from gradus.types.prompts import filled
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

FIELDS = {
    "screen": ("answer", "points"),
    "analyse": ("answer", "criteria", "points"),
    "refine": ("analysis", "criteria"),
    "merge": ("rubrics",),
}
"""The fields that each template must contain."""


@dataclass(frozen=True)
class MetaReview:
    """A player analyses samples, refines the rubric for each, and merges the refined rubrics."""

    player: str = "meta"
    prescreen: bool = False  # analyse only samples whose score the player calls bad
    screen: str = "Question: {problem}\nAnswer: {answer}\nCriteria:\n{criteria}\nPoints: {points}\nThe points are good, ok or bad:\n"
    analyse: str = (
        "Question: {problem}\nAnswer: {answer}\nCriteria:\n{criteria}\nPoints: {points}\n"
        "Are they deserved? Name blind spots and exploits, and the criteria to add, split or rescale.\n"
    )
    refine: str = "Analysis: {analysis}\nCriteria:\n{criteria}\nWrite all criteria again, none twice, each on a line POINTS: CRITERION.\n"
    merge: str = "Criteria of several judges:\n{rubrics}\nJoin them without overlap, a line POINTS: CRITERION each.\n"
    max_tokens: int = 512  # largest number of tokens of a reply
    temperature: float = 0.0
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, max_tokens="[1, inf)", temperature="[0, inf)")
        for name, fields in FIELDS.items():
            for field in fields:
                if f"{{{field}}}" not in getattr(self, name):
                    raise UserError(f"MetaReview.{name} does not contain {{{field}}}; add {{{field}}}, because the meta reward model reads only this text")

    async def rubrics(self, samples: Sequence[Trajectory], criteria: Sequence[Criterion], world: World) -> list[list[Criterion]]:
        """Returns the merged rubric alone; if it cannot be read, the refined rubrics; if none of these can be read, no rubric."""
        if self.prescreen:
            verdicts = await self._ask("screen", samples, [self._shown("screen", t, criteria) for t in samples], world)
            samples = [t for t, verdict in zip(samples, verdicts, strict=True) if verdict.strip().lower().startswith("bad")]
        analyses = await self._ask("analyse", samples, [self._shown("analyse", t, criteria) for t in samples], world)
        written = await self._ask("refine", samples, [filled(self.refine, analysis=a, criteria=listed(criteria)) for a in analyses], world)
        refined = [rubric for text in written if (rubric := read_criteria(text))]
        if len(refined) < 2:
            return refined
        (text,) = await self._ask("merge", samples[:1], [filled(self.merge, rubrics="\n\n".join(map(listed, refined)))], world)
        joined = read_criteria(text)
        return [joined] if joined else refined

    def _shown(self, stage: str, t: Trajectory, criteria: Sequence[Criterion]) -> str:
        most = sum(c.points for c in criteria)
        shown = {"problem": question(t), "answer": t.completion, "criteria": listed(criteria), "points": f"{points_of(t):g} of {most}"}
        return filled(getattr(self, stage), **shown)

    async def _ask(self, stage: str, samples: Sequence[Trajectory], prompts: Sequence[str], world: World) -> list[str]:
        """Returns the player's reply to each prompt."""
        sampling = Sampling(max_tokens=self.max_tokens, temperature=self.temperature)
        asked = [
            Request(t.problem, 1, self.player, prompt, sampling=sampling, tags=("meta", stage, t.id), trained=False)
            for t, prompt in zip(samples, prompts, strict=True)
        ]
        return [world.text(c.tokens[c.chosen], self.player) for (c,) in await world.sample(asked)]


@dataclass(frozen=True)
class ScriptedReview:
    """Replaces MetaReview in tests and proving grounds. If an answer got full marks but fails further checks, adds the criteria of these checks to the
    rubric.

    For each sample with full marks that fails further checks, this part returns the rubric plus the criteria of these checks. Each new criterion gets the
    largest number of points that a criterion of the rubric has.
    """

    checks: Frozen[Check] | None = None  # text of a criterion -> check of problem and answer; None: the checks of the task

    def check_task(self, task: Task) -> None:
        """Raises UserError if neither this part nor the task has checks."""
        checks_for(self.checks, task, type(self).__name__)

    async def rubrics(self, samples: Sequence[Trajectory], criteria: Sequence[Criterion], world: World) -> list[list[Criterion]]:
        checks = checks_for(self.checks, world.task, type(self).__name__)
        listed, largest = {c.text for c in criteria}, max(c.points for c in criteria)
        out: list[list[Criterion]] = []
        for t in samples:
            failed = [text for text, holds in checks.items() if text not in listed and not holds(t.problem, t.completion)]
            if failed and points_of(t) == sum(c.points for c in criteria):
                out.append([*criteria, *(Criterion(text, largest) for text in failed)])
        return out


@dataclass(frozen=True)
class Gold(Combines):
    """Reports the task's verdict as the metric `gold`, for people to read. The metric does not apply if the task has no verdict or if the verdict failed."""

    name: ClassVar[str] = "gold"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        if world.task.verify is None and world.task.judge is None:
            return [[Judgement(NOT_APPLICABLE) for _ in g.trajectories] for g in groups]
        found = await Verified().score(groups, signals, world)
        for judgement in (j for row in found for j in row if isinstance(j.reward, int | float)):
            world.note(self.name, judgement.reward)  # type: ignore[arg-type]
        return [[Judgement(j.reward if isinstance(j.reward, int | float) else NOT_APPLICABLE) for j in row] for row in found]


def points_of(trajectory: Trajectory) -> float:
    """Returns the sum of the points that the judge gave. The sum does not depend on the scale of the reward."""
    found = trajectory.components.get(Rubric.name, trajectory.reward)
    return float(found) if isinstance(found, int | float) else 0.0


def listed(criteria: Sequence[Criterion]) -> str:
    """Writes each criterion as a line "POINTS: CRITERION"."""
    return "\n".join(f"{c.points}: {c.text}" for c in criteria)


def read_criteria(text: str) -> list[Criterion]:
    """Reads criteria of 1 to 99 points from lines such as "5: The text has an end.". Other lines are ignored.

    >>> read_criteria("Here they are:\\n5: It ends.\\n0: It is free.\\n- 2: It is short.")
    [Criterion(text='It ends.', points=5), Criterion(text='It is short.', points=2)]
    """
    return [Criterion(said.strip(), int(points)) for points, said in re.findall(r"^\s*-?\s*([1-9]\d?)\s*:[ \t]*(\S.*)$", text, re.M)]


RUBRIC: Any = Rubric((Criterion("The text is a story.", 5),), judge=WrittenPoints(), reviser=MetaReview(), every=10, samples=20)
"""The first rubric, the part that judges by it, and the part that revises it."""

mpo_meta = ppo.derive(
    "mpo_meta",
    "A meta reward model rewrites the judge's rubric every ten batches, so that the policy cannot keep exploiting a gap in the rubric.",
    family="rewards",
    reward=Standardised(Sum(Frozen(rubric=RUBRIC, gold=Gold()), weights=Frozen(gold=0.0))),
    credit__coefficient=0.05,
    players__judge=Player(Copy("policy")),
    players__meta=Player(Copy("policy")),
)

claims = (
    Claim(
        says=(
            "Under a judge that takes a title alone for a story, the held-out verdict of the hidden rules falls below its start if the rubric is "
            "fixed, and with the evolving rubric gains at least 0.1 more over the run."
        ),
        source="arXiv:2504.20157, essays: the fixed first rubric is hacked, the evolving one is not; task, sizes and the scripted meta model are ours",
        against="mpo_meta --reward.reward.parts.rubric.reviser=none",
        measure="held_out/reward:gain",
        better_by=0.1,
        task="stories",
        model="gradus/policies/tiny/words",
        fields={
            "setting.prompts": "8",
            "setting.group": "8",
            "reward.reward.parts.rubric.judge": "ScriptedPoints",
            "study.reward": "Verified",
            "study.greedy": "false",
            "study.problems": "100",
        },
        own={"reward.reward.parts.rubric.reviser": "ScriptedReview"},
        budget="steps=50",
        seeds=3,
    ),
)
