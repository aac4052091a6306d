"""DeepDive: a browsing agent learns from all-or-nothing rewards. A question describes the start of a walk over a graph of facts, and asks for its end.

    v_0 -> v_1 -> ... -> v_k, quad v_i all different, quad least <= out-degree(v_i) <= most
    R = 1{every turn is well formed} 1{answer = v_k}
    A_i = (R_i - mean(R)) / (std(R))
    loss = 1/N sum_i 1/|o_i| sum_t -min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.28) A_i)

A question is made from a walk of k steps over a graph of facts. The bounds on the out-degree keep the walk away from hubs and from dead ends. The
question names no node of the walk: it describes $v_0$ by its other facts and a range of its age, names the relations, and asks for $v_k$. Only one
start fits the description. So a search for a phrase of the question does not find the answer. The agent must find $v_0$ and follow the links.

The agent has three tools: search lists pages, click opens a listed page or a link, and open opens a page by its title. The policy first learns
demonstrations (SFT). Then it learns by GRPO with 8 episodes per question. The first malformed turn ends an episode with the reward 0, and an episode
without an answer at the limit of turns also has the reward 0. Results of tools have no loss, and there is no KL term. At test time, the search `Fewest`
plays 8 episodes and takes the answer of the episode with the fewest calls.

Use if: answers need many steps of browsing, and a graph of facts can make hard questions with known answers.
Avoid if: the model rarely plays a whole episode in the right form, because then all rewards are 0 (use --environment.hint TEXT, or more SFT).
Reference: Lu et al., DeepDive: Advancing Deep Search Agents with Knowledge Graphs and Multi-Turn RL, arXiv:2509.10446, sections 2 and 3. The clip, 8
samples, the zero KL coefficient, the early stop and the reward 0 at the limits are as in the released code (THUDM/DeepDive).
Departures: The task `walks` has a made-up world of 7 relations, walks of 1 to 4 steps (5 to 9 in the paper), and a template that writes the
questions. In the paper a model chooses nodes and words. The paper keeps only questions that a strong model with search fails four times; this filter
is left out. The demonstrations of the task replace rejection-sampled trajectories. Only the exact answer counts; there is no judge. Calls and answers
are lines; in the released code calls are JSON objects, and the answer is one of the calls. A batch is cut into two mini-batches, so that the clip
acts. The numbers of steps and the limit of turns are our choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradus.environments.tools import Tools
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.auto import Auto
from gradus.rollouts.episodes import Episodes
from gradus.schedules.stages import Stage, Stages
from gradus.search.best_of import keep_one
from gradus.tools.browse import ClickLink, FindPages, OpenPage
from gradus.tools.forms import LineCalls
from gradus.types import Ended, Frozen, Group, Problem, Request, Trajectory
from gradus.types.moments import Steps
from gradus.types.parts import Rollout, World
from gradus.types.ranges import check_ranges

BROWSER = Tools(Frozen(search=FindPages(3), click=ClickLink(), open=OpenPage()), form=LineCalls(), hint=None, limit=10)


def thriftiest(trajectories: Sequence[Trajectory]) -> Trajectory:
    """Returns the episode with the fewest tool calls among those that ended with an answer. Without such an episode, returns the first one."""
    ended = [t for t in trajectories if t.ended is Ended.ENVIRONMENT and not t.links.get("invalid") and t.failed is None]
    return min(ended, key=lambda t: len(t.links.get("calls", ()))) if ended else trajectories[0]


@dataclass(frozen=True)
class Fewest:
    """Plays `count` episodes and keeps one: among those that ended with an answer, the one with the fewest tool calls. If several have the fewest, it keeps
    the earliest."""

    count: int = 8
    rollout: Rollout = Auto()

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the kept episode of one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` episodes of each problem. For each returned episode, `count` episodes are played, and one of them is kept."""
        return await keep_one(thriftiest, self.count, self.rollout, requests, world)


deepdive = grpo.derive(
    "deepdive",
    "A browsing agent learns questions from walks over a graph; the first malformed turn ends an episode, and only a right answer is rewarded.",
    family="agents",
    environment=BROWSER,
    rollout=Episodes(max_turns=10),
    reward=EnvironmentReturn(),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__kl=None,
    players__reference=None,
    update__count=2,
    setting__group=8,
    schedule=Stages(Frozen(sft=Stage(sft, Steps(150), changes=Frozen(environment=BROWSER)), rl=Stage(until=Steps(200)))),
)

_WALKS = {"level": "2", "instruction": "false"}

claims = (
    same_weights(
        says=(
            "From a start that was shown walks, with PPO's clip and the task's own lenient browser, the final weights of the second stage are those of GRPO "
            "without a KL term."
        ),
        source="arXiv:2509.10446, the objective; stated again after a look at the built-in model, which earns no reward, so neither arm moves",
        against="grpo --objective.kl=none --players.reference=none --update.count 2 --rollout Episodes(max_turns=10) --reward EnvironmentReturn",
        own={"environment": "none", "objective.policy.trust": "Clip(low=0.2,high=0.2)", "schedule": "ConstantSchedule"},
        task="walks",
        options={"level": "1", "people": "200", "instruction": "false"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none"},
        budget="steps=2",
        script="benchmarks.warmed deepdive-limit",
    ),
    Claim(
        says="From a start that was shown walks, held-out accuracy on walks of two steps rises by at least 0.1 in 15 steps.",
        source="arXiv:2509.10446, table 2 (RL above SFT); the row's 10 points; the task, the start and the sizes are ours",
        measure="held_out/accuracy:gain",
        better_by=0.1,
        task="walks",
        options=_WALKS,
        fields={"prompts": "4", "learning_rate": "1e-4", "eval_every": "0", "study.problems": "64", "study.greedy": "false", "schedule": "ConstantSchedule"},
        budget="steps=15",
        script="benchmarks.warmed deepdive",
        seeds=3,
    ),
)
