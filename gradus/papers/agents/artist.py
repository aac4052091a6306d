"""ARTIST: thinking, programs and their outputs alternate inside one answer. The outcome is rewarded, and to a small degree the form and working calls.

    y = "<think>"..."</think>" "<python>"..."</python>" "<output>"..."</output>" ... "<answer>"..."</answer>"
    R = 2 "if right, else" 0, quad "plus" r_form + r_ran
    r_form = ("number of the four parts that follow in this order") / 4
    r_ran = ("calls without an error") / ("calls")
    A_i = (R_i - mean(R)) / (std(R))

The policy writes in pieces. A piece ends at </python>; the program runs in a sandbox, and its output, or the text of its error, is inserted between <output>
and </output>. So the policy can repair its program. Inserted outputs have no loss. Each of the parts think, python, output and answer adds a quarter to
$r_"form"$ if it is closed and stands after the counted parts before it. $r_"ran"$ is 0 without a call. So a right answer in full form with 3 of 4 calls that
ran earns 2 + 1 + 0.75 = 3.75. A wrong answer with the same form and calls earns 1.75. All rewards come at the end of the episode; no step is labelled. Apart
from this, the method is GRPO with groups of 6. Metrics: reward/form, reward/ran.

Use if: answers can be verified, programs help, and the model can write programs that often fail at first.
Avoid if: problems are easy without a program, because the form and the calls earn a reward in any case (see torl, which rewards the answer alone).
Reference: Singh et al., Agentic Reasoning and Tool Integration for LLMs via Reinforcement Learning, arXiv:2505.01441, sections 3 and 4.1: the template,
the mask, and the rewards 2 for the answer and the share of calls that ran. The authors give no code.
Departures: The paper adds several terms for the form; their sum is at most 1. The quarters and the limit of 5 pieces are our choices. The paper also
trains on function calls. In these tasks the reward is the share of right fields in the final state, plus the share of right calls. This part is left out,
because no task here has such a state. If the last line of a program is an expression, its value is printed. One update uses each batch, so the ratio is 1 and
the clip never acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.environments.tools import Tools
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.combine import Combines, Sum
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.tool_calls import ran_share, whole_text
from gradus.rollouts.episodes import Episodes
from gradus.tools.forms import TaggedCalls
from gradus.tools.python import Python
from gradus.types import Frozen, Group, UserError
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal


def in_order(text: str, order: Sequence[str]) -> float:
    """Returns the share of the tags of `order` that the text opens and closes in this order. A tag that is missing or comes too early does not count.

    >>> in_order("<think>a</think><answer>4</answer>", ("think", "python", "output", "answer"))
    0.5
    """
    at, found = 0, 0
    for tag in order:
        begin = text.find(f"<{tag}>", at)
        end = text.find(f"</{tag}>", begin)
        if begin >= 0 and end >= 0:
            at, found = end, found + 1
    return found / len(order)


@dataclass(frozen=True)
class OrderedParts(Combines):
    """The share of the parts `<NAME>...</NAME>` that stand in this order. The text includes the inserted results of tools."""

    order: tuple[str, ...] = ("think", "python", "output", "answer")
    name: ClassVar[str] = "form"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        if not self.order:
            raise UserError("OrderedParts.order is empty; give the names of the tags, such as think and answer")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = [[in_order(whole_text(t, world), self.order) for t in g.trajectories] for g in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in found]


@dataclass(frozen=True)
class CallsThatRan(Combines):
    """The share of an episode's calls of tools that ran without an error; 0 without calls."""

    name: ClassVar[str] = "ran"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = [[ran_share(t.links.get("calls", ())) for t in g.trajectories] for g in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in found]


artist = grpo.derive(
    "artist",
    "Programs run inside the answer. The reward is 2 for a right answer, up to 1 for the form, and the share of calls that ran.",
    family="agents",
    environment=Tools(tools=Frozen(python=Python()), form=TaggedCalls("<output>", "</output>"), limit=5),
    rollout=Episodes(max_turns=5),
    reward=Sum(Frozen(environment=EnvironmentReturn(), form=OrderedParts(), ran=CallsThatRan()), Frozen(environment=2.0)),
    setting__group=6,
)

_TERMS = {"prompts": "4", "group": "8", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "64"}

claims = (
    Claim(
        says="From a start that mistypes half of its first programs, accuracy is at least 0.15 above the same training without execution.",
        source="arXiv:2505.01441, table 1 (above text-only reasoning); the row's 15 points; the start, the task and the sizes are ours",
        against="artist --environment.calls=0",
        measure="accuracy",
        better_by=0.15,
        task="python_tool",
        options={"level": "1", "instruction": "false"},
        fields=_TERMS,
        budget="steps=16",
        script="benchmarks.warmed artist",
        seeds=3,
    ),
    Claim(
        says="From this start, at least 0.9 of the calls of an answer run without an error after 16 steps.",
        source=(
            "arXiv:2505.01441, section 5 (success of tool calls rises); the row's 90 percent; the start, the task and the sizes are ours; stated again "
            "after a look at a start whose programs all ran"
        ),
        measure="reward/ran:last",
        better_by=0.9,
        task="python_tool",
        options={"level": "1", "instruction": "false"},
        fields=_TERMS,
        budget="steps=16",
        script="benchmarks.warmed artist-ran",
        seeds=3,
    ),
)
