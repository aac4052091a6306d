"""GAIN-RL: problems are sorted once by the angles between the hidden states of their tokens, and a sampling window moves from small to large angles.

    C_(i,j) = (h_i * h_j) / (|h_i| |h_j|)
    s = mean over j < i in Q of C_(i,j) + 8 mean over i in Q and j in S of C_(i,j)
    p_k prop exp(-(k - mu)^2 / (2 sigma^2))
    mu becomes mu + min(n, max(0, n/2 tanh(2 (a - 1/2)) + n/2 tanh(2 c)))

$h_i$ is the hidden state of token i of a prompt. Q is the set of tokens of the problem. S is the set of tokens of the fixed prefix that all prompts
share; without such a prefix the second term is 0. One forward pass per problem before training gives its concentration s. The problem with the
largest s has place k = 0. In the paper prompts with a large s give larger gradients, and are learned first.

An epoch draws its problems without repetition in proportion to $p_k$. At first mu = 0. After the epoch mu moves by the accuracy a of the answers, and
by c. Here c is the mean of $C_(i,j)$ over j < i in the whole sequences of prompt and answer. Sigma and n are a tenth of the number of problems. Apart
from this, the method is GRPO. Metrics: window (mu as a share of all places), window/accuracy (a), window/concentration (c).

Use if: a fixed set of problems has a wide range of difficulty, and their difficulty has not been measured.
Avoid if: problems are new in every step, or of one kind (see grpo). To follow measured success rates, see mopps.
Reference: Wang et al., Angles Don't Lie: Unlocking Training-Efficient RL Through the Model's Own Signals, arXiv:2506.02281. Alpha = 2, beta = 0.5,
lambda = 8 and the form of the move are as in the paper. In the paper n = sigma = 1000 for data sets of about 7,500 problems, with 1024 problems
per epoch. The released code draws 256 problems per epoch; in the code for verl these problems are one batch.
Departures: n and sigma are shares of the number of problems, and an epoch has 32 of 256 problems; both numbers are our choices. The centre mu stops
at the last place. The problems of an epoch come in the order of plain passes; the released code sorts them by place. The hidden states are the inputs
of the output head, not the inputs of the last layer's MLP. In the released code both terms of s are means over more tokens than those of Q and S, because the
code cuts only the rows of the matrix. In the released code c also counts the pairs of a token with itself, counts neighbours twice, and comes from
the pass for the log-probabilities, before the update. Here c needs an extra pass, with the policy after the update. In the released code the accuracy
is half of a reward between 0 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from gradus.curricula.shuffled_epochs import problems_at, sweep_order
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Context, Group, Key, Problem, Request, UserError
from gradus.types.parts import Source, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Opened, Want


def concentration(states: Tensor, fixed: int, inter: float) -> Tensor:
    """Returns the angle concentration, a scalar, of hidden states [T, d]; the first `fixed` tokens are the fixed prefix.

    The concentration is the mean cosine over pairs of later tokens, plus `inter` times the mean cosine over pairs of a later token and a prefix
    token. A mean without any pair is 0.
    """
    unit = torch.nn.functional.normalize(states, dim=-1)
    rest, count = unit[fixed:], len(unit) - fixed
    total = rest.sum(0)
    pairs = count * (count - 1) / 2
    within = (total @ total - rest.square().sum()) / 2 / pairs if pairs else unit.new_zeros(())
    across = (total / count) @ unit[:fixed].mean(0) if fixed and count else unit.new_zeros(())
    return within + inter * across


@dataclass(frozen=True)
class Concentration(Want):
    """The angle concentration of each context, the same for all its actions. [A]

    `prompt`: True reads the tokens before the first action, False all tokens. The first `fixed` tokens are the prefix that all prompts share.
    """

    prompt: bool = False
    fixed: int = 0
    inter: float = 8.0
    opens: ClassVar[frozenset[str]] = frozenset({"states"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        states, owner = opened.states()
        out = []
        for number, context in enumerate(opened.contexts):
            own = states[owner == number]
            own = own[: int(context.action_positions[0])] if self.prompt else own
            out.append(concentration(own.double(), self.fixed, self.inter).expand(context.actions))
        return torch.cat(out)


def shared_beginning(rows: Sequence[np.ndarray]) -> int:
    """Returns the number of first tokens that all rows share. The number is less than the length of the shortest row.

    >>> shared_beginning([np.array([1, 2, 3]), np.array([1, 2, 4, 5])])
    2
    """
    least = min(map(len, rows)) - 1
    first = rows[0]
    return next((i for i in range(least) if any(row[i] != first[i] for row in rows)), max(least, 0))


@dataclass(frozen=True)
class ByAngles:
    """Sorts problems by the angle concentration of their prompts. The largest comes first."""

    inter: float = 8.0  # lambda, the weight of the second mean of s

    def __post_init__(self) -> None:
        check_ranges(self, inter="[0, inf)")

    async def values(self, problems: Sequence[Problem], world: World) -> np.ndarray:
        """Returns minus the concentration of each prompt [N]."""
        prompts = [world.prompt(Request(p)) for p in problems]
        fixed = shared_beginning([c.sequence for c in prompts]) if len(prompts) > 1 else 0
        rows = await world.score([_with_action(c) for c in prompts], Concentration(prompt=True, fixed=fixed, inter=self.inter))
        return -np.array([float(row[0]) for row in rows])


def _with_action(prompt: Context) -> Context:
    """Returns the prompt with one further token that counts as an action, because a reading has one row per action. No reading uses this token."""
    return replace(prompt, tokens=np.append(prompt.tokens, prompt.tokens[-1:]), chosen=np.append(prompt.chosen, True), streams={})


@dataclass(frozen=True)
class AsLearned:
    """Moves the window by accuracy and concentration, at most by n = `step` times the number of problems per epoch."""

    alpha: float = 2.0
    beta: float = 0.5  # the term of the accuracy is positive above this accuracy
    step: float = 0.1

    def __post_init__(self) -> None:
        check_ranges(self, alpha="(0, inf)", beta="[0, 1]", step="[0, 1]")

    async def measure(self, groups: Sequence[Group], world: World) -> Mapping[str, float]:
        """Returns the accuracy of the groups and the mean concentration of their sequences."""
        contexts = [c for g in groups for t in g.trajectories for c in t.contexts if c.actions]
        rows = await world.score(contexts, Concentration()) if contexts else []
        return {"accuracy": accuracy(groups), "concentration": float(np.mean([row[0] for row in rows] or [0.0]))}

    def distance(self, measured: Mapping[str, float], size: int) -> float:
        n = self.step * size
        moved = n / 2 * math.tanh(self.alpha * (measured["accuracy"] - self.beta)) + n / 2 * math.tanh(self.alpha * measured["concentration"])
        return min(max(moved, 0.0), n)


class Order(Protocol):
    """Gives the numbers by which the problems are sorted. The sorting happens once, before training."""

    async def values(self, problems: Sequence[Problem], world: World) -> np.ndarray:
        """Returns one number per problem [N]. The problem with the smallest number comes first."""
        ...


class Pace(Protocol):
    """Decides how far the centre of the window moves after an epoch."""

    async def measure(self, groups: Sequence[Group], world: World) -> Mapping[str, float]:
        """Returns named numbers that are measured on the groups of a step.

        The numbers of an epoch are averages over its steps. Each step is weighted by its number of groups.
        """
        ...

    def distance(self, measured: Mapping[str, float], size: int) -> float:
        """Returns the distance in problems, 0 or more. `measured`: the averages of the epoch; `size`: the number of sorted problems."""
        ...


@dataclass(frozen=True)
class Column:
    """Sorts problems by a number in their column `name`, such as their difficulty."""

    name: str = "difficulty"
    descending: bool = False

    async def values(self, problems: Sequence[Problem], world: World) -> np.ndarray:
        """Returns the numbers of the column [N]. Raises UserError if a problem has no number in this column."""
        found = [p.meta.get(self.name) for p in problems]
        for problem, value in zip(problems, found, strict=True):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise UserError(
                    f"curriculum.by is Column, but problem {problem.id} has no number in the column {self.name}; name another column, or take "
                    "another task"
                )
        return np.array(found, dtype=np.float64) * (-1 if self.descending else 1)


def accuracy(groups: Sequence[Group]) -> float:
    """Returns the mean over groups of the share of right answers. An answer without a reward counts as wrong."""
    return float(np.mean([float(np.mean([t.right for t in g.trajectories])) for g in groups if g.trajectories] or [0.0]))


@dataclass(frozen=True)
class WhenSolved:
    """Moves the window by step * size * tanh(alpha (accuracy - target)) problems. The window does not move if the accuracy of the epoch is below `target`."""

    target: float = 0.5
    alpha: float = 2.0
    step: float = 0.1  # largest move, as a share of all problems

    def __post_init__(self) -> None:
        check_ranges(self, target="[0, 1]", alpha="(0, inf)", step="[0, 1]")

    async def measure(self, groups: Sequence[Group], world: World) -> Mapping[str, float]:
        return {"accuracy": accuracy(groups)}

    def distance(self, measured: Mapping[str, float], size: int) -> float:
        return self.step * size * max(0.0, math.tanh(self.alpha * (measured["accuracy"] - self.target)))


def log_weights(size: int, center: float, width: float) -> np.ndarray:
    """Returns -(i - center)^2 / (2 width^2) for the places i = 0 ... size - 1 [size]. An infinite width gives equal weights."""
    return -np.square((np.arange(size) - center) / width) / 2


def drawn_places(weights: np.ndarray, count: int, key: Key) -> np.ndarray:
    """Draws `count` different places. The places are drawn one after another, in proportion to exp(weight) among the places that are left.

    Returns the places in ascending order [count].

    The function takes the places with the largest values of weight - ln(-ln u). Here u is a uniform number per place, drawn from a key.
    """
    u = np.clip(key.uniform(len(weights)), 1e-300, 1 - 1e-16)
    return np.sort(np.argsort(-(weights - np.log(-np.log(u))), kind="stable")[:count])


@dataclass(frozen=True)
class Window:
    """Sorts the problems once. Draws the problems of each epoch by a normal distribution over their places in the sorted order.

    An epoch has `epoch` different problems. Place i is drawn in proportion to exp(-(i - center)^2 / (2 (width * size)^2)). The center begins at place
    0. After each epoch the center moves on by the distance that `pace` gives, at most to the last place. It never moves back. Within an epoch, the problems
    have the order of `ShuffledEpochs`. So if `epoch` is the number of all problems, the curriculum gives the same problems as `ShuffledEpochs`.

    Metrics: `window` is the center as a share of all places. For each number NAME of the pace, `window/NAME` is its average over the last epoch.
    """

    by: Order = Column()
    pace: Pace = WhenSolved()
    width: float = 0.1  # standard deviation of the window, as a share of all problems; inf: all problems are equally likely
    epoch: int = 32  # problems per epoch, at most the number of all problems
    pool: int = 256  # number of sorted problems, if the task generates problems without end
    group: int | None = None  # samples per problem; None: `group` of the setting

    def __post_init__(self) -> None:
        check_ranges(self, width="(0, inf]", epoch="[1, inf)", pool="[1, inf)", group="[1, inf)")

    def start(self) -> dict[str, Any]:
        return {"order": None, "center": 0.0, "epochs": 0, "left": [], "groups": 0, "measured": {}}

    async def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state contains the sorted order, the center, and the problems that are left of the epoch.

        Raises UserError if the numbers of `by` are not one finite number per problem.
        """
        size = self.pool if source.size is None else source.size
        state = {**state, "left": list(state["left"])}
        if state["order"] is None:
            state["order"] = await self._sorted(source, size, world)
        chosen: list[int] = []
        while len(chosen) < count:
            if not state["left"]:
                state = {**state, "left": self._next(source, size, world, state), "epochs": state["epochs"] + 1}
            taken = min(count - len(chosen), len(state["left"]))
            chosen, state["left"] = chosen + state["left"][:taken], state["left"][taken:]
        world.note("window", state["center"] / max(size - 1, 1))
        problems = self._drawn(source, list(dict.fromkeys(chosen)), world)
        return [Request(problems[i], count=self.group or world.group) for i in chosen], state

    async def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state after a step: the numbers of the step are added. If the epoch is over, the center moves on."""
        every = [g for g in (*groups, *dropped) if g.trajectories]
        if not every:
            return state
        found = await self.pace.measure(every, world)
        before, here = state["groups"], len(every)
        means = {n: (state["measured"].get(n, 0.0) * before + float(v) * here) / (before + here) for n, v in found.items()}
        if state["left"] or state["order"] is None:
            return {**state, "groups": before + here, "measured": means}
        for name, mean in means.items():
            world.note(f"window/{name}", mean)
        size = len(state["order"])
        center = min(state["center"] + self.pace.distance(means, size), float(size - 1))
        return {**state, "center": center, "groups": 0, "measured": {}}

    async def _sorted(self, source: Source, size: int, world: World) -> list[int]:
        problems = self._drawn(source, list(range(size)), world)
        values = np.asarray(await self.by.values(list(problems.values()), world), dtype=np.float64)
        if values.shape != (size,) or not np.isfinite(values).all():
            raise UserError(
                f"{type(self.by).__name__}.values returned numbers of shape {list(values.shape)} for {size} problems; it must return one finite "
                "number per problem"
            )
        return [int(i) for i in np.argsort(values, kind="stable")]

    def _next(self, source: Source, size: int, world: World, state: dict[str, Any]) -> list[int]:
        """Draws the problems of an epoch. Returns their indices in the source."""
        number = state["epochs"]
        weights = log_weights(size, state["center"], self.width * size)
        places = drawn_places(weights, min(self.epoch, size), world.seed.fold("window", number))
        taken = {state["order"][place] for place in places}
        order = range(size) if source.size is None else sweep_order(size, range(number * size, (number + 1) * size), world.seed)
        return [i for i in order if i in taken]

    def _drawn(self, source: Source, indices: list[int], world: World) -> dict[int, Problem]:
        return dict(zip(indices, problems_at(source, indices, world), strict=True))


gain_rl = grpo.derive(
    "gain_rl",
    "Problems are sorted once by the angles of their hidden states, and a sampling window moves over them as they are learned.",
    family="data",
    curriculum=Window(by=ByAngles(), pace=AsLearned(), width=0.1, epoch=32),
)

claims = (
    same_weights(
        says="If an epoch has all problems, the sorted order has no effect, and the final weights are those of GRPO.",
        source="arXiv:2506.02281, the window with the whole data in an epoch",
        against="grpo",
        own={"curriculum.pool": "12", "curriculum.epoch": "12"},
    ),
    Claim(
        says=(
            "On 80 problems of which four of five are trivial or impossible, the accuracy on the others is after 24 steps at least that of "
            "equally likely problems."
        ),
        source="arXiv:2506.02281, main results (as accurate as uniform sampling after fewer epochs); the ground and the pool are ours",
        against="gain_rl --curriculum.width inf",
        measure="accuracy@middle",
        better_by=0.0,
        ground="ladder",
        fields={"prompts": "8", "eval_every": "0", "curriculum.pool": "80", "curriculum.epoch": "16"},
        budget="steps=24",
    ),
)
