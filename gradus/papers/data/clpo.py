"""CLPO: the policy rewrites hard problems more simply and medium problems differently, and answers problems and rewrites.

    d(q) = "hard if" acc(q) <= 0.3, quad "medium if" acc(q) <= 0.7, quad "else easy"
    q' ~ pi(q' | q, a, d(q))
    A_i = (r_i - mean(r)) / (std(r))
    loss = 1/G sum_i 1/|o_i| sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - epsilon, 1 + epsilon) A_i) + beta kappa(d) k_3]

The policy answers each problem q G times; acc(q) is the share of right answers. For each hard or medium q the policy then writes one rewrite q', from
q and the answer a. A hard problem is restated more simply, with hidden conditions made explicit. A medium problem gets other words or another
setting. The answer must stay valid and must not be in the text. The policy answers q' G times too, and the verifier compares these answers with a.
Training uses only groups with right and wrong answers. The factor kappa is 0.5 for answers to hard problems and to their rewrites, else 1; beta is
0.001. So answers to hard problems may move further from the start model. No update uses the tokens of the rewrites. Metrics: rewritten (share of
the problems whose rewrite was answered), rewritten/mixed (share of these rewrites with right and wrong answers), reward and accuracy of the
originals.

If the task has a reader for rewrites (`proposed`), unreadable texts are dropped. For other tasks the text itself is the new problem; the text is
dropped if it is empty, equals the original, or contains the answer as a word.

Use if: the policy solves many problems never or about half of the time, and the model can restate a problem without changing its answer.
Avoid if: the model is too weak to rewrite (see scaf_grpo with given hints), or there are always enough problems of the right difficulty (see dapo,
sec).
Reference: Zhang et al., CLPO: Curriculum Learning meets Policy Optimization for LLM Reasoning, arXiv:2509.25004: bounds 0.3 and 0.7, rewrites of both
kinds with the answer in the prompt, groups with mixed answers, KL weights by difficulty. The released script (csuking/CLPO) has the same bounds, G =
4, beta 0.001, one rewrite per problem, and the same kappa. The second version of the paper also trains the rewriter by the gain of accuracy.
Departures: The rules for dropping rewrites and the wording of the instructions are our choices. A failed answer does not count in acc(q). The script
makes an update for every 8 kept groups; here a batch is used for one update, and `--update.count` sets more. If no group has right and wrong answers,
the script trains on all groups of originals; here the step has no update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.selection.filters import Mixed
from gradus.types import Frozen, Group, Problem, Request, UserError
from gradus.types.batch import Batch
from gradus.types.parts import Rollout, World
from gradus.types.prompts import filled
from gradus.types.ranges import check_ranges

LABEL = "difficulty"
"""The link of a trajectory that holds the label of its problem."""


def difficulty(accuracy: float, hard: float = 0.3, medium: float = 0.7) -> str:
    """Returns the label of an accuracy. An accuracy equal to a bound gets the harder label.

    >>> [difficulty(a) for a in (0, 0.25, 0.3, 0.5, 0.7, 0.75)]
    ['hard', 'hard', 'hard', 'medium', 'medium', 'easy']
    """
    return "hard" if accuracy <= hard else "medium" if accuracy <= medium else "easy"


class Rewriter(Protocol):
    async def texts(self, asked: Sequence[tuple[Request, str]], world: World) -> list[str]:
        """Returns one rewrite for each pair of request and label."""
        ...


@dataclass(frozen=True)
class WrittenRewrite:
    """A rewriter: the player reads an instruction with the problem and its answer, and writes the rewrite."""

    player: str = "policy"
    hard: str = "Restate this problem more simply. Make hidden conditions explicit. The answer {answer} must stay right, and must not be named.\n{problem}"
    medium: str = "Give this problem other words or another setting. The answer {answer} must stay right, and must not be named.\n{problem}"
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        for name in ("hard", "medium"):
            if "{problem}" not in getattr(self, name):
                raise UserError(f"WrittenRewrite.{name} does not contain {{problem}}; add {{problem}}, because the player reads only this text")

    async def texts(self, asked: Sequence[tuple[Request, str]], world: World) -> list[str]:
        made = [replace(r, count=1, player=self.player, prompt=self._prompt(r.problem, label), tags=(*r.tags, "rewrite"), trained=False) for r, label in asked]
        return [world.text(c.tokens[c.chosen], self.player) for (c,) in await world.sample(made)]

    def _prompt(self, problem: Problem, label: str) -> Any:
        text = filled(getattr(self, label), problem=problem.question, answer=str(problem.answer))
        return text if problem.text is not None else ({"role": "user", "content": text},)


@dataclass(frozen=True)
class ScriptedRewrite:
    """A rewriter by script, for proving grounds: it gives the same text for all problems of a label, and the task reads this text (`proposed`)."""

    hard: str = "step"
    medium: str = "twice"

    async def texts(self, asked: Sequence[tuple[Request, str]], world: World) -> list[str]:
        return [getattr(self, label) for _, label in asked]


@dataclass(frozen=True)
class Restructured:
    """Lets a rewriter rewrite the hard and the medium problems. The answers to a rewrite are an auxiliary group, and updates use it like the other
    groups."""

    rollout: Rollout = Auto()
    rewriter: Rewriter = WrittenRewrite()
    hard: float = 0.3  # the highest accuracy of a hard problem
    medium: float = 0.7  # the highest accuracy of a medium problem; with -1 for both, no problem is rewritten

    def __post_init__(self) -> None:
        check_ranges(self, hard="[-1, 1]", medium="[-1, 1]")
        if self.hard > self.medium:
            raise UserError(f"Restructured.hard is {self.hard}, which is above Restructured.medium ({self.medium}); set `hard` to {self.medium} or less")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the labelled groups of the requested problems. The groups of their rewrites are auxiliary."""
        groups = one_each(await rolled(self.rollout, requests, world), requests, self)
        labels = [difficulty(g.accuracy or 0.0, self.hard, self.medium) for g in groups]
        due = [(r, label) for r, label in zip(requests, labels, strict=True) if label != "easy"]
        texts = await self.rewriter.texts(due, world) if due else []
        made = [(r, label, rewrite(r.problem, text, world)) for (r, label), text in zip(due, texts, strict=True)]
        asked = [(replace(r, problem=p, prompt=None, tags=(*r.tags, "rewritten")), label) for r, label, p in made if p is not None]
        answers = one_each(await rolled(self.rollout, [r for r, _ in asked], world), [r for r, _ in asked], self) if asked else []
        world.also([labelled(g, label) for g, (_, label) in zip(answers, asked, strict=True)])
        world.note("rewritten", len(answers) / max(len(groups), 1))
        for g in answers:
            world.note("rewritten/mixed", float(0 < (g.accuracy or 0.0) < 1))
        return [labelled(g, label) for g, label in zip(groups, labels, strict=True)]


def labelled(group: Group, label: str) -> Group:
    """Returns the group with the label in the links of its trajectories."""
    return group.but(trajectories=tuple(t.but(links=Frozen({**t.links, LABEL: label})) for t in group.trajectories))


def rewrite(problem: Problem, text: str, world: World) -> Problem | None:
    """Returns the rewritten problem; None if the task cannot read the text. If the task has no `proposed`: None if the text is empty, equals the
    original, or contains the answer.
    """
    if world.task.proposed is not None:
        return world.task.proposed(problem, text)
    said, answer = " ".join(text.split()), " ".join(str(problem.answer).split()).casefold()
    if not said or said == problem.question or f" {answer} " in f" {said.casefold()} ":
        return None
    meta = Frozen({name: value for name, value in problem.meta.items() if name not in ("solution", "hints")})
    shown = {"text": said} if problem.text is not None else {"messages": ({"role": "user", "content": said},)}
    return replace(problem, id=f"{problem.id}-rewritten", meta=meta, **shown)


@dataclass(frozen=True)
class ByDifficulty:
    """A weight: a factor for each label of a problem. A trajectory without a label has the factor 1."""

    factors_of: Frozen[float] = Frozen(hard=0.5)

    def factors(self, old: Tensor, batch: Batch) -> Tensor:
        each = [self.factors_of.get(str(t.links.get(LABEL)), 1.0) for t in batch.trajectories]
        return torch.tensor(each, dtype=old.dtype, device=old.device)[batch.trajectory]


clpo = grpo.derive(
    "clpo",
    "The policy rewrites hard problems more simply and medium problems differently, and answers both; hard problems have half the KL weight.",
    family="data",
    rollout=Restructured(),
    selection=Mixed(),
    objective__kl=KL(0.001, weight=ByDifficulty()),
    setting__group=4,
)

claims = (
    same_weights(
        says="With no problem labelled hard or medium, the final weights are those of GRPO on groups with mixed answers.",
        source="arXiv:2509.25004, bounds below every accuracy",
        against="grpo --selection Mixed --objective.kl.coefficient 0.001",
        own={"rollout.hard": "-1", "rollout.medium": "-1"},
    ),
    Claim(
        says=(
            "If hard problems of five functions are rewritten by applying the innermost function, more than 20 % of the rewrites have right and "
            "wrong answers."
        ),
        source="arXiv:2509.25004, restructured hard problems become learnable; the share, the task and the scripted rewriter are ours",
        measure="rewritten/mixed:mean",
        better_by=0.2,
        task="string_ops",
        options={"level": "5"},
        fields={"prompts": "8", "group": "4", "warmup": "0", "study": "none", "rollout.rewriter": "ScriptedRewrite"},
        budget="steps=6",
    ),
    Claim(
        says=(
            "If hard problems of four functions are rewritten by applying the innermost function, more than 20 % of the rewrites have right and "
            "wrong answers. The built-in model was made for three functions."
        ),
        source="arXiv:2509.25004, as above",
        measure="rewritten/mixed:mean",
        better_by=0.2,
        task="string_ops",
        options={"level": "4"},
        fields={"prompts": "8", "group": "4", "warmup": "0", "study": "none", "rollout.rewriter": "ScriptedRewrite"},
        budget="steps=6",
    ),
)
