"""Long CoT Collection: models with short reasoning write long reasoning, step by step along an outline. SFT on this reasoning makes a better start
for RL.

    write: outline = (title_1, ..., title_n), quad s_j = "writer"(x, "outline", s_1, ..., s_(j-1)), quad j = 1, ..., n
    keep: (x, s_1, ..., s_n) "if" s_n "is right and no step occurs twice; at most 4 tries"
    cold: loss = -1/Z sum_t log pi(s_t | x, s_(<t))
    rl: GRPO from the weights of stage `cold`

A seed is a question with the flow of a long solution: the order of its intents, such as plan, try, check, try, check, conclude. For a new question x,
the writer makes an outline of n titles that has the flow of the nearest seed. The number n is the budget of thought; hard questions get a larger
budget. The writer then writes one step per call, and the last step is the answer. Each step is short, so a model without long reasoning can write a
step; the outline makes the whole trace long. A trace that ends in a wrong answer is written again. Z is the number of tokens of the traces.
Metrics: traces/kept (share of questions with a kept trace), traces/checks (share of kept traces with a check), traces/steps (mean number of steps).

`--schedule.stages.cold.recipe.rollout.writer.player NAME` lets a player write; the model of this player can differ from the policy's model.

Use if: the policy never checks or repeats a step, so RL has no such behaviour to reinforce, and traces of a long-reasoning model are not allowed.
Avoid if: the model already writes long reasoning (see grpo), or given traces exist (see sft, deepseek_r1).
Reference: Chae et al., One Missing Piece for Open-Source Reasoning Models: A Dataset to Mitigate Cold-Starting Short CoT LLMs in RL, arXiv:2506.02338:
outlines in the flow of 1,000 seeds, steps by a model with short reasoning, a budget of thought, 100,000 traces, and a larger gain of RL from this start. We
read the abstract and summaries. The abstract says that code is public, but we found none.
Departures: Our own choices are the similarity (TF-IDF), the three default seeds, the rule n = 3 to 3 + level, four tries, the check for repeated
steps and the wording. According to the summaries, the seeds of the paper are flows of o1, and the nearest seed has the same domain and a similar
length. The writer of the paper chooses n itself, and a wrong trace is dropped. Traces are written when the SFT needs them, and are not stored. The
steps and the answer have no tags; ";" separates them. The default writer is a program, and needs worked solutions: its tries have wrong results, its
checks repeat these results, and its conclusion is the worked solution. If a problem has `misses`, these attempts are its tries, as in the task
`countdown` with `--task.misses 4`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import given, told
from gradus.rollouts.ids import group_name
from gradus.rollouts.outlined_steps import CHECK, Record, Solver, Writer
from gradus.rollouts.seeded import nearest
from gradus.schedules.stages import Stage, Stages
from gradus.selection.filters import Accepted
from gradus.types import Frozen, Group, Request, Trajectory
from gradus.types.moments import Steps
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges

SEEDS = (
    ("12 from 2 4 6", ("try", "check", "conclude")),
    ("30 from 4 6 9", ("plan", "try", "check", "conclude")),
    ("41 from 3 5 7 8", ("restate", "plan", "try", "check", "try", "check", "conclude")),
)
"""Question -> the flow of its long solution."""


@dataclass(frozen=True)
class LongTraces:
    """Gives one long trace per request, which `writer` writes along an outline. A trace is kept if its answer is right and no step occurs twice.

    An update uses only kept traces. If none of `tries` traces is kept, the last one is returned, but no update uses it.
    """

    writer: Writer = Solver()
    seeds: tuple[tuple[str, tuple[str, ...]], ...] = SEEDS
    budget: int | None = None  # number of steps of a trace; None: a number between 3 and 3 + the difficulty of the problem is drawn
    tries: int = 4

    def __post_init__(self) -> None:
        check_ranges(self, budget="[3, inf)", tries="[1, inf)")

    @property
    def test(self) -> Auto:
        return Auto()

    def judges(self, task: Task) -> bool:
        """Returns True: the answer of a trace is verified."""
        return True

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, with one trace."""
        done: dict[int, Trajectory] = {}
        left = list(range(len(requests)))
        for number in range(self.tries):
            records = await self._written([self._begun(requests[i], number, world) for i in left], world)
            made = [self._trace(r, number, world) for r in records]
            found = await world.judge([Group(t.id, (t,)) for t in made]) if made else []
            kept = [len({*r.steps}) == r.budget and g.trajectories[0].right for r, g in zip(records, found, strict=True)]
            for i, r, g, right in zip(left, records, found, kept, strict=True):
                (t,) = g.trajectories
                done[i] = t.but(trained=right, extra=Frozen({**t.extra, "outline": r.outline, "budget": r.budget}))
                if right:
                    world.note("traces/steps", len(r.steps))
                    world.note("traces/checks", float(any(CHECK in step for step in r.steps)))
            left = [i for i, right in zip(left, kept, strict=True) if not right]
        for i in range(len(requests)):
            world.note("traces/kept", float(i not in left))
        return [Group(group_name(r), (done[i],), pool=(done[i].reward,)) for i, r in enumerate(requests)]  # type: ignore[arg-type]

    def _begun(self, request: Request, number: int, world: World) -> Record:
        (near,) = nearest(request.problem.question, [question for question, _ in self.seeds], 1)
        most = 3 + int(request.problem.meta.get("difficulty", 0))
        drawn = 3 + int((most - 2) * float(world.seed.fold("budget", world.step, group_name(request), request.sample).uniform()))
        return Record(request, self.seeds[near][1], self.budget or drawn, number)

    async def _written(self, records: list[Record], world: World) -> list[Record]:
        """Returns the records with outline and steps. A record whose outline has another length than its budget gets no steps."""
        plans = await self.writer.outlines(records, world) if records else []
        records = [replace(r, outline=tuple(plan)) for r, plan in zip(records, plans, strict=True)]
        while due := [i for i, r in enumerate(records) if len(r.outline) == r.budget > len(r.steps)]:
            said = await self.writer.next([records[i] for i in due], world)
            for i, step in zip(due, said, strict=True):
                records[i] = replace(records[i], steps=(*records[i].steps, step))
        return records

    def _trace(self, record: Record, number: int, world: World) -> Trajectory:
        context = told(world.prompt(record.request), ";".join(record.steps), record.request, world)
        made = given(record.request, number, context, world, reward=0.0, component="trace")
        return made.but(reward=None, components=Frozen())


collecting = sft.derive("long_cot_collecting", "SFT on long traces.", rollout=LongTraces(), selection=Accepted(), requires=frozenset())

long_cot_collection = grpo.derive(
    "long_cot_collection",
    "SFT on long reasoning that a writer expands step by step from outlines, then GRPO from this start.",
    family="guidance",
    schedule=Stages(Frozen(cold=Stage(collecting, Steps(100)), rl=Stage(until=Steps(100)))),
)

claims = (
    same_weights(
        says="Without the stage of long traces, the final weights are those of GRPO.",
        source="arXiv:2506.02338, RL from the base model",
        against="grpo",
        own={"schedule": "ConstantSchedule"},
    ),
    Claim(
        says="From the start with long traces, 15 steps of GRPO raise held-out accuracy by at least 0.05 more than from a start with short traces.",
        source=(
            "arXiv:2506.02338, models that begin with these traces gain 2 to 3 times as much; the task, the steps and the size of the effect are ours. The "
            "bound is a difference, because a ratio has no meaning if the short start gains nothing. Both starts have 30 steps of SFT with 32 traces each; the "
            "short traces are the worked solutions"
        ),
        against="grpo",
        measure="held_out/accuracy:gain",
        better_by=0.05,
        task="countdown",
        options={"level": "2", "misses": "4"},
        fields={
            "prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "100", "study.greedy": "false",
        },
        budget="steps=15",
        script="benchmarks.cold_starts",
    ),
)  # fmt: skip
