"""EPO: a strategist writes a strategy before every turn of a frozen dialogue agent, and a judge names the key strategies of the finished episode.

    a_t ~ pi(. | s, h_t), quad y_t ~ pi_d(. | s, h_t, a_t)
    r_t = 1 if t in K, else G/10 if t = T, else 0
    R_t = sum_(k >= t) gamma^(k - t) r_k
    loss = -1/T sum_t (R_t)/(max_k |R_k|) 1/|a_t| sum_l log pi(a_(t,l) | s, h_t, a_(t,<l))

In turn t the strategist reads the goal s and the history $h_t$ (all words of the partner, the strategist and the agent) and writes a strategy $a_t$ in free
words. The agent $pi_d$ reads the strategy and speaks $y_t$. The partner answers. G is the score of the episode, from 0 to 10. A judge reads the finished
episode and names the set K of key strategies. The weights of an episode lie between 0 and 1, so nothing is pushed down. gamma is 0.99. The loss has only
the tokens of the strategist. The player `actor` is a copy of the start model and never learns; any other agent can take its place.

With the credit rule `KeyOutcomes` and gamma 0.95, $r_t$ is G/10 for a key turn, else 0, and R is standardised over all turns of the batch. So turns with a
low return are pushed down. `judge` "NoKeys" leaves the outcome alone.

Use if: a strong dialogue agent cannot be trained, episodes have several turns, and a judge can say at the end which strategies mattered.
Avoid if: the agent itself can be trained (see gem, sotopia_rl), or an episode has one turn.
Reference: Liu et al., EPO: Explicit Policy Optimization for Strategic Reasoning in LLMs via Reinforcement Learning, arXiv:2502.12486: the strategist, the
process rewards and the multi-turn loss. The rewards, gamma 0.99, the scale by the largest return and the mean over the tokens of a turn are as in the
released code (AlibabaResearch/DAMO-ConvAI, folder EPO). There the score of WebShop and ALFWorld is from 0 to 1.
Departures: The released code sums over the episodes of a mini-batch; here the loss is their mean. `KeyOutcomes` is not in the released code: it is
our reading of a policy gradient with a baseline. The partner is a script, so there is no iterative self-play: in the paper the strategist plays both
sides for three rounds. The task is our choice: `negotiation` with a strategist (`--task.team true`). The judge is a script that knows the seller's
cost: a strategy is a key strategy if the bargain ends with a gain, and the agent's words close the deal, lower the price politely, or first ask for
the cost. `WrittenKeys` asks a player, as the paper asks GPT-4o. The paper has other models as agents; here the agent is a copy of the start model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from gradus.credit.gae import discounted, whiten
from gradus.credit.turns import Turns, turns_of
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.rewards.environment import judged
from gradus.rollouts.seats import Seats
from gradus.types import Frozen, Group, Problem, Request, Sampling, Trajectory, UserError
from gradus.types.parts import Credited, Judgement, Signals, World
from gradus.types.players import Copy, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

KEY = "key"
"""The component of a key turn, at the last token of the turn."""


def turn_ends(trajectory: Trajectory) -> list[tuple[int, int, str]]:
    """Returns for each turn: the number of its context, its last action, and the name of the component."""
    found = []
    for i, context in enumerate(trajectory.contexts):
        turns = context.streams["turn"] if context.actions else np.zeros(0)
        found += [(i, int(at), KEY) for at in np.flatnonzero(np.append(turns[1:] != turns[:-1], True)[: len(turns)])]
    return found


def spoken(trajectory: Trajectory, world: World) -> list[str]:
    """Returns the text of each turn."""
    rows = [(c.tokens[c.chosen], c.streams["turn"]) for c in trajectory.contexts if c.actions]
    return [world.text(tokens[turns == turn], trajectory.player) for tokens, turns in rows for turn in dict.fromkeys(turns.tolist())]


class KeyJudge(Protocol):
    async def keys(self, problem: Problem, strategies: Sequence[str], words: Sequence[str], score: float, world: World, tag: str) -> Sequence[int]:
        """Returns the numbers (from 0) of the key strategies of an episode. `words`: the utterance of the agent after each strategy. `score`: from 0 to 1."""
        ...


@dataclass(frozen=True)
class NoKeys:
    """Names no strategy, so the outcome alone is the reward."""

    async def keys(self, problem: Problem, strategies: Sequence[str], words: Sequence[str], score: float, world: World, tag: str) -> Sequence[int]:
        return ()


@dataclass(frozen=True)
class ScriptedKeys:
    """Reads the task's own attribution (`contributions` of its environment): a strategy is a key strategy from `least` of 3 points for a dimension on.

    An episode with the score 0 has no key strategy.
    """

    dimensions: tuple[str, ...] = ("goal", "knowledge")
    least: int = 2

    async def keys(self, problem: Problem, strategies: Sequence[str], words: Sequence[str], score: float, world: World, tag: str) -> Sequence[int]:
        if not hasattr(environment := world.task.environment, "contributions"):
            raise UserError(f"ScriptedKeys reads the contributions of a dialogue, but task {world.task.name} has none; take negotiation, or WrittenKeys")
        if score <= 0:
            return ()
        found: Mapping[str, tuple[int, list[int]]] = environment.contributions(problem, words)
        return [i for i in range(len(words)) if any(found[name][1][i] >= self.least for name in self.dimensions)]


@dataclass(frozen=True)
class WrittenKeys:
    """A player reads the episode and writes the numbers of the key strategies. The player should have no objective, so that it stays frozen."""

    player: str = "judge"
    max_tokens: int = 64
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    async def keys(self, problem: Problem, strategies: Sequence[str], words: Sequence[str], score: float, world: World, tag: str) -> Sequence[int]:
        lines = [f"{i}. {plan} -> {said}" for i, (plan, said) in enumerate(zip(strategies, words, strict=False), 1)]
        text = "\n".join([problem.question, *lines, f"score {10 * score:.0f} of 10", "Write the numbers of the strategies that mattered most:"])
        sampling, prompt = Sampling(max_tokens=self.max_tokens, temperature=0.0), ({"role": "user", "content": text},)
        ((one,),) = await world.sample([Request(problem, 1, self.player, prompt, sampling=sampling, tags=("keys", tag), trained=False)])
        return sorted({int(n) - 1 for n in re.findall(r"\d+", world.text(one.tokens[one.chosen], self.player)) if 1 <= int(n) <= len(lines)})


@dataclass(frozen=True)
class KeyTurns:
    """The return of the episode. Each key turn of the seat `strategist` is marked with the component "key" at its last token."""

    judge: KeyJudge = ScriptedKeys()
    strategist: str = "strategist"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        sides = {(t.links.get("episode"), t.links.get("role")): t for g in groups for t in g.trajectories}
        return [[await self._one(t, sides, world) for t in g.trajectories] for g in groups]

    async def _one(self, t: Trajectory, sides: Mapping[tuple[Any, Any], Trajectory], world: World) -> Judgement:
        plain = judged(t)
        if t.links.get("role") != self.strategist or not isinstance(plain.reward, int | float):
            return plain
        words = [said for (episode, role), mate in sides.items() if episode == t.links["episode"] and role != self.strategist for said in spoken(mate, world)]
        ends = turn_ends(t)
        keys = await self.judge.keys(t.problem, spoken(t, world), words, float(plain.reward), world, t.id)
        steps = tuple((*ends[k], 1.0) for k in keys if k < len(ends))
        return Judgement(plain.reward, Frozen({**plain.components, "keys": len(steps) / max(len(ends), 1)}), steps)


def key_turns(trajectory: Trajectory, turns: Turns) -> np.ndarray:
    """Returns float64 [T]: 1 for a key turn, else 0."""
    marked = np.zeros(trajectory.actions)
    start = 0
    for context in trajectory.contexts:
        marked[[start + action for action, name, _ in context.rewards if name == KEY]] = 1.0
        start += context.actions
    return np.minimum(turns.sums(marked), 1.0)


def spread(turns: Turns, weights: np.ndarray) -> Credited:
    """Divides the weight of each turn by the number of turns and by the number of the turn's tokens."""
    return Credited(turns.spread(weights / (len(weights) * turns.lengths)))


@dataclass(frozen=True)
class KeyReturns:
    """Gives the tokens of a turn the discounted return of key turns and outcome, divided by the episode's largest absolute return.

    A key turn earns 1. The last turn earns the outcome if it is no key turn. The weight of a turn is divided by the number of turns and of the turn's tokens.
    """

    gamma: float = 0.99  # discount per turn
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"turns": "--rollout Seats"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, 1]")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [[self._one(t) for t in g.trajectories] for g in groups]

    def _one(self, t: Trajectory) -> Credited:
        turns = turns_of(t)
        earned = key_turns(t, turns)
        if len(earned) and not earned[-1]:
            earned[-1] = t.value
        back = discounted(earned, gamma=self.gamma)
        return spread(turns, back / (np.abs(back).max(initial=0.0) or 1.0))


@dataclass(frozen=True)
class KeyOutcomes:
    """Gives the tokens of a turn the discounted return of key turns, standardised over all turns of the batch.

    A key turn earns the outcome, any other turn 0. The weight of a turn is divided by the number of turns and of the turn's tokens.
    """

    gamma: float = 0.95  # discount per turn
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"turns": "--rollout Seats"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, 1]")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        everyone = [(t, turns_of(t)) for g in groups for t in g.trajectories]
        rows = whiten([discounted(key_turns(t, turns) * t.value, gamma=self.gamma) for t, turns in everyone])
        made = iter([spread(turns, row) for (_, turns), row in zip(everyone, rows, strict=True)])
        return [[next(made) for _ in g.trajectories] for g in groups]


epo = reinforce.derive(
    "epo",
    "A strategist that plans for a frozen dialogue agent learns from key turns that a judge names, and from the outcome.",
    family="agents",
    rollout=Seats(players=Frozen(agent="actor")),
    reward=KeyTurns(),
    credit=KeyReturns(),
    players__actor=Player(Copy("policy")),
)

_BARGAIN: dict[str, Any] = {
    "measure": "reward",
    "task": "negotiation",
    "options": {"team": "true"},
    "fields": {"prompts": "8", "group": "4", "warmup": "0", "study": "none"},
    "own": {"setting.learning_rate": "3e-4"},
    "budget": "steps=15",
    "problems": 48,
    "samples": 2,
}

claims = (
    Claim(
        says="The mean gain on held-out bargains of a frozen agent with the trained strategist is at least a tenth above that with the untrained strategist.",
        source="arXiv:2502.12486, table of SOTOPIA; the row's 10 percent; the task, the start and the sizes are ours",
        against="epo --setting.learning_rate 0",
        at_least=1.1,
        script="benchmarks.warmed epo",
        **_BARGAIN,
    ),
    Claim(
        says="With rewards of key turns the mean gain is at least 1.03 times that with the outcome alone, after as many episodes.",
        source="arXiv:2502.12486, ablation of the process rewards; the row's 3 percent; the task, the start and the sizes are ours",
        against="epo --reward.judge NoKeys --setting.learning_rate 3e-4",
        at_least=1.03,
        script="benchmarks.warmed epo-keys",
        **_BARGAIN,
    ),
)
