"""TAPO: DAPO with search and code inside the answer. Calls earn nothing, so the policy calls a tool only if the call helps.

    y = b_1 b_2 ... b_n, quad b_k in {"<think>", "<search>", "<code>", "<response>", "<answer>"}, quad b_n = "<answer>"
    R = s + max(-1, min(-("len"(y) - (L - B)) / B, 0))
    s = -1 "if" y "is not such a row of blocks, else" m(a, a^*)
    loss = mean over tokens of -min(rho_t A_t, clip(rho_t, 1 - 0.2, 1 + 0.28) A_t)

A block is <NAME>...</NAME>, and only blanks stand between blocks. At </search> or </code> the tool runs, and its result is inserted as a block
<response>, which has no loss. a is the last answer. The measure m depends on the source of the problem. "math" compares words after normalisation.
"nq" gives 1 if a contains the right answer. Otherwise, with d the edit distance divided by the longer length, "nq" gives 1 - d for d below 0.5, else
0. "calculator" gives 1 for an error below 0.001, and "complex" gives 1 for a relative error below 0.05. If several answers are stored, the largest
measure counts. An answer is right if s > 0.9. The length penalty is added to s, even if s is -1; L is 2048 and B is 1024.

Groups whose answers are all right or all wrong are dropped, and further problems are sampled, up to ten rounds. A batch has 64 problems with 4 answers each,
and is used for four updates. There is no KL term. The paper trains on easy problems (one fact, or one computation) and on hard ones that need both.

Use if: some problems need a search, some need a computation, and some need both or neither.
Avoid if: the form is not yet learned, because nearly every answer then earns -1; train on demonstrations first (see sft).
Reference: Wu et al., Tool-Augmented Policy Optimization: Synergizing Reasoning and Adaptive Tool Use with Reinforcement Learning, arXiv:2510.07038,
sections 3 and 4, and the released code (Goer17/TAPO): reward, penalty, sizes, one passage per search.
Departures: The released code skips a stray word before a block; here, as in the paper, such a text earns -1. The length counts only the tokens of the
policy; the released code also counts the inserted results. The source is the column `data_source` of a problem, and "math" if there is none. The tool
for code has the name calculate, as in the task search_qa, and the tag code. The penalty is never below -1; in the released code it has no such bound.
That code measures the last 100 characters of an answer; here the edit distance uses the first 2000 characters, and every other measure uses the whole
answer. The released loss is also constant above ratio 10 if A < 0. An episode has at most 8 pieces; in the released code it has at most 5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.environments.tools import Tools
from gradus.papers.bases.dapo import dapo
from gradus.recipe.claim import Claim
from gradus.rewards.combine import Combines
from gradus.rewards.overlap import Matches
from gradus.rewards.overlong import Overlong
from gradus.rewards.tool_calls import whole_text
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.episodes import Episodes
from gradus.tools.forms import TaggedCalls
from gradus.tools.python import Python
from gradus.tools.search import Search
from gradus.types import Failed, Frozen, Group, Problem, Trajectory, unknown
from gradus.types.edits import edit_distance
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal

_BLOCK = re.compile(r"\s*<(think|search|code|response|answer)>(.*?)</\1>\s*", re.DOTALL)
_NUMBERS = dict(zip(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), map(str, range(1, 13)), strict=True))


def blocks(text: str) -> list[tuple[str, str]] | None:
    """Returns the blocks of a text as pairs (tag, content). Returns None if other text stands between blocks, or if the last block is no answer.

    >>> blocks("<think>a</think> <answer>4</answer>"), blocks("<think>a</think> so <answer>4</answer>")
    ([('think', 'a'), ('answer', '4')], None)
    """
    found, at = list[tuple[str, str]](), 0
    while at < len(text):
        match = _BLOCK.match(text, at)
        if match is None:
            return None
        found.append((match[1], match[2].strip()))
        at = match.end()
    return found if found and found[-1][0] == "answer" else None


def plain(text: str) -> str:
    """Returns an answer in lower case, with digits for the words one to twelve, and without commas in a whole number."""
    text = text.strip().lower()
    text = _NUMBERS.get(text, text)
    return text.replace(",", "") if text.replace(",", "").isdigit() else text


def _number(text: str) -> complex | None:
    try:
        return complex(text)
    except ValueError:
        return None


def exact(said: str, due: str) -> float:
    """Returns 1 for equal texts."""
    return float(said == due)


def fact(said: str, due: str) -> float:
    """Returns 1 if the right answer is part of the text. Otherwise returns 1 - d for a relative edit distance d below 0.5, and 0 for a larger d.

    >>> fact("abcd", "abce"), fact("abcd", "wxyz")
    (0.75, 0.0)
    """
    if due in said:
        return 1.0
    distance = edit_distance(said[:2000], due) / max(len(said[:2000]), len(due))
    return 1 - distance if distance < 0.5 else 0.0


def near(said: str, due: str) -> float:
    """Returns 1 for two numbers that differ by less than 0.001."""
    a, b = _number(said), _number(due)
    return float(a is not None and b is not None and abs(a - b) < 1e-3)


def relative(said: str, due: str) -> float:
    """Returns 1 for a number whose relative error is below 0.05. Only digits, signs and points of the text count."""
    a, b = _number(re.sub(r"[^0-9+.-]", "", said)), _number(due)
    return float(a is not None and b is not None and abs(a - b) < 0.05 * abs(b))


MEASURES: Mapping[str, Callable[[str, str], float]] = Frozen(math=exact, nq=fact, calculator=near, complex=relative)


@dataclass(frozen=True)
class StrictBlocks(Combines):
    """Gives -1 to a text that is no row of blocks, else the measure of its answer. Adds the length penalty `overlong`.

    The component `verified` is 1 for a measure above 0.9. The components `search` and `code` are the numbers of these blocks.
    """

    source: str = "math"  # source of a problem without the column `data_source`: math, nq, calculator or complex
    overlong: Overlong = Overlong(2048, share=0.5)
    name: ClassVar[str] = "blocks"
    needs_tags: ClassVar[bool] = True  # a text without tags earns -1
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        if self.source not in MEASURES:
            raise unknown("source", self.source, MEASURES, "StrictBlocks.source names a measure")

    def of(self, problem: Problem, text: str) -> tuple[float, Mapping[str, float]]:
        """Returns s and the components of a text."""
        found = blocks(text.strip())
        if found is None:
            return -1.0, {"verified": 0.0, "search": 0.0, "code": 0.0}
        measure = MEASURES[problem.meta.get("data_source", self.source)]
        stored = problem.answer if isinstance(problem.answer, list | tuple) else [problem.answer]
        score = max(measure(plain(found[-1][1]), plain(str(due))) for due in stored)
        return score, {"verified": float(score > 0.9), **{tag: float(sum(name == tag for name, _ in found)) for tag in ("search", "code")}}

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        long = await self.overlong.score(groups, signals, world)
        return [[self._judged(t, penalty, world) for t, penalty in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, long, strict=True)]

    def _judged(self, trajectory: Trajectory, penalty: Judgement, world: World) -> Judgement:
        if isinstance(trajectory.reward, Failed):
            return Judgement(trajectory.reward)
        score, components = self.of(trajectory.problem, whole_text(trajectory, world))
        return Judgement(score + float(penalty.reward), Frozen({**components, **penalty.components}))  # type: ignore[arg-type]


tapo_tool = dapo.derive(
    "tapo_tool",
    "DAPO with search and code inside the answer: a strict form, an answer measured by its source, and no reward for calls.",
    family="agents",
    environment=Tools(
        tools=Frozen(search=Search(top=1), calculate=Python(name="calculate")),
        form=TaggedCalls("<response>", "</response>", names=(("code", "calculate"),)),
        verify=Matches("exact"),
    ),
    rollout=DynamicSampling(rollout=Episodes()),
    reward=StrictBlocks(),
    setting__prompts=64,
    setting__group=4,
    update__count=4,
)

_TERMS = {
    "prompts": "6", "group": "8", "learning_rate": "2e-4", "eval_every": "0", "study.problems": "40", "study.greedy": "false", "update.count": "2",
    "rollout.rounds": "2",
}  # fmt: skip

claims = (
    Claim(
        says="On sums of a fact and a number, accuracy is at least 0.2 above the same training without results of tools.",
        source="arXiv:2510.07038, table 2 (above DAPO without tools); the row's 20 points; the start, the task and the sizes are ours",
        against="tapo_tool --environment.calls=0",
        measure="accuracy",
        better_by=0.2,
        task="search_qa",
        options={"level": "1", "people": "40", "calculator": "true", "instruction": "false"},
        fields=_TERMS,
        budget="steps=12",
        problems=40,
        samples=4,
        script="benchmarks.warmed tapo_tool",
        seeds=3,
    ),
)
