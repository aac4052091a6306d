"""LatentSeek: for one problem at test time, the hidden states of the first part of the answer move along a policy gradient. No weight changes.

    m = min(floor(rho n), 300)
    x_i = argmax_v (W z_i)_v, quad log pi = sum_(i = 1)^m log softmax(W z_i)_(x_i)
    z <- Adam(z, -R nabla_z log pi)
    R = -(sum_(k in F) w_k) / (sum_k w_k)

The greedy answer has n tokens. $z_i$ is the last hidden state before its token i, and W is the output head. Only the first m states are free. The
search repeats three actions as long as the reward R of the present answer is at most the threshold -0.2, but at most 10 times: Adam makes one step;
the first m tokens become the most likely tokens of the new states; and the model decodes the rest of the answer greedily. R is 0 for an answer
without a fault and negative otherwise, so a step makes the present tokens less likely. The last answer is the result.

The policy judges its own answers (`OwnChecks`): calculation has the weight 2, the final answer 1, completeness 2, and understanding 1. F is the set of
failed checks. If only the check of the final answer fails, R is -1/6, which is above the threshold. With a verifier that knows the answer (`PerfectCheck`), R
is -1 or 0.

Use if: only one problem matters, the weights must stay unchanged, and a check of an answer is reliable.
Avoid if: sampling is cheap and as good (see best_of_n with --search BestOf), or the hidden states cannot be read.
Reference: Li et al., Seek in the Dark: Reasoning via Test-Time Instance-Level Policy Gradient in Latent Space, arXiv:2505.13308. The released code was read
(bigai-nlco/LatentSeek).
Departures: rho is 0.2, as in the paper; the released default is 0.1. The rate is 0.03, the default of the code; an example in the code has 0.05. The penalty
for a wrong format is left out. An end token among the first m tokens ends the answer; the code continues to decode after this token. The check of the
answer sees the final answer alone, not the solution. The wording of the checks and the task are our choices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.rollouts.asked import sampling_of, single
from gradus.rollouts.ids import group_name
from gradus.rollouts.single_turn import one_turn
from gradus.search.self_verdicts import item_of, says_yes, verification
from gradus.types import Context, Frozen, Group, Problem, Request, Trajectory, told_context
from gradus.types.parts import World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Opened, Want


@dataclass(frozen=True)
class StatesBefore(Want):
    """The last hidden state before every action, the input of the output head. [A, d]"""

    def rows(self, opened: Opened, key: Any) -> Any:
        return opened.hidden(-1)


class Check(Protocol):
    async def reward(self, answer: Trajectory, world: World) -> float:
        """Returns the reward of a judged answer: 0 without a fault, else a negative number."""
        ...


@dataclass(frozen=True)
class PerfectCheck:
    """The verdict of the recipe's reward: 0 for a right answer, else -1."""

    async def reward(self, answer: Trajectory, world: World) -> float:
        return 0.0 if answer.right else -1.0


@dataclass(frozen=True)
class OwnChecks:
    """The player answers one question per check with yes or no. The reward is minus the share of the weights of the failed checks."""

    player: str = "policy"
    questions: Frozen[str] = Frozen(
        calculation="check the calculation of {problem}: {solution}", answer="check {problem} {answer}",
        completeness="is this a complete answer to {problem}? {solution}", understanding="does this answer the question {problem}? {solution}",
    )  # fmt: skip
    weights: Frozen[float] = Frozen(calculation=2.0, answer=1.0, completeness=2.0, understanding=1.0)
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    async def reward(self, answer: Trajectory, world: World) -> float:
        problems = [verification(item_of(answer, 0), text, i) for i, text in enumerate(self.questions.values())]
        asked = [Request(p, 1, self.player, tags=("check", answer.id, i), trained=False) for i, p in enumerate(problems)]
        found = await world.sample(asked)
        passed = [says_yes(world.text(c.tokens[c.chosen], self.player)) is True for (c,) in found]
        return failed_share(dict(zip(self.questions, passed, strict=True)), self.weights)


def failed_share(passed: dict[str, bool], weights: Frozen[float]) -> float:
    """Returns minus the weights of the failed checks, divided by the weights of all checks in use.

    >>> w = Frozen(calculation=2.0, answer=1.0, completeness=2.0, understanding=1.0)
    >>> failed_share(dict(calculation=False, answer=False, completeness=True, understanding=True), w)
    -0.5
    """
    return -sum(weights[name] for name, ok in passed.items() if not ok) / sum(weights[name] for name in passed)


def free_states(length: int, *, rho: float, most: int) -> int:
    """Returns m, the number of states that move.

    >>> [free_states(n, rho=0.2, most=300) for n in (40, 4000, 4)]
    [8, 300, 0]
    """
    return min(int(rho * length + 1e-9), most)


def slope(states: np.ndarray, head: np.ndarray, reward: float) -> np.ndarray:
    """Returns the gradient [m, d] of -R log pi with respect to the states [m, d]. `head`: the output head [V, d]."""
    logits = states @ head.T
    chances = np.exp(logits - logits.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    return -reward * (head[logits.argmax(1)] - chances @ head)


@dataclass
class Adam:
    """Adam's moments for one array of states."""

    lr: float
    steps: int = 0
    first: Any = field(default=0.0)
    second: Any = field(default=0.0)

    def step(self, states: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Returns the states after one step."""
        self.steps += 1
        self.first, self.second = 0.9 * self.first + 0.1 * gradient, 0.999 * self.second + 0.001 * gradient**2
        mean, square = self.first / (1 - 0.9**self.steps), self.second / (1 - 0.999**self.steps)
        return states - self.lr * mean / (np.sqrt(square) + 1e-8)


@dataclass(frozen=True)
class LatentGradient:
    """Answers greedily. Then moves the hidden states of the first part of the answer step by step, until `check` finds no fault."""

    check: Check = OwnChecks()
    rho: float = 0.2  # share of the answer whose states move
    most: int = 300  # largest number of states that move
    lr: float = 0.03
    steps: int = 10
    threshold: float = -0.2

    def __post_init__(self) -> None:
        check_ranges(self, rho="[0, 1]", most="[0, inf)", lr="(0, inf)", steps="[0, inf)", threshold="(-inf, inf)")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the answer to one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` judged answers to each problem. No draw is random, so the answers to one problem are equal."""
        found = iter(await asyncio.gather(*(self._answer(r, world) for r in single(requests))))
        made = [tuple(next(found) for _ in range(r.count)) for r in requests]
        return [Group(group_name(r), row, tuple(t.reward for t in row if t.reward is not None)) for r, row in zip(requests, made, strict=True)]

    async def _answer(self, request: Request, world: World) -> Trajectory:
        greedy = replace(request, sampling=replace(sampling_of(request, world), temperature=0.0))
        ((context,),) = await world.sample([greedy])
        answer, reward = await self._judged(greedy, context, 0, world)
        count = free_states(context.actions, rho=self.rho, most=self.most)
        if count == 0:
            return answer
        (rows,) = await world.score([context], StatesBefore(), request.player)
        states, head, adam = rows[:count].astype(np.float64), world.output_head(request.player).astype(np.float64), Adam(self.lr)
        for number in range(1, self.steps + 1):
            if reward > self.threshold:
                break
            states = adam.step(states, slope(states, head, reward))
            context = await self._decoded(greedy, (states @ head.T).argmax(1), number, world)
            answer, reward = await self._judged(greedy, context, number, world)
        return answer

    async def _decoded(self, request: Request, tokens: np.ndarray, number: int, world: World) -> Context:
        """Returns the answer that begins with these tokens. The player decodes the rest greedily, unless an end token is among them."""
        prompt, end = world.prompt(request), int(world.told("", request.player).tokens[-1])
        ends = np.flatnonzero(tokens == end)
        begin = replace(told_context(tokens[: ends[0] + 1] if len(ends) else tokens), parent=(prompt, len(prompt.sequence)))
        sampling = sampling_of(request, world)
        if len(ends) or begin.actions >= sampling.limit:
            return begin
        rest = replace(sampling, max_tokens=sampling.limit - begin.actions)
        tags = (*request.tags, "latent", request.sample, number)
        (drawn,) = await world.fork(begin, len(begin.sequence), 1, problem=request.problem, tags=tags, sampling=rest, player=request.player)
        return begin.then(replace(drawn, parent=None, logprobs=None))

    async def _judged(self, request: Request, context: Context, number: int, world: World) -> tuple[Trajectory, float]:
        made = one_turn(request, 0, context, world)
        (group,) = await world.judge([Group(group_name(request), (made.but(id=f"{made.id}/latent/{number}"),))])
        return group.trajectories[0], await self.check.reward(group.trajectories[0], world)


latent_seek = reinforce.derive(
    "latent_seek",
    "At test time the hidden states of the first part of an answer move along a policy gradient on the policy's own checks.",
    family="search",
    search=LatentGradient(),
)

_OURS = "task, sizes and the size of the effect are ours; the checker knows the answer"
_TERMS: Any = {
    "measure": "held_out/accuracy:first", "task": "arithmetic", "options": {"level": "4"}, "budget": "steps=1",
    "fields": {"prompts": "2", "group": "2", "eval_every": "0", "study.problems": "100", "study.greedy": "false"},
}  # fmt: skip

claims = (
    Claim(
        says="With a checker that knows the answer, accuracy after at most 10 steps is at least 0.1 above that of greedy decoding.",
        source=f"arXiv:2505.13308, results with a perfect sparse reward; {_OURS}",
        against="latent_seek --search.steps 0 --search.check PerfectCheck",
        better_by=0.1, own={"search.check": "PerfectCheck"}, **_TERMS,
    ),
    Claim(
        says="With this checker, at most 10 steps find a right answer at least 0.03 more often than 11 samples of the policy.",
        source=f"arXiv:2505.13308, comparison with best of n; {_OURS}",
        against="latent_seek --search BestOf --search.count 11",
        better_by=0.03, own={"search.check": "PerfectCheck"}, **_TERMS,
    ),
)  # fmt: skip
