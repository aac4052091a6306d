"""MM-UPT: post-training on picture questions without labels. The majority answer of the group is the label, and the policy may write the questions.

    y = "the most frequent of" a_1, ..., a_G
    r_i = 1 "if" a_i = y "else" 0
    A_i = (r_i - mean(r)) / (std(r))

The policy answers a question about a picture G = 10 times at temperature 0.7. $a_i$ is the final answer of sample i; a sample without a final answer
has no vote and gets 0. If several answers are equally frequent, the first of them is y. In a unanimous group the advantages are 0, and only the KL
term (coefficient 0.01) acts. Labels are votes of the current policy, so y may change from step to step. A batch is cut into 4 mini-batches. Metric:
`majority_share`. If this reward rises and the true accuracy does not rise, the majority is usually wrong. Only the evaluation reads verdicts.

With `OwnQuestions` the policy writes questions about the same pictures. The policy sees the picture with the task's question (form "context"), or the picture
alone (form "direct"), and writes a new question. The new question needs no label.

Use if: questions about pictures have short answers but no labels, and the majority of samples is right for more than half of the questions.
Avoid if: the majority is usually wrong, as on hard problems, or labels exist (see grpo). For text, and for votes over more samples than the training
uses, see ttrl.
Reference: Wei et al., Unsupervised Post-Training for Multi-Modal LLM Reasoning via GRPO, arXiv:2505.22453, sections 3 and 4: majority labels, KL
0.01, both forms of own questions. The released configuration (waltonfuture/MM-UPT) has 10 samples, temperature 0.7, top-p 0.99, KL 0.01, learning
rate 1e-6, and 512 questions per batch in mini-batches of 128.
Departures: In the released reward the samples without an answer vote together. If these samples are the majority, they get 1; `--reward.missing true`
does this. The released reward counts votes as text, and compares an answer with the label as formulas; here both steps compare numbers. In the paper
the policy also sees the answer when it writes a question in context; here the policy sees no label. The task sets top-p. `TemplateQuestion`, which
fills a template with a shape that the policy reads in the picture, is for models that write no questions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.judge import filled
from gradus.rewards.majority import MajorityReward
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto, rolled
from gradus.study.held_out import HeldOut
from gradus.types import Frozen, Group, Problem, Request
from gradus.types.parts import Rollout, World
from gradus.types.ranges import check_ranges


def asking(problem: Problem, text: str) -> tuple[Mapping[str, Any], ...]:
    """Returns the problem's messages with another text in the last message. The pictures of this message stay unchanged."""
    *before, last = problem.messages
    media = () if isinstance(last["content"], str) else tuple(part for part in last["content"] if part["type"] != "text")
    return (*before, {**last, "content": (*media, {"type": "text", "text": text}) if media else text})


class Writer(Protocol):
    def prompt(self, problem: Problem) -> str:
        """Returns the text that the policy reads below the picture."""
        ...

    def question(self, problem: Problem, reply: str, world: World) -> str | None:
        """Returns the new question; None if the reply contains no question."""
        ...


@dataclass(frozen=True)
class WrittenQuestion:
    """The policy writes the question itself."""

    form: Literal["context", "direct"] = "context"
    context: str = "{problem}\nWrite another question about the picture."
    direct: str = "Write a question about the picture."

    def prompt(self, problem: Problem) -> str:
        return filled(self.context, problem=problem.question) if self.form == "context" else self.direct

    def question(self, problem: Problem, reply: str, world: World) -> str | None:
        return " ".join(reply.split()) or None


@dataclass(frozen=True)
class TemplateQuestion:
    """The policy reads the picture by answering `ask`. One match of `pattern` in the reply, drawn at random, fills the template."""

    ask: str = "list all shapes"
    pattern: str = r"(?P<colour>[a-z]+) (?P<shape>[a-z]+)"
    template: str = "how many {colour} {shape}s ?"

    def prompt(self, problem: Problem) -> str:
        return self.ask

    def question(self, problem: Problem, reply: str, world: World) -> str | None:
        found = [match.groupdict() for match in re.finditer(self.pattern, reply)]
        return filled(self.template, **world.key.fold("template", problem.id).choice(found)) if found else None


@dataclass(frozen=True)
class OwnQuestions:
    """Replaces the questions of a share of the requests by questions that `player` writes about the same pictures. Evaluations keep the questions of
    the task.
    """

    rollout: Rollout = Auto()
    writer: Writer = WrittenQuestion()
    share: float = 0.5
    player: str = "policy"
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1]")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of answers. The metric `own_questions` is the share of requests with a new question."""
        due = [r for r in requests if r.problem.messages and float(world.key.fold("own", r.problem.id).uniform()) < self.share]
        asked = [replace(r, count=1, player=self.player, prompt=asking(r.problem, self.writer.prompt(r.problem)), tags=(*r.tags, "question"), trained=False)
                 for r in due]  # fmt: skip
        replies = [world.text(c.tokens[c.chosen], self.player) for (c,) in await world.sample(asked)] if asked else []
        new: dict[int, Request] = {}
        for r, reply in zip(due, replies, strict=True):
            question = self.writer.question(r.problem, reply, world)
            if question is not None:
                new[id(r)] = replace(r, problem=replace(r.problem, id=f"{r.problem.id}-own", messages=asking(r.problem, question), answer=None, meta=Frozen()))
        world.note("own_questions", len(new) / max(len(requests), 1))
        return await rolled(self.rollout, [new.get(id(r), r) for r in requests], world)


mm_upt = grpo.derive(
    "mm_upt",
    "The majority answer of the group is the label of a question about a picture; questions may be the policy's own.",
    family="rewards",
    reward=MajorityReward(),
    objective__kl=KL(0.01),
    update__count=4,
    study=HeldOut(reward=Verified()),
    setting__group=10,
    setting__temperature=0.7,
)

_TERMS = {
    "prompts": "8", "setting.temperature": "1", "warmup": "0", "learning_rate": "1e-4", "eval_every": "0", "study.problems": "100",
    "study.greedy": "false",
}  # fmt: skip

claims = (
    same_weights(
        says="With the task's verdicts as rewards, the final weights are those of GRPO.",
        source="arXiv:2505.22453, with labels",
        against="grpo --objective.kl.coefficient 0.01 --update.count 4 --setting.temperature 0.7",
        own={"reward": "Verified"},
    ),
    Claim(
        says="Where the majority of the start model is right on four pictures of five, held-out accuracy rises by at least 0.05 in 10 steps without labels.",
        source="arXiv:2505.22453, table 1 (MathVista from 66.3 to 72.9); task, sizes and the size of the effect are ours",
        measure="held_out/accuracy:gain",
        better_by=0.05,
        task="shapes",
        options={"level": "2"},
        fields=_TERMS,
        budget="steps=10",
    ),
    Claim(
        says="Where the majority is wrong on more than 60 percent of the pictures, accuracy after 10 steps is at least 0.05 below that with labels.",
        source="arXiv:2505.22453, failure on hard data; task, sizes and the size of the effect are ours",
        against="mm_upt --reward Verified",
        measure="held_out/accuracy:last",
        better_by=-0.05,
        task="shapes",
        options={"level": "5", "kinds": "count"},
        fields=_TERMS,
        budget="steps=10",
    ),
)
