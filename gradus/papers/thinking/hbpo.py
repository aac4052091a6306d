"""HBPO: the answers to a question are divided among token budgets. Reward and advantage compare an answer with its own budget and across budgets.

    f_2(b) = beta cos((pi b) / (2 L))
    R_ij = f_2(b_i) "if" n_ij <= b_i, quad beta cos((pi n_ij) / (2 L)) - alpha |n_ij - b_i| "if" b_i < n_ij <= L, quad 0 "if wrong or over" L
    A_ij = ["mean"_j (R_ij) - f_2(b_i)] + (R_ij - mean(R)) / (std(R))
    loss = -1/N sum_t min(rho A, clip(rho, 1 - 0.2, 1 + 0.28) A)

Answer j with budget $b_i$ has $n_ij$ tokens. L is the limit of an answer. Equal shares of a group have the budgets $b_1 < ... < b_k$. An answer
begins with an inserted sentence that names its budget and has no loss. An answer earns more under a short budget, but every token beyond the budget
costs reward. So long solutions earn more under a long budget. The first part of the advantage is the same for all answers with one budget. This part
is 0 if all answers are right within the budget, else negative. So a group of wrong answers becomes less likely, too. mean(R) and std(R) are over the
whole group; N counts the tokens of the mini-batch. In evaluation there is no sentence, and the length adapts to the problem. A step has four updates.
Metrics: reward/budget_value.

Use if: problems need different amounts of thought, and a common penalty on length would shorten the answers to hard problems too much.
Avoid if: answers are far shorter than all budgets, because the reward is then constant per budget (see grpo).
Reference: Lyu et al., Hierarchical Budget Policy Optimization for Adaptive Reasoning, arXiv:2507.15844: reward, advantage, beta 4, L 4096, budgets 512,
1024, 2048 and 2560 with 16 answers. The released code (ZJU-REAL/HBPO) has a sentence that contains "with b tokens", alpha 1/4096, clip 0.2 and 0.28, no KL,
and batches of 64 questions in mini-batches of 16.
Departures: The code gives -1 to answers without a final answer; here they get 0, as in the paper. Below the budget, the code takes the smaller of the
two forms, which differs slightly at the smallest budget; here the paper's form applies. The code adds the first part of the advantage twice. The
code's sentence has a loss and counts in n; here the sentence is part of the prompt, without the mark `<think>`. The deviation is the population
deviation. In an evaluation, answers have their own length as budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.credit.groups import group_relative, spread
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.reshaped import reshaped
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.exits import tokens_of
from gradus.rollouts.ids import group_name
from gradus.rollouts.single_turn import one_turn
from gradus.rollouts.spans import check_text
from gradus.types import Frozen, Group, Request, Trajectory, UserError, prompt_context
from gradus.types.parts import Credited, Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

VALUE = "budget_value"  # f_2 of the budget, a component of the reward


@dataclass(frozen=True)
class BudgetGroups:
    """Divides the samples of a request among `budgets`, in equal shares, and begins each answer with `text`; the budget replaces {}.

    The link `budget` of a trajectory is its budget. The inserted tokens belong to the prompt. At test time, answers have no budget.
    """

    budgets: tuple[int, ...] = (512, 1024, 2048, 2560)
    text: str = "I will answer the question with {} tokens"
    gives: ClassVar[frozenset[str]] = frozenset({"budgets"})
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        if not self.budgets or min(self.budgets) < 1:
            raise UserError(f"BudgetGroups.budgets is {self.budgets}; give at least one number of tokens, each 1 or more")

    @property
    def test(self) -> Auto:
        return Auto()

    def check_task(self, task: Task) -> None:
        check_text(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, with the answers in the order of the budgets."""
        parts = [self._parts(request, world) for request in requests]
        drawn = iter(await world.sample([part for row in parts for part, _ in row]))
        groups = []
        for request, row in zip(requests, parts, strict=True):
            pieces = [(budget, context) for _, budget in row for context in next(drawn)]
            made = [one_turn(request, i, context, world).but(links=Frozen(budget=budget)) for i, (budget, context) in enumerate(pieces)]
            groups.append(Group(group_name(request), tuple(made)))
        return await world.judge(groups)

    def _parts(self, request: Request, world: World) -> list[tuple[Request, int]]:
        opened, first, parts = world.prompt(request), 0, []
        for share, budget in zip(np.array_split(np.arange(request.count), len(self.budgets)), self.budgets, strict=True):
            tokens = tokens_of(self.text.replace("{}", str(budget)), world, request.player)
            prompt = opened.then(prompt_context(tokens)) if len(tokens) else opened
            parts.append((replace(request, count=len(share), sample=request.sample + first, prompt=prompt), budget))
            first += len(share)
        return parts


@dataclass(frozen=True)
class BudgetReward(Combines):
    """The reward of a right answer under its budget; 0 for wrong answers and for answers above the limit. `reward` decides which answers are right."""

    reward: Reward = Verified()
    limit: int | None = None  # L, tokens; None: the limit of an answer
    beta: float = 4.0
    alpha: float = 1 / 4096  # loss of reward per token beyond the budget
    name: ClassVar[str] = "budgeted"

    def __post_init__(self) -> None:
        check_ranges(self, limit="[1, inf)", beta="[0, inf)", alpha="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        limit = self.limit or world.sampling.limit

        def rule(judged: Sequence[Group]) -> list[tuple[np.ndarray, dict[str, np.ndarray]]]:
            return [
                (np.array([self.value(t, limit) for t in g.trajectories]), {VALUE: np.array([self.best(budget_of(t), limit) for t in g.trajectories])})
                for g in judged
            ]

        return await reshaped(self.reward, groups, signals, world, rule)

    def best(self, budget: int, limit: int) -> float:  # f_2(b), the reward of a right answer within the budget
        return self.beta * math.cos(math.pi * budget / (2 * limit))

    def value(self, trajectory: Trajectory, limit: int) -> float:
        """Returns the reward of a judged answer."""
        length, budget = trajectory.actions, budget_of(trajectory)
        if not trajectory.right or length > limit:
            return 0.0
        return self.best(budget, limit) if length <= budget else self.best(length, limit) - self.alpha * (length - budget)


def budget_of(trajectory: Trajectory) -> int:
    """Returns the budget of an answer; the length of the answer if it has no budget."""
    return int(trajectory.links.get("budget", trajectory.actions))


@dataclass(frozen=True)
class BudgetAdvantage:
    """For each answer: the mean reward of its budget, minus the best possible reward with this budget, plus the reward standardised over the whole
    group."""

    needs: ClassVar[tuple[Signal, ...]] = ()

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [self._group(group) for group in groups])

    def _group(self, group: Group) -> np.ndarray:
        if any(VALUE not in t.components for t in group.trajectories):
            raise UserError(f"group {group.key} has no values of budgets, but BudgetAdvantage compares these values; set --reward BudgetReward")
        budgets = np.array([budget_of(t) for t in group.trajectories])
        best = np.array([t.components[VALUE] for t in group.trajectories], np.float64)
        own = np.array([group.rewards[budgets == b].mean() for b in budgets])
        return own - best + group_relative(group.rewards)


hbpo = grpo.derive(
    "hbpo",
    "Answers are divided among token budgets, and compared with their own budget and across budgets.",
    family="thinking",
    rollout=BudgetGroups(),
    reward=BudgetReward(),
    credit=BudgetAdvantage(),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
    update__count=4,
)

_PLAIN = "grpo --objective.kl none --players.reference none --objective.policy.trust.high 0.28 --objective.policy.average TokenMean --update.count 4"

claims = (
    same_weights(
        says="Without sentence, with the plain verdict and the advantage within the group, the final weights are those of GRPO with the same loss.",
        source="arXiv:2507.15844, the limit without budgets",
        against=_PLAIN,
        own={"rollout.text": "", "reward": "Verified", "credit": "GroupRelative"},
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "study": "none", "warmup": "0"},
    ),
    Claim(
        says="Without a sentence in evaluation, answers become at most 0.8 times as long as those of GRPO.",
        source="arXiv:2507.15844, abstract (up to 61 % shorter); the ground, the budgets 16, 24, 36 and 48 of 60 tokens and the short sentence are ours",
        against=_PLAIN,
        own={"rollout.budgets": "(16, 24, 36, 48)", "rollout.text": "{} ", "reward.alpha": "0.0167"},
        measure="length",
        at_most=0.8,
        ground="wordy",
        fields={"update.count": "4"},
        budget="steps=30",
    ),
)
