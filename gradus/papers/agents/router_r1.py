"""Router-R1: a small model thinks, sends parts of the question to named experts, and reads their answers. Right answers earn more if the experts were cheap.

    R = -1 "if the form is broken, else" 0 "if" o = 0, quad (1 - alpha) o + alpha c "if" o > 0
    x = sqrt(sum_k n_k p_k), quad c = 1 - clip((x - q_0.05) / (q_0.95 - q_0.05), 0, 1)

The policy writes <search>Name: question</search>; the expert of this name answers between <information> and </information>. Up to 4 calls are executed, then
the policy answers. $n_k$ is the number of words of the k-th expert answer, $p_k$ is the price of a word, and o is 1 for an exact match, else 0. $q_0.05$ and
$q_0.95$ are quantiles (with linear interpolation) of the last 1000 values of x, including the present value. Every episode adds its x, in the order of the
batch, even if its answer is wrong. If both quantiles are equal, c is 0.5. With alpha = 0 the price has no effect; the paper trains alpha = 0, 0.6, 0.7, 0.8
and 0.9.

The form is broken in these cases: a tag is not closed or stands inside another tag; the text does not begin with a thought; the text does not end with its
only answer block; a thought is empty or "..."; a call got no answer; or a query is malformed. A query is malformed if it does not have exactly one colon, or
if it has an unknown name, an empty question, the name again inside the question, or a placeholder (llm-name, your-query). The rest is PPO as in search_r1.
Answers of experts have no loss. Metrics: reward/cost, reward/calls, reward/broken.

Use if: several models with different prices and strengths are available, and many questions are easy for a cheap one.
Avoid if: one model is both the best and cheap, or if each expert needs the whole question with long context, which the policy must write again.
Reference: Zhang, Feng and You, Router-R1: Teaching LLMs Multi-Round Routing and Aggregation via Reinforcement Learning, arXiv:2506.09033. The form, the window and
the cost reward are as in the released code (ulab-uiuc/Router-R1).
Departures: The experts are scripts over the passages of the task: an expert knows the facts of its topics, with a stated accuracy. The prompt names no prices or
strengths, so a new expert cannot be used without training. The task is ours. The released code counts the tokens of the expert's tokenizer; this recipe
counts words. In the released code, a part of an expert's name is enough, and a malformed query with a known name is executed and charged. Here a query needs
the whole name, and a malformed query gets an error at no cost. The outcome F1 is left out. The window of an evaluation does not change the window of the
training. `--reward.think false` allows texts without thoughts; the start model of the claims writes none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.papers.agents.search_r1 import search_r1
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.tools.experts import Route, routed
from gradus.tools.forms import TaggedCalls
from gradus.types import Frozen, Group, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

BLOCK = re.compile(r"<(search|answer|think|information)>(.*?)</\1>", re.DOTALL)
TAG = re.compile(r"</?(?:search|answer|think|information)>")
CALL = re.compile(r"<(search|information)>(.*?)</\1>", re.DOTALL)


def broken(text: str, tool: Route, *, think: bool = True) -> bool:
    """Returns whether the form of a whole episode is broken, with the answers of experts in `text`."""
    blocks = BLOCK.findall(text)
    of = {tag: [inside.strip() for name, inside in blocks if name == tag] for tag in ("search", "answer", "think", "information")}
    open_or_nested = len(TAG.findall(text)) != 2 * len(blocks) or any(TAG.search(inside) for _, inside in blocks)
    thoughtless = (think and (not text.strip().startswith("<think>") or not of["think"])) or any(inside in ("", "...") for inside in of["think"])
    unended = len(of["answer"]) != 1 or not text.strip().endswith("</answer>")
    queries = [routed(query) for query in of["search"]]
    malformed = any(read is None or tool.named(read[0]) is None for read in queries)
    return open_or_nested or thoughtless or unended or malformed or len(of["search"]) != len(of["information"])


def cost(text: str, tool: Route) -> float:
    """Returns the sum over the executed calls of (words of the answer) * (price of the expert)."""
    total, name = 0.0, None
    for tag, inside in CALL.findall(text):  # calls inside a thought count, too, because they are executed
        if tag == "search":
            read = routed(inside.strip())
            name = None if read is None else tool.named(read[0])
        elif tag == "information" and name is not None:
            total, name = total + len(inside.split()) * name.price, None
    return total


def cheapness(x: float, window: Sequence[float]) -> float:
    """Returns 1 - clip((x - q05) / (q95 - q05), 0, 1), with the quantiles of the window; 0.5 if they are equal."""
    low, high = np.quantile(window, [0.05, 0.95])
    return 0.5 if high - low < 1e-8 else 1.0 - float(np.clip((x - low) / (high - low), 0.0, 1.0))


@dataclass(frozen=True)
class RoutingReward:
    """The reward is -1 for a broken form, 0 for a wrong answer, and otherwise (1 - alpha) * outcome + alpha * cheapness. The state contains the square roots
    of the last costs.
    """

    alpha: float = 0.0
    window: int = 1000
    think: bool = True  # whether a text without thoughts is broken
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, 1]", window="[1, inf)")

    def check(self, task: Task) -> None:
        """Raises UserError if the environment of the task has no tool `route`."""
        if "route" not in getattr(task.environment, "tools", ()):
            raise UserError(f"RoutingReward reads the prices of the tool `route`, but task {task.name} has no such tool; keep the environment of router_r1")

    def start(self) -> dict[str, Any]:
        return {"roots": []}

    async def score(
        self, groups: Sequence[Group], signals: Signals, world: World, state: dict[str, Any]
    ) -> tuple[list[list[Judgement]], dict[str, Any]]:
        tool, roots, rows = world.task.environment.tools["route"], list(state["roots"]), []  # type: ignore[union-attr]
        for group, plain in zip(groups, await EnvironmentReturn().score(groups, signals, world), strict=True):
            row = []
            for t, judgement in zip(group.trajectories, plain, strict=True):
                if isinstance(judgement.reward, int | float):
                    text = whole(t, world)
                    spent, bad = cost(text, tool), broken(text, tool, think=self.think)
                    roots = [*roots, spent**0.5][-self.window :]
                    value = self.of(judgement.reward, cheapness(roots[-1], roots), bad)
                    calls = float(len(t.links.get("calls", ())))
                    parts = Frozen({**judgement.components, "cost": spent, "calls": calls, "broken": float(bad)})
                    judgement = replace(judgement, reward=value, components=parts)
                row.append(judgement)
            rows.append(row)
        return rows, {"roots": roots}

    def of(self, outcome: float, cheap: float, bad: bool) -> float:
        """Returns the reward of one episode."""
        return -1.0 if bad else (1 - self.alpha) * outcome + self.alpha * cheap if outcome > 0 else 0.0


def whole(trajectory: Trajectory, world: World) -> str:
    """Returns the text of an episode from its first action on, with the inserted answers."""
    return "".join(world.text(c.sequence[int(c.action_positions[0]) :], trajectory.player) for c in trajectory.contexts if c.actions)


router_r1 = ppo.derive(
    "router_r1",
    "A policy asks named experts with different prices inside its answer; the reward weighs right answers against the price of the calls.",
    family="agents",
    environment=replace(
        search_r1.environment,
        tools=Frozen(route=Route()),
        form=TaggedCalls("<information>", "</information>", (("search", "route"),)),
        calls=4,
        limit=5,
        hint="\nThis is no valid action. Ask with <search>Name: question</search>, or answer with <answer>words</answer>.\n",
    ),
    rollout=Episodes(max_turns=5),
    reward=RoutingReward(),
    credit=search_r1.credit,
    players__critic__rates=Frozen(trunk=10.0, head=10.0),
)

_TERMS: dict[str, Any] = {
    "task": "search_qa",
    "options": {"level": "1", "instruction": "false"},
    "fields": {
        "prompts": "4", "group": "4", "learning_rate": "1e-4", "eval_every": "0", "study.problems": "64", "reward.think": "false", "reward.window": "200",
    },
    "own": {"reward.alpha": "0.6"},
    "against": "router_r1 --reward.alpha 0",
    "budget": "steps=15",
    "seeds": 3,
}  # fmt: skip

claims = (
    Claim(
        says="From a start that asks the dear expert in half of its episodes, alpha = 0.6 ends after 15 steps with at most 0.7 times the cost of alpha = 0.",
        source="arXiv:2506.09033, analysis of alpha; the row's 30 percent; the start, the window, the task and the sizes are ours",
        measure="reward/cost:last",
        at_most=0.7,
        script="benchmarks.warmed router_r1",
        **_TERMS,
    ),
    Claim(
        says="The held-out accuracy after these steps is at least 0.95 times that of alpha = 0.",
        source="arXiv:2506.09033, analysis of alpha; the row's 5 points as a ratio; the start, the window, the task and the sizes are ours",
        measure="held_out/accuracy:last",
        at_least=0.95,
        script="benchmarks.warmed router_r1-accuracy",
        **_TERMS,
    ),
)
