"""TimeHC-RL: the policy chooses one of three depths of thought, and right answers earn a bonus if the order of the events helps to find them.

    R = 0.1 1{"form right"} + 1{"answer right"} + R_time
    R_time = alpha "if the answer is right and" p >= mu tilde p, quad "else" 0
    A_i = (R_i - mean(R)) / (std(R))

A problem tells events in the order in which they happened. A group G answers the problem. A second group answers the same problem with the events in another,
random order; no update uses this group. The shares of right answers are p in the first group and $tilde p$ in the second; mu is 0.8, and alpha is 0.3. So an
answer that does not use the order also gets the bonus. A policy that is better on shuffled events gets no bonus.

Three forms are right: `<answer>` alone (intuition), `<social>` and `<answer>` (a look at the situation first), and `<social>`, `<think>` and
`<answer>` (careful thought). Apart from this, the method is GRPO with a KL weight of 0.001. Metrics: reward/temporal, reward/form, sibling_reward.

If all answers of a group have the same form, the bonus has no effect, because rewards are divided by the deviation: right answers get the same advantage with
and without the bonus. The bonus acts if forms differ within a group, or without the division, as in `--credit.scale none`.

Use if: questions are about events whose order decides the answer, and easy questions need no long thought.
Avoid if: the order does not matter, or only few problems have events.
Reference: Hou et al., TimeHC-RL: Temporal-aware Hierarchical Cognitive Reinforcement Learning for Enhancing LLMs' Social Intelligence,
arXiv:2505.24500: hierarchical forms, the contrast of ordered and shuffled events. Only the abstract and overviews could be read; the public
repository (ZJU-REAL/TimeHC-RL) has no code yet.
Departures: Our own choices are the weight 0.1 of the form, mu, alpha, the sizes 8 and 4 of the groups, and the name of the tag `social`. The problems
of the task `beliefs` are generated, with beliefs of the first order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.rewards.tags import in_tags
from gradus.rollouts.auto import Auto
from gradus.rollouts.siblings import with_siblings
from gradus.types import Frozen, Group, Key, Problem, Request, Trajectory
from gradus.types.parts import Judgement, Rollout, Signals, Task, World
from gradus.types.prompts import Prompt, prompt_of
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

DEPTHS = (("answer",), ("social", "answer"), ("social", "think", "answer"))


def form(completion: str) -> float:
    """Returns 1.0 if the completion has exactly one of the three forms, else 0.0.

    >>> form("<answer>box</answer>"), form("<think>x</think><answer>box</answer>")
    (1.0, 0.0)
    """
    return float(any(in_tags(completion, order) for order in DEPTHS))


@dataclass(frozen=True)
class ShuffledGroups:
    """Lets the policy answer every problem a second time, with its `events` in a random order that differs from the given order. No update uses these
    answers.

    A prompt without events, or with only one event, does not change. The second groups are judged and stored as in `SiblingGroups`.
    """

    rollout: Rollout = Auto()
    column: str = "events"  # the column with the texts, in order
    joint: str = ". "  # the text between two events in the prompt
    count: int = 4  # answers to the shuffled prompt
    gives: ClassVar[frozenset[str]] = frozenset({"siblings"})

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def judges(self, task: Task) -> bool:
        """Whether the trajectories of `rollout` need judging."""
        return bool(getattr(self.rollout, "judges", lambda _: True)(task))

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request. Raises UserError if `rollout` gives more or fewer groups."""
        return await with_siblings(requests, [self._shuffled(r, world) for r in requests], self, world)

    def _shuffled(self, request: Request, world: World) -> Request:
        key = world.key.fold("rewording", request.problem.id)
        return replace(request, prompt=self.of(prompt_of(request, world.task.system), request.problem, key), count=self.count)

    def of(self, prompt: Prompt, problem: Problem, key: Key) -> Prompt:
        """Returns the prompt with the events in another order."""
        events = [str(event) for event in problem.meta.get(self.column, ())]
        if len(set(events)) < 2:
            return prompt
        told, order = self.joint.join(events), key.permutation(len(events)).tolist()
        shuffled = next(text for n in range(len(events)) if (text := self.joint.join(events[i] for i in [*order[n:], *order[:n]])) != told)
        if isinstance(prompt, str):
            return prompt.replace(told, shuffled)
        return tuple({**m, "content": m["content"].replace(told, shuffled)} if isinstance(m["content"], str) else m for m in prompt)


@dataclass(frozen=True)
class OrderBonus(Combines):
    """The verdict, plus `form` times the form, plus `alpha` for a right answer if p >= mu * p~. p is the accuracy of the group, and p~ is the accuracy of its
    sibling.

    The sibling is the untrained group of the same problem (`ShuffledGroups`). Without a sibling there is no bonus.
    """

    alpha: float = 0.3
    mu: float = 0.8
    form: float = 0.1
    name: ClassVar[str] = "order_bonus"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, inf)", mu="[0, inf)", form="[0, inf)")

    def terms(self, trajectory: Trajectory, verdict: float) -> Terms:
        formed = form(trajectory.completion)
        return verdict + self.form * formed, {"form": formed, "temporal": 0.0}

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        plain = await beside_verdict(groups, world, self.terms)
        shares = [share_right(row) for row in plain]
        second = {g.trajectories[0].problem.id: s for g, s in zip(groups, shares, strict=True) if g.trajectories and is_sibling(g)}
        return [
            [self.paid(j) if not is_sibling(g) and self.due(p, second.get(t.problem.id)) else j for t, j in zip(g.trajectories, row, strict=True)]
            for g, p, row in zip(groups, shares, plain, strict=True)
        ]

    def due(self, p: float | None, other: float | None) -> bool:
        """Returns whether right answers get the bonus: p >= mu * p~. False if one of the shares is unknown."""
        return p is not None and other is not None and p >= self.mu * other

    def paid(self, judgement: Judgement) -> Judgement:
        """Adds the bonus to the judgement of a right answer."""
        if not is_right(judgement):
            return judgement
        return replace(judgement, reward=judgement.reward + self.alpha, components=Frozen({**judgement.components, "temporal": 1.0}))  # type: ignore[operator]


def is_right(judgement: Judgement) -> bool:
    verdict = judgement.components.get("verified")
    return isinstance(verdict, int | float) and verdict >= 1


def is_sibling(group: Group) -> bool:
    return not any(t.trained for t in group.trajectories)


def share_right(row: Sequence[Judgement]) -> float | None:
    """Returns the share of right answers among the answers with a verdict; None if no answer has a verdict."""
    known = [is_right(j) for j in row if isinstance(j.reward, int | float)]
    return sum(known) / len(known) if known else None


timehc_rl = grpo.derive(
    "timehc_rl",
    "The policy chooses one of three depths of thought, and right answers earn a bonus if the order of events helps to find them.",
    family="rewards",
    reward=OrderBonus(),
    rollout=ShuffledGroups(),
    objective__kl__coefficient=0.001,
    setting__group=8,
)

_BELIEFS = {
    "prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "study": "none", "credit.scale": "none",
}  # fmt: skip

claims = (
    same_weights(
        says="Without bonus and form, the final weights are those of GRPO with the same KL weight: the second group is never trained on.",
        source="arXiv:2505.24500, outcome alone",
        against="grpo --objective.kl.coefficient 0.001",
        own={"reward.alpha": "0", "reward.form": "0"},
    ),
    Claim(
        says="Without division by the deviation, held-out accuracy after 15 steps is at least 0.02 above that without the bonus.",
        source="arXiv:2505.24500, temporal reward; the task, the start model, the sizes and the bound are ours",
        against="timehc_rl --reward.alpha 0",
        measure="accuracy",
        better_by=0.02,
        task="beliefs",
        options={"level": "2"},
        fields=_BELIEFS,
        budget="steps=15",
        problems=200,
        script="benchmarks.warmed timehc_rl",
    ),
)
