"""GTR: a corrector rewrites the thought of every answer. The policy imitates the corrected thoughts, while PPO trains its actions.

    (th, a) ~ pi_old(x), quad th^(*) = "corrector"(x, th), quad D <- D union {(x, th^(*))}
    loss = 1/T sum_t -c_t min(rho_t A_t, clip(rho_t, 1 - 0.2, 1 + 0.2) A_t) - 1/N sum_n 1/|th_n^(*)| sum_t log pi(th_(n,t)^(*) | x_n, th_(n,<t)^(*))
    c_t = lambda "for a token of the thought", quad c_t = 1 "for a token of the action"
    R = "success" - 1{"no action"}

An answer has a thought th and an action a: the action begins at the last mark, here "=". If only the action earns a reward, the thoughts collapse:
they become short and equal for all problems. Therefore a corrector reads the problem x and the thought, and returns a corrected thought $th^(*)$, or
the same thought if the thought has no faults. All corrections of the run are kept in the buffer D, so the data come from states that the policy
itself reached. Each step draws as many corrections from D as it has answers. N is the number of corrections in the mini-batch, and T counts the
tokens of the answers. The first sum is the loss of PPO with a critic. lambda is 0.5; with lambda = 0, only corrections train the thoughts. The
imitated text ends before the action, so only PPO trains the actions.

Metrics: thoughts/distinct (number of different thoughts divided by the number of all thoughts of the step), thoughts/fine (share of thoughts that the
corrector did not change). Evaluation has no corrector. An answer with a missing reward is corrected too, because the corrector needs no reward.

Use if: rewards are rare and depend on actions only, the policy's thoughts lose their content, and a corrector can judge a thought from the problem.
Avoid if: thoughts earn rewards or are compared (see grpo), or worked solutions suffice (see sft, luffy).
Reference: Wei et al., GTR: Guided Thought Reinforcement Prevents Thought Collapse in RL-based VLM Agent Training, arXiv:2503.08525: corrected thoughts at every
step, imitation of thoughts next to PPO on actions, an aggregated buffer, a reward for the format. The released code (weit123/GTR) has lambda 0.5 for cards and 0.2
for the household, a clip of 0.1, four epochs, the buffer of the whole run, and no penalty for repetition in the reward.
Departures: The policy reads text, and an answer is an episode of one step, so there is no discount between steps. The paper has one ratio per step;
its log-probability is lambda log pi(th) + log pi(a). Here each token has its own ratio, and tokens of thoughts have the weight lambda. The clip is as
in PPO, 0.2. The penalty for repeated thoughts is left out. The released code does not imitate a thought without faults; here such a thought is
imitated unchanged. The released code adds 5 to the return of an answer with the right format; here an answer without an action loses 1. The released
code also ends an episode if the corrector calls it lost. The scripted corrector `WorkedThought` takes the worked solution; the paper's corrector is a
large model (`rollout.corrector=WrittenCritique(...)`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.terms import Imitation
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.demonstrations import given
from gradus.rollouts.feedback import Attempt, Critic
from gradus.rollouts.spans import streamed
from gradus.selection.replay import Replay
from gradus.types import Context, Frozen, Group, Request, Trajectory, UserError
from gradus.types.batch import Batch
from gradus.types.parts import Judgement, Rollout, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.types.spans import ends

STREAM = "thought"  # bool [A], whether the action is a token of the thought


def thought_of(text: str, mark: str) -> str:
    """Returns the text before the last mark; the whole text if there is no mark.

    >>> thought_of("7+5=12 =12", "=")
    '7+5=12 '
    """
    at = text.rfind(mark)
    return text if at < 0 else text[:at]


@dataclass(frozen=True)
class WorkedThought:
    """A corrector by script: a thought of a right answer is fine; the thought of the problem's worked solution replaces any other thought."""

    mark: str = "="
    columns: ClassVar[frozenset[str]] = frozenset({"solution"})

    async def critiques(self, attempts: Sequence[Attempt], world: World) -> list[str]:
        return [self.corrected(t) for _, t in attempts]

    def corrected(self, attempt: Trajectory) -> str:
        """Returns the corrected thought of an answer. Raises UserError if its problem has no solution."""
        thought, solution = thought_of(attempt.completion, self.mark), attempt.problem.meta.get("solution")
        if solution is None:
            raise UserError(f'problem {attempt.problem.id} has no "solution"; add this column to the row of the problem, or take another corrector')
        return thought if attempt.right and thought.strip() else thought_of(str(solution), self.mark)


@dataclass(frozen=True)
class Corrected:
    """Adds the stream `thought` to the answers, and auxiliary groups with corrected thoughts, drawn from the corrections of all steps."""

    rollout: Rollout = Auto()
    corrector: Critic = WorkedThought()
    mark: str = "="  # the action begins at the last mark
    size: int = 4096  # number of stored corrections; the oldest are removed first
    share: float = 1.0  # number of corrections drawn per answer of the step
    plays: ClassVar[str] = "answers"
    gives: ClassVar[frozenset[str]] = frozenset({"thoughts"})

    def __post_init__(self) -> None:
        check_ranges(self, size="[1, inf)", share="[0, inf)")
        if not self.mark:
            raise UserError("Corrected.mark is empty; set `mark` to the text with which an action begins, for example '='")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def start(self) -> dict[str, Any]:
        return {"corrections": Replay().start()}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """Returns the marked groups of `rollout`, and the state with the corrections of the step."""
        groups = one_each(await rolled(self.rollout, requests, world), requests, self)
        attempts = [(r, t) for r, g in zip(requests, groups, strict=True) for t in g.trajectories if t.actions]
        said = await self.corrector.critiques(attempts, world) if attempts else []
        self._note([(t, text) for (_, t), text in zip(attempts, said, strict=True)], world)
        new = [cloned(r, t, text, world) for (r, t), text in zip(attempts, said, strict=True) if text]
        count = round(self.share * len(attempts))
        buffer = Replay(self.size, batch=max(count, 1), fresh=False)
        drawn, _, kept = buffer.keep(new, world.key.fold("corrections"), state["corrections"])
        world.also([renamed(g, world.step, i) for i, g in enumerate(drawn[:count])])
        marked = [streamed(g, STREAM, {t.id: [self._rows(c, t, world) for c in t.contexts] for t in g.trajectories}) for g in groups]
        return marked, {"corrections": kept}

    def _rows(self, context: Context, trajectory: Trajectory, world: World) -> np.ndarray:
        """Returns bool [A]: whether the action ends before the last mark of the text begins."""
        tokens = context.sequence[context.action_positions]
        text = world.text(tokens, trajectory.player)
        until = ends(tokens, lambda part: world.text(part, trajectory.player))
        begin = text.rfind(self.mark)
        return np.asarray(until <= (len(text) if begin < 0 else begin), bool)

    def _note(self, corrected: Sequence[tuple[Trajectory, str]], world: World) -> None:
        thoughts = [thought_of(t.completion, self.mark) for t, _ in corrected]
        world.note("thoughts/distinct", len(set(thoughts)) / max(len(thoughts), 1))
        for thought, (_, text) in zip(thoughts, corrected, strict=True):
            world.note("thoughts/fine", float(thought == text))


def cloned(request: Request, answer: Trajectory, thought: str, world: World) -> Group:
    """Returns a given trajectory: the problem's prompt, then the corrected thought without an end token."""
    piece = world.told(thought, answer.player)
    body = piece.first(piece.actions - 1) if not world.text(piece.tokens[-1:], answer.player) else piece
    prompt = world.prompt(request)
    context = replace(body, parent=(prompt, len(prompt.sequence)))
    made = given(request, 0, context, world, reward=1.0, component="corrected").but(id=f"{answer.id}/thought")
    return Group(made.id, (made,), pool=(1.0,))


def renamed(group: Group, step: int, index: int) -> Group:
    """Returns a correction with ids of this step, because a step must not have two trajectories with the same id."""
    return group.but(key=f"{step}/{index}/{group.key}", trajectories=tuple(t.but(id=f"{step}/{index}/{t.id}") for t in group.trajectories))


@dataclass(frozen=True)
class ThoughtWeight:
    """A weight: lam for tokens of the thought, 1 for tokens of the action."""

    lam: float = 0.5
    asks: ClassVar[Mapping[str, str]] = Frozen({"thoughts": "--rollout Corrected"})

    def __post_init__(self) -> None:
        check_ranges(self, lam="[0, 1]")

    def factors(self, old: Tensor, batch: Batch) -> Tensor:
        return torch.where(batch.stream(STREAM), torch.full_like(old, self.lam), torch.ones_like(old))


@dataclass(frozen=True)
class ActionFound(Combines):
    """A reward: 0 for a completion with the mark of an action, -1 for any other completion."""

    mark: str = "="
    name: ClassVar[str] = "format"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        values = [[0.0 if self.mark in t.completion else -1.0 for t in g.trajectories] for g in groups]
        return [[Judgement(v, Frozen({self.name: v})) for v in row] for row in values]


gtr = ppo.derive(
    "gtr",
    "PPO on actions next to imitation of thoughts that a corrector rewrote, from a buffer of all steps.",
    family="guidance",
    rollout=cast("Rollout", Corrected()),
    reward=Verified() + ActionFound(),
    objective__policy__weight=ThoughtWeight(),
    objective__thoughts=Imitation(average=SequenceMean(), source="expert"),
)

_TERMS: Any = {
    "task": "arithmetic",
    "options": {"level": "3"},
    "fields": {"prompts": "8", "group": "4", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
    "budget": "steps=8",
}

claims = (
    same_weights(
        says="Without corrections, and with the weight 1 for thoughts, the final weights are those of PPO with the same reward.",
        source="arXiv:2503.08525, without the corrector",
        against="ppo",
        own={"rollout.share": "0", "objective.policy.weight.lam": "1", "reward": "Verified"},
    ),
    Claim(
        says="After 8 steps, accuracy is at least twice that of PPO.",
        source="arXiv:2503.08525, success rates of 3 to 5 times those of RL alone; the factor, the task in text and the sizes are ours",
        against="ppo",
        measure="accuracy",
        at_least=2.0,
        problems=60,
        samples=2,
        **_TERMS,
    ),
    Claim(
        says="In the last of 8 steps, the share of different thoughts is at least 0.2 above that without corrections.",
        source="arXiv:2503.08525, thought collapse under RL alone; the size of the effect, the task in text and the sizes are ours",
        against="gtr --rollout.share 0",
        measure="thoughts/distinct:last",
        better_by=0.2,
        **_TERMS,
    ),
)
