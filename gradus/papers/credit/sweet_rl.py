"""SWEET-RL: a critic of turns reads the hidden answer, learns from pairs of episodes, and then ranks candidate turns for DPO.

    A(o_t, a_t, c) = 1/L sum_(l=1)^L [log pi_theta(a_(t,l) | o_t, c) - log pi_ref(a_(t,l) | o_t, c)]
    loss_A = mean over pairs of -log sigmoid(beta sum_t A(o_t^+, a_t^+, c) - beta sum_t A(o_t^-, a_t^-, c))
    loss = mean over pairs of -log sigmoid(beta log (pi(a^+ | o))/(pi_ref(a^+ | o)) - beta log (pi(a^- | o))/(pi_ref(a^- | o))) + 0.01 NLL(a^+)

$o_t$ is the dialogue up to turn t, $a_t$ the agent's message with L tokens, and c the hidden answer, which is known in training only. $pi_ref$ is the
start model; the critic $pi_theta$ also starts as a copy of this model. beta is 0.1 in both losses.

Stage `critic`: the start model plays episodes. Two episodes of one problem with unequal rewards are a pair. The critic learns to give the better
episode (+) a larger sum of turn advantages. The critic and $pi_ref$ read c before the prompt. Stage `turns`: the start model plays episodes again. At
each turn the start model writes 16 candidates, and the fixed critic ranks them. Four pairs are drawn per turn. A pair has a random candidate of the
better half and a random candidate of the worse half. The policy learns these pairs by DPO, without c in its prompt; NLL is the mean over the tokens
of $a^+$. Metrics: critic/preferred (share of pairs in the right order), gap (mean difference of A within the pairs of turns).

Use if: an agent talks over many turns, and the training data contain information that the agent must find out.
Avoid if: nothing is hidden from the agent (see archer, gigpo), or the policy can learn online (see grpo, oprl).
Reference: Zhou et al., SWEET-RL: Training Multi-Turn LLM Agents on Collaborative Reasoning Tasks, arXiv:2503.15478: 16 candidates, halves. The released
scripts give 4 pairs per turn, the coefficient of NLL, beta, at most 10 turns, the learning rate 2e-7, 4 epochs for the critic and one epoch for the policy.
Departures: Episodes and candidates are drawn when they are needed. In the released code the better episode of a pair passes all tests; here it has
the higher reward. When the released code ranks candidates, $pi_ref$ does not read c; here $pi_ref$ reads c, as in the formula. The task
twenty_questions replaces ColBench: a scripted user answers about a hidden item. Both models learn at the setting's rate. The sentence that shows c to
the models is our choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.credit.groups import Constant
from gradus.credit.turns import first_tokens
from gradus.objectives.preference import Preference
from gradus.objectives.ranking import ImitationOfBest
from gradus.objectives.scores import TurnMeans
from gradus.papers.bases.dpo import dpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.auto import rolled
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.privileged import STREAM, PrivilegedPrompt, WithAnswers, check_tell, told_rows
from gradus.schedules.stages import Stage, Stages
from gradus.selection.filters import Everything
from gradus.selection.pairs import Higher, RankedPairs
from gradus.types import Context, Frozen, Group, Key, Request, Trajectory
from gradus.types.moments import Steps
from gradus.types.parts import Rollout, World
from gradus.types.players import Copy, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, View


def drawn_pairs(scores: Sequence[float], count: int, key: Key) -> list[tuple[int, int]]:
    """Draws `count` pairs (better, worse) of candidates: one of the better half and one of the worse half.

    With an odd number of candidates the worse half has one more. If two scores are equal, the earlier candidate counts as better.
    """
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    top, bottom = order[: len(order) // 2], order[len(order) // 2 :]
    return [(key.fold("top", n).choice(top), key.fold("bottom", n).choice(bottom)) for n in range(count)]


@dataclass(frozen=True)
class RankedTurns:
    """Plays episodes by `rollout`, samples `count` candidates at each turn, and makes `pairs` pairs of candidates. The score of the critic decides which
    candidate of a pair is better.

    The score is the mean over the tokens of the log-ratio of `critic` to `player`, both with the view `sees`. `player` plays and samples. No update
    uses the episodes. The groups of a turn have two trajectories, with the rewards 1 and 0.
    """

    rollout: Rollout = Episodes(max_turns=10)
    count: int = 16
    pairs: int = 4
    critic: str = "critic"
    player: str = "reference"
    sees: View | None = PrivilegedPrompt()  # None: the critic reads the same prompt as the agent
    tell: str = "The answer is {answer}.\n"
    names_players: ClassVar[tuple[str, ...]] = ("critic", "player")
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, count="[2, inf)", pairs="[1, inf)")
        check_tell(self.tell)

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the episodes, and one group per pair."""
        groups = await rolled(self.rollout, [replace(r, player=self.player, trained=False) for r in requests], world)
        played = [t for g in groups for t in g.trajectories if t.failed is None and t.contexts[0].actions]
        states = [(t, turn, at) for t in played for turn, at in enumerate(first_tokens(t))]
        asked = [Request(t.problem, self.count, self.player, t.contexts[0], at, tags=("candidates", t.id, turn)) for t, turn, at in states]
        drawn = await world.sample(asked)
        marked = [[self._told(c, t, turn, world) for c in row] for (t, turn, _), row in zip(states, drawn, strict=True)]
        scores = iter(await self.scores([c for row in marked for c in row], world))
        out = []
        for (t, turn, _), row in zip(states, marked, strict=True):
            values = [next(scores) for _ in row]
            for n, (i, j) in enumerate(drawn_pairs(values, self.pairs, world.key.fold("pairs", t.id, turn))):
                world.note("gap", values[i] - values[j])
                both = (self._candidate(t, f"{turn}/{n}", row[i], 1.0, world), self._candidate(t, f"{turn}/{n}", row[j], 0.0, world))
                out.append(Group(f"{t.id}/turn/{turn}/{n}", both, aside=True))
        return [*groups, *out]

    async def scores(self, contexts: Sequence[Context], world: World) -> list[float]:
        """Returns the score of each context: its mean log-ratio."""
        read = [c if self.sees is None else self.sees.of(c, world.key.fold("sees", i)) for i, c in enumerate(contexts)]
        ours, base = [await world.score(read, LogProb(), player) for player in (self.critic, self.player)]
        return [float(np.mean(a.astype(np.float64) - b)) for a, b in zip(ours, base, strict=True)]

    def _told(self, context: Context, t: Trajectory, turn: int, world: World) -> Context:
        """Returns the context of a candidate with the streams `turn` and `privileged`."""
        rows = {"turn": np.full(context.actions, turn, np.int32), STREAM: told_rows(context, t.problem, self.tell, world)}
        return replace(context, streams=Frozen({**context.streams, **rows}))

    def _candidate(self, t: Trajectory, place: str, context: Context, reward: float, world: World) -> Trajectory:
        return Trajectory(
            id=f"{t.id}/turn/{place}/{'better' if reward else 'worse'}",
            problem=t.problem,
            contexts=(context,),
            player=self.player,
            completion=world.text(context.sequence[context.action_positions], self.player),
            reward=reward,
            ended=context.ended,
        )


CRITIC = Frozen(
    {
        "rollout": WithAnswers(Episodes(max_turns=10)),
        "credit": None,
        "objective": None,
        "players.policy.learns_from": "own",
        "players.critic": Player(
            Copy("policy"),
            objective=Frozen(pairs=Preference(beta=0.1, score=TurnMeans())),
            credit=Constant(),
            learns_from="policy",
            selection=RankedPairs(by=(Higher(),)),
            sees=PrivilegedPrompt(),
        ),
    }
)
"""The fields that differ in stage `critic`: episodes of the fixed policy, and only the critic learns."""

sweet_rl = dpo.derive(
    "sweet_rl",
    "A critic that reads the hidden answer learns turn advantages from pairs of episodes, and ranks candidate turns for DPO.",
    family="credit",
    rollout=RankedTurns(),
    reward=EnvironmentReturn(),
    selection=Everything(),
    objective=Frozen(turns=Preference(beta=0.1), nll=ImitationOfBest(coefficient=0.01)),
    players__policy__learns_from="reference",
    players__critic=Player(Copy("policy")),
    schedule=Stages(
        Frozen(
            critic=Stage(until=Steps(100), changes=CRITIC),
            turns=Stage(until=Steps(50), players=Frozen(critic="critic.critic")),
        )
    ),
    setting__group=4,
)

_STAGES = "schedule.stages"
_SIZES = {"prompts": "3", "group": "6", "learning_rate": "3e-4", "warmup": "0"}

claims = (
    same_weights(
        says="If the sentence that tells the answer is empty, the final weights are those with a critic that reads the same prompt as the agent.",
        source="arXiv:2503.15478, the critic without training-time information",
        against=f"sweet_rl --{_STAGES}.critic.changes.players.critic.sees none --rollout.sees none",
        own={f"{_STAGES}.critic.changes.rollout.tell": "", "rollout.tell": ""},
        task="twenty_questions",
        options={"level": "1"},
        fields={
            "prompts": "2", "group": "4", "study": "none", "rollout.count": "4", f"{_STAGES}.critic.until": "Steps(count=2)",
            f"{_STAGES}.turns.until": "Steps(count=1)",
        },
    ),
    Claim(
        says="The critic that reads the answer orders the pairs of episodes of 12 steps more often right than one without it: by at least 0.05 of the pairs.",
        source="arXiv:2503.15478, ablation of training-time information; the task, the measure on pairs of episodes and the size are ours",
        against=f"sweet_rl --{_STAGES}.critic.changes.players.critic.sees none",
        measure="critic/preferred:mean",
        better_by=0.05,
        task="twenty_questions",
        options={"level": "1"},
        fields={
            **_SIZES, "study": "none", "rollout.count": "2", "rollout.pairs": "1", f"{_STAGES}.critic.until": "Steps(count=12)",
            f"{_STAGES}.turns.until": "Steps(count=1)",
        },
        budget="steps=13",
    ),
    Claim(
        says="Held-out success after 12 steps of the critic and 4 on turns is at least 0.04 above that after 16 steps of DPO on episodes of the start model.",
        source="arXiv:2503.15478, results on ColBench (4 to 6 points above trajectory-level DPO); the task is ours",
        against=(
            "dpo --rollout BehaviourPolicy --rollout.player reference --rollout.rollout Episodes --rollout.rollout.max_turns 10 "
            "--players.policy.learns_from reference --objective.given none --reward EnvironmentReturn"
        ),
        measure="accuracy",
        better_by=0.04,
        task="twenty_questions",
        options={"level": "1"},
        fields={**_SIZES, "eval_every": "0", "study.problems": "8"},
        own={
            f"{_STAGES}.critic.until": "Steps(count=12)", f"{_STAGES}.turns.until": "Steps(count=4)", "rollout.count": "8", "rollout.pairs": "1",
        },
        budget="steps=16",
        problems=64,
        samples=1,
    ),
)  # fmt: skip
