"""Sotopia-RL: a judge spreads the scores of a whole dialogue over its utterances, a reward model learns them, and GRPO trains single utterances.

    r_i^d = G^d a_i^d / 3
    R_i = 1/3 sum_d (r_i^d - min r^d) / (max r^d - min r^d)
    loss_RM = mean over utterances of (s_i - R_i)^2

The dimensions d are goal, relationship and knowledge. $G^d$, from 0 to 10, is the score of an episode. A judge reads the whole dialogue; $a_i^d$, from 0 to
3, is its opinion how much utterance i contributed. An utterance can earn much although the reply to it was bad, and the $r_i$ need
not add up to $G$. Minimum and maximum are over all utterances of the data. With `spread` "normalised" r is $G a_i / (sum_j a_j)$, or 0 if all a are 0;
with "equal" every utterance gets the score of its episode.

Stage `sft`: the policy imitates dialogues. Stage `label`: the policy plays and does not learn; each utterance becomes a row with its history and R. Stage
`judge`: the reward model, a copy of the policy with a value head, reads history and utterance. Stage `policy`: a prompt is the history of a row, the
policy gives 16 utterances, and GRPO learns from the reward model in two epochs over each batch. This stage plays whole dialogues only in evaluations:
held_out/goal, held_out/relationship and held_out/knowledge, from 0 to 1.

Use if: an episode has one late score, a judge can say at the end which utterances mattered, and several qualities count.
Avoid if: every turn has its own reward, or the policy meets histories that do not occur in its data, because the histories of the prompts are fixed.
Reference: Yu et al., Sotopia-RL: Reward Design for Social Intelligence, arXiv:2508.03905: attribution, dimensions, reward model and GRPO. The released
code (sotopia-lab/sotopia-rl) has the attribution, equal weights, groups of 16, learning rate 5e-6, two GRPO epochs, and the KL weight 0.04.
Departures: The judge is a script that knows the private facts of the task `negotiation` (`ScriptedAttribution`); in the paper it is GPT-4o
(`WrittenPoints`). The partner is a script, and the policy plays one side; relationship is from 0 to 10. Rows with an attribution below 0 (unread) are left
out; the released code gives these rows the reward -1. `WrittenPoints` reads a missing line as 0. The released code multiplies R by 10; a
standardised advantage does not depend on this factor. The released launch script asks for two epochs, but the trainer does not read this
number. Stage lengths are ours. The recipe sets no learning rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from gradus.credit.groups import Constant
from gradus.objectives.labelled_scores import LabelledScores
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.judge import Criterion
from gradus.rewards.reward_model import RewardModel
from gradus.rollouts.auto import Auto
from gradus.rollouts.recorded_answers import RecordedAnswers
from gradus.rollouts.single_turn import grouped
from gradus.schedules.stages import Stage, Stages
from gradus.study.held_out import held_out_requests, of_problems
from gradus.types import Failed, Frozen, Group, Request, Trajectory, UserError
from gradus.types.moments import Steps
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.players import Copy, Head, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

DIMENSIONS = ("goal", "relationship", "knowledge")
MOST, HIGHEST = 10, 3  # largest score of an episode; largest attribution
Spread = Literal["scaled", "normalised", "equal"]


def spread_score(score: float, attributions: Sequence[int], spread: Spread = "scaled") -> list[float]:
    """Returns the reward of each utterance in one dimension.

    >>> [round(r, 4) for r in spread_score(8, (3, 0, 1))], spread_score(8, (3, 0, 1), "normalised"), spread_score(8, (0, 0), "normalised")
    ([8.0, 0.0, 2.6667], [6.0, 0.0, 2.0], [0.0, 0.0])
    """
    if spread == "equal":
        return [float(score)] * len(attributions)
    whole = HIGHEST if spread == "scaled" else sum(attributions)
    return [score * a / whole if whole else 0.0 for a in attributions]


def scaled(values: Sequence[float]) -> np.ndarray:
    """Returns the values on a scale from 0, the smallest, to 1, the largest; zeros if all are equal. Returns: float64 [N].

    >>> scaled([2, 6, 10]).tolist(), scaled([3, 3]).tolist()
    ([0.0, 0.5, 1.0], [0.0, 0.0])
    """
    found = np.asarray(values, np.float64)
    width = np.ptp(found) if len(found) else 0.0
    return (found - found.min()) / width if width else np.zeros(len(found))


def dialogue(trajectory: Trajectory, world: World) -> list[tuple[str, str]]:
    """Returns (text before the utterance, utterance) for every utterance of an episode. The first text is the whole prompt."""
    pairs: list[tuple[str, str]] = []
    for context in trajectory.contexts:
        if not context.actions:
            continue
        turns = iter(context.streams["turn"].tolist())
        marks = [next(turns) if chosen else -1 for chosen in context.chosen]  # -1: a token that the policy reads
        seen = world.text(context.prefix, trajectory.player)
        for mark, run in groupby(zip(marks, context.tokens.tolist(), strict=True), key=lambda pair: pair[0]):
            text = world.text(np.array([token for _, token in run], np.int32), trajectory.player)
            if mark < 0:
                seen = text
            else:
                pairs.append((seen, text))
                seen = ""
    return pairs


class Attributor(Protocol):
    async def points(self, trajectories: Sequence[Trajectory], criteria: Sequence[Criterion], world: World) -> list[list[int]]: ...


def criteria_for(dimensions: Sequence[str], utterances: int) -> list[Criterion]:
    """Returns the criteria of an episode: for every dimension the score, then the attribution of each utterance."""
    return [
        c
        for name in dimensions
        for c in (Criterion(name, MOST), *(Criterion(f"contribution of utterance {i} to {name}", HIGHEST) for i in range(1, utterances + 1)))
    ]


@dataclass(frozen=True)
class ScriptedAttribution:
    """A scripted judge: `contributions` of the task's environment gives the scores and the attributions, with the private facts of both sides."""

    def check_dialogues(self, task: Task) -> None:
        """Raises UserError if the task's environment has no contributions."""
        if not hasattr(task.environment, "contributions"):
            raise UserError(
                f"ScriptedAttribution reads the contributions of a dialogue, but the environment of task {task.name} has none; take task negotiation, or a "
                "judge that is a model (WrittenPoints)"
            )

    async def points(self, trajectories: Sequence[Trajectory], criteria: Sequence[Criterion], world: World) -> list[list[int]]:
        self.check_dialogues(world.task)
        return [self.of(t, criteria, world.task.environment) for t in trajectories]

    def of(self, trajectory: Trajectory, criteria: Sequence[Criterion], environment: Any) -> list[int]:
        """Returns the points of one dialogue. A dimension that the environment does not know has 0 points."""
        said = [line.removeprefix("you: ") for line in trajectory.completion.split("\n") if line.startswith("you: ")]
        found: dict[str, int] = {}
        for name, (score, attributed) in environment.contributions(trajectory.problem, said).items():
            found |= dict(zip((c.text for c in criteria_for((name,), len(said))), (score, *attributed), strict=True))
        return [found.get(c.text, 0) for c in criteria]


@dataclass(frozen=True)
class SocialScores(Combines):
    """The mean of the episode's scores, each from 0 to 1. `extra` has the dialogue, the scores and the attributions of a trajectory.

    Each dimension is a component. The judge reads the dialogue as lines "partner: ..." and "you: ...".
    """

    judge: Attributor = ScriptedAttribution()
    dimensions: tuple[str, ...] = DIMENSIONS
    name: ClassVar[str] = "social"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise UserError("SocialScores.dimensions is empty; give at least one name, such as goal")

    def check(self, task: Task) -> None:
        """Raises UserError if the judge cannot judge dialogues of the task."""
        if hasattr(self.judge, "check_dialogues"):
            self.judge.check_dialogues(task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        told = {t.id: dialogue(t, world) for g in groups for t in g.trajectories}
        found: dict[str, Judgement] = {}
        everyone = [t for g in groups for t in g.trajectories]
        for count in sorted({len(pairs) for pairs in told.values()}):
            mine = [t for t in everyone if len(told[t.id]) == count]
            shown = [t.but(completion=transcript(told[t.id])) for t in mine]
            rows = await self.judge.points(shown, criteria_for(self.dimensions, count), world) if count else [[] for _ in mine]
            found |= {t.id: self.judged(told[t.id], row) for t, row in zip(mine, rows, strict=True)}
        return [[found[t.id] for t in g.trajectories] for g in groups]

    def judged(self, pairs: Sequence[tuple[str, str]], points: Sequence[int]) -> Judgement:
        """Returns the judgement of an episode from the points in the order of `criteria_for`; a failure if the episode has no utterance."""
        if not pairs:
            return Judgement(Failed("the episode has no utterance to judge"))
        size = len(pairs) + 1
        scores = {name: points[k * size] for k, name in enumerate(self.dimensions)}
        attributed = {name: list(points[k * size + 1 : (k + 1) * size]) for k, name in enumerate(self.dimensions)}
        shares = {name: score / MOST for name, score in scores.items()}
        extra = Frozen(dialogue=[list(pair) for pair in pairs], scores=scores, attributions=attributed)
        return Judgement(sum(shares.values()) / len(shares), Frozen(shares), extra=extra)


def transcript(pairs: Sequence[tuple[str, str]]) -> str:
    """Returns the dialogue as lines. A line break within a text becomes a space."""
    return "\n".join(f"{who}: {' '.join(text.split())}" for pair in pairs for who, text in zip(("partner", "you"), pair, strict=True))


@dataclass(frozen=True)
class Utterances:
    """Makes one row per utterance: its history as `prompt`, the utterance in `answers`, and R in `rewards`."""

    spread: Spread = "scaled"
    weights: Frozen[float] = Frozen()  # dimension -> weight; a dimension without an entry has the weight 1
    reads: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        if self.spread not in ("scaled", "normalised", "equal"):
            raise UserError(f'Utterances.spread is "{self.spread}"; it must be "scaled", "normalised" or "equal"')

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"answers", "rewards"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns the rows in the order of the episodes. Failed and auxiliary episodes, and utterances with an attribution below 0, are left out."""
        kept = [t.extra for g in groups if not g.aside for t in g.trajectories if t.failed is None and "dialogue" in t.extra]
        values: dict[str, list[float]] = {}
        made: list[tuple[list[dict[str, str]], str]] = []
        for extra in kept:
            read = [i for i, marks in enumerate(zip(*extra["attributions"].values(), strict=True)) if min(marks) >= 0]
            made += [(history(extra["dialogue"], i), extra["dialogue"][i][1]) for i in read]
            for name, score in extra["scores"].items():
                spread = spread_score(score, [max(a, 0) for a in extra["attributions"][name]], self.spread)
                values.setdefault(name, []).extend(spread[i] for i in read)
        if not made:
            return []
        weights = np.array([self.weights.get(name, 1.0) for name in values])
        rewards = np.average([scaled(column) for column in values.values()], axis=0, weights=weights)
        return [{"prompt": before, "answers": [text], "rewards": [float(r)]} for (before, text), r in zip(made, rewards, strict=True)]


def history(pairs: Sequence[Sequence[str]], index: int) -> list[dict[str, str]]:
    """Returns the messages before utterance `index`."""
    both = [m for seen, said in pairs[:index] for m in ({"role": "user", "content": seen}, {"role": "assistant", "content": said})]
    return [*both, {"role": "user", "content": pairs[index][0]}]


@dataclass(frozen=True)
class LabelledUtterances:
    """Gives the recorded utterance of a row with its reward. Nothing is sampled. Evaluations play whole dialogues."""

    columns: ClassVar[frozenset[str]] = RecordedAnswers.columns

    @property
    def test(self) -> Auto:
        return Auto()

    def judges(self, task: Task) -> bool:
        return False

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        return await RecordedAnswers().run(requests, world)


@dataclass(frozen=True)
class SingleUtterances:
    """Samples utterances for the prompt of a row, without the partner's reply. Evaluations play whole dialogues."""

    @property
    def test(self) -> Auto:
        return Auto()

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        return await world.judge(await grouped(requests, world))


@dataclass(frozen=True)
class SocialStudy:
    """Measures the mean score of each dimension in whole dialogues on held-out problems."""

    problems: int = 256
    patience: int = 0  # the run stops early after this number of evaluations without improvement; 0: it never stops early
    target: float | None = None  # the run stops when held_out/accuracy reaches this number
    reward: Any = SocialScores()  # the reward that judges evaluations

    def __post_init__(self) -> None:
        check_ranges(self, problems="[1, inf)", patience="[0, inf)", target="[0, inf)")

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]:
        groups = await run.memory.answer(recipe, held_out_requests(world.task.held_out, self.problems, 1, world.task.level), world)
        episodes = [t for g in groups for t in g.trajectories]
        whole = [t for t in episodes if t.failed is None]
        names = [name for name in (whole[0].components if whole else ()) if name != "environment"]
        means = {f"held_out/{name}": sum(float(t.components[name]) for t in whole) / max(len(episodes), 1) for name in names}
        return {**of_problems([float(t.right) for t in episodes]), **means, "held_out/reward": sum(t.value for t in whole) / max(len(episodes), 1)}


LABEL = Frozen({"rollout": Auto(), "reward": SocialScores(), "objective": None, "players.reference": None, "setting.group": 4})
"""The fields that differ in stage `label`: whole dialogues, and no player learns."""

JUDGE = Frozen(
    {
        "rollout": LabelledUtterances(),
        "setting.prompts": 64,
        "objective": None,
        "players.reference": None,
        "players.judge.objective": Frozen(scores=LabelledScores(source="expert")),
        "players.judge.learns_from": "policy",
        "players.judge.credit": Constant(),
    }
)
"""The fields that differ in stage `judge`: labelled utterances, and only the reward model learns."""

POLICY = Frozen({"rollout": SingleUtterances(), "reward": RewardModel("judge"), "update.epochs": 2})
"""The fields that differ in stage `policy`: single utterances, scored by the reward model."""

sotopia_rl = grpo.derive(
    "sotopia_rl",
    "The scores of a dialogue are spread over its utterances in several dimensions. A reward model learns them, and GRPO trains single utterances.",
    family="rewards",
    players__judge=Player(Head(of=Copy("policy"), bias=False)),
    setting__group=16,
    schedule=Stages(
        Frozen(
            sft=Stage(sft, Steps(60)),
            label=Stage(until=Steps(30), changes=LABEL, makes=Utterances()),
            judge=Stage(until=Steps(60), changes=JUDGE, task="made:label"),
            policy=Stage(until=Steps(100), start="sft", changes=POLICY, task="made:label", players=Frozen(judge="judge.judge")),
        )
    ),
    study=SocialStudy(),
)

_TERMS = {
    "prompts": "8", "group": "16", "learning_rate": "1e-4", "warmup": "0", "eval_every": "0", "study.problems": "128",
    "schedule.stages.sft.until": "Steps(count=40)", "schedule.stages.sft.changes": '{"setting.learning_rate": 0.001}',
    "schedule.stages.label.until": "Steps(count=20)", "schedule.stages.judge.until": "Steps(count=40)", "schedule.stages.policy.until": "Steps(count=20)",
    "players.judge.optimizer": "AdamW", "players.judge.optimizer.lr": "3e-4",
}  # fmt: skip
_EXAM: dict[str, Any] = {"task": "negotiation", "options": {"skill": "0"}, "model": "gradus/policies/tiny/base", "fields": _TERMS, "budget": "steps=120"}
_EQUAL = "sotopia_rl --schedule.stages.label.makes.spread equal"

claims = (
    same_weights(
        says="Without stages and reward model, the final weights are those of GRPO.",
        source="arXiv:2508.03905: GRPO",
        against="grpo",
        own={"schedule": "ConstantSchedule", "players.judge": "none"},
        budget="steps=4",
    ),
    Claim(
        says="The goal score in whole dialogues is at least 1.1 times that of the same run in which every utterance gets the scores of its episode.",
        source="arXiv:2508.03905, ablation of the attribution; the factor, the task and the numbers of steps are ours",
        against=_EQUAL,
        measure="held_out/goal:last",
        at_least=1.1,
        **_EXAM,
    ),
    Claim(
        says="The relationship score is at least 0.95 times that of the same run.",
        source="arXiv:2508.03905, ablation of the attribution; the factor, the task and the numbers of steps are ours",
        against=_EQUAL,
        measure="held_out/relationship:last",
        at_least=0.95,
        **_EXAM,
    ),
)
