"""rStar2-Agent: an update uses half of the sampled answers. Right answers with few failed calls are preferred; wrong answers are chosen at random.

    R = 1 "if right, else" 0
    p = p_"err" + p_"form"
    p_"err" = ("failed calls") / ("calls"), quad 1/2 "without a call"
    p_"form" = min(1, (n_"answers" - 1) / n_"turns"), quad 1 "without a closed answer"
    O = "half of the right answers, drawn in proportion to" 1 / (p + 0.05), "and half of the wrong ones"
    A_i = (R_i - mean(R)) / (std(R)), quad i in O

An environment with tools is noisy: an answer can be right after many failed calls, and the outcome alone then rewards these calls. The selection
removes such answers (resampling on correct, RoC), and leaves the reward as it is. Wrong answers are not filtered, so the policy sees all kinds of
failure. For a problem 2 G = 32 answers are sampled and G = 16 are kept; a group with equal rewards is dropped before this choice. At least two right
and two wrong answers are kept, if the group has so many.

Apart from this, the method is GRPO with a clip of 0.2 and 0.28, a mean over tokens, and no KL and no entropy term. Results of tools have no loss. A
first stage of SFT teaches the form alone, without reasoning. In the stages of RL answers may have 8,000 tokens, later 12,000. The last stage has only
problems that the policy does not always solve. Metrics: reward/errors (share of failed calls), reward/answers (answer tags).

Use if: calls of tools often fail, and right answers differ in the number of failed calls.
Avoid if: calls never fail, because half of the samples are then dropped without a gain (see torl).
Reference: Shang et al., rStar2-Agent: Agentic Reasoning Technical Report, arXiv:2508.20722, sections 2 and 4, and the released code
(microsoft/rStar): the two penalties, 16 kept answers of 32, at least two kept answers of each kind, the clip, 128 problems. `--selection.draw lowest`
follows that code: it keeps the right answers with the lowest p.
Departures: The offset 0.05 is our choice; without it the probability of an answer with p = 0 is not defined. The released code takes the first wrong
answers in place of random ones, and keeps a whole group if both halves are below the least number. The released code counts a result as failed if it
contains the letters "error"; here the tool reports whether a call failed. Here a call is <tool_call>code</tool_call> within the answer; in the
released code it is a JSON object in a new turn. An answer ends an episode here, so every right answer has $p_"form"$ 0. The limit on tokens applies
to one piece; in the paper it applies to all pieces together. The paper has 510 steps of RL; their division and the 150 steps of SFT are our choices.
Each batch has one update, so the ratio is 1 and the clip never acts. The service for code and the scheduler of the paper are not part of the method.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from gradus.environments.tools import Tools
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.tool_calls import ran_share
from gradus.rollouts.episodes import Episodes
from gradus.schedules.stages import Stage, Stages
from gradus.selection.filters import learned
from gradus.study.screen import Screened
from gradus.tools.forms import TaggedCalls
from gradus.tools.python import Python
from gradus.types import Frozen, Group, Key, Trajectory
from gradus.types.moments import Steps
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def error_penalty(calls: Sequence[tuple[int, str, bool]]) -> float:
    """Returns the share of failed calls; 1/2 without calls."""
    return 1 - ran_share(calls, without=0.5)


def form_penalty(text: str, turns: int) -> float:
    """Returns (answers - 1) / turns, at most 1; 1 if no answer is closed, or if an answer tag is left open.

    >>> form_penalty("<answer>1</answer> or <answer>2</answer>", 4), form_penalty("1", 4)
    (0.25, 1.0)
    """
    closed = len(re.findall(r"<answer>.*?</answer>", text, re.DOTALL))
    if not closed or not turns or any(text.count(tag) != closed for tag in ("<answer>", "</answer>")):
        return 1.0
    return min(1.0, (closed - 1) / turns)


def chances(penalties: Sequence[float], offset: float = 0.05) -> np.ndarray:
    """Returns the probabilities of the first draw, float64 [n]: in proportion to 1 / (penalty + offset).

    >>> chances([0.25, 0.5, 1.0], 0.0).round(3).tolist()
    [0.571, 0.286, 0.143]
    """
    weights = 1 / (np.asarray(penalties, dtype=np.float64) + offset)
    return weights / weights.sum()


def drawn(penalties: Sequence[float], offset: float, key: Key) -> list[int]:
    """Draws all indices without replacement, and returns them in the order of the draws. Each draw is in proportion to 1 / (penalty + offset) of the
    remaining indices.
    """
    clocks = -np.log1p(-key.uniform(len(penalties))) * (np.asarray(penalties, dtype=np.float64) + offset)
    return [int(i) for i in np.argsort(clocks, kind="stable")]


@dataclass(frozen=True)
class ResampleOnCorrect:
    """Keeps `share` of the right and of the wrong answers of each group: right ones with few failed calls, wrong ones at random.

    Drops groups with equal rewards. The kept answers stay in their order.
    """

    share: float = 0.5
    offset: float = 0.05  # added to every penalty; with a larger offset the probabilities are more even
    least: int = 2  # smallest number of kept right answers, and of kept wrong answers, if the group has so many
    draw: Literal["sampled", "lowest"] = "sampled"  # "sampled" draws right answers with weights 1 / (penalty + offset), "lowest" takes the lowest penalties
    asks_right: ClassVar[str] = "Informative"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, share="(0, 1]", offset="(0, inf)", least="[0, inf)")

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept, gone = list[Group](), list[Group]()
        for group in groups:
            answers = learned(group)
            values = {t.value for t in answers}
            if len(values) > 1:
                kept.append(group.but(trajectories=tuple(answers[i] for i in self.chosen(answers, key.fold("correct", group.key)))))
            else:
                gone.append(group)
        return kept, gone

    def chosen(self, answers: Sequence[Trajectory], key: Key) -> list[int]:
        """Returns the indices of the kept answers in ascending order."""
        right, wrong = ([i for i, t in enumerate(answers) if t.right is kind] for kind in (True, False))
        total = max(1, round(len(answers) * self.share))
        least, other = (min(self.least, len(kind), total // 2) for kind in (right, wrong))
        count = min(max(round(len(right) * self.share), least), total - other)
        count = min(len(right), max(count, total - len(wrong)))
        penalties = [error_penalty(t.links.get("calls", ())) + form_penalty(t.completion, t.links.get("turns", 1)) for t in (answers[i] for i in right)]
        order = np.argsort(penalties, kind="stable").tolist() if self.draw == "lowest" else drawn(penalties, self.offset, key.fold("right"))
        lost = key.fold("wrong").permutation(len(wrong)).tolist()
        return sorted([*(right[i] for i in order[:count]), *(wrong[i] for i in lost[: total - count])])


@dataclass(frozen=True)
class OutcomeAlone:
    """The return of the environment. Two components, which do not change the reward, show the share of failed calls and the number of answers."""

    needs_tags: ClassVar[bool] = True  # an answer without tags is wrong
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        plain = await EnvironmentReturn().score(groups, signals, world)
        return [[self._judged(t, j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, plain, strict=True)]

    def _judged(self, trajectory: Trajectory, plain: Judgement) -> Judgement:
        errors = 1 - ran_share(trajectory.links.get("calls", ()), without=1.0)
        return replace(plain, components=Frozen({**plain.components, "errors": errors, "answers": float(trajectory.completion.count("<answer>"))}))


CODE = Tools(tools=Frozen(python=Python()), form=TaggedCalls("<tool_response>", "</tool_response>", names=(("tool_call", "python"),)), limit=10)
NOT_ALWAYS = Screened(low=0.0, high=1 - 1e-9)  # leaves out problems that are always solved

rstar2_agent = grpo.derive(
    "rstar2_agent",
    "Half of the sampled answers are trained: right answers with few failed calls are preferred, and wrong answers are drawn at random.",
    family="agents",
    environment=CODE,
    rollout=Episodes(max_turns=10),
    reward=OutcomeAlone(),
    selection=ResampleOnCorrect(),
    objective__policy__trust=Clip(low=0.2, high=0.28),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
    setting__prompts=128,
    setting__group=32,
    schedule=Stages(
        Frozen(
            sft=Stage(sft, Steps(150), changes=Frozen(environment=CODE)),
            short=Stage(until=Steps(300), changes=Frozen({"setting.max_tokens": 8000})),
            longer=Stage(until=Steps(90), changes=Frozen({"setting.max_tokens": 12000})),
            hard=Stage(until=Steps(120), changes=Frozen({"setting.max_tokens": 12000}), screen=NOT_ALWAYS),
        )
    ),
)

claims = (
    Claim(
        says="From a start that mistypes half of its first programs, the share of failed calls is at most 0.7 times that of training on all answers.",
        source=(
            "arXiv:2508.20722, figure 4 (fewer tool errors in right answers); the row's 30 percent; the start, the task and the sizes are ours; both "
            "arms train on as many answers"
        ),
        against="rstar2_agent --selection Informative --group 8",
        measure="reward/errors:last",
        at_most=0.7,
        task="python_tool",
        options={"level": "1", "instruction": "false"},
        fields={"prompts": "4", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "32", "study.greedy": "false", "schedule": "ConstantSchedule"},
        own={"group": "16"},
        budget="steps=16",
        script="benchmarks.warmed rstar2_agent",
        seeds=3,
    ),
)
