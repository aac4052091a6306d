"""Meta-RTL: a small recurrent policy weights the source tasks of meta-learning, and is rewarded by the effect of each source on the target.

    theta_i = theta - alpha sum over u steps of grad L_i
    w = softmax(LSTM(w_(k-1), R_(k-1)))
    theta' = theta + eta sum_i w_i (theta_i - theta)
    R_i = L_t(theta') - L_t(theta_i)
    policy gradient = sum_i (R_i - b) grad log w_i

$D_1$ to $D_n$ are source tasks with many problems, and t is a target task with few problems. In iteration k each source moves a copy of the weights
theta by u = 4 plain gradient steps on its problems (Reptile). The weights move towards the mean of the copies, weighted by w. $L_i$ is the loss on
worked solutions of source i, and $L_t$ is the loss on worked solutions of the target. The reward $R_i$ is positive if source i alone does better on
the target than the mixture. The baseline b is the running mean of the rewards. The policy is an LSTM with 32 units that reads the weights and rewards
of the last iteration.

Stage `transfer` has the iterations above. Stage `tune` is supervised fine-tuning on the target. Each step draws equally many problems of every kind;
the last kind of the task is the target. Metrics: weight/KIND, gain/KIND ($R_i$), target_loss ($L_t(theta')$).

Use if: the target has few solutions, several tasks could help, and some of them may harm.
Avoid if: the target has enough data (see sft), or the share of each task should follow its progress (see sec, modomodo).
Reference: Fu et al., Meta-RTL: Reinforcement-Based Meta-Transfer Learning for Low-Resource Commonsense Reasoning, arXiv:2409.19075: the weighted
Reptile step, the LSTM policy, and rewards from the differences of losses on target data. Only the abstract and overviews could be read; no code was
found.
Departures: The probability of a source in REINFORCE is its weight, and no weights are sampled. If the reward were computed with sampled weights, a
helpful source with a larger weight would get a lower reward. Our own choices are the numbers u, alpha, eta, the units, the learning rate of the
policy (Adam), the running mean (the newest iteration has the share 0.1), and the lengths of the stages. With alpha = 1e-5, plain gradient steps
hardly move a small model. So the claims set alpha to 0.03 and eta to 1. The gradient goes through one step of the LSTM. The paper trains encoders
with a multiple-choice head; here a language model writes the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.curricula.bandit import arms_of
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen, Key, Request, UserError
from gradus.types.moments import Steps
from gradus.types.parts import Source, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_drawn
from gradus.updates.minibatches import Minibatches
from gradus.updates.reptile import Reptile

State = dict[str, Any]


@dataclass(frozen=True)
class RecurrentWeights:
    """The weights of the kinds are the softmax of an LSTM's output. The LSTM learns by REINFORCE, with the weights as probabilities."""

    hidden: int = 32  # number of units
    lr: float = 0.001  # learning rate of Adam; 0: the weights stay equal
    mean: float = 0.1  # share of the newest rewards in the running mean

    def __post_init__(self) -> None:
        check_ranges(self, hidden="[1, inf)", lr="[0, inf)", mean="(0, 1]")

    def start(self) -> State:
        return {}

    def weigh(self, count: int, key: Key, state: State) -> tuple[np.ndarray, State]:
        """Returns the weights of `count` kinds. The state contains the network, Adam's moments, the memory of the LSTM and its last input."""
        if len(state.get("input", ())) != 2 * count:
            state = self._new(count, key)
        with torch.no_grad():
            logits, _, _ = network(state["network"], state["input"], state["h"], state["c"])
        return torch.softmax(logits, 0).numpy(), state

    def observe(self, rewards: np.ndarray, state: State) -> tuple[dict[str, float], State]:
        """Returns no metrics, and the state after one step of the policy gradient."""
        parts = {name: value.clone().requires_grad_() for name, value in state["network"].items()}
        logits, h, c = network(parts, state["input"], state["h"], state["c"])
        baseline = float(state.get("baseline", rewards.mean()))
        found = torch.from_numpy(rewards)
        (-((found - baseline) * torch.log_softmax(logits, 0)).sum()).backward()
        moved, moments = adam({n: p.detach() for n, p in parts.items()}, {n: p.grad for n, p in parts.items()}, state["moments"], lr=self.lr)
        after = {"network": moved, "moments": moments, "h": h.detach(), "c": c.detach()}
        last = torch.cat([torch.softmax(logits.detach(), 0), found])
        return {}, {**after, "input": last, "baseline": baseline + self.mean * (float(rewards.mean()) - baseline)}

    def _new(self, count: int, key: Key) -> State:
        shapes = {"in": (4 * self.hidden, 2 * count), "back": (4 * self.hidden, self.hidden), "gate": (4 * self.hidden,)}
        made = {n: torch.from_numpy(key.fold("lstm", n).normal(*shape)) / self.hidden**0.5 for n, shape in shapes.items()}
        made |= {"out": torch.zeros(count, self.hidden, dtype=torch.float64), "bias": torch.zeros(count, dtype=torch.float64)}
        zero = torch.zeros(self.hidden, dtype=torch.float64)
        first = torch.cat([torch.full((count,), 1 / count), torch.zeros(count)]).double()
        return {"network": made, "moments": {}, "h": zero, "c": zero.clone(), "input": first}


def network(parts: Mapping[str, Tensor], seen: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the logits of the kinds, and the LSTM's new output and memory."""
    enter, keep, give, new = (parts["in"] @ seen + parts["back"] @ h + parts["gate"]).chunk(4)
    c = torch.sigmoid(keep) * c + torch.sigmoid(enter) * torch.tanh(new)
    h = torch.sigmoid(give) * torch.tanh(c)
    return F.linear(h, parts["out"], parts["bias"]), h, c


def adam(weights: Mapping[str, Tensor], slopes: Mapping[str, Tensor | None], moments: State, *, lr: float) -> tuple[dict[str, Tensor], State]:
    """Returns the weights after one step of Adam (0.9, 0.999, 1e-8), and its moments."""
    count, out, after = int(moments.get("count", 0)) + 1, dict[str, Tensor](), State()
    for name, weight in weights.items():
        slope = slopes[name]
        assert slope is not None
        first = 0.9 * moments.get(f"{name}/1", 0.0) + 0.1 * slope
        second = 0.999 * moments.get(f"{name}/2", 0.0) + 0.001 * slope**2
        out[name] = weight - lr * (first / (1 - 0.9**count)) / ((second / (1 - 0.999**count)).sqrt() + 1e-8)
        after |= {f"{name}/1": first, f"{name}/2": second}
    return out, {**after, "count": count}


@dataclass(frozen=True)
class EachKind:
    """Requests prompts * group / n problems (rounded down) of each of the n kinds, kind by kind, with one sample per problem.

    `arms`: the kinds; empty: all arms of the source. `last`: use only this number of kinds at the end of the list; 0: all kinds.
    """

    arms: tuple[str, ...] = ()
    last: int = 0

    def __post_init__(self) -> None:
        check_ranges(self, last="[0, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task's source has no arms, or if the source lacks an arm that `arms` names."""
        arms_of(self, task.source)

    def start(self) -> dict[str, int]:
        return {}

    def choose(self, source: Source, count: int, world: World, state: Mapping[str, int]) -> tuple[list[Request], dict[str, int]]:
        """Returns the requests. The state contains, for every kind, the number of its problems that were drawn so far.

        Raises UserError if the step has fewer problems than there are kinds.
        """
        kinds = arms_of(self, source)[-self.last :]
        each = count * world.group // len(kinds)
        if not each:
            raise UserError(f"EachKind draws from {len(kinds)} kinds, but a step has only {count * world.group} problems; give a larger --prompts")
        named: Any = source
        out: list[Request] = []
        for kind in kinds:
            first = state.get(kind, 0)
            problems = named.draw_arm(kind, range(first, first + each), None, world.seed.fold("problems", kind))
            check_drawn(source, problems, range(first, first + each))
            out += [Request(problem) for problem in problems]
        return out, {**state, **{kind: state.get(kind, 0) + each for kind in kinds}}


TUNE = Frozen({"update": Minibatches(), "curriculum": EachKind(last=1)})
"""The fields that differ in stage `tune`."""

meta_rtl = sft.derive(
    "meta_rtl",
    "An LSTM policy weights the source tasks of Reptile steps, rewarded by the losses on a target task with few problems.",
    family="data",
    curriculum=EachKind(),
    update=Reptile(inner_steps=4, inner_lr=1e-5, eta=0.3, weights=RecurrentWeights()),
    schedule=Stages(Frozen(transfer=Stage(until=Steps(500)), tune=Stage(until=Steps(50), changes=TUNE))),
)

_SMALL = {
    "prompts": "5",
    "group": "8",
    "learning_rate": "1e-4",
    "eval_every": "0",
    "study.problems": "64",
    "study.greedy": "false",
    "update.inner_lr": "0.03",
    "update.eta": "1",
    "schedule.stages.transfer.until.count": "16",
    "schedule.stages.tune.until.count": "4",
}

claims = (
    same_weights(
        says="If the policy has the learning rate 0, the final weights are those of Reptile with equal weights.",
        source="arXiv:2409.19075, the baseline of equal weights",
        against="meta_rtl --update.weights EqualWeights",
        own={"update.weights.lr": "0"},
        task="transfer",
        model="gradus/policies/tiny/base",
        fields={"prompts": "5", "group": "2", "study": "none", "update.inner_lr": "0.05", "schedule": "ConstantSchedule"},
    ),
    Claim(
        says="On transfer, the weight of the source with swapped answers is at least 0.1 below an equal weight after 16 iterations.",
        source="arXiv:2409.19075, weights follow the relatedness of the sources; the task and the sizes are ours",
        against="meta_rtl --update.weights EqualWeights",
        measure="weight/swapped:last",
        better_by=-0.1,
        task="transfer",
        model="gradus/policies/tiny/base",
        fields=_SMALL,
        own={"update.weights.lr": "0.03"},
        budget="steps=20",
    ),
    Claim(
        says="On transfer, accuracy on the target after transfer and tuning is at least 0.03 above that of equal weights.",
        source="arXiv:2409.19075, main results (above equal weights); the task and the sizes are ours",
        against="meta_rtl --update.weights EqualWeights",
        better_by=0.03,
        task="transfer",
        model="gradus/policies/tiny/base",
        fields=_SMALL,
        own={"update.weights.lr": "0.03"},
        budget="steps=20",
    ),
)
