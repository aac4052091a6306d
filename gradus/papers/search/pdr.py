"""PDR: many short drafts are distilled into a small workspace, and the policy answers again from the workspace; this procedure is also trained.

    s_i^r ~ pi(. | x, C^(r-1)), quad i = 1, ..., M_r
    C^r = D(x, s_1^r, ..., s_(M_r)^r), quad |C^r| <= kappa
    B_seq = sum_r (max_i |s_i^r| + |D_r|), quad B_total = sum_r (sum_i |s_i^r| + |D_r|)
    J = E_(y ~ pi(. | x)) R(y) + E_(y ~ pi(. | x, C^(R-1))) R(y)

Round r samples $M_r$ drafts $s_i^r$ after the question x and the workspace $C^(r-1)$, which is empty at first. D writes the new workspace from the drafts of
this round; the old workspace is forgotten. The workspace has at most kappa tokens, so the prompt of a draft never grows with the number of drafts or rounds.
Only the prompt of a written summary contains all drafts. The last round has one draft, the answer. With one draft per round the procedure is sequential
refinement. $B_seq$ counts the longest draft of each round and stands for the waiting time; $B_total$ counts every token. $|D_r|$ counts the tokens that D
samples between two rounds.

D copies `k` random drafts (`RandomDrafts`), or the policy writes a summary of all drafts (`WrittenSummary`). In training, half of the problems of a step are
answered directly. For the other half the current policy first makes drafts, and the group answers from their workspace; drafts have no gradient. Both halves
enter the loss of GRPO with equal weight. At test time the search runs all rounds.

Metrics: workspace (mean number of tokens of a workspace). An answer of the search has the columns sequential_tokens and total_tokens.

Use if: the waiting time or the context limits the length of one answer, but parallel samples are cheap.
Avoid if: the policy cannot use earlier drafts in its prompt, or drafts hardly differ (see grpo with --search Majority).
Reference: Madaan et al., Rethinking Thinking Tokens: LLMs as Improvement Operators, arXiv:2510.01123, sections 3 (operators and budgets) and 4
(operator-consistent RL). No code was found.
Departures: The last line of a draft is copied, not the text of the draft up to a limit. The choice of drafts by a score (top k) is left out. The
number of rounds and drafts, k = 2, kappa = 128 and the wording are our choices. A draft may be as long as an answer. Training starts from the start
model of the run, not from the result of an ordinary RL run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.asked import sampling_of, single
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.ids import group_name
from gradus.rollouts.single_turn import grouped
from gradus.types import Frozen, Group, Problem, Request, Trajectory, UserError
from gradus.types.parts import Rollout, World
from gradus.types.prompts import after, filled, prompt_of
from gradus.types.ranges import check_ranges

FORM = "{workspace}\nThis attempt may be right or wrong. Check it, then solve the problem."


class Distill(Protocol):
    async def text(self, request: Request, drafts: Sequence[Trajectory], limit: int, world: World) -> tuple[str, int]:
        """Returns a workspace from the drafts of a request, and the number of tokens that were sampled for it. `limit`: the largest number of tokens of the
        workspace.
        """
        ...


@dataclass(frozen=True)
class RandomDrafts:
    """Copies the last line of `k` random drafts, each on its own line, in the order of the drafts."""

    k: int = 2

    def __post_init__(self) -> None:
        check_ranges(self, k="[1, inf)")

    async def text(self, request: Request, drafts: Sequence[Trajectory], limit: int, world: World) -> tuple[str, int]:
        order = world.key.fold("distill", *request.tags, request.problem.id, request.sample).permutation(len(drafts))
        lines = [drafts[int(i)].completion.strip().rpartition("\n")[2] for i in sorted(order[: self.k])]
        return "\n".join(lines), 0


@dataclass(frozen=True)
class WrittenSummary:
    """Lets the player read all drafts and write a summary of them."""

    form: str = "{drafts}\nSummarise these attempts: common results, differences, errors."

    async def text(self, request: Request, drafts: Sequence[Trajectory], limit: int, world: World) -> tuple[str, int]:
        prompt = after(prompt_of(request, world.task.system), filled(self.form, drafts="\n".join(t.completion for t in drafts)))
        sampling = replace(sampling_of(request, world), max_tokens=limit)
        asked = replace(request, count=1, prompt=prompt, sampling=sampling, tags=(*request.tags, "summary"), trained=False)
        ((context,),) = await world.sample([asked])
        return world.text(context.tokens[context.chosen], request.player).strip(), context.actions


def budgets(rounds: Sequence[tuple[Sequence[int], int]]) -> tuple[int, int]:
    """Returns B_seq and B_total. A round: the lengths of its drafts, and the tokens of the distillation after it.

    >>> budgets([([10, 12, 8, 11], 5), ([9], 0)])
    (26, 55)
    """
    return sum(max(lengths) + cost for lengths, cost in rounds), sum(sum(lengths) + cost for lengths, cost in rounds)


@dataclass(frozen=True)
class DraftDistillRefine:
    """Answers in rounds: drafts in parallel, a workspace of at most `kappa` tokens, and new drafts from the workspace. The last round has one draft."""

    drafts: tuple[int, ...] = (16, 8, 1)  # drafts of each round
    distill: Distill = RandomDrafts()
    kappa: int = 128
    form: str = FORM
    rollout: Rollout = Auto()  # makes the answers of the last round

    def __post_init__(self) -> None:
        check_ranges(self, drafts="[1, inf)", kappa="[1, inf)")
        if not self.drafts or self.drafts[-1] != 1:
            raise UserError(f"DraftDistillRefine.drafts is {self.drafts}; the last number must be 1, because the only draft of the last round is the answer")
        if "{workspace}" not in self.form:
            raise UserError("DraftDistillRefine.form does not contain {workspace}; add it, because the next round sees nothing else of the drafts")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the answer to one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` judged answers to each problem. Each answer has its own drafts."""
        last = await asyncio.gather(*(self.last(r, world) for r in single(requests)))
        asked = [r for r, _ in last] if len(self.drafts) > 1 else requests
        groups = one_each(await rolled(self.rollout, asked, world), asked, self)
        made = iter([counted(t, rounds) for t, (_, rounds) in zip((t for g in groups for t in g.trajectories), last, strict=True)])
        answers = [tuple(next(made) for _ in range(r.count)) for r in requests]
        return [Group(group_name(r), row, tuple(t.reward for t in row if t.reward is not None)) for r, row in zip(requests, answers, strict=True)]

    async def last(self, request: Request, world: World) -> tuple[Request, list[tuple[list[int], int]]]:
        """Plays all rounds except the last, and returns the request of the last round. Also returns for each played round the arguments of `budgets`.

        If there is only one round, the returned request is the given one.
        """
        rounds, now = list[tuple[list[int], int]](), request
        for number, count in enumerate(self.drafts[:-1]):
            asked = replace(now, count=count, sample=request.sample * count, tags=(*request.tags, "draft", number), trained=False)
            (group,) = await grouped([asked], world)
            named = replace(request, tags=(*request.tags, "round", number, request.sample))
            text, cost = await self.distill.text(named, group.trajectories, self.kappa, world)
            workspace = self._cut(text, world, request.player)
            rounds.append(([t.actions for t in group.trajectories], cost))
            now = replace(named, prompt=after(prompt_of(request, world.task.system), filled(self.form, workspace=workspace)))
        return now, rounds

    def _cut(self, text: str, world: World, player: str) -> str:
        """Returns the first `kappa` tokens of the text, without an end token."""
        told, end = world.told(text, player).tokens, world.told("", player).tokens
        tokens = told[: len(told) - len(end)][: self.kappa]
        world.note("workspace", len(tokens))
        return world.text(tokens, player)


def counted(answer: Trajectory, rounds: Sequence[tuple[Sequence[int], int]]) -> Trajectory:
    """Returns the answer with both budgets. `rounds`: the rounds before the last one, as for `budgets`."""
    sequential, total = budgets([*rounds, ([answer.actions], 0)])
    return answer.but(extra=Frozen({**answer.extra, "sequential_tokens": sequential, "total_tokens": total}))


@dataclass(frozen=True)
class OperatorConsistent:
    """Answers the share `share` of the problems from a workspace that `operator` makes, and the other problems directly. Drafts are never trained."""

    operator: DraftDistillRefine = DraftDistillRefine()
    share: float = 0.5
    rollout: Rollout = Auto()
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1]")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request. The last problems of a step get a workspace."""
        plain = len(requests) - round(self.share * len(requests))
        found = await asyncio.gather(*(self.operator.last(r, world) for r in requests[plain:]))
        return await rolled(self.rollout, [*requests[:plain], *(r for r, _ in found)], world)


pdr = grpo.derive(
    "pdr",
    "Half of the problems are answered from a workspace of distilled drafts; at test time drafts, workspace and answer alternate.",
    family="search",
    rollout=OperatorConsistent(),
    search=DraftDistillRefine(),
)

_TERMS: Any = {"task": "arithmetic", "options": {"level": "3"}}
_SMALL = {"prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "60", "study.greedy": "false"}
_ROUNDS = {"search.drafts": "(4,1)", "search.distill.k": "1"}
_OURS = (
    "task, sizes and the size of the effect are ours. The start model is the built-in one after 150 steps of supervised fine-tuning on arithmetic with three "
    "digits: worked solutions to 40 % of the plain problems and after an attempt, else the answer alone. One seed was tried before this claim, to see that "
    "the search acts"
)

claims = (
    same_weights(
        says="If no problem gets a workspace, the final weights are those of GRPO.",
        source="arXiv:2510.01123, the first term of the objective alone",
        against="grpo", own={"rollout.share": "0"},
    ),
    Claim(
        says="With the start model, 4 drafts and an answer from their workspace are right at least 0.05 more often than one sample.",
        source=f"arXiv:2510.01123, results against one long answer; {_OURS}. A sample ends by itself, so it has fewer tokens than the longest way of the search",
        against="pdr --search none",
        measure="held_out/accuracy:first", better_by=0.05, **_TERMS,
        fields=_SMALL, own=_ROUNDS, budget="steps=1", script="benchmarks.warmed pdr",
    ),
    Claim(
        says="With the start model, 4 drafts and an answer from their workspace are right at least 0.05 more often than the majority of as many tokens.",
        source=f"arXiv:2510.01123 matches the sequential budget only; {_OURS}. Four drafts and one answer have about 110 tokens",
        against="pdr --search Majority --search.count 24 --search.tokens 110",
        measure="held_out/accuracy:first", better_by=0.05, **_TERMS,
        fields=_SMALL, own=_ROUNDS, budget="steps=1", script="benchmarks.warmed pdr-majority",
    ),
    Claim(
        says="After 10 steps, accuracy with the search is at least 0.02 above that after as many steps of GRPO with the same search.",
        source=f"arXiv:2510.01123, section 4 (operator-consistent RL); {_OURS}",
        against="pdr --rollout Auto",
        measure="held_out/accuracy:last", better_by=0.02, **_TERMS,
        fields={**_SMALL, **_ROUNDS}, own={"rollout.operator.drafts": "(4,1)", "rollout.operator.distill.k": "1"},
        budget="steps=10", script="benchmarks.warmed pdr-training",
    ),
)  # fmt: skip
