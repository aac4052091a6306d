"""Q#: the policy never changes. A second model learns the chance of reward after every next token, and decoding weights the tokens by this chance.

    Q^**(s, a) = eta log E[exp(z/eta)]
    pi^**(a | s) = (pi_ref(a | s) exp(1/eta Q^**(s, a))) / (sum_b pi_ref(b | s) exp(1/eta Q^**(s, b)))
    Q^**(s, a) = eta log(1 + p (exp(1/eta) - 1))
    loss = mean over tokens of [-R log p_t - (1 - R) log(1 - p_t)], quad p_t = sigmoid(q(s_t, a_t))

The first two lines are, token by token, the optimum of $E[R] - eta KL(pi, pi_ref)$ over answers with a reward R at the end. The symbol z is the
reward of an answer that $pi_ref$ completes after token a in state s; eta is 0.1. The third line is $Q^**$ for R in {0, 1}, where p is the probability
of R = 1 after (s, a). The distribution of z depends on $pi_ref$ alone. So p is fitted by maximum likelihood to observed rewards, and no target
contains a prediction of the model. A head over the vocabulary gives q, the logit of p, for every next token in one pass.

The data are made as follows. The guided policy writes an answer of L tokens. The answer is cut after h tokens, with h uniform in 0 .. L - 1, and
$pi_ref$ writes the rest. So the states are those that guidance visits, and the continuations come from $pi_ref$. The model learns only on the tokens
after h. The model also learns on groups of earlier steps (`selection`). Evaluation decodes with guidance. Earlier methods have E[z] in place of the
log-mean-exp (`--rollout.rule.form mean`), which is not optimal.

Use if: the policy's weights must not change, but a second model may run during decoding, which makes decoding slower.
Avoid if: the policy can be trained, because it then needs no second model at test time (see grpo, ppo).
Reference: Zhou et al., Q#: Provably Optimal Distributional RL for LLM Post-Training, arXiv:2502.20548, section 3, with eta 0.1. In the paper data are
collected in 2 rounds of 16 answers per problem, and the model is fitted to convergence in each round. In the paper rewards with more than two values
have a categorical distribution (11 atoms from 0 to 1). The released code was read in copies of it; its `eta` is 1 / eta of this recipe. The released
code cuts a guided answer in the same way.
Departures: Each step makes one update over its answers and the same number of earlier answers. Rewards are in {0, 1} only. All tokens are guided.
`--rollout.rule.top 20` is the paper's shortcut, which draws only from the reference's 20 most likely tokens. The release adds Q / eta to the logits
of these 20 tokens and does not change the others. The temperature is applied to the guided logits. The released code keeps one more guided token
after the cut and learns on it too; the tokens after it come from $pi_ref$. The released code leaves out problems whose answers all have the same
reward, takes the mean over the tokens of each answer first (`--players.value.objective.likelihood.average SequenceMean`), and samples at temperature
0.8 with top-p 0.9.
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
from gradus.recipe.claim import Claim
from gradus.rollouts.auto import Auto
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.rollouts.ruled import Ruled
from gradus.rollouts.token_rules import GuidedByQ
from gradus.selection.replay import Replay
from gradus.types import Context, Frozen, Group, Request, Trajectory, UserError
from gradus.types.batch import Batch
from gradus.types.parts import World
from gradus.types.players import Copy, Head, Player
from gradus.types.rules import TokenRule
from gradus.types.signals import Signal, Value, Want
from gradus.types.tally import Tally, check_same_shape, tally


def likelihood_losses(logits: Tensor, rewards: Tensor) -> Tensor:
    """Returns -log P(reward) per action [A], with P(1) = sigmoid(logit). Args: `logits` [A] with gradient; `rewards` [A] in {0, 1}."""
    check_same_shape(logits=logits, rewards=rewards)
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, rewards, reduction="none")


@dataclass(frozen=True)
class RewardLikelihood:
    """-log P(R) at every action, where R is the trajectory's reward, 0 or 1, and the output of `head` is the logit of P(1)."""

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
        raise UserError(f"the head learns the probability of reward 1, but a reward is {reward}; use a reward function that gives only 0 and 1")
    return reward


@dataclass(frozen=True)
class SwitchedRollIn:
    """Samples answers: `rule` draws the first h tokens, and the policy draws the other tokens. h is uniform below the length of an answer that `rule`
    draws alone."""

    rule: TokenRule = GuidedByQ()
    plays: ClassVar[str] = "answers"

    @property
    def test(self) -> Any:
        """The rollout of evaluation: `rule` draws all tokens."""
        return Ruled(self.rule, Auto())

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request. Only the tokens after the first h are actions."""
        singles = [replace(r, count=1, sample=r.sample + i) for r in requests for i in range(r.count)]
        led = [replace(r, how=self.rule, tags=(*r.tags, "guided"), trained=False) for r in singles]
        guided = [contexts[0] for contexts in await world.sample(led)]
        switches = [switch_of(r, c.actions, world) for r, c in zip(singles, guided, strict=True)]
        asked = [self._roll_out(r, c, h, world) for r, c, h in zip(singles, guided, switches, strict=True)]
        answers = [contexts[0] for contexts in await world.sample(asked)]
        rows = iter([self._trajectory(*row, world) for row in zip(singles, guided, switches, answers, strict=True)])
        return await world.judge([Group(group_name(r), tuple(next(rows) for _ in range(r.count))) for r in requests])

    def _roll_out(self, request: Request, guided: Context, switch: int, world: World) -> Request:
        sampling = request.sampling or world.sampling
        at = len(guided.sequence) - guided.actions + switch
        return replace(request, prompt=guided, at=at, sampling=replace(sampling, max_tokens=sampling.limit - switch))

    def _trajectory(self, request: Request, guided: Context, switch: int, answer: Context, world: World) -> Trajectory:
        tokens = np.concatenate([guided.tokens[guided.chosen][:switch], answer.tokens])
        return Trajectory(
            id=trajectory_name(world.step, request, 0),
            problem=request.problem,
            contexts=(answer,),
            player=request.player,
            completion=world.text(tokens, request.player),
            ended=answer.ended,
            trained=request.trained,
        )


def switch_of(request: Request, length: int, world: World) -> int:
    """Returns h of one answer, uniform in 0 .. length - 1; 0 if `length` is 0. The run, the step and the answer determine h."""
    key = world.key.fold("switch", request.player, request.problem.id, *request.tags, request.sample)
    return int(key.uniform()[()] * length)


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

claims = (
    Claim(
        says=(
            "Guided decoding by a value model that is fitted to the frozen policy's own answers raises held-out accuracy on arithmetic above the "
            "unguided policy's by at least 5 points within 60 steps."
        ),
        source=(
            "arXiv:2502.20548, sections 4 and 5: guidance of a frozen reference beats the reference on GSM8K and MATH at a small KL; here the "
            "built-in model on arithmetic, 60 steps"
        ),
        measure="held_out/accuracy:gain",
        better_by=0.05,
        task="arithmetic",
        fields={"learning_rate": "0.001", "eval_every": "60"},
        budget="steps=60",
        seeds=3,
    ),
)
