"""RL Tango: a generator and a verifier learn together. The verifier earns rewards for final verdicts and form; its step verdicts guide the generator.

    s_(i,k) = 1/K_i "if the verifier calls step" k "right, else" -1/K_i
    A_(i,t)^"step" = sum_(k : "step" k "ends at or after" t) (s_(i,k) - mean(s)) / (std(s))
    A_(i,t) = (1 - alpha) (o_i - mean(o)) / (std(o)) + alpha A_(i,t)^"step", quad alpha = 0.1 * 0.01^p
    r^v = 1{"final verdict" = o} + 0.8 f
    A^v = s_c (r^v - mean(r^v)) / (std(r^v)), quad s_c proportional to 1 / sqrt(n_c)

The generator writes an answer of $K_i$ steps; its outcome $o_i$ is 1 if the answer is right. The verifier reads problem and answer, and writes a
verdict on every step and a final verdict. A step counts 1/K, so an answer with more steps does not earn more. Mean and deviation of s are taken over
all steps of all answers to the problem. alpha falls from 0.1 to 0.001; p is the finished share of the run.

The verifier writes 5 texts on every answer, which are a group. f is 1, minus 1/2 if the number of step verdicts is wrong, and minus 1/2 if the final verdict
is missing. No label of a step is used. The answers of a batch are mostly right or mostly wrong, so a constant verdict would earn too much. Therefore the
factor $s_c$ scales the advantages of the texts on right answers (c = 1) and on wrong answers (c = 0). The factor comes from the numbers $n_c$ of such texts,
and is averaged over batches. The verifier alone learns in the first 40 steps. Then three updates of the generator and one update of the verifier take turns.
Metrics: `verdicts/final`, the share of true final verdicts; `verdicts/form`, the mean of f; `verdicts/steps`, the share of true step verdicts if
problems have worked solutions.

Use if: answers have a key and several steps, and no process labels exist.
Avoid if: the steps of answers cannot be separated, or the memory does not suffice for two learning models (see prime, oprl).
Reference: Zha et al., RL Tango: Reinforcing Generator and Verifier Together for Language Reasoning, arXiv:2505.15034: the two rewards, the scaled
advantages (section 3), alpha 0.1 to 0.001 with GRPO, the weight 0.8 of the form, 40 steps of warm-up, 3 to 1 updates, 5 answers to a problem.
Departures: No code is released. The form of the verdicts is our choice ("yes no =no"; each word other than "yes" calls a step wrong). Our own choices
are also the deductions of f, the decay 0.9 of the average of $s_c$ over batches, the unit of $s_c$ (1 for balanced classes), and the value 0 for a
step without a verdict. The first of the 5 texts guides the generator; this is our choice, too. The verifier also writes texts in the steps that train
the generator. Both players start from one model. The population deviation (without an epsilon) and the KL term are as in grpo. The paper first fine-tunes
the generator on step marks; here the start model should already write steps that `marking` finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.credit.class_balanced import TRUTH, ClassBalanced
from gradus.credit.groups import group_relative
from gradus.credit.spans import sums_to_go
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.ids import group_name
from gradus.rollouts.single_turn import one_turn
from gradus.rollouts.spans import STREAM, check_text, rows_of, streamed
from gradus.schedules.ramp import Ramp
from gradus.schedules.taking_turns import TakingTurns
from gradus.schedules.together import Together
from gradus.types import Frozen, Group, Request, Trajectory
from gradus.types.parts import Credited, Rollout, Signals, Task, World
from gradus.types.players import Copy, Player
from gradus.types.prompts import filled
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.types.spans import STEPS, Marking
from gradus.updates.only_players import OnlyPlayers

VERDICT = "verdict"  # float [A], the verdict on the step of each action: 1, -1, or 0 without a verdict


def read(text: str) -> tuple[list[bool], bool | None]:
    """Returns the verdicts of a text: one per word before the last "=" (only "yes" calls a step right), and the final verdict (None: it is missing).

    >>> read("yes no yes =no"), read("yes")
    (([True, False, True], False), ([True], None))
    """
    steps, marked, final = text.rpartition("=")
    said = final.split() if marked else []
    return [word == "yes" for word in (steps if marked else text).split()], {"yes": True, "no": False}.get(said[0]) if said else None


def form_score(steps: int, due: int, final: bool | None) -> float:
    """Returns 1, minus 1/2 if the number of step verdicts is not `due`, and minus 1/2 if the final verdict is missing."""
    return 1.0 - 0.5 * (steps != due) - 0.5 * (final is None)


def step_rewards(verdicts: Sequence[float]) -> np.ndarray:
    """Returns +1/K for a step called right, -1/K for a step called wrong, and 0 for a step without a verdict.

    >>> step_rewards([1, 1, -1]).round(3).tolist()
    [0.333, 0.333, -0.333]
    """
    return np.asarray(verdicts, np.float64) / max(len(verdicts), 1)


@dataclass(frozen=True)
class WithVerdicts:
    """Lets `player` write `samples` verdict texts on every answer. The answers get the streams `span` and `verdict`; the texts are auxiliary groups."""

    rollout: Rollout = Auto()
    samples: int = 5
    player: str = "verifier"
    marking: Marking = STEPS
    template: str = "verify {problem}\n{answer}"
    form_weight: float = 0.8
    gives: ClassVar[frozenset[str]] = frozenset({"spans", "verdicts"})
    plays: ClassVar[str] = "answers"
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, samples="[1, inf)", form_weight="[0, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def check_task(self, task: Task) -> None:
        check_text(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of `rollout` with both streams. A failed answer gets no verdict."""
        groups = await rolled(self.rollout, requests, world)
        spans = {t.id: rows_of(self.marking, t, world) for g in groups for t in g.trajectories}
        answers = [t for g in groups for t in g.trajectories if t.failed is None]
        asked = [self._request(t) for t in answers]
        texts = [[one_turn(r, i, c, world) for i, c in enumerate(row)] for r, row in zip(asked, await world.sample(asked), strict=True)]
        world.also([self._judged(r, t, row, count(spans[t.id]), world) for r, t, row in zip(asked, answers, texts, strict=True)])
        said = {t.id: read(row[0].completion)[0] for t, row in zip(answers, texts, strict=True)}
        marks = {name: [verdict_row(row, said.get(name, [])) for row in rows] for name, rows in spans.items()}
        self._note(answers, said, world)
        return [streamed(streamed(g, STREAM, spans), VERDICT, marks) for g in groups]

    def _request(self, answer: Trajectory) -> Request:
        problem = answer.problem
        text = filled(self.template, problem=problem.question, answer=answer.completion)
        prompt = text if problem.text is not None else ({"role": "user", "content": text},)
        return Request(problem, self.samples, self.player, prompt, tags=("verdicts", answer.id))

    def _judged(self, request: Request, answer: Trajectory, texts: Sequence[Trajectory], due: int, world: World) -> Group:
        """Returns the texts on one answer with their rewards."""
        made = []
        for t in texts:
            steps, final = read(t.completion)
            form, hit = form_score(len(steps), due, final), float(final is answer.right)
            world.note("verdicts/final", hit)
            world.note("verdicts/form", form)
            made.append(t.but(reward=hit + self.form_weight * form, components=Frozen(hit=hit, form=form), links=Frozen({**t.links, TRUTH: answer.right})))
        return Group(group_name(request), tuple(made), pool=tuple(t.value for t in made))

    def _note(self, answers: Sequence[Trajectory], said: Mapping[str, list[bool]], world: World) -> None:
        """Records the share of true step verdicts: a step is right if it equals the step of the worked solution at its place."""
        for t in (t for t in answers if t.problem.meta.get("solution") is not None):
            steps, due = (parts(self.marking, text) for text in (t.completion, str(t.problem.meta["solution"])))
            truth = [k < len(due) and step == due[k] for k, step in enumerate(steps)]
            if hits := [a == b for a, b in zip(said[t.id], truth, strict=False)]:
                world.note("verdicts/steps", sum(hits) / len(hits))


def parts(marking: Any, text: str) -> list[str]:
    """Returns the steps of a text, without blanks at their ends."""
    return [text[a:b].strip() for a, b in marking.regions(text)]


def count(rows: Sequence[np.ndarray]) -> int:
    """Returns the number of steps of an answer. `rows`: the numbers of the regions of each context."""
    return sum(len(np.unique(row[row >= 0])) for row in rows)


def verdict_row(spans: np.ndarray, verdicts: Sequence[bool]) -> np.ndarray:
    """Returns [A]: the verdict on the step of each action."""
    known = np.array([1.0 if v else -1.0 for v in verdicts])
    return np.array([known[s] if 0 <= s < len(known) else 0.0 for s in spans.tolist()])


@dataclass(frozen=True)
class StepVerdicts:
    """The advantage (1 - alpha) * (reward standardised within the group) + alpha * (sum of the standardised step rewards from the step of the token on)."""

    alpha: float = 0.1
    scale: str = "population"
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"verdicts": "--rollout WithVerdicts"})

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, 1]")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._group(group) for group in groups]

    def _group(self, group: Group) -> list[Credited]:
        spans = [t.stream(STREAM) for t in group.trajectories]
        marks = [t.stream(VERDICT) for t in group.trajectories]
        rewards = [step_rewards([m[s == k][0] for k in np.unique(s[s >= 0])]) for s, m in zip(spans, marks, strict=True)]
        pooled = group_relative(np.concatenate(rewards), scale=self.scale)  # type: ignore[arg-type]
        steps = np.split(pooled, np.cumsum([len(r) for r in rewards])[:-1])
        outcome = group_relative(group.rewards, scale=self.scale)  # type: ignore[arg-type]
        return [Credited((1 - self.alpha) * o + self.alpha * sums_to_go(own, s)) for o, own, s in zip(outcome, steps, spans, strict=True)]


rl_tango = grpo.derive(
    "rl_tango",
    "A generator learns from outcomes and from the step verdicts of a verifier, which learns from its final verdicts.",
    family="multi_agent",
    rollout=WithVerdicts(),
    credit=StepVerdicts(),
    players__verifier=Player(Copy("policy"), objective=grpo.objective, credit=ClassBalanced()),
    schedule=Together(
        Frozen(
            turns=TakingTurns(("policy", "policy", "policy", "verifier"), OnlyPlayers(update=None), warmup=40),
            alpha=Ramp("credit.alpha", ((0.0, 0.1), (1.0, 0.001)), shape="exponential", over="progress"),
        )
    ),
    setting__prompts=256,
    setting__group=5,
)

_STEPS = Claim(
    says="In 28 steps the share of true step verdicts rises by at least 0.15, although no step label enters the loss.",
    source="arXiv:2505.15034, the verifier's accuracy on steps (ProcessBench); the task, the start and the size of the effect are ours",
    measure="verdicts/steps:gain",
    better_by=0.15,
    task="arithmetic",
    options={"level": "2"},
    fields={
        "prompts": "6",
        "group": "4",
        "warmup": "0",
        "study": "none",
        "learning_rate": "3e-4",
        "schedule.parts.turns.warmup": "20",
        "rollout.samples": "4",
    },
    budget="steps=28",
    script="benchmarks.warmed rl_tango",
)

claims = (
    _STEPS,
    replace(
        _STEPS,
        says="In 28 steps the share of true final verdicts rises by at least 0.1.",
        source="arXiv:2505.15034, the training of the verifier by outcomes; the task, the start and the size of the effect are ours",
        measure="verdicts/final:gain",
        better_by=0.1,
        script="benchmarks.warmed rl_tango-final",
    ),
)
