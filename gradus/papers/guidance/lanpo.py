"""LANPO: some prompts contain past attempts as text, and only the reward changes the weights.

    G/2 "answers to" x, quad G/4 "to" (x, y), quad G/4 "to" (z, x)
    z ~ pi_old(z | x_1, y_1, r_1, ..., x_k, y_k, r_k), quad cos(x, x_j) >= 0.3
    A_i = (r_i - mean(r)) / (std(r)) quad "over the answers with the same kind of prompt"
    loss = 1/G sum_i 1/|o_i| sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i) + 0.04 k_3]

The answers to a problem x have three kinds of prompts. The plain kind has x alone. The prompt "reflection" shows an earlier attempt y at the same
problem, with the request to check it. The prompt does not show whether y was right, and y is chosen without regard to its reward. So the prompt contains no
label that the policy could copy. The lesson z comes from other problems. The policy reads the k = 2 most similar problems of the pool, each with an attempt
and its verdict. From these it writes one general lesson. Only the lesson is shown before x, never a raw attempt. If no other problem has a
similarity of 0.3, these answers get the plain prompt.

The policy learns each answer under the prompt from which the answer was sampled. The advantage compares an answer only with answers of the same kind,
because a reflection is easier than a first answer. No update uses the words of the lessons. After each step, the pool takes all answers with their
rewards. A problem without a stored attempt reflects on one of the plain answers of the same step. Evaluation has plain prompts. Metrics: reflected
and lessons (shares of the answers with these kinds).

Use if: problems are repeated or resemble each other, and the policy can correct an attempt that it reads.
Avoid if: problems have nothing in common, or the policy ignores text before the problem (see grpo).
Reference: Li et al., LANPO: Bootstrapping Language and Numerical Feedback for Reinforcement Learning in LLMs, arXiv:2510.16552: a pool of past trials,
reflection on the same problem without the reward, lessons from related problems, and numbers alone in the update.
Departures: Only the abstract and summaries of the paper were read. Only the two principles come from the paper. Our own choices are the shares, the
similarity (TF-IDF), the floor 0.3, k, the forms, both fallbacks (the plain prompt, and an attempt of the same step) and the advantage within each
kind. A lesson comes from the newest attempt at each similar problem. If all answers of a kind have equal rewards, they have no gradient, because
kinds are not compared with each other. A pool keeps the last 8 attempts at each of 1,000 problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from gradus.credit.within import Linked, Within
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.attempts import Attempts, attempts_at, nearest, newest_of_others, remembered
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.types import Frozen, Group, Request
from gradus.types.parts import Rollout, World
from gradus.types.prompts import after, before, filled, prompt_of
from gradus.types.ranges import check_ranges

CHECK = "{attempt}\nThis attempt may be right or wrong. Check it, then solve the problem."
ABOUT = "{question}\n{attempt}\nThis was {verdict}."
ASK = "Write one general lesson."
KIND = "prompt"  # the link with the kind of an answer's prompt: plain, reflection, lesson


@dataclass(frozen=True)
class Experienced:
    """A share of the answers to a problem gets a prompt with an earlier attempt, and another share gets a prompt with a lesson from similar problems."""

    rollout: Rollout = Auto()
    reflect: float = 0.25  # share of the answers that see an attempt; the number is rounded down
    abstract: float = 0.25  # share of the answers that see a lesson
    floor: float = 0.3  # a lesson comes only from problems with at least this similarity
    neighbours: int = 2  # largest number of problems from which a lesson comes
    problems: int = 1000  # largest number of problems in the pool; the oldest are removed first
    attempts: int = 8  # largest number of stored attempts per problem

    def __post_init__(self) -> None:
        check_ranges(self, reflect="[0, 0.5]", abstract="[0, 0.5]", floor="[0, 1]", neighbours="[1, inf)", problems="[1, inf)", attempts="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def start(self) -> dict[str, Any]:
        return {"pool": {}}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """Returns one judged group per request. The state does not change."""
        shares = [(int(self.reflect * r.count), int(self.abstract * r.count)) for r in requests]
        plain = [replace(r, count=r.count - sum(s)) for r, s in zip(requests, shares, strict=True)]
        groups = [of_kind(g, "plain") for g in one_each(await rolled(self.rollout, plain, world), plain, self)]
        lessons = await self._lessons(requests, state["pool"], world)
        asked = [
            made
            for r, g, (seen, told), lesson in zip(requests, groups, shares, lessons, strict=True)
            for made in (self._reflection(r, g, seen, state["pool"], world), with_lesson(r, lesson, told, world))
        ]
        due = [r for r in asked if r.count]
        found = iter(one_each(await rolled(self.rollout, due, world), due, self) if due else [])
        more = [of_kind(next(found), "plain" if r.prompt is None else str(r.tags[-1])) if r.count else None for r in asked]
        groups = [added(g, more[2 * i : 2 * i + 2]) for i, g in enumerate(groups)]
        for name, kind in (("reflected", "reflection"), ("lessons", "lesson")):
            for g in groups:
                world.note(name, sum(t.links[KIND] == kind for t in g.trajectories) / max(len(g.trajectories), 1))
        return groups, state

    def _reflection(self, request: Request, group: Group, count: int, pool: Attempts, world: World) -> Request:
        """Returns the request for answers that see one attempt, drawn without regard to its reward."""
        own = [t.completion for t in group.trajectories if t.failed is None]
        attempts = [text for text, _ in attempts_at(pool, request.problem.id)] or own
        asked = replace(request, count=count, sample=0, tags=(*request.tags, "reflection"))
        if not attempts or not count:
            return asked
        drawn = attempts[int(len(attempts) * float(world.key.fold("reflection", request.problem.id).uniform()))]
        return replace(asked, prompt=after(prompt_of(request, world.task.system), filled(CHECK, attempt=drawn)))

    async def _lessons(self, requests: Sequence[Request], pool: Attempts, world: World) -> list[str | None]:
        """Returns one lesson per request. Returns None if no other problem is similar enough, or if no answer gets a lesson."""
        forms = [self.material(r, pool) if int(self.abstract * r.count) else None for r in requests]
        asked = [
            replace(r, count=1, sample=0, prompt=form if r.problem.text is not None else ({"role": "user", "content": form},),
                    tags=(*r.tags, "abstract"), trained=False)
            for r, form in zip(requests, forms, strict=True) if form is not None
        ]  # fmt: skip
        said = iter(await world.sample(asked) if asked else [])
        return [None if form is None else read_text(next(said)[0], r, world) for r, form in zip(requests, forms, strict=True)]

    def material(self, request: Request, pool: Attempts) -> str | None:
        """Returns the request for a lesson: the newest attempts at the most similar other problems, with their verdicts. None: no problem is similar enough."""
        asked = request.problem.question
        others = [row for row in newest_of_others(pool, request.problem.id) if row[0] != asked]
        chosen = nearest(asked, [question for question, *_ in others], self.neighbours, floor=self.floor)
        told = [others[i] for i in chosen]
        lines = [filled(ABOUT, question=q, attempt=y, verdict="right" if r >= 1 else "wrong") for q, y, r in told]
        return "\n".join([*lines, ASK]) if lines else None

    async def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state with the answers of the step in the pool."""
        new = [t for g in (*groups, *dropped) for t in g.trajectories if t.failed is None and t.source == "policy"]
        return {"pool": remembered(state["pool"], new, attempts=self.attempts, problems=self.problems)}


def with_lesson(request: Request, lesson: str | None, count: int, world: World) -> Request:
    """Returns the request for answers that see the lesson; without a lesson, for plain answers."""
    asked = replace(request, count=count, sample=0, tags=(*request.tags, "lesson"))
    return asked if lesson is None else replace(asked, prompt=before(prompt_of(request, world.task.system), f"lesson: {lesson}"))


def read_text(context: Any, request: Request, world: World) -> str:
    return world.text(context.tokens[context.chosen], request.player).strip()


def of_kind(group: Group, kind: str) -> Group:
    """Returns the group with the kind of the prompt in the links of its trajectories."""
    return group.but(trajectories=tuple(t.but(links=Frozen({**t.links, KIND: kind})) for t in group.trajectories))


def added(group: Group, more: Sequence[Group | None]) -> Group:
    """Returns the group with the trajectories and rewards of further groups."""
    others = [g for g in more if g is not None]
    return group.but(
        trajectories=(*group.trajectories, *(t for g in others for t in g.trajectories)), pool=(*group.pool, *(r for g in others for r in g.pool))
    )


lanpo = grpo.derive(
    "lanpo",
    "Half of the answers see an earlier attempt, or a lesson from similar problems; advantages compare answers with the same kind of prompt.",
    family="guidance",
    rollout=cast("Rollout", Experienced()),
    credit=Within(Linked(KIND)),
    setting__group=16,
)

claims = (
    same_weights(
        says="If no answer sees an attempt or a lesson, the final weights are those of GRPO.",
        source="arXiv:2510.16552, without experience",
        against="grpo",
        own={"rollout.reflect": "0", "rollout.abstract": "0"},
    ),
    Claim(
        says="On arithmetic with three digits, accuracy on plain prompts after 10 steps of as many answers is at least 0.03 above that of GRPO.",
        source=(
            "arXiv:2510.16552, comparison with GRPO in zero-shot accuracy; the size of the effect, the task and the sizes are ours. Stated again with another "
            "task: the earlier start model, on string functions, hardly used feedback. The start model is the built-in one after 150 steps of supervised "
            "fine-tuning on arithmetic with three digits: the answer alone to plain problems, worked solutions after feedback. With 5 % of worked solutions to "
            "plain problems, GRPO alone reached 0.8, and the difference was -0.05 [-0.18, 0.07]"
        ),
        against="grpo",
        measure="accuracy",
        better_by=0.03,
        task="arithmetic",
        options={"level": "3"},
        fields={"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=10",
        problems=60,
        samples=2,
        script="benchmarks.warmed lanpo",
    ),
)
