"""MASA: in addition to solving, the policy predicts the pass rate, the length and the notions of its solutions. Right predictions earn a reward.

    r_meta = (r_n + r_d + r_l) / 3
    r_d = 0.01^(|d / 8 - mean(s)|)
    r_l = 1 "if" min(l_i) < l < max(l_i) "over right solutions, else" 0
    r_n = "share of predicted notions that occur in more right than wrong solutions"

For each problem there are 16 solutions with verdicts $s_i$ and lengths $l_i$, and 16 predictions. A prediction has reasoning, and then a whole number
d from 0 to 8, a length l, and notions. Notions that are in the prompt of the prediction do not count. Solutions and predictions are separate groups
of GRPO, each with its own mean and deviation; one policy learns both, in two updates per step, with a mean over tokens and without KL. For each
problem the prediction with the best $r_n$ is imitated if this $r_n$ is at least 0.2. Before that, the true values replace its pass rate and its
length (expert cloning). So the policy learns the form early.

After a fifth of the run the predictions save samples. A problem is skipped if at least three quarters of its predictions say 0 for the pass rate, or
at least three quarters say 8. A solution is cut at twice the mean predicted length. Metrics: meta_reward, meta_valid (share of readable predictions),
meta_error (mean error of the pass rate, 1 for an unreadable prediction), gated (share of skipped problems).

Use if: many problems are always or never solved, and the policy can learn to recognise them.
Avoid if: the policy cannot write the form of a prediction at all, because then no prediction is readable (see dapo for another filter).
Reference: Kim, Jang and Yang, Meta-Awareness Enhances Reasoning Models: Self-Alignment Reinforcement Learning, arXiv:2510.03259. The rewards and their
strict bounds are as in the released code (akatigre/MASA-RL), with clip 0.2 and 0.28, two mini-batches, the mean over tokens and no KL.
Departures: The gate, the cut and their numbers are not in the released trainer; three quarters, the factor 2 and the first fifth are our own choices. If all
problems of a step would be skipped, the first problem stays. In cloned predictions the code has a pass rate from 0 to 1, and the sum of the right lengths
divided by the number of all solutions. Here they have the pass rate in eighths, and the mean length of the right solutions. Predictions are cloned in
their own step, not after a full batch. The case of a notion does not count here, but in the code the case counts. The code also has a dual clip of 10 and the
sample deviation, and predictions may be as long as solutions. Here there is no dual clip, the deviation is the population deviation, and a prediction has 256
tokens. Hints from predictions are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import Imitation
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.ids import group_name
from gradus.rollouts.predictions import Form, Json, SelfPrediction, singular
from gradus.rollouts.single_turn import grouped
from gradus.rollouts.spans import check_text
from gradus.types import Frozen, Group, Request, Trajectory
from gradus.types.parts import Rollout, Task, World
from gradus.types.prompts import after, prompt_of
from gradus.types.ranges import check_ranges


def meta_rewards(guess: SelfPrediction | None, solutions: Sequence[Trajectory], prompt: str, *, base: float = 0.01) -> tuple[float, float, float]:
    """Returns (r_n, r_d, r_l) of a prediction. `solutions`: judged solutions; `prompt`: the text that the prediction read."""
    if guess is None or not solutions:
        return 0.0, 0.0, 0.0
    right = [t.right for t in solutions]
    lengths = [t.actions for t, r in zip(solutions, right, strict=True) if r]
    notions = [n for n in dict.fromkeys(map(singular, guess.notions)) if n not in prompt.lower()]
    votes = [sum((n in t.completion.lower()) * (1 if r else -1) for t, r in zip(solutions, right, strict=True)) for n in notions]
    r_n = sum(v > 0 for v in votes) / len(votes) if votes else 0.0
    r_d = base ** abs(guess.rate / 8 - float(np.mean(right))) if guess.rate is not None else 0.0
    r_l = float(bool(lengths) and guess.length is not None and min(lengths) < guess.length < max(lengths))
    return r_n, r_d, r_l


@dataclass(frozen=True)
class MetaPredictions:
    """Samples `count` predictions per problem as an auxiliary group with its own rewards, then solutions by `rollout`; at test time there are only the
    solutions."""

    rollout: Rollout = Auto()
    form: Form = Json()
    ask: str = "Reason about this problem in <meta>..</meta>. Then predict, as JSON: math_notion (list), pass_rate (0 to 8), solution_length (tokens)."
    count: int = 16  # predictions per problem; 0: none
    limit: int = 256  # new tokens of a prediction
    base: float = 0.01  # the base of the power in r_d
    notion_least: float = 0.2  # least r_n of a prediction that is imitated
    clone: bool = True  # whether corrected predictions are imitated
    weight: float = 1.0  # weight of the loss of the predictions
    gate_after: float = 0.2  # share of the run without gate and cut; 1: there is no gate and no cut
    agree: float = 0.75  # a problem is skipped if this share of its predictions says 0, or says 8
    cut: float = 2.0  # a solution is cut at this multiple of the mean predicted length
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(
            self, count="[0, inf)", limit="[1, inf)", base="(0, 1)", notion_least="[0, 1]", weight="[0, inf)", gate_after="[0, 1]", agree="(0, 1]", cut="(0, inf)"
        )

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def check_task(self, task: Task) -> None:
        check_text(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of solutions of all problems that are not skipped."""
        if not self.count:
            return await rolled(self.rollout, requests, world)
        asked = [self._asking(r, world) for r in requests]
        metas = await grouped(asked, world)
        guesses = [[self.form.read(t.completion) for t in g.trajectories] for g in metas]
        on = self.gate_after < 1 and world.step >= self.gate_after * world.steps
        kept = [i for i, row in enumerate(guesses) if not (on and self.skips(row))] or [0]
        wanted = [self._limited(requests[i], guesses[i], world) if on else requests[i] for i in kept]
        solved = one_each(await rolled(self.rollout, wanted, world), wanted, self)
        world.note("gated", 1 - len(kept) / len(requests))
        for i, solutions in zip(kept, solved, strict=True):
            self._reward(asked[i], metas[i], guesses[i], solutions, world)
        return solved

    def _asking(self, request: Request, world: World) -> Request:
        sampling, prompt = replace(sampling_of(request, world), max_tokens=self.limit), after(prompt_of(request, world.task.system), self.ask)
        return replace(request, count=self.count, prompt=prompt, sampling=sampling, tags=(*request.tags, "meta"))

    def skips(self, guesses: Sequence[SelfPrediction | None]) -> bool:
        """Returns whether at least the share `agree` of the predictions says 0 for the pass rate, or at least this share says 8."""
        rates = [g.rate if g else None for g in guesses]
        return any(rates.count(extreme) >= self.agree * len(rates) for extreme in (0, 8))

    def _limited(self, request: Request, guesses: Sequence[SelfPrediction | None], world: World) -> Request:
        lengths, sampling = [g.length for g in guesses if g and g.length], sampling_of(request, world)
        most = max(1, round(self.cut * float(np.mean(lengths)))) if lengths else sampling.limit
        return replace(request, sampling=replace(sampling, max_tokens=min(sampling.limit, most)))

    def _reward(self, asked: Request, meta: Group, guesses: Sequence[SelfPrediction | None], solutions: Group, world: World) -> None:
        """Rewards the predictions of a problem. Adds the predictions and the corrected prediction to the auxiliary groups of the step."""
        judged = [t for t in solutions.trajectories if t.failed is None]
        if not judged:
            return
        text = world.text(meta.trajectories[0].contexts[0].prefix, asked.player)
        parts = [meta_rewards(g, judged, text, base=self.base) for g in guesses]
        rate = float(np.mean([t.right for t in judged]))
        for guess, row in zip(guesses, parts, strict=True):
            said = guess.rate if guess else None
            world.note("meta_reward", sum(row) / 3)
            world.note("meta_valid", float(said is not None))
            world.note("meta_error", 1.0 if said is None else abs(said / 8 - rate))
        pairs = zip(meta.trajectories, parts, strict=True)
        rows = (t.but(reward=sum(p) / 3, components=Frozen(notion=p[0], rate=p[1], length=p[2]), weight=self.weight) for t, p in pairs)
        world.also([meta.but(trajectories=tuple(rows), aside=True)])
        best, guess, chosen = max(zip(parts, guesses, meta.trajectories, strict=True), key=lambda row: row[0][0])
        lengths = [t.actions for t in judged if t.right]
        if self.clone and guess is not None and best[0] >= self.notion_least and lengths:
            self._clone(asked, chosen, SelfPrediction(round(8 * rate), round(float(np.mean(lengths))), guess.notions), world)

    def _clone(self, asked: Request, meta: Trajectory, true: SelfPrediction, world: World) -> None:
        text = self.form.write(true, meta.completion)
        told = replace(world.told(text, asked.player), parent=meta.contexts[0].parent)
        made = meta.but(id=f"{meta.id}/true", contexts=(told,), completion=text, source="expert", reward=1.0, components=Frozen(true=1.0))
        world.also([Group(f"{group_name(asked)}/true", (made,), aside=True)])


masa = grpo.derive(
    "masa",
    "The policy also predicts pass rate, length and notions of its solutions; the predictions skip problems and cut solutions.",
    family="thinking",
    rollout=MetaPredictions(),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    objective__imitation=Imitation(),
    players__reference=None,
    update__count=2,
)

_SMALL = {"prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "study": "none"}
_SMALL |= {"rollout.form": "Numbers", "rollout.ask": "?", "rollout.count": "4", "rollout.limit": "8", "rollout.notion_least": "0"}

claims = (
    same_weights(
        says="Without predictions, the final weights are those of GRPO with the same loss.",
        source="arXiv:2510.03259, solutions alone",
        against="grpo --objective.kl none --players.reference none --objective.policy.trust.high 0.28 --objective.policy.average TokenMean --update.count 2",
        own={"rollout.count": "0"},
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "study": "none", "warmup": "0"},
    ),
    Claim(
        says="After 30 steps, the mean error of the predicted pass rate is at most 0.7 times that without training on predictions.",
        source="arXiv:2510.03259, abstract (misaligned before training); the ground, a form of two numbers, no gate, and the factor are ours",
        against="masa --rollout.weight 0 --rollout.clone false",
        measure="meta_error:last",
        at_most=0.7,
        ground="ladder",
        fields={**_SMALL, "rollout.gate_after": "1"},
        budget="steps=30",
    ),
    Claim(
        says="With gate and cut, a run of 30 steps samples at most 0.85 times as many tokens as without.",
        source="arXiv:2510.03259, abstract (1.28 times faster); the ground, where most problems are always or never solved, and the factor are ours",
        against="masa --rollout.gate_after 1",
        measure="tokens/rollout:mean",
        at_most=0.85,
        ground="ladder",
        fields=_SMALL,
        budget="steps=30",
    ),
)
