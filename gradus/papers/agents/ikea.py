"""IKEA: a search agent that trusts its memory first. Right answers earn more with fewer searches; wrong answers earn a little if they searched.

    y = (a_1, d_1, a_2, d_2, ..., a_n), quad n <= 4
    R = -1 "if the form is broken, else"
    R = 1 + r_+ (1 - min(n_s, 3) / 3) "if right, else"
    R = r_- "if" n_s > 0, quad 0 "if" n_s = 0
    A_i = (R_i - mean(R)) / (std(R))

$n_s$ is the number of <search> tags in the pieces $a_k$ that the policy writes, $r_+$ = 0.6 and $r_-$ = 0.05. So a right answer earns 1.6, 1.4, 1.2 or
1 after 0, 1, 2 or more searches. The small reward of a wrong answer invites the policy to search where its knowledge ends. This reward is far smaller than
the reward of a right answer. Passages $d_k$ are inserted between <information> and </information>, and have no loss. At most 3 searches are executed. The
policy can then write one more piece. A search in this last piece gets no result, but it still lowers the reward.

Half of the training problems are easy and half are hard. The start model answers each problem N = 16 times without a search: a problem is easy if any
of these answers is right, and hard if none is. Apart from this, the method is GRPO with 16 answers per problem and a KL coefficient of 0.001.
Metrics: reward/searches, reward/broken, easy (share of easy problems among all probed problems).

Use if: a search costs time or money, and the model knows some of the answers.
Avoid if: the model knows none of the answers, because then every question needs a search (see search_r1).
Reference: Huang et al., Reinforced Internal-External Knowledge Synergistic Reasoning for Efficient Adaptive Search Agent, arXiv:2505.07596, section 3:
the reward, the probes, and the balance of the training set. The test of the form is as in the released code (hzy312/knowledge-r1).
Departures: A form is broken if a piece before the last has neither a search nor an answer, if a <think> tag is missing, or if one of the words think,
search and answer stands next to a round or square bracket. `--reward.think false` allows texts without <think> tags. A last piece without a search
and without an answer is wrong, not broken, as in the released code. That code also looks for brackets in the passages; here only the policy's text
counts. A probe is an episode of one piece, so a probe that searches counts as wrong; the prompt of the paper's probes names no search engine. The paper keeps
4000 problems of each kind; here `pool` problems are probed at the first step, and every step draws half of its problems from each kind. If all probed
problems are of one kind, a step draws all its problems from this kind. The released script has a learning rate of 1e-7 and a warm-up over 75 % of the steps;
here the run's setting decides both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.curricula.shuffled_epochs import problems_at, sweep_order
from gradus.environments.tools import Tools
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.overlap import Matches
from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.episodes import Episodes
from gradus.tools.forms import TaggedCalls
from gradus.tools.search import Search
from gradus.types import Frozen, Group, Request, Trajectory
from gradus.types.parts import Judgement, Signals, Source, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

_BRACKETS = re.compile(r"[(\[](think|search|answer)|(think|search|answer)[)\]]")


@dataclass(frozen=True)
class KnowledgeBoundary:
    """A right answer earns 1 plus a bonus: `saved` without a search, a smaller bonus with each search, and 0 from `most` searches on. A wrong answer earns
    `tried` if it searched.

    A broken form earns `broken`. The component `environment` says whether the answer is right.
    """

    saved: float = 0.6  # bonus of a right answer without a search
    tried: float = 0.05  # reward of a wrong answer with a search
    broken: float | None = -1.0  # reward of a broken form; None: the form does not matter
    most: int = 3  # from this number of searches on, a right answer earns no more than 1
    think: bool = True  # whether a form without <think> tags is broken
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, saved="[0, inf)", tried="[0, inf)", most="[1, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        plain = await EnvironmentReturn().score(groups, signals, world)
        return [[self._judged(t, j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, plain, strict=True)]

    def _judged(self, trajectory: Trajectory, plain: Judgement) -> Judgement:
        if not isinstance(plain.reward, float | int):
            return plain
        searches, bad = trajectory.completion.count("<search>"), self.is_broken(trajectory)
        components = Frozen({**plain.components, "searches": float(searches), "broken": float(bad)})
        reward = self.broken if bad and self.broken is not None else self.of(plain.reward >= 1, searches)
        return replace(plain, reward=reward, components=components)

    def of(self, right: bool, searches: int) -> float:
        """Returns the reward of an answer whose form is right."""
        return 1 + self.saved * (1 - min(searches, self.most) / self.most) if right else self.tried * (searches > 0)

    def is_broken(self, trajectory: Trajectory) -> bool:
        """Returns whether the form is broken."""
        text, valid = trajectory.completion, trajectory.stream("valid")
        hints = trajectory.links.get("invalid", 0) - int(len(valid) > 0 and not valid[-1])  # no hint follows the last piece
        lacks = self.think and not all(tag in text for tag in ("<think>", "</think>"))
        return hints > 0 or lacks or _BRACKETS.search(text) is not None


@dataclass(frozen=True)
class HalfKnown:
    """Requests equal numbers of easy and of hard problems. A problem is easy if the policy answers it right in at least one of `probes` pieces,
    before training.
    """

    probes: int = 16
    pool: int = 64  # number of probed problems, if the task generates problems without end

    def __post_init__(self) -> None:
        check_ranges(self, probes="[1, inf)", pool="[1, inf)")

    def start(self) -> dict[str, Any]:
        return {"easy": [], "hard": [], "step": 0}

    async def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests: half of them easy, rounded down. The state contains the places of the easy and of the hard problems, and the number of
        steps so far."""
        size = self.pool if source.size is None else source.size
        if not state["step"]:
            rights = await self._rights(source, size, world)
            state = {"easy": [i for i in range(size) if rights[i]], "hard": [i for i in range(size) if not rights[i]], "step": 0}
        world.note("easy", len(state["easy"]) / size)
        places = []
        for kind, number in (("easy", count // 2), ("hard", count - count // 2)):
            own = state[kind] or [*state["easy"], *state["hard"]]
            first = state["step"] * number
            places += [own[i] for i in sweep_order(len(own), range(first, first + number), world.seed.fold(kind))]
        return [Request(problem, count=world.group) for problem in problems_at(source, places, world)], {**state, "step": state["step"] + 1}

    async def _rights(self, source: Source, size: int, world: World) -> list[int]:
        """Returns the number of right probes of every problem."""
        asked = [Request(p, count=self.probes, tags=("probe",), trained=False, turns=1) for p in problems_at(source, range(size), world)]
        return [sum(t.right for t in group.trajectories) for group in await rolled(Auto(), asked, world)]


ikea = grpo.derive(
    "ikea",
    "A search engine inside the answer: right answers earn more with fewer searches, and half of the problems are known to the model.",
    family="agents",
    environment=Tools(
        tools=Frozen(search=Search(top=3)),
        form=TaggedCalls("<information>", "</information>"),
        calls=3,
        limit=4,
        hint="\nThis is no valid action. Search with <search>words</search> only if needed, or answer with <answer>words</answer>.\n",
        verify=Matches("exact"),
    ),
    rollout=Episodes(max_turns=4),
    curriculum=HalfKnown(),
    reward=KnowledgeBoundary(),
    objective__kl__coefficient=0.001,
    setting__group=16,
)

_TERMS = {
    "prompts": "4", "group": "8", "learning_rate": "2e-4", "eval_every": "0", "study.problems": "20", "study.greedy": "false", "reward.think": "false",
    "curriculum.pool": "32", "curriculum.probes": "6",
}  # fmt: skip
_WORLD = {"level": "1", "people": "60", "known": "0.5", "instruction": "false"}

claims = (
    Claim(
        says="After 12 steps the agent writes at most 0.75 times as many searches per answer as after training with the reward for right answers alone.",
        source="arXiv:2505.07596, table 1 (fewer retrievals than Search-R1); the row's 25 percent; the start, the task and the sizes are ours",
        against="ikea --reward.saved 0 --reward.tried 0",
        measure="reward/searches:last",
        at_most=0.75,
        task="search_qa",
        options=_WORLD,
        fields=_TERMS,
        budget="steps=12",
        script="benchmarks.warmed ikea",
        seeds=3,
    ),
    Claim(
        says="The exact match after these steps is at least 0.9 times that of training with the reward for right answers alone.",
        source="arXiv:2505.07596, table 1 (exact match not below Search-R1); the ratio, the start, the task and the sizes are ours",
        against="ikea --reward.saved 0 --reward.tried 0",
        measure="accuracy",
        at_least=0.9,
        task="search_qa",
        options=_WORLD,
        fields={**_TERMS, "study.problems": "6"},  # the world has 26 held-out problems
        budget="steps=12",
        problems=20,
        samples=8,
        script="benchmarks.warmed ikea-accuracy",
        seeds=3,
    ),
)
