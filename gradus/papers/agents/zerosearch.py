"""ZeroSearch: a simulated search engine trains the agent. The simulated documents get worse during training; only evaluations use a real engine.

    p_i = p_s + (b^(i/m) - 1)/(b - 1) (p_e - p_s)
    r = F_1(answer, gold)
    A_j = (r_j - mean(r)) / (std(r))

Training has m steps. At step i a query gets noisy documents with the probability $p_i$, and otherwise useful documents. Here p_s is 0, p_e is 0.5 and b is 4,
so the documents get worse slowly at first and faster later. A simulator writes the documents from the query, the question, the gold answer and the
word "useful" or "noisy". A useful document contains the gold answer, and a noisy document contains a wrong answer.

Apart from this, the method is GRPO with 5 answers per question. A piece ends at </search> or </answer>, documents are inserted between <information>
and </information>, and they have no loss. There are at most 4 actions. The reward is the F1 of the words of the answer, without punctuation and
articles; without an answer it is 0. The coefficient of the KL term is 0.001. In an evaluation the real engine answers, so training never calls it.

Use if: a real search engine is too slow, too expensive or too limited for training, and the gold answers are known.
Avoid if: the real engine can be used in training (see search_r1), or if answers are long texts.
Reference: Sun et al., ZeroSearch: Incentivize the Search Capability of LLMs without Searching, arXiv:2505.04588, sections 3.2 to 3.5.
Departures: Without the option `player` a template writes the documents: a sentence that joins the query and an answer, and sentences about other
questions of the task. With `--environment.tools.search.player NAME` a player of the recipe writes them; the paper tunes a small model for this task.
The training data are documents of a real engine with the labels of a judge. There are 3 documents of one sentence (5 documents of 30 words in the
paper). The reward of a text without an answer tag is our choice. Step i counts from 0 here, and from 1 in the released code (Alibaba-NLP/ZeroSearch),
so neither version reaches p_e itself. The released code adds one last piece without search, takes the mean over tokens, divides by the sample
deviation, and has mini-batches of 256 answers. Here, as in grpo, each answer weighs the same, and one update uses all answers, so the ratio is 1 and
the clip never acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.environments.tools import Tools
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.overlap import Matches
from gradus.rollouts.episodes import Episodes
from gradus.tools.forms import TaggedCalls
from gradus.tools.search import QUERY, Search
from gradus.tools.tool import Opened
from gradus.types import Frozen, Key, Problem, Request
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges

PROMPT = "Write a {flag} document about: {query}\nQuestion: {question}\nAnswer: {answer}"


def noise(progress: float, *, start: float = 0.0, end: float = 0.5, base: float = 4.0) -> float:
    """Returns the probability of noisy documents after a share `progress` of the training.

    >>> [round(noise(at), 4) for at in (0.0, 0.5, 1.0)], round(noise(0.5, base=1.0), 4)
    ([0.0, 0.1667, 0.5], 0.25)
    """
    share = progress if base == 1.0 else (base**progress - 1) / (base - 1)
    return start + share * (end - start)


@dataclass(frozen=True)
class SimulatedSearch:
    """A simulated search: its documents are written for each query. An evaluation uses the search `real`.

    A document is written by `player` (see PROMPT), or by a template if `player` is None. The metric `noisy` is the share of noisy queries.
    """

    real: Search = Search()
    start: float = 0.0  # probability of noisy documents at the start of training
    end: float = 0.5  # probability of noisy documents at the end of training
    base: float = 4.0  # above 1: the probability rises late; 1: it rises evenly
    docs: int = 3
    player: str | None = None
    name: str = "search"
    about: ClassVar[str] = Search.about
    parameters: ClassVar[Mapping[str, Any]] = Search.parameters
    recorded: ClassVar[bool] = False
    forks: ClassVar[bool] = False
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, start="[0, 1]", end="[0, 1]", base="[1, inf)", docs="[1, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task has no passages for the evaluation."""
        self.real.check_task(task)

    def open(self, problem: Problem, key: Key, world: World | None) -> Opened:
        if world is None or getattr(world, "purpose", "train") != "train":
            return self.real.open(problem, key, world)
        return Simulator(self, problem, key, world)


class Simulator:
    """A session of the simulated engine."""

    def __init__(self, settings: SimulatedSearch, problem: Problem, key: Key, world: World) -> None:
        self.settings, self.problem, self.key, self.world = settings, problem, key, world
        self.queries = 0

    async def call(self, query: str) -> str:
        """Returns the documents for a query, one per line."""
        self.queries += 1
        key, settings = self.key.fold("query", self.queries), self.settings
        noisy = float(key.uniform()[()]) <= noise(self.world.progress, start=settings.start, end=settings.end, base=settings.base)
        self.world.note("noisy", float(noisy))
        if settings.player is not None:
            return await self._written(query[:QUERY], "noisy" if noisy else "useful")
        others = [p for p in self._others(key, settings.docs) if str(p.answer) != str(self.problem.answer)]
        told = str(others[0].answer if noisy and others else self.problem.answer)
        docs = [f"The {query[:QUERY]} is {told}.", *(f"The {_query(p)} is {p.answer}." for p in others[1 : settings.docs])]
        return "\n".join(docs[i] for i in key.fold("order").permutation(len(docs)))

    def _others(self, key: Key, count: int) -> list[Problem]:
        """Draws 2 * `count` problems of the task."""
        task = self.world.task
        return task.source.draw(range(2 * count), task.level, key.fold("others"))

    async def _written(self, query: str, flag: str) -> str:
        player, problem = str(self.settings.player), self.problem
        text = PROMPT.format(flag=flag, query=query, question=problem.meta.get("question", ""), answer=problem.answer)
        tags = ("simulated", self.key.value, self.queries)
        ask = Request(problem, self.settings.docs, player, ({"role": "user", "content": text},), tags=tags, trained=False)
        (found,) = await self.world.sample([replace(ask, sampling=None)])
        return "\n".join(self.world.text(c.tokens[c.chosen], player).strip() for c in found)


def _query(problem: Problem) -> str:
    """Returns the part of a question after the first " the ", without the question mark."""
    return str(problem.meta.get("question", "")).partition(" the ")[2].removesuffix("?")


zerosearch = grpo.derive(
    "zerosearch",
    "A simulated search engine replaces the real one, and its documents get worse during training. The reward is the F1 of the answer.",
    family="agents",
    environment=Tools(
        tools=Frozen(search=SimulatedSearch()), form=TaggedCalls("<information>", "</information>"), limit=4, verify=Matches("f1"),
        hint="\nThis is no valid action. Search with <search>words</search>, or answer with <answer>words</answer>.\n",
    ),
    rollout=Episodes(max_turns=4),
    reward=EnvironmentReturn(),
    objective__kl__coefficient=0.001,
    setting__group=5,
)  # fmt: skip

claims = (
    Claim(
        says="With the real engine at the test, the F1 is at least 0.95 times the F1 after training with the real engine.",
        source="arXiv:2505.04588, table 2 (level with or above the real engine); the ratio, the start, the task and the sizes are ours",
        against="zerosearch --environment.tools.search=Search",
        measure="reward",
        at_least=0.95,
        task="search_qa",
        options={"level": "1", "instruction": "false"},
        fields={"prompts": "6", "learning_rate": "1e-4", "eval_every": "0", "study.problems": "64"},
        budget="steps=16",
        script="benchmarks.warmed zerosearch",
        seeds=3,
    ),
    Claim(
        says="The rising noise leads to an F1 at least 0.02 above that of noise at a constant probability of 0.179, its mean over the 16 steps.",
        source="arXiv:2505.04588, section 4.4 (curriculum against its reverse); the row's 2 points; the mean and the sizes are ours",
        against="zerosearch --environment.tools.search.start=0.179 --environment.tools.search.end=0.179",
        measure="reward",
        better_by=0.02,
        task="search_qa",
        options={"level": "1", "instruction": "false"},
        fields={"prompts": "6", "learning_rate": "1e-4", "eval_every": "0", "study.problems": "64"},
        budget="steps=16",
        script="benchmarks.warmed zerosearch-noise",
        seeds=3,
    ),
)
