"""If no answer has solved a problem, shows solved examples in its prompt. Afterwards moves the answers back to the plain prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.rollouts.allot import joined
from gradus.rollouts.attempts import nearest, newest_of_others, remembered
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.mismatched_prompts import opening
from gradus.rollouts.reprompted import reprompted
from gradus.types import Frozen, Group, Request, UserError
from gradus.types.parts import Rollout, Task, World
from gradus.types.prompts import before, prompt_of
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Seeded:
    """If all first answers to a problem were wrong, a share of the further answers gets a prompt with solved examples.

    A request with `sample` above 0 asks for further answers. The examples are the nearest solved problems, each with the newest right answer of the policy. The
    examples are removed afterwards: a seeded answer then has the plain prompt, with new log-probabilities. If the prompt with examples fills more than half
    of the model's context, no examples are shown. Metric: seeded (share of seeded answers in a request).

    Reference: Bamba et al., XRPO, arXiv:2510.06672. The share of one half and the TF-IDF measure are not from the paper.
    """

    rollout: Rollout = Auto()
    examples: int = 2
    share: float = 0.5  # share of the further answers that see examples; their number is rounded down
    most: int = 1000  # largest number of remembered solved problems; the oldest are removed first
    asks_right: ClassVar[str] = "Auto"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, examples="[1, inf)", share="[0, 1)", most="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task has an environment."""
        if task.environment is not None:
            raise UserError(
                f"Seeded works only for answers of one turn, but task {task.name} has several turns; choose a task of one turn, or use the "
                "rollout Auto in place of Seeded"
            )

    def start(self) -> dict[str, Any]:
        return {"solved": {}, "wrong": []}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """Returns one judged group per request, and the state with the problems whose first answers were all wrong."""
        seeds = [self._seeded(r, world, state) for r in requests]
        plain = [replace(r, count=r.count - (s.count if s else 0)) for r, s in zip(requests, seeds, strict=True)]
        groups = one_each(await rolled(self.rollout, plain, world), plain, self)
        asked = [s for s in seeds if s is not None]
        found = iter(one_each(await rolled(self.rollout, asked, world), asked, self) if asked else ())
        for i, seed in enumerate(seeds):
            if seed is not None:
                groups[i] = joined(groups[i], await unseeded(next(found), groups[i], world))
            world.note("seeded", seed.count / requests[i].count if seed else 0.0)
        wrong = [r.problem.id for r, g in zip(requests, groups, strict=True) if not r.sample and g.accuracy == 0.0]
        return groups, {**state, "wrong": [*state["wrong"], *wrong]}

    def _seeded(self, request: Request, world: World, state: dict[str, Any]) -> Request | None:
        """Returns the request for the seeded part of the further answers; None if this part is empty."""
        count = int(self.share * request.count)
        others = newest_of_others(state["solved"], request.problem.id)
        if not request.sample or not count or not others or request.problem.id not in state["wrong"]:
            return None
        chosen = nearest(request.problem.question, [question for question, *_ in others], self.examples)
        text = "\n".join(f"{others[i][0]}\n{others[i][1]}" for i in reversed(chosen))
        prompt = before(prompt_of(request, world.task.system), text)
        if 2 * len(world.opening(prompt, request.player).sequence) > world.context_length(request.player):
            return None
        return replace(request, count=count, prompt=prompt, sample=request.sample + request.count - count, tags=(*request.tags, "seeded"))

    async def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state with the right answers of the step. The problems of the step are no longer marked as wrong."""
        right = [t for g in (*groups, *dropped) for t in g.trajectories if t.right and t.source == "policy"]
        return {"solved": remembered(state["solved"], right, attempts=1, problems=self.most), "wrong": []}


async def unseeded(group: Group, plain: Group, world: World) -> Group:
    """Returns the group with the prompt of the group `plain`. The log-probabilities of the answers are computed after this prompt."""
    moved = await reprompted(group, opening(plain.trajectories[0].contexts[0]), world)
    return moved.but(trajectories=tuple(t.but(links=Frozen({**t.links, "seeded": True})) for t in moved.trajectories))
