"""R1-Searcher++: right answers with the fewest searches earn a bonus, and the policy memorises the found facts.

    y = (a_1, d_1, a_2, d_2, ..., a_n)
    R_i = -2 (1 - 1{form}) + c_i + b_i, quad c_i = 1{"answer contains the gold words, in at most 10 words"}
    b_i = c_i 1{t_i = min_(j: c_j = 1) t_j} min(2 Var_(j: c_j = 1)(t_j), eta)
    L = L_(RL) + mu L_M, quad L_M = -mean over tokens of log pi(z | x)

The piece $a_k$ is text of the policy: facts that it recalls, between <internal> and </internal>; a query, between <external> and </external>; or the answer.
Passages $d_k$ stand between <document> and </document>, and have no loss. $t_i$ is the number of searches of answer i. The variance is over the right answers to
the same question, so a bonus exists only if their numbers of searches differ. eta is 2. $L_(RL)$ and the KL penalty are as in r1_searcher (REINFORCE++), but
there is no first stage.

A frozen rewriter turns every right answer with searches into an answer z without searches: z states the fact that contains the answer as if the policy
recalled it, and then gives the answer. If no passage contains the answer, there is no z. The policy imitates z with the weight mu = 0.1. So the policy
memorises the facts that it searched for, and later answers need no search for them. Metrics: reward/searches, reward/bonus, reward/unaided (share of right
answers without a search), rewrites (number of texts z per question).

Use if: a search costs time or money, and the same facts are needed again.
Avoid if: facts change, because memorised facts become wrong, or if each fact is needed only once (see ikea, which memorises nothing).
Reference: Song et al., R1-Searcher++: Incentivizing the Dynamic Knowledge Acquisition of LLMs via Reinforcement Learning, arXiv:2505.17005, sections on the
rewards and on the memorisation. The public repository (RUCAIBox/R1-Searcher-plus) has no code.
Departures: The answer stands between <answer> and </answer>, not in a box, and there are no other tags of thoughts. The variance is the population variance;
eta and mu are our choices. The 16 answers per question, the KL coefficient of 0.0001 and the 4 mini-batches are as in r1_searcher. The form is broken if a
tag is not closed or stands inside another one, if there is not exactly one answer block, or if the policy writes a tag of passages. In the paper a language
model rewrites, and only rewrites with a right answer are kept; here a script takes the passage that contains the answer and shares most words with the
question, and z ends with the right answer. The text z recalls only the fact of the last hop. The cold start is a separate
run (`sft` with this environment). The memorised texts do not enter the normalisation of the advantages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.credit.sampled_only import SampledOnly
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import Imitation
from gradus.papers.agents.r1_searcher import r1_searcher
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.overlap import contains, plain_words
from gradus.rewards.reshaped import by_group, reshaped
from gradus.rollouts.auto import one_each, rolled
from gradus.rollouts.demonstrations import given, played
from gradus.rollouts.episodes import Episodes
from gradus.schedules.constant import ConstantSchedule
from gradus.tools.forms import TaggedCalls
from gradus.types import Group, Outcome, Problem, Request, Trajectory
from gradus.types.parts import Judgement, Rollout, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
DOCUMENT = re.compile(r"<document>(.*?)</document>", re.DOTALL)
BLOCK = re.compile(r"<(internal|external|answer)>(.*?)</\1>", re.DOTALL)
TAG = re.compile(r"</?(?:internal|external|answer|document)>")


def golds(problem: Problem) -> list[list[str]]:
    """Returns the words of each gold answer."""
    due = problem.answer if isinstance(problem.answer, list | tuple) else [problem.answer]
    return [plain_words(str(one)) for one in due]


def states(text: str, problem: Problem) -> bool:
    """Returns whether the words of a gold answer occur in the text in a row."""
    return any(contains(plain_words(text), one) for one in golds(problem))


def formed(text: str) -> bool:
    """Returns whether every tag is closed, no tag stands inside another one, exactly one answer block exists, and no tag of passages was written."""
    blocks = BLOCK.findall(text)
    closed = len(TAG.findall(text)) == 2 * len(blocks) and not any(TAG.search(inside) for _, inside in blocks)
    return closed and [name for name, _ in blocks].count("answer") == 1


def searches(trajectory: Trajectory) -> int:
    """Returns the number of executed searches of an episode."""
    return sum(name == "search" for _, name, _ in trajectory.links.get("calls", ()))


@dataclass(frozen=True)
class Covers:
    """A verifier: 1 if the answer contains the gold words (of any gold answer) and has at most `most` words."""

    most: int = 10

    def __post_init__(self) -> None:
        check_ranges(self, most="[1, inf)")

    def __call__(self, problem: Problem, answer: str) -> Outcome:
        return float(len(answer.split()) <= self.most and states(answer, problem))


@dataclass(frozen=True)
class FewestSearches:
    """The environment's return, minus `penalty` if the form is broken. In each group, the right answers with the fewest searches get a bonus,
    min(2 * variance of the searches of right answers, eta).
    """

    eta: float = 2.0  # largest bonus; 0: none
    penalty: float = 2.0
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, eta="[0, inf)", penalty="[0, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await reshaped(EnvironmentReturn(), groups, signals, world, by_group(self._pay))

    def _pay(self, trajectories: Sequence[Trajectory]) -> list[tuple[float, dict[str, float]]]:
        counts, right = [searches(t) for t in trajectories], [t.value >= 1 for t in trajectories]
        bonuses, paid = self.bonuses(counts, right), []
        for t, count, good, bonus in zip(trajectories, counts, right, bonuses, strict=True):
            form = formed(t.completion)
            seen = {"searches": float(count), "bonus": bonus, "form": float(form), "unaided": float(good and not count)}
            paid.append((t.value + bonus - (0.0 if form else self.penalty), seen))
        return paid

    def bonuses(self, counts: Sequence[int], right: Sequence[bool]) -> list[float]:
        """Returns the bonus of every answer of a group, from its numbers of searches and the truth of its answers."""
        among = [count for count, good in zip(counts, right, strict=True) if good]
        value = min(2 * float(np.var(among)), self.eta) if among else 0.0
        return [value if good and count == min(among) else 0.0 for count, good in zip(counts, right, strict=True)]


@dataclass(frozen=True)
class Recalled:
    """Adds to the episodes of `rollout` a text z for every right episode with searches: z states the found fact as if recalled, and then the answer. The
    texts are auxiliary groups of given answers."""

    rollout: Rollout = Episodes(max_turns=5)
    form: str = "<internal>{fact}</internal><answer>{answer}</answer>"
    most: int | None = None  # texts per question; None: all
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, most="[0, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of `rollout`, unchanged."""
        groups = one_each(await rolled(self.rollout, requests, world), requests, self)
        for request, group in zip(requests, groups, strict=True):
            texts = [(t.id, z) for t in group.trajectories if t.right and searches(t) and (z := self.rewritten(t, world)) is not None][: self.most]
            world.note("rewrites", len(texts))
            world.also([self._given(request, name, z, world) for name, z in texts])
        return groups

    def rewritten(self, trajectory: Trajectory, world: World) -> str | None:
        """Returns the text z of a right episode. Returns None if no passage contains its answer."""
        shown = "".join(world.text(c.tokens[~c.chosen], trajectory.player) for c in trajectory.contexts)
        lines = [line for inside in DOCUMENT.findall(shown) for line in inside.splitlines() if states(line, trajectory.problem)]
        asked = set(plain_words(trajectory.problem.question))
        if not lines:
            return None
        return self.form.format(fact=max(lines, key=lambda line: len(asked & set(plain_words(line)))), answer=ANSWER.findall(trajectory.completion)[-1])

    def _given(self, request: Request, name: str, text: str, world: World) -> Group:
        context = played(request, [(getattr(world.task.environment, "described", ""), text)], world)
        made = given(request, 0, context, world, reward=1.0, component="recalled").but(id=f"{name}/recalled")
        return Group(made.id, (made,), pool=(1.0,))


r1_searcher_plus = r1_searcher.derive(
    "r1_searcher_plus",
    "A search agent that prefers its memory: a bonus for right answers with the fewest searches, and imitation of the found facts.",
    family="agents",
    environment=replace(
        r1_searcher.environment,
        form=TaggedCalls("<document>", "</document>", (("external", "search"),)),
        hint="\nThis is no valid action. Search with <external>words</external>, or answer with <answer>words</answer>.\n",
        verify=Covers(),
    ),
    rollout=Recalled(),
    reward=FewestSearches(),
    credit=SampledOnly(r1_searcher.credit),
    objective__memory=Imitation(average=TokenMean(), coefficient=0.1, source="expert"),
    schedule=ConstantSchedule(),
)

_TERMS: dict[str, Any] = {
    "task": "search_qa",
    "options": {"level": "1", "people": "12", "known": "0.5", "instruction": "false"},
    "fields": {"prompts": "4", "group": "8", "learning_rate": "5e-5", "warmup": "0", "study": "none", "update.count": "2", "objective.memory.coefficient": "1"},
    "budget": "steps=24",
    "seeds": 3,
}

claims = (
    same_weights(
        says="Without bonus, penalty and memorised texts, the final weights are those of REINFORCE++ on the truth of the answers.",
        source="arXiv:2505.17005, without both parts",
        against="r1_searcher_plus --reward EnvironmentReturn --rollout Episodes --credit.rule.coefficient 0.0001 --objective.memory none",
        own={"reward.eta": "0", "reward.penalty": "0", "rollout.most": "0"},
        task="search_qa",
        options={"level": "1", "instruction": "false", "people": "40"},
        fields={"prompts": "2", "group": "4", "study": "none"},
        budget="steps=2",
    ),
    Claim(
        says="From a start that knows half of the facts of a small world, the last of 24 steps has at most 0.7 times the searches of training without the bonus "
        "and without the memorised texts.",
        source="arXiv:2505.17005, table of results (fewer retrievals than R1-Searcher); the row's 30 percent; the start, mu = 1, the task and the sizes are ours",
        against="r1_searcher_plus --reward.eta 0 --rollout.most 0",
        measure="reward/searches:last",
        at_most=0.7,
        script="benchmarks.warmed r1_searcher_plus",
        **_TERMS,
    ),
    Claim(
        says="In the last of these steps, the share of right answers without a search is at least 0.1 above training without the memorised texts.",
        source=(
            "arXiv:2505.17005, ablation of the memorisation; the row's 10 points, on questions of the training; the start, mu = 1, the task and the sizes "
            "are ours"
        ),
        against="r1_searcher_plus --rollout.most 0",
        measure="reward/unaided:last",
        better_by=0.1,
        script="benchmarks.warmed r1_searcher_plus-memory",
        **_TERMS,
    ),
)
