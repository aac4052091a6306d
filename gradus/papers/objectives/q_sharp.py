"""Q#: the policy never changes; a second model learns the chance of reward of every next token, and decoding weights the tokens by it.

For E[R] - eta KL(pi || pi_ref) over answers with a reward R at the end, the optimum is, token by token,

    Q*(s, a) = eta log E[exp(z / eta)], z the reward of an answer that pi_ref completes after (s, a);
    pi*(a | s) = pi_ref(a | s) exp(Q*(s, a) / eta) / sum_b pi_ref(b | s) exp(Q*(s, b) / eta).

With R in {0, 1} and p(s, a) the chance of 1 this is Q* = eta log(1 + p (exp(1 / eta) - 1)). The law of z depends on pi_ref alone, so p is
fitted by maximum likelihood to rewards that were seen; no target holds a prediction. A head over the vocabulary gives the logit of p for
every next token in one pass: loss = mean over tokens of the cross-entropy of sigmoid(q(s_t, a_t)) and R.

Data: an answer begins with h tokens of the guided policy, h uniform in 0 .. length limit - 1, and goes on with pi_ref. So states are those that
guidance visits, and continuations are pi_ref's. Only the tokens after h are learned; an answer that ends before h teaches nothing. Groups
of earlier steps are learned again (`selection`). Evaluation decodes with guidance.

Guidance with E[z] in place of the log-mean-exp (`--rollout.rule.form mean`) is the form of earlier methods, and not optimal.

Reference: Zhou et al., Q#: Provably Optimal Distributional RL for LLM Post-Training, arXiv:2502.20548, section 3, with eta 0.1. There data
is collected in 2 rounds of 16 answers a problem, each fitted to convergence, and rewards of more values have a categorical law. Ours: one
update per step over the step's answers and as many earlier ones; rewards in {0, 1} only; all tokens are guided (`--rollout.rule.top 20`
leaves the reference's 20 most likely ones, the paper's shortcut); the temperature is applied to the guided logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.credit.groups import Constant
from gradus.objectives.aggregation import Average, TokenMean, averaged
from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.auto import Auto
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.rollouts.ruled import Ruled
from gradus.rollouts.token_rules import GuidedByQ
from gradus.selection.replay import Replay
from gradus.types import Context, Ended, Frozen, Group, Request, Trajectory, UserError
from gradus.types.batch import Batch
from gradus.types.parts import World
from gradus.types.players import Copy, Head, Player
from gradus.types.rules import TokenRule
from gradus.types.signals import Signal, Value, Want
from gradus.types.tally import Tally, check_same_shape, tally


def likelihood_losses(logits: Tensor, rewards: Tensor) -> Tensor:
    """-log P(reward) per action, P(1) = sigmoid(logit). Args: logits [A] with gradient; rewards [A] in {0, 1}.  Returns: [A]."""
    check_same_shape(logits=logits, rewards=rewards)
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, rewards, reduction="none")


@dataclass(frozen=True)
class RewardLikelihood:
    """The likelihood of the trajectory's reward, 0 or 1, under the head at every action."""

    head: str = "q"
    average: Average = TokenMean()
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = True
    needs: ClassVar[tuple[Signal, ...]] = ()

    @property
    def wants(self) -> tuple[Want, ...]:
        return (Value(self.head),)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        logits = outputs[Value(self.head)]
        each = logits.new_tensor([_label(t.value) for t in batch.trajectories])
        rewards = each.index_select(0, batch.trajectory.to(each.device))
        losses = likelihood_losses(logits, rewards) * batch.weight
        right = (logits.detach() > 0) == (rewards > 0.5)
        return self.coefficient * averaged(self.average, losses, batch, self.source), {"chance_right": tally(right)}


def _label(reward: float) -> float:
    if reward not in (0.0, 1.0):
        raise UserError(f"the chance of a reward is learned from rewards 0 and 1, but a reward is {reward}; take a reward of these two values")
    return reward


@dataclass(frozen=True)
class SwitchedRollIn:
    """Answers whose first h tokens are drawn by `rule` and the others by the policy, h uniform below the length limit; h may be 0."""

    rule: TokenRule = GuidedByQ()
    plays: ClassVar[str] = "answers"

    @property
    def test(self) -> Any:
        """Guided to the end."""
        return Ruled(self.rule, Auto())

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """One judged group per request; only the tokens after the switch are actions. An answer without any is not trained on."""
        singles = [replace(r, count=1, sample=r.sample + i) for r in requests for i in range(r.count)]
        switches = [switch_of(r, world) for r in singles]
        led = [self._roll_in(r, h, world) for r, h in zip(singles, switches, strict=True) if h]
        begun = iter(await world.sample(led))
        openings = [next(begun)[0] if h else world.prompt(r) for r, h in zip(singles, switches, strict=True)]
        open_ends = [not h or c.ended is Ended.LENGTH for c, h in zip(openings, switches, strict=True)]
        left = [self._roll_out(r, c, h, world) for r, c, h, going in zip(singles, openings, switches, open_ends, strict=True) if going]
        ended = iter(await world.sample(left))
        answers = [next(ended)[0] if going else c for c, going in zip(openings, open_ends, strict=True)]
        rows = iter([self._trajectory(r, o, a, going, world) for r, o, a, going in zip(singles, openings, answers, open_ends, strict=True)])
        return await world.judge([Group(group_name(r), tuple(next(rows) for _ in range(r.count))) for r in requests])

    def _roll_in(self, request: Request, switch: int, world: World) -> Request:
        sampling = replace(request.sampling or world.sampling, max_tokens=switch)
        return replace(request, how=self.rule, sampling=sampling, tags=(*request.tags, "guided"), trained=False)

    def _roll_out(self, request: Request, begun: Context, switch: int, world: World) -> Request:
        sampling = request.sampling or world.sampling
        return replace(request, prompt=begun, sampling=replace(sampling, max_tokens=sampling.limit - switch))

    def _trajectory(self, request: Request, begun: Context, answer: Context, going: bool, world: World) -> Trajectory:
        said = begun.tokens[begun.chosen]
        tokens = np.concatenate([said, answer.tokens]) if going else said
        return Trajectory(
            id=trajectory_name(world.step, request, 0),
            problem=request.problem,
            contexts=(answer,),
            player=request.player,
            completion=world.text(tokens, request.player),
            ended=answer.ended,
            trained=request.trained and going,
        )


def switch_of(request: Request, world: World) -> int:
    """h of one answer: uniform in 0 .. limit - 1, a function of the run, the step and the answer."""
    limit = (request.sampling or world.sampling).limit
    key = world.key.fold("switch", request.player, request.problem.id, *request.tags, request.sample)
    return int(key.uniform()[()] * limit)


q_sharp = reinforce.derive(
    "q_sharp",
    "A frozen policy is guided by a second model's chance of reward after every next token.",
    family="objectives",
    rollout=SwitchedRollIn(),
    selection=Replay(size=1024),
    credit=None,
    objective=None,
    players__value=Player(
        Head(of=Copy("policy"), outputs=("q",), over="vocabulary"),
        objective=Frozen(likelihood=RewardLikelihood()),
        credit=Constant(),
        learns_from="policy",
    ),
)
