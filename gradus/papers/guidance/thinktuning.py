"""ThinkTuning: a teacher of the student's size adds feedback to a share of the student's answers, and the student learns from answer and feedback together.

    o_i = (y_i, f_i), quad f_i ~ pi_teacher(f | x, y_i) quad "for a share of the group, else" o_i = y_i
    A_i = (r_i - mean(r)) / (std(r))
    l_t = -min(rho_t A_i, clip(rho_t, 1 - 0.2, 1 + 0.2) A_i) quad "for a token of the student"
    l_t = -w_t A_i log pi(o_t), quad w_t = p_t / (p_t + c) "if" A_i > 0 "else" 0 quad "for a token of the teacher"
    loss = 1/G sum_i 1/|o_i| sum_t l_t

The student answers the question x G times. If fewer than half of the answers are right, the first half of the group gets feedback. The teacher reads
x and the answer $y_i$ with a request for one of four behaviours: criticise, reflect, agree with reasons, or ask itself questions. The teacher writes
the feedback $f_i$, which ends with a solution. The feedback follows the answer, in place of its end token, and the verifier judges the last answer of
the whole text. So the rewards r, their mean and their deviation belong to a mixed group: an unguided failure has a negative advantage, and a guided
success has a positive advantage.

The tokens of the student have the ratio rho to the sampling policy. The tokens of the teacher have no ratio, because the teacher sampled them under another
prompt. The weight $w_t$ of a teacher's token has no gradient, and grows with the student's probability $p_t$ of the token; c is 0.1. Feedback that
ends in a wrong answer is not learned. The teacher is the start model. In evaluation the student answers alone. Metrics: guided (share of answers with
feedback), guided/right (share of right answers among them), reflects (share of the student's own answers that contain one of `signs`).

Use if: a model of the student's size corrects answers if it is asked to, and the student never corrects itself.
Avoid if: the teacher's feedback seldom turns a wrong answer into a right one (see critique_grpo), or worked solutions exist (see luffy).
Reference: RRV et al., ThinkTuning: Instilling Cognitive Reflections without Distillation, arXiv:2508.07616: feedback as a part of the answer, four behaviours,
a teacher of the same size, GRPO without KL, and a weight from probability and advantage. Four updates per batch are from the released script.
Departures: Our own choices are the share 1/2, the bound 1/2, c, the weight 0 for A <= 0, and the wording. The released code (3rdAT/ThinkTuning) gives
feedback to a share that falls from 0.1 to 0.01 in the first third of training. In this code the weight is p / (p + gamma) for positive and negative
A. The code is meant to move gamma from -0.001 to 0.001 with the advantage, but the bounds are in the wrong order. So gamma is always -0.001, and the
weight is nearly 1. For A < 0 and p < 0.01 the code's weight is the clipped ratio. The released code takes the mean over all tokens, has groups of 5,
and bounds the ratio at 3 if A < 0. The log-probabilities at sampling are not stored for answers with feedback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.types import Context, Ended, Frozen, Group, Request, Trajectory
from gradus.types.batch import Batch
from gradus.types.parts import Rollout, World
from gradus.types.players import Player
from gradus.types.prompts import after, filled, prompt_of
from gradus.types.ranges import check_ranges
from gradus.types.tally import Tally

STREAM = "taught"  # float32 [A], 1 for a token of the teacher, 0 for a token of the student

FORMS = (
    "{attempt}\nCriticise this answer, then solve the problem.",
    "{attempt}\nReflect on this answer, then solve the problem.",
    "{attempt}\nGive reasons if you agree, then solve the problem.",
    "{attempt}\nAsk yourself whether this holds, then solve the problem.",
)


@dataclass(frozen=True)
class Taught:
    """Adds feedback of `player` to a share of the answers of hard groups. Every answer has the stream `taught`, which marks the tokens of the feedback."""

    rollout: Rollout = Auto()
    player: str = "teacher"
    share: float = 0.5  # share of a group's answers that get feedback; the number is rounded down
    below: float = 0.5  # only groups whose accuracy is below this number get feedback
    forms: tuple[str, ...] = FORMS  # each feedback uses one of these, drawn at random
    signs: tuple[str, ...] = ("wrong",)  # an answer of the student that contains one of these texts counts as reflecting
    asks_right: ClassVar[str] = "Auto"  # the part to use instead if no answer is marked as right
    plays: ClassVar[str] = "answers"
    gives: ClassVar[frozenset[str]] = frozenset({"taught"})
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1]", below="[0, 1]")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order."""
        groups = one_each(await rolled(self.rollout, requests, world), requests, self)
        due = [(i, r, t) for i, (r, g) in enumerate(zip(requests, groups, strict=True)) for t in self._chosen(g)]
        said = await world.sample([self._request(r, t, world) for _, r, t in due]) if due else []
        made = [Group(f"{t.id}/taught", (taught(t, world.text(c.tokens[c.chosen], self.player), world),)) for (_, _, t), (c,) in zip(due, said, strict=True)]
        found = {t.id: t for g in (await world.judge(made) if made else []) for t in g.trajectories}
        for g in groups:
            for t in g.trajectories:
                world.note("guided", float(t.id in found))
                world.note("reflects", float(any(sign in t.completion for sign in self.signs)))
        for t in found.values():
            world.note("guided/right", float(t.right))
        return [g.but(trajectories=tuple(found.get(t.id, plain(t)) for t in g.trajectories)) for g in groups]

    def _chosen(self, group: Group) -> list[Trajectory]:
        judged = [t for t in group.trajectories if t.failed is None]
        return judged[: int(self.share * len(group.trajectories))] if judged and (group.accuracy or 0.0) < self.below else []

    def _request(self, request: Request, first: Trajectory, world: World) -> Request:
        form = self.forms[int(len(self.forms) * float(world.key.fold("taught", first.id).uniform()))]
        prompt = after(prompt_of(request, world.task.system), filled(form, attempt=first.completion))
        return replace(request, count=1, player=self.player, prompt=prompt, sample=0, tags=(*request.tags, "teach", first.id), trained=False)


def taught(first: Trajectory, feedback: str, world: World) -> Trajectory:
    """Returns the answer followed by the feedback, without a reward. The feedback replaces the answer's end token."""
    (context,) = first.contexts
    ends = context.ended is Ended.STOP and not world.text(context.tokens[-1:], first.player)
    own = context.first(context.actions - 1) if ends and context.actions > 1 else context
    given = world.told(feedback, first.player)
    whole = replace(marked(own, 0.0), logprobs=None, versions=None).then(replace(marked(given, 1.0), ended=Ended.STOP))
    text = world.text(whole.tokens[whole.chosen], first.player)
    return first.but(contexts=(whole,), completion=text, reward=None, components=Frozen(), ended=Ended.STOP)


def plain(trajectory: Trajectory) -> Trajectory:
    """Returns the trajectory with the stream `taught`, which is 0 everywhere."""
    return trajectory.but(contexts=tuple(marked(c, 0.0) for c in trajectory.contexts))


def marked(context: Context, value: float) -> Context:
    """Returns the context with the stream `taught`, which has the same value for all actions."""
    return replace(context, streams=Frozen({**context.streams, STREAM: np.full(context.actions, value, np.float32)})) if context.actions else context


@dataclass(frozen=True)
class StudentRatio:
    """The log-ratio: log pi(a_t) - log pi_old(a_t) for a token of the student, log pi(a_t) for a token of the teacher."""

    against: ClassVar[str] = "old"
    asks: ClassVar[Mapping[str, str]] = Frozen({"taught": "--rollout Taught"})
    separable: ClassVar[bool] = True

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        return logprobs - torch.where(batch.stream(STREAM) > 0, torch.zeros_like(old), old)


@dataclass(frozen=True)
class ShapedFeedback:
    """PPO's clip for tokens of the student. For tokens of the teacher: -w A log pi with w = p / (p + c) without gradient, if A > 0; else 0."""

    low: float = 0.2
    high: float = 0.2
    c: float = 0.1
    separable: ClassVar[bool] = True
    ratios: ClassVar[tuple[type, ...]] = (StudentRatio,)

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, inf]", high="[0, inf]", c="(0, inf)")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        given = batch.stream(STREAM) > 0
        own, metrics = Clip(self.low, self.high).losses(torch.where(given, torch.zeros_like(log_ratio), log_ratio), advantages, batch)
        return torch.where(given, feedback_loss(log_ratio, advantages, c=self.c), own), metrics


def feedback_loss(logprobs: Tensor, advantages: Tensor, *, c: float) -> Tensor:
    """Returns -w A log pi per token, [A]: w = p / (p + c) without gradient if A > 0, else 0. `logprobs` [A] nats with gradient, `advantages` [A]."""
    p = logprobs.detach().exp()
    return torch.where(advantages > 0, -p / (p + c) * advantages * logprobs, torch.zeros_like(logprobs))


thinktuning = grpo.derive(
    "thinktuning",
    "A teacher's feedback continues half of the student's answers in hard groups; its tokens have a shaped weight instead of a ratio.",
    family="guidance",
    rollout=Taught(),
    objective__policy__ratio=StudentRatio(),
    objective__policy__trust=ShapedFeedback(),
    objective__kl=None,
    players__reference=None,
    players__teacher=Player(),
    update__count=4,
)

_TERMS: Any = {
    "task": "arithmetic",
    "options": {"level": "3"},
    "fields": {"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
    "budget": "steps=10",
}
_START = (
    "Stated again with another task: the earlier start model, on string functions, hardly used feedback. The start model is the built-in one after 150 "
    "steps of supervised fine-tuning on arithmetic with three digits: the answer alone to plain problems, worked solutions after feedback"
)

claims = (
    same_weights(
        says="Without feedback, the final weights are those of GRPO without a KL term.",
        source="arXiv:2508.07616, without the teacher",
        against="grpo --objective.kl none --players.reference none --update.count 4",
        own={"rollout.share": "0"},
    ),
    Claim(
        says="In the last of 10 steps, the share of the student's own answers that call an answer wrong and go on is at least 0.2 above that without feedback.",
        source=f"arXiv:2508.07616, reflection that GRPO alone does not bring; the size of the effect, the task and the sizes are ours. {_START}",
        against="thinktuning --rollout.share 0",
        measure="reflects:last",
        better_by=0.2,
        script="benchmarks.warmed thinktuning",
        **_TERMS,
    ),
    Claim(
        says="After 10 steps, accuracy is at least 0.03 above that of GRPO.",
        source=f"arXiv:2508.07616, comparison with GRPO; the size of the effect, the task and the sizes are ours. {_START}",
        against="grpo --objective.kl none --players.reference none --update.count 4",
        measure="accuracy",
        better_by=0.03,
        problems=60,
        samples=2,
        script="benchmarks.warmed thinktuning-accuracy",
        **_TERMS,
    ),
)
