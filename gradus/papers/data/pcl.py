"""PCL: a value model predicts the success rate of every candidate problem, and only the problems predicted near one half are sampled and trained on.

    B = "the" m "of" k m "candidates with the smallest" |V(x) - tau|
    A_i = r_i - mean(r)
    loss = -1/N sum_i 1/|o_i| sum_t log pi(o_(i,t)) A_i
    loss_V = 1/N sum_i (V(x_i) - mean(r))^2

A step draws k m problems, with k = 4. One forward pass of the value model over the prompts alone gives V(x), the predicted mean reward of the policy.
The m problems nearest to tau = 0.5 form the batch B; no answer is sampled for the other candidates. Each problem of B gets n answers. For rewards of
0 and 1 the mean square of the advantage is p (1 - p), which is largest at p = 1/2. The policy makes one update per batch, on its own samples, so
there is no ratio to clip. Then the value model is fitted to the mean rewards of the same groups. So the next prediction of the value model is based
on the policy before the last update.

The value model is a second network with a linear head, which starts from the policy. The value model reads the state after the last token of the
prompt. N counts all answers of the batch. Metrics: predicted_rate, rank_correlation (Spearman's, of the predictions with the mean rewards),
critic/loss/value.

Use if: problems are new or come again rarely, many are always or never solved, and sampling is expensive.
Avoid if: the same few problems come again, because their own answers predict better than a model (see mopps). A second network of the policy's size
costs memory.
Reference: Gao et al., Prompt Curriculum Learning for Efficient LLM Post-Training, arXiv:2510.01135. The paper has tau 0.5, four candidates per
problem, 512 problems with 16 answers, on-policy updates, advantages without a deviation, and a learning rate of 1e-6.
Departures: No code of the authors was found. The linear head without a sigmoid, the start from the policy and the policy's learning rate for the
value model are ours. Rewards can be other numbers than 0 and 1: V predicts the mean reward in its own scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.curricula.rates import Choice, Nearest, candidates, rank_correlation
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import ValueLoss
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.prompts import prompt_of
from gradus.types import Context, Frozen, Group, Request, UserError
from gradus.types.parts import Credited, Signals, Source, Task, World
from gradus.types.players import Copy, Head, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal, Value
from gradus.types.spaces import Box


def after_prompt(prompt: Context) -> Context:
    """Returns a context with one action after the prompt. A value before this action is a value of the prompt; the action itself has no effect."""
    return Context(prompt.sequence[-1:].copy(), np.ones(1, bool), parent=(prompt, len(prompt.sequence)))


@dataclass(frozen=True)
class PredictedRates:
    """Asks a value model for the mean reward of candidate problems, and requests the candidates that `choice` takes.

    The candidates of a request for n problems are the next `factor` * n problems of the passes of `ShuffledEpochs`, each once. Metrics:
    predicted_rate, the mean prediction for the requested problems; rank_correlation, Spearman's correlation of the predictions with the mean
    rewards of the step.
    """

    player: str = "critic"  # a player with a value head
    choice: Choice = Nearest(0.5)
    factor: int = 4  # candidates per requested problem
    group: int | None = None  # samples per problem; None: `group` of the setting
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, factor="[1, inf)", group="[1, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the actions of the task are numbers, because such a task has no prompts in text."""
        if isinstance(task.acting, Box):
            raise UserError(f"task {task.name} takes numbers as actions, but PredictedRates needs prompts and answers in text; use a task whose answers are text")

    def start(self) -> dict[str, Any]:
        return {"drawn": 0, "predicted": {}}

    async def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state has the number of candidates so far, and the predictions for the requested problems."""
        first = state["drawn"]
        problems, number = candidates(source, count, world, factor=self.factor, first=first, size=source.size)
        prompts = [world.opening(prompt_of(Request(p), world.task.system), self.player) for p in problems]
        rows = await world.score([after_prompt(p) for p in prompts], Value(), self.player)
        values = np.array([float(row[0]) for row in rows])
        chosen = self.choice.pick(values, count, world.seed.fold("predicted", first))
        for i in chosen:
            world.note("predicted_rate", values[i])
        predicted = {problems[i].id: float(values[i]) for i in chosen}
        requests = [Request(problems[i], count=self.group or world.group) for i in chosen]
        return requests, {"drawn": first + number, "predicted": {**state["predicted"], **predicted}}

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state without predictions, and notes the rank correlation."""
        pairs = [(state["predicted"].get(g.trajectories[0].problem.id), g.rewards.mean()) for g in (*groups, *dropped)]
        known = [(p, r) for p, r in pairs if p is not None]
        if (seen := rank_correlation([p for p, _ in known], [r for _, r in known])) is not None:
            world.note("rank_correlation", seen)
        return {**state, "predicted": {}}


@dataclass(frozen=True)
class PromptReturns:
    """Gives all actions the mean reward of the group as return. Only the first action of each answer has a weight.

    So a value model learns the value of the prompt alone.
    """

    needs: ClassVar[tuple[Signal, ...]] = ()
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [[_at_start(t.actions, float(g.rewards.mean())) for t in g.trajectories] for g in groups]


def _at_start(actions: int, value: float) -> Credited:
    weights = np.zeros(actions)
    weights[:1] = 1.0
    return Credited(np.zeros(actions), np.full(actions, value), weights)


pcl = grpo.derive(
    "pcl",
    "A value model reads the prompts and predicts success; only problems predicted near one half are sampled.",
    family="data",
    curriculum=PredictedRates(player="critic", choice=Nearest(0.5), factor=4),
    credit=GroupRelative(scale="none"),
    objective__policy__trust=Unclipped(),
    objective__kl=None,
    players__reference=None,
    players__critic=Player(
        Head(of=Copy("policy")),
        objective=Frozen(value=ValueLoss(clip=None, average=TokenMean(counted="weighted"), coefficient=2.0)),
        credit=PromptReturns(),
        learns_from="policy",
    ),
)

claims = (
    same_weights(
        says="With one candidate per problem nothing is chosen, and the final weights are those of the same training in the usual order of problems.",
        source="arXiv:2510.01135, uniform sampling as the limit of few candidates",
        against="pcl --curriculum ShuffledEpochs",
        own={"curriculum.factor": "1"},
    ),
    Claim(
        says=(
            "If four of five problems are trivial or impossible, the mean share of groups with a gradient over 20 steps is at least 1.2 times that of "
            "the usual order of problems, with as many answers."
        ),
        source="arXiv:2510.01135, effective ratio against uniform sampling; the ground and the size of the effect are ours",
        against="pcl --curriculum.factor 1",
        measure="informative:mean",
        at_least=1.2,
        ground="ladder",
        fields={"prompts": "8", "group": "8", "eval_every": "0"},
        budget="steps=20",
    ),
)
