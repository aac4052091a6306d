"""Self-PRM: plain outcome RL also improves how well the policy judges solutions. At test time it votes, and counts only those samples that it judges right.

    a^* = argmax_a sum_i 1{a_i = a} c_i
    c_i = 1 "if the policy says that its sample" i "is right, else" 0
    F_1 = (2 q_r q_w) / (q_r + q_w)

The policy is trained by GRPO on right and wrong final answers alone; no verdict is ever rewarded. At test time it samples k answers to a question,
judges each of them once, and takes the majority among the answers that it judges right. If it judges all k samples wrong, it takes the majority of all k. If
several answers have equal counts, the answer that comes first among all k wins.

The study measures the judge along the run. $q_r$ is the share of right verdicts on right samples, and $q_w$ is the share of right verdicts on wrong samples;
$F_1$ is the harmonic mean of both. Chi-square is computed from a 2 x 2 table of all samples; it shows whether the policy judges better where it solves.
Precision is the share of right answers among the kept answers. The study measures the precision for three kinds of questions: few, some or many of the k
samples are right.

Metrics: held_out/accuracy (the filtered vote), held_out/majority, held_out/over_majority (their difference), held_out/single, held_out/f1,
held_out/chi_square, held_out/precision/low, /medium and /high (by thirds of the share of right samples), held_out/precision_gap (high minus low).

Use if: no reward model exists, many samples per question are affordable, and the policy was trained long enough to judge.
Avoid if: the questions are hard for the policy, because it then keeps wrong samples (see self_verify, which trains the judge).
Reference: Feng et al., Is PRM Necessary? Problem-Solving RL Implicitly Induces PRM Capability in LLMs, arXiv:2505.11227, sections 3 to 5: F1 along RL,
the chi-square test, and Self-PRM with k = 8 to 64. No code was found.
Departures: The judge says yes or no to a final answer, in the words of the task `checked`, and names no first wrong step; `{solution}` in the template shows
the whole solution. The judged solutions are the policy's own samples; the paper judges given solutions of ProcessBench, so the table of the paper counts
questions, and the table here counts samples. The thirds are cut at 1/3 and 2/3 of the samples. External PRMs are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.verified import Verified
from gradus.search.self_verdicts import SelfVerdicts
from gradus.search.votes import Vote, winner
from gradus.study.held_out import held_out_requests, of_problems
from gradus.study.summary import mean
from gradus.types import Group, without_aside
from gradus.types.parts import Reward
from gradus.types.ranges import check_ranges


def harmonic_mean(on_right: float, on_wrong: float) -> float:
    """Returns the harmonic mean of two shares; 0 if both are 0.

    >>> round(harmonic_mean(0.8, 0.4), 4)
    0.5333
    """
    return 2 * on_right * on_wrong / (on_right + on_wrong) if on_right + on_wrong else 0.0


def chi_square(table: Sequence[Sequence[float]]) -> float:
    """Returns Pearson's statistic of a table of 2 x 2, without a correction for continuity; 0 if a row or a column is empty.

    >>> chi_square([[40, 10], [10, 40]])
    36.0
    """
    (a, b), (c, d) = table
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    return (a + b + c + d) * (a * d - b * c) ** 2 / margins if margins else 0.0


def judged_metrics(groups: Sequence[Group], kept: Mapping[str, bool]) -> dict[str, float | None]:
    """Returns the metrics of judged groups. `kept`: the id of a sample -> whether the policy judges it right. A missing number is None."""
    rows = [(t.right, kept[t.id]) for g in groups for t in g.trajectories]
    found: dict[str, float | None] = {"held_out/single": mean([float(right) for right, _ in rows])}
    shares = [mean([float(said == right) for right, said in rows if right is kind]) for kind in (True, False)]
    found["held_out/f1"] = harmonic_mean(*shares) if None not in shares else None  # type: ignore[arg-type]
    table = [[sum(right is solved and (said == right) is well for right, said in rows) for well in (True, False)] for solved in (True, False)]
    found["held_out/chi_square"] = chi_square(table)
    thirds: dict[str, list[float]] = {"low": [], "medium": [], "high": []}
    for g in groups:
        share = sum(t.right for t in g.trajectories) / len(g.trajectories)
        thirds["low" if share < 1 / 3 else "medium" if share < 2 / 3 else "high"] += [float(t.right) for t in g.trajectories if kept[t.id]]
    found |= {f"held_out/precision/{name}": mean(values) for name, values in thirds.items()}
    high, low = found["held_out/precision/high"], found["held_out/precision/low"]
    return found | {"held_out/precision_gap": None if high is None or low is None else high - low}


@dataclass(frozen=True)
class SelfJudged:
    """Measures how well the policy judges its own samples of held-out problems, and the vote among the samples that it judges right."""

    problems: int = 64
    samples: int = 8
    verdicts: SelfVerdicts = SelfVerdicts(samples=1)
    patience: int = 0  # the run stops early after this number of evaluations without improvement; 0: it never stops early
    target: float | None = None  # the run stops when held_out/accuracy reaches this number; None: no such stop
    reward: Reward = Verified()  # the reward that judges evaluations

    def __post_init__(self) -> None:
        check_ranges(self, problems="[1, inf)", samples="[1, inf)", patience="[0, inf)", target="[0, inf)")

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]:
        requests = held_out_requests(world.task.held_out, self.problems, self.samples, world.task.level)
        plain = recipe.but(search=None)
        groups = without_aside(await run.memory.answer(plain, requests, world))
        weights = iter(await self.verdicts.weights([t for g in groups for t in g.trajectories], world))
        rows = [[next(weights) for _ in g.trajectories] for g in groups]
        votes = [float(winner(g.trajectories, row).right) for g, row in zip(groups, rows, strict=True)]
        majority = [float(winner(g.trajectories, [1.0] * len(row)).right) for g, row in zip(groups, rows, strict=True)]
        gains = [a - b for a, b in zip(votes, majority, strict=True)]
        kept = {t.id: w >= 0.5 for g, row in zip(groups, rows, strict=True) for t, w in zip(g.trajectories, row, strict=True)}
        own = {"held_out/majority": mean(majority), "held_out/over_majority": mean(gains)}
        return {**of_problems(votes), **own, **judged_metrics(groups, kept)}


self_prm = grpo.derive(
    "self_prm",
    "The policy learns only to solve; at test time it judges its own samples, and votes among the samples that it judges right.",
    family="search",
    search=Vote(SelfVerdicts(samples=1)),
    study=SelfJudged(),
)

_TERMS: Any = {
    "task": "arithmetic",
    "fields": {"prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4", "eval_every": "0"},
    "budget": "steps=20",
}
_OURS = "task, start, sizes and the size of the effect are ours. The start is fine-tuned on problems and on verdicts"

claims = (
    same_weights(
        says="Neither the vote nor the study changes the training: the final weights are those of GRPO.",
        source="arXiv:2505.11227, Self-PRM acts at test time",
        against="grpo",
    ),
    Claim(
        says="After 20 steps of RL without any reward for verdicts, F1 of the verdicts is at least 0.05 above that of the start.",
        source=f"arXiv:2505.11227, section 3 (F1 rises along RL on outcomes); {_OURS}",
        measure="held_out/f1:gain", better_by=0.05, script="benchmarks.warmed self_prm", **_TERMS,
    ),
    Claim(
        says="After 20 steps, the precision of the kept samples is at least 0.2 lower on questions with few right samples than on those with many.",
        source=f"arXiv:2505.11227, section 5 (precision below 10 % on hard problems); {_OURS}",
        measure="held_out/precision_gap:last", better_by=0.2, script="benchmarks.warmed self_prm-precision", **_TERMS,
    ),
    Claim(
        says="After 20 steps, the vote among 8 samples that the policy judges right is at least 0.01 above the majority of the same samples.",
        source=f"arXiv:2505.11227, section 5 (Self-PRM above the majority vote); {_OURS}",
        measure="held_out/over_majority:last", better_by=0.01, script="benchmarks.warmed self_prm-vote", **_TERMS,
    ),
    Claim(
        says="After 20 steps, at equal tokens, this vote of 8 samples and 8 verdicts is right at least 0.97 times as often as the majority of 16.",
        source=f"arXiv:2505.11227 compares at equal numbers of samples only; {_OURS}. A verdict works the problem out, so it costs about as much as an answer",
        against="self_prm --search Majority --search.count 16 --study HeldOut --study.problems 64 --study.greedy false",
        measure="held_out/accuracy:last", at_least=0.97, script="benchmarks.warmed self_prm-tokens", **_TERMS,
    ),
)  # fmt: skip
