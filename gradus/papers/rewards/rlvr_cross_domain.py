"""RLVR across domains: a generative verifier compares final answers with reference answers of free form, and the probability of its verdict is the
reward.

    r = p(1) "if" p(1) >= p(0), "else" 1 - p(0)
    A_i = (r_i - mean(r)) / (std(r))
    loss = -1/N sum_i A_i sum_t log pi(y_(i,t))

A reference answer of free form ("one half", "0.5") has many right forms, so exact comparison rejects right answers. The verifier reads the question,
the reference answer and the final answer, and writes 1 or 0. p is the probability of this token. A confident "right" gives a reward near 1, and a
confident "wrong" gives a reward near 0. The mean and the deviation are over the whole batch; with equal rewards A is 0. With `--reward.judge
"PlayerJudge(player=verifier)"` the reward is the written verdict. The three algorithms of the paper are this recipe (REINFORCE), `--credit LeaveOneOut`
(RLOO), and the credit of reinforce_plus_plus.

The verifier is distilled. RL with a large judge gives good and bad answers from all stages of training. A small model then imitates the large judge's
verdicts on these answers. `Judgements` makes these rows from the groups of a run: `Stages(Frozen(judged=Stage(makes=Judgements()),
verifier=Stage(recipe=sft, start="first", task="made:judged")))`. Two judges are compared by Cohen's kappa (`kappa`).

Use if: reference answers exist, but rules cannot compare them, as in medicine, economics or chemistry.
Avoid if: a rule compares answers reliably (see rloo), or no reference answers exist (see writing_zero).
Reference: Su et al., Crossing the Reward Bridge: Expanding RL with Verifiable Rewards Across Diverse Domains, arXiv:2503.23829: soft rewards, the
normalisation, the distilled verifier; 4 answers per question, KL 0.01, 160,000 judgements.
Departures: There is no KL term (`reinforce_plus_plus` has one). In the claims a scripted judge knows the truth and errs in 5 % of the verdicts, in
both directions. In the other arm an exact comparison misses 60 % of the right answers; a hash chooses these answers. No task has answers in several
forms. So the agreement of a distilled verifier with its judge is not measured here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.credit.groups import Baseline, Scale, batch_relative, spread
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.judged import Judged
from gradus.rewards.player_judge import TOO_LONG, both_words, prompt_of
from gradus.rewards.verdicts import Case, Form, Verdict, YesNo, soft_verdict
from gradus.types import Failed, Group
from gradus.types.parts import Credited, Signals, World
from gradus.types.players import Player
from gradus.types.signals import LogProb, Signal

VERDICT = YesNo("Question: {problem}\nReference answer: {reference}\nAnswer: {answer}\nIs the answer right? 1 or 0:\n", yes="1", no="0")


@dataclass(frozen=True)
class VerdictChance:
    """A judge that writes nothing. The verdict is computed from the probabilities that `player` gives to the two words of `YesNo` (see `soft_verdict`)."""

    player: str = "verifier"
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    async def decide(self, form: Form, cases: Sequence[Case], world: World) -> list[Verdict | Failed | None]:
        """Reads all cases in one batch. A case whose prompt fills the player's context fails. Raises UserError if the form has no two words."""
        words = both_words(form)
        opened = [world.opening(prompt_of(form, case), self.player) for case in cases]
        fits = [len(o.sequence) + 1 < world.context_length(self.player) for o in opened]
        pieces = [
            replace(world.told(word, self.player), parent=(o, len(o.sequence))) for o, fit in zip(opened, fits, strict=True) if fit for word in words
        ]
        rows = iter(await world.score(pieces, LogProb(), self.player) if pieces else [])
        chances = (math.exp(float(row.sum(dtype="float64"))) for row in rows)
        return [(soft_verdict(next(chances), next(chances)),) if fit else TOO_LONG for fit in fits]


_JUDGED = Judged(VerdictChance(), VERDICT, final=True)


@dataclass(frozen=True)
class BatchRelative:
    """The reward minus a baseline, divided by the standard deviation of this difference over the whole batch."""

    baseline: Baseline = "group"  # mean reward of the group, of the group's other samples ("others"), or of the batch
    scale: Scale = "population"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, batch_relative([g.rewards for g in groups], baseline=self.baseline, scale=self.scale))


@dataclass(frozen=True)
class Judgements:
    """Makes demonstrations for a verifier: its prompt about each answer, with the verdict that the answer got. Equal rows occur once."""

    reward: Judged = _JUDGED

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"solution"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns the rows in the order of the answers. Answers without a verdict give no row."""
        found: dict[str, dict[str, Any]] = {}
        form = self.reward.form
        for t in (t for g in groups if not g.aside for t in g.trajectories):
            case, value = self.reward.case(t), t.components.get(Judged.name, t.reward)
            if case is not None and isinstance(value, int | float) and isinstance(form, YesNo):
                verdict = form.yes if value >= 0.5 else form.no
                prompt = form.prompt(case)
                found.setdefault(prompt, {"prompt": prompt, "answer": verdict, "solution": verdict})
        return list(found.values())


def kappa(one: Sequence[bool], other: Sequence[bool]) -> float:
    """Returns Cohen's kappa of two judges: (agreement - chance) / (1 - chance); 1 if both always give the same single verdict.

    >>> kappa([True, True, False, False], [True, False, False, False])
    0.5
    """
    agreement = sum(a == b for a, b in zip(one, other, strict=True)) / len(one)
    p, q = sum(one) / len(one), sum(other) / len(other)
    by_chance = p * q + (1 - p) * (1 - q)
    return (agreement - by_chance) / (1 - by_chance) if by_chance < 1 else 1.0


rlvr_cross_domain = reinforce.derive(
    "rlvr_cross_domain",
    "The probability of a generative verifier's verdict is the reward, standardised over the batch.",
    family="rewards",
    reward=_JUDGED,
    credit=BatchRelative(baseline="batch"),
    players__verifier=Player(),
    setting__group=4,
)

_TERMS = {"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"}

claims = (
    same_weights(
        says="With a verifier without errors, the final weights are those of REINFORCE with standardised verdicts.",
        source="arXiv:2503.23829, with exact verdicts",
        against="rlvr_cross_domain --reward Verified",
        options={"level": "2"},
        own={"reward.judge": "ScriptedJudge"},
    ),
    Claim(
        says="If exact comparison misses 60 % of the right answers, the held-out accuracy after 8 steps with the verifier is at least 0.05 above that with it.",
        source=(
            "arXiv:2503.23829, comparison of verifier and rule (8 points); stated again before a measurement, with the batch of the ground noisy, because single "
            "seeds with 32 answers per step differ by more; task, rates and the size of the effect are ours"
        ),
        against="rlvr_cross_domain --reward Verified",
        measure="accuracy",
        better_by=0.05,
        task="noisy",
        options={"of": "arithmetic", "level": "2", "missed": "0.6"},
        fields=_TERMS,
        own={"reward.judge": "ScriptedJudge(missed=0.05, fooled=0.05)"},
        budget="steps=8",
        problems=60,
        samples=2,
    ),
)
