"""MathSmith: a writer invents problems from random concepts. The writer's reward is high if the answers of a frozen solver are long and agree.

    R = r_format + 0.7 r_len + 0.3 r_cons
    r_format = 0.7 + 0.3 r_step
    r_step = n / 5 "if" n <= 5, quad "else" max(1 - (n - 5) / 5, 0)
    r_len = 1/k sum_(j=1)^k |y_j| / L
    r_cons = 1 "if the most frequent answer occurs" 2 "times or more, else" 0
    A_i = (R_i - mean(R)) / (std(R))

The prompt shows random concepts. The writer gives a rationale between `<rationale>` and `</rationale>`, and a problem between `<problem>` and
`</problem>`; n is the number of different step labels in the rationale, such as "Step 2". Without both parts R is 0. A frozen solver reads the
problem alone and answers it k = 3 times at temperature 0.3. $|y_j|$ is the number of tokens of answer j, and L the limit of an answer. $r_len$
measures difficulty, and $r_cons$ shows whether a problem is well posed. Apart from this, the method is GRPO. The variant for hard problems has no
$r_cons$, and $r_len$ has the weight 1. The solver is the start model of the run; `--players.solver.model` names another model. Metrics: reward/form,
reward/length, reward/agreement.

The writer first learns the form from given problems, and a student learns the forged problems in a later stage. The harvest `Forged` labels problems
with the majority answer: `Stages(Frozen(forge=Stage(makes=Forged()), student=Stage(recipe=sft, start="first", task="made:forge")))`.

Use if: a good solver exists, but hard problems for a student are few, and concepts for new problems can be listed.
Avoid if: problems with known answers suffice (see grpo, sec), or the length of the solver's answers does not show the difficulty.
Reference: Zhan et al., MathSmith: Towards Extremely Hard Mathematical Reasoning by Forging Synthetic Problems with a Reinforced Policy,
arXiv:2508.05592: the three rewards and their weights, three answers, and concepts from PlanetMath. The released reward (Jasaxion/MathSmith) has L =
32768. The released script has groups of 6, a KL coefficient of 0.001, and three updates per batch.
Departures: All tokens of an answer count, not only the thinking before `</think>`. A missing problem is not sent to the solver; the released code
sends a sentence that asks for no thinking. Three parts are left out: the nucleus and the top 20 of the solver's sampling, the nine strategies of
difficulty as hints, and the module that forges variants of the student's wrong problems. Group, KL coefficient and number of updates are as in the
base grpo. The concepts of the task `forging` are string functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.downstream import AgreedAnswers, Downstream, ReplyLength
from gradus.types import Frozen, Group, unknown
from gradus.types.answers import answered
from gradus.types.parts import Judgement, Signals, World
from gradus.types.players import Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

_STEP = re.compile(r"\bstep\s*(\d+)\b", re.IGNORECASE)
_SOLVED = Downstream(
    Frozen(length=ReplyLength(32768), agreement=AgreedAnswers(2)), player="solver", samples=3, temperature=0.3, max_tokens=32768,
)  # fmt: skip


def written(completion: str, tag: str) -> str:
    """Returns the first text between `<tag>` and `</tag>`, without spaces at its ends; "" if a mark is missing.

    >>> written("so <problem> 1+2 </problem>", "problem")
    '1+2'
    """
    _, opened, rest = completion.partition(f"<{tag}>")
    inside, closed, _ = rest.partition(f"</{tag}>")
    return inside.strip() if opened and closed else ""


def form(completion: str, steps: int = 5) -> float:
    """Returns r_format: 0 if rationale or problem is missing, else 0.7 and up to 0.3 for `steps` different step labels in the rationale.

    >>> form("<rationale>Step 1 a Step 2 b</rationale><problem>1+1</problem>")
    0.82
    """
    rationale = written(completion, "rationale")
    if not rationale or not written(completion, "problem"):
        return 0.0
    n = len(set(_STEP.findall(rationale)))
    return 0.7 + 0.3 * (n / steps if n <= steps else max(1 - (n - steps) / steps, 0.0))


@dataclass(frozen=True)
class ForgedProblem(Combines):
    """The reward of an invented problem: a score for its form plus the value of the solver's answers. The reward is 0 if rationale or problem is missing."""

    solved: Downstream = _SOLVED
    weights: Frozen[float] = Frozen(length=0.7, agreement=0.3)  # weights of the measures of `solved`; a measure without an entry has the weight 1
    steps: int = 5  # the number of steps of a rationale that earns the largest reward
    name: ClassVar[str] = "forged"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True  # no problem is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, steps="[1, inf)")
        for name in self.weights:
            if name not in self.solved.measures:
                raise unknown("measure", name, self.solved.measures, "ForgedProblem.weights names it")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        problems = [g.but(trajectories=tuple(t.but(completion=written(t.completion, "problem")) for t in g.trajectories)) for g in groups]
        found = await self.solved.score(problems, signals, world)
        return [[self.judged(t.completion, j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, found, strict=True)]

    def judged(self, completion: str, solved: Judgement) -> Judgement:
        """Returns the judgement of a completion from the judgement of the solver's answers."""
        value = form(completion, self.steps)
        weighted = sum((self.weights.get(name, 1.0) * float(v) for name, v in solved.components.items()), 0.0)  # type: ignore[arg-type]
        components = Frozen(form=value, **{name: v if value else 0.0 for name, v in solved.components.items()})
        return replace(solved, reward=value + weighted if value else 0.0, components=components)


@dataclass(frozen=True)
class Forged:
    """Makes demonstrations: invented problems whose majority answer occurs at least `least` times, each with the first reply that has this answer."""

    least: int = 2

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"solution"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per different problem, in the order of their first mention."""
        found: dict[str, dict[str, Any]] = {}
        for t in (t for g in groups if not g.aside for t in g.trajectories):
            replies = [str(text) for text in t.extra.get("replies", ())]
            counts = Counter(said for text in replies if (said := answered(text)) is not None)
            best, count = counts.most_common(1)[0] if counts else (None, 0)
            if count >= self.least and form(t.completion):
                solution = next(text for text in replies if answered(text) == best)
                found.setdefault(str(t.extra["written"]), {"prompt": str(t.extra["written"]), "answer": str(best), "solution": solution})
        return list(found.values())


mathsmith = grpo.derive(
    "mathsmith",
    "A writer invents problems from concepts, and is rewarded for the length and the agreement of a frozen solver's answers.",
    family="data",
    reward=ForgedProblem(),
    players__solver=Player(),
)

claims = (
    same_weights(
        says="With the task's verdict in place of the solver's answers, the final weights are those of GRPO.",
        source="arXiv:2508.05592, without the solver",
        against="grpo",
        own={"reward": "Verified"},
    ),
    Claim(
        says=(
            "After 12 steps from a writer that was shown the form, the mean length of the solver's answers to the written problems, 0 for a "
            "missing problem, is at least 1.25 times that of the untrained writer."
        ),
        source="arXiv:2508.05592, reward for the length of thinking; task, solver, sizes and the factor are ours",
        against="mathsmith --setting.learning_rate 0",
        measure="reward/length:last",
        at_least=1.25,
        task="forging",
        fields={
            "prompts": "4", "group": "8", "warmup": "0", "study": "none", "players.solver.model": "gradus/policies/tiny/base",
            "reward.solved.max_tokens": "96", "reward.solved.measures.length.most": "96",
        },
        own={"setting.learning_rate": "5e-4"},
        budget="steps=12",
        script="benchmarks.warmed mathsmith",
    ),
)  # fmt: skip
