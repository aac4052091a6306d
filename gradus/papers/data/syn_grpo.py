"""Syn-GRPO: the policy also describes new pictures. Later batches show pictures that are painted from these descriptions, and diverse answers are rewarded.

    R_i = R_task + lambda R_div(d_i)
    R_div(d_i) = 1 - max_(j != i) |d_i cap d_j| / |d_i cup d_j|
    R_div(d) = 1 - 2 / (n (n - 1)) sum_(i < j) IoU(a_i, a_j)
    A_i = (R_i - mean(R)) / (std(R))

In its answer $o_i$ to a question about a picture the policy writes a description $d_i$ of another picture, between `<desc>` and `</desc>`. The task
draws this picture: the region of the asked object and the answer stay unchanged, and the other parts follow the description. The first form of
$R_div$ is the novelty of the description: one minus the largest overlap of its words with another description of the group. If the policy has already
answered a picture with exactly this description, the second form counts instead: one minus the mean overlap (IoU) of the n answers to this picture.
The overlap is 1 for equal boxes. For answers without boxes the overlap is 1 if they are equal, else 0. lambda is 0.5. Apart from this, the method is
GRPO.

After each step, the description with the largest $R_div$ of each group is kept for its problem. When the problem is drawn again, the new picture
replaces the original with chance 0.5. A description is dropped if its picture cannot be drawn, or if all answers to the picture have equal rewards.
Metrics: redrawn (share of the problems with a new picture), reward/described.

Use if: problems show pictures, the same problems come again many times, and their answers become alike.
Avoid if: the task cannot draw a picture with a known answer, or problems have no pictures (see mopps to choose among given problems).
Reference: Huang et al., Syn-GRPO: Self-Evolving Data Synthesis for MLLM Perception Reasoning, arXiv:2511.19343: descriptions by the policy, pictures
that keep the object, and a reward for diversity. Only the abstract could be read, not the authors' repository (hqhQAQ/Syn-GRPO).
Departures: Our own choices are both forms of $R_div$, lambda, the chance 0.5, the choice of one description per group and the rules for dropping. In
the paper an image model on a separate server draws the pictures; here the task draws a picture when the problem is requested. The reward has no part
for the form of an answer. If a task generates problems without end, the pool has 64 of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.curricula.shuffled_epochs import problems_at, sweep_order
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.diversity import between, disagreement, novelty
from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group, Problem, Request, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, Source, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

DRAWN = "drawn_from"
"""The column of a problem that holds the description of its new picture."""


@dataclass(frozen=True)
class Described(Combines):
    """Gives each answer the value of the description that it writes.

    If a picture was drawn from this description before, the value is the disagreement of the answers to that picture. Otherwise the value is the novelty of
    the description in the group.
    """

    opening: str = "<desc>"
    closing: str = "</desc>"
    name: ClassVar[str] = "described"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        if not self.opening or not self.closing:
            raise UserError("Described needs the marks before and after a description; set `opening` and `closing`, for example to <desc> and </desc>")

    def start(self) -> dict[str, float]:
        return {}

    async def score(
        self, groups: Sequence[Group], signals: Signals, world: World, state: dict[str, float]
    ) -> tuple[list[list[Judgement]], dict[str, float]]:
        """Returns the judgements and, by description, the disagreement of the last group of answers to its picture."""
        rows = []
        for group in groups:
            texts = [between(t.completion, self.opening, self.closing) for t in group.trajectories]
            values = [state.get(text, new) for text, new in zip(texts, novelty(texts), strict=True)]
            rows.append([Judgement(v, Frozen({self.name: v}), extra=Frozen(description=text)) for v, text in zip(values, texts, strict=True)])
        seen = {str(t.problem.meta[DRAWN]): disagreement([o.completion for o in g.trajectories]) for g, t in firsts(groups) if DRAWN in t.problem.meta}
        return rows, {**state, **seen}


def firsts(groups: Sequence[Group]) -> Iterator[tuple[Group, Trajectory]]:
    """Yields every group that has trajectories, with its first trajectory."""
    return ((group, group.trajectories[0]) for group in groups if group.trajectories)


@dataclass(frozen=True)
class Redrawn:
    """Requests the problems of shuffled passes. If a problem has a stored description, a picture drawn from the description replaces the problem's picture
    with probability `replace`."""

    replace: float = 0.5
    pool: int = 64  # number of problems in the pool, if the task generates problems without end

    def __post_init__(self) -> None:
        check_ranges(self, replace="[0, 1]", pool="[1, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task cannot draw pictures from descriptions."""
        if self.replace and task.redraw is None:
            raise UserError(f"task {task.name} cannot draw a picture from a description; use a task with `redraw`, such as shapes, or set --curriculum.replace 0")

    def start(self) -> dict[str, Any]:
        return {"drawn": 0, "kept": {}}

    def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state contains the number of problems drawn so far, and the stored description of each problem."""
        first, size = state["drawn"], self.pool if source.size is None else source.size
        places = sweep_order(size, range(first, first + count), world.seed)
        new = [self._shown(p, state["kept"].get(p.id), world, first + i) for i, p in enumerate(problems_at(source, places, world))]
        for problem in new:
            world.note("redrawn", float(DRAWN in problem.meta))
        return [Request(p, count=world.group, tags=("redrawn",) if DRAWN in p.meta else ()) for p in new], {**state, "drawn": first + count}

    def _shown(self, problem: Problem, description: str | None, world: World, place: int) -> Problem:
        if description is None or world.task.redraw is None or float(world.seed.fold("replace", place).uniform()) >= self.replace:
            return problem
        found = world.task.redraw(problem, description)
        return problem if found is None else replace(found, meta=Frozen({**found.meta, DRAWN: description}))

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Keeps, for each problem, the best description of its group that can be drawn. Drops a description whose picture gave equal rewards."""
        kept = dict(state["kept"])
        for group, first in firsts((*groups, *dropped)):
            problem = first.problem
            if DRAWN in problem.meta and len({t.value for t in group.trajectories if t.failed is None}) < 2:
                kept.pop(problem.id, None)
                continue
            told = [(float(v), str(t.extra.get("description") or "")) for t in group.trajectories if isinstance(v := t.components.get("described"), float)]
            drawable = [(v, text) for v, text in told if text and world.task.redraw is not None and world.task.redraw(problem, text) is not None]
            if drawable:
                kept[problem.id] = max(drawable, key=lambda pair: pair[0])[1]
        return {**state, "kept": kept}


syn_grpo = grpo.derive(
    "syn_grpo",
    "The policy describes further pictures, which the task draws around the same answer, and is rewarded for descriptions that make answers differ.",
    family="data",
    reward=Verified() + 0.5 * Described(),
    curriculum=Redrawn(),
    requires=frozenset({"images"}),
)

claims = (
    same_weights(
        says="Without new pictures and without the reward for descriptions, the final weights are those of GRPO over passes of the same problems.",
        source="arXiv:2511.19343, both parts at 0",
        against="grpo --curriculum SuccessRates --curriculum.factor 1 --curriculum.pool 16",
        own={"curriculum.replace": "0", "curriculum.pool": "16", "reward.weights.described": "0"},
        task="shapes",
        options={"kinds": "place"},
        fields={"prompts": "4", "group": "8", "study": "none"},
    ),
    Claim(
        says=(
            "On 32 questions for the place of a shape, the mean share of groups with a gradient over 24 steps (six passes) is at least 1.15 times that "
            "without new pictures."
        ),
        source=(
            "arXiv:2511.19343, results on the diversity of answers; size, task and pool are ours. The built-in model writes no tags, so the shapes that "
            "an answer names between see and = are its description, and the reward for descriptions is left out"
        ),
        against="syn_grpo --curriculum.replace 0",
        measure="informative:mean",
        at_least=1.15,
        task="shapes",
        options={"level": "2", "kinds": "place"},
        fields={
            "prompts": "8",
            "group": "8",
            "learning_rate": "3e-4",
            "study": "none",
            "curriculum.pool": "32",
            "reward.weights.described": "0",
            "reward.parts.described.opening": "see",
            "reward.parts.described.closing": "=",
        },
        budget="steps=24",
    ),
)
