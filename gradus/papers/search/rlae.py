"""RLAE: a small controller learns by PPO to mix frozen language models, with new weights for each span of the answer.

    p(v) = sum_(m=1)^M w_m p_m(v | x, y_(<t)), quad w = softmax(u), quad u = 4 tanh(z), quad z ~ pi(s) "normal"
    R = "reward of the whole answer after the last span, 0 before"
    loss = "mean over spans of the clipped loss of PPO with the advantages of GAE"

The state s is an encoding of the prompt and of the answer so far. Before each span of L = 5 tokens the controller draws one score $u_m$ per model. The
weights w stay the same within a span. All models read the same tokens, and the most likely token of the mixture is written. The models never learn.
PPO has the clip 0.2, gamma = 1 and lambda = 0.95. A critic of the same form reads the same states.

The players `one` and `two` are the models: `--players.one.model DIR --players.two.model DIR`. More models are further players, named in
`--environment.members one,two,three`. In the limit w = (1, 0) the answer is the greedy answer of the first model.

Metrics: weight/MEMBER/CATEGORY (mean weight for the problems of a category), held_out/accuracy (drawn scores), held_out/greedy (mean scores).

Use if: several frozen models have different strengths, share a vocabulary, and the prompt or the text so far shows which model is better.
Avoid if: one model is best on all problems (use this model), or a model can be trained (see grpo).
Reference: Fu et al., RLAE: Reinforcement Learning-Assisted Ensemble for LLMs, arXiv:2506.00439. Notes on the paper and two public training scripts for the
weights of spans were read; the authors of the scripts are not known.
Departures: L is ours; one script has 8, the other one 4. Both scripts read the text with a pretrained encoder; hashed characters and pairs of characters,
then an MLP, are ours. The scripts do not show the server that makes the mixtures. Scores between -4 and 4 are ours, so with two models a weight is at most
0.9997. One script draws nothing, and its ratio is that of the weights; the other one draws weights from a Dirichlet distribution. The first deviation of z is
that of a new controller, 1. The scripts have gamma = 0.99, three epochs and an entropy bonus of 0.01, and judge a whole answer at each span; here, only the
last span has a reward, gamma is 1, and the four epochs of ppo are kept, without bonus and KL penalty. The whole vocabulary is mixed, because it is common to
all models; with the 10 best tokens of each model the distribution would be another one. The variant with one actor per model and a central critic (RLAE-
MAPPO) is left out.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.credit.gae import GAE
from gradus.objectives.terms import ValueLoss
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.token_rules import MixtureOfModels
from gradus.types import Context, Ended, Frozen, Key, Problem, Request, UserError, prompt_context
from gradus.types.parts import Task, Together, Turn, World
from gradus.types.players import Fresh, Player
from gradus.types.ranges import check_ranges
from gradus.types.spaces import Box


def encoding(text: str, width: int) -> np.ndarray:
    """Returns float32 [width]: the numbers of single characters and pairs of characters by the buckets of a hash, scaled to length 1.

    >>> encoding("ab", 8).sum().round(3) in (1.0, 1.342, 1.414, 1.732)
    True
    """
    found = np.zeros(width, np.float32)
    for piece in (*text, *(text[i : i + 2] for i in range(len(text) - 1))):
        found[zlib.crc32(piece.encode()) % width] += 1
    return found / max(float(np.linalg.norm(found)), 1e-12)


def softmax(scores: Sequence[float] | np.ndarray) -> np.ndarray:
    """Returns the weights of scores: numbers above 0 with the sum 1.

    >>> softmax([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    powers = np.exp(np.asarray(scores, np.float64) - np.max(scores))
    return powers / powers.sum()


@dataclass(frozen=True)
class SpanMixture:
    """An answer is written in spans of `span` tokens. Before each span the player gives one score per member, and the weights are the softmax of the scores.

    All members read the same tokens. Each token of a span is the most likely token of the mixture of their distributions. The observation `state`
    [width] is the encoding of the prompt and the answer so far. The last span has the verdict of the task as its reward; all other spans have 0. If the
    problem has a `category`, the metric weight/MEMBER/CATEGORY is the mean weight.
    """

    members: tuple[str, ...] = ("one", "two")
    span: int = 5
    width: int = 128  # entries of the observation
    largest: float = 4.0  # scores lie between -largest and largest
    names_players: ClassVar[tuple[str, ...]] = ("members",)
    shows: ClassVar[frozenset[str]] = frozenset({"array"})

    def __post_init__(self) -> None:
        check_ranges(self, span="[1, inf)", width="[1, inf)", largest="(0, inf)")
        if len(set(self.members)) != len(self.members) or len(self.members) < 2:
            raise UserError(f"SpanMixture.members is {self.members}; give the names of two or more players, each only once")

    @property
    def acts(self) -> Box:
        return Box((-self.largest,) * len(self.members), (self.largest,) * len(self.members))

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task has no verifier for single answers."""
        if task.verify is None or isinstance(task.verify, Together):
            raise UserError(f"SpanMixture judges single answers, but task {task.name} has no verifier for single answers; take another task")

    def check_players(self, players: Mapping[str, Any]) -> None:
        """Raises UserError if a member is no language model whose logits can be mixed."""
        for name in self.members:
            if "rules" not in getattr(players[name].policy, "can", ()):
                raise UserError(f"member {name} of SpanMixture gives no logits; set --players.{name}.model to a language model, without an engine")

    async def start(self, problem: Problem, key: Key, world: World | None) -> Writing:
        """Starts an answer. Without the argument `world`, the observation is zero."""
        return Writing(self, problem, world)


class Writing:
    """One answer, which grows by a span per step."""

    def __init__(self, settings: SpanMixture, problem: Problem, world: World | None) -> None:
        self.settings, self.problem, self.world = settings, problem, world
        self.ask = Request(problem, 1, settings.members[0], tags=("span",), trained=False)
        self.prompt: Context | None = None if world is None else world.prompt(self.ask)
        self.tokens = np.zeros(0, np.int32)
        self.spans = 0
        self.first = Turn(self._shown(""))

    def _shown(self, said: str) -> dict[str, np.ndarray]:
        text = "" if self.world is None or self.prompt is None else self.world.text(self.prompt.sequence, self.settings.members[0])
        return {"state": encoding(text + said, self.settings.width)}

    async def step(self, action: np.ndarray) -> Turn:
        world, settings = self.world, self.settings
        assert world is not None
        assert self.prompt is not None
        weights = softmax(np.ravel(action))
        for name, weight in zip(settings.members, weights, strict=True):
            if (kind := self.problem.meta.get("category")) is not None:
                world.note(f"weight/{name}/{kind}", float(weight))
        left = world.sampling.limit - len(self.tokens)
        limit = replace(world.sampling, temperature=0.0, max_tokens=min(settings.span, left))
        state = prompt_context(np.concatenate([self.prompt.sequence, self.tokens]))
        rule = MixtureOfModels(Frozen(dict(zip(settings.members, weights.tolist(), strict=True))))
        ((found,),) = await world.sample([replace(self.ask, prompt=state, sampling=limit, how=rule, tags=(*self.ask.tags, self.spans))])
        self.tokens, self.spans = np.concatenate([self.tokens, found.tokens]), self.spans + 1
        said = world.text(self.tokens, settings.members[0])
        if found.ended is not Ended.STOP and left > settings.span and found.ended is not Ended.CONTEXT:
            return Turn(self._shown(said))
        assert world.task.verify is not None
        outcome = world.task.verify(self.problem, said)
        if not isinstance(outcome, (int, float)):
            raise ValueError(f"the verifier gave no verdict on the answer of the mixture: {outcome}")
        return Turn(self._shown(said), float(outcome), terminated=True)


rlae = ppo.derive(
    "rlae",
    "A controller sets the weights of a mixture of frozen language models for each span, and learns by PPO from the verdict on the answer.",
    family="search",
    environment=SpanMixture(),
    rollout=Episodes(max_turns=10_000),  # the token limit ends an answer, so the last span always has its verdict
    reward=EnvironmentReturn(),
    credit=GAE(gamma=1.0, lam=0.95),
    players__policy=Player(Fresh()),
    players__critic=Player(Fresh(outputs="value"), objective=Frozen(value=ValueLoss(0.2)), learns_from="policy"),
    players__reference=None,
    players__one=Player(),
    players__two=Player(),
)

_TERMS: Any = {"task": "arithmetic", "options": {"level": "2", "operations": "+*"}, "budget": "steps=80"}
_OURS = (
    "models, task and the size of the effect are ours. Two copies of the built-in model were fine-tuned on worked solutions, one of sums and one of products; the "
    "controller learns for 80 steps of 64 answers, and is tested with its mean scores"
)

claims = (
    Claim(
        says="On sums and products, accuracy with learned weights is at least 0.05 above that with uniform weights.",
        source=f"arXiv:2506.00439, comparison with fixed weights; {_OURS}",
        measure="held_out/accuracy:last", better_by=0.05, script="benchmarks.ensembled uniform", **_TERMS,
    ),
    Claim(
        says="On sums and products, accuracy with learned weights is at least 0.05 above that of the better one of the two models.",
        source=f"arXiv:2506.00439, comparison with single models; {_OURS}",
        measure="held_out/accuracy:last", better_by=0.05, script="benchmarks.ensembled single", **_TERMS,
    ),
    Claim(
        says="The mean weight of the right model on its own kind of problems exceeds 0.6 for both kinds.",
        source=f"arXiv:2506.00439, the weights follow the strengths of the models; {_OURS}. The figure: the smaller mean weight less 0.5",
        measure="weight of the right model", better_by=0.1, script="benchmarks.ensembled specialist", **_TERMS,
    ),
)  # fmt: skip
