"""Samples answers in a fixed number of slots. The expected lengths determine the order of the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.rollouts.auto import Auto
from gradus.rollouts.in_flight import refuse_environment
from gradus.rollouts.single_turn import SingleTurn
from gradus.types import Group, Request
from gradus.types.parts import World
from gradus.types.ranges import check_ranges
from gradus.types.slots import Slots, ends, ends_of_rounds, order_of, peak_tokens

SUMS = ("n", "x", "y", "xx", "xy")
"""Sums over all answers so far: the count, x (tokens of the prompt), y (tokens of the answer), and their products."""


@dataclass(frozen=True)
class Slotted:
    """Decodes all answers of a step in `slots.count` slots. Whenever an answer ends, its slot begins the next waiting answer.

    The answers equal the answers of `SingleTurn`, byte for byte; only the order of the decoding differs. The expected length of an answer is the mean
    length of the earlier answers to its problem. Without earlier answers, the expected length is a linear function of the prompt's length (least
    squares over all answers so far). Metrics: decode_steps; rounds (decode_steps / the steps of fixed rounds of `count` answers); peak_tokens (largest number
    of tokens in the caches, as a share of the same number without a limit of slots); idle (idle decoding steps of all slots, per sampled token); length_error
    (mean absolute error of the expected lengths, in tokens).
    """

    slots: Slots = Slots()
    problems: int = 100_000  # the mean lengths of this number of problems are kept, the newest ones
    plays: ClassVar[str] = "answers"
    opens: ClassVar[frozenset[str]] = frozenset({"slots"})  # abilities that the policy needs

    def __post_init__(self) -> None:
        check_ranges(self, problems="[0, inf)")

    @property
    def test(self) -> Auto:
        return Auto()

    def start(self) -> dict[str, Any]:
        return {"problems": {}, "sums": dict.fromkeys(SUMS, 0)}

    async def run(self, requests: Sequence[Request], world: World, state: Mapping[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """Returns one judged group per request, and the state with the lengths of the answers. Raises UserError if the task has an environment."""
        refuse_environment(world)
        prompts = [len(world.prompt(r).sequence) for r in requests]
        expected = [expected_length(r.problem.id, x, state) for r, x in zip(requests, prompts, strict=True)]
        asked = [replace(r, how=replace(self.slots, expected=e)) for r, e in zip(requests, expected, strict=True)]
        groups = await SingleTurn().run(asked, world)
        lengths = [[t.actions for t in g.trajectories] for g in groups]
        note_costs(self.slots, expected, prompts, lengths, world)
        if state["sums"]["n"]:
            for e, row in zip(expected, lengths, strict=True):
                for length in row:
                    world.note("length_error", abs(e - length))
        return groups, learned(state, [r.problem.id for r in requests], prompts, lengths, self.problems)


def expected_length(problem: str, prompt: int, state: Mapping[str, Any]) -> float:
    """Returns the expected length of an answer to a problem whose prompt has `prompt` tokens; 0 if there was no answer yet."""
    if problem in state["problems"]:
        total, count = state["problems"][problem]
        return total / count
    n, x, y, xx, xy = (state["sums"][name] for name in SUMS)
    if not n:
        return 0.0
    spread = n * xx - x * x
    slope = (n * xy - x * y) / spread if spread else 0.0
    return max(0.0, y / n + slope * (prompt - x / n))


def learned(state: Mapping[str, Any], names: Sequence[str], prompts: Sequence[int], lengths: Sequence[Sequence[int]], most: int) -> dict[str, Any]:
    """Returns the state with further answers. Only the `most` problems that were answered last stay in it."""
    problems, sums = dict(state["problems"]), dict(state["sums"])
    for name, x, row in zip(names, prompts, lengths, strict=True):
        total, count = problems.pop(name, (0, 0))
        problems[name] = [total + sum(row), count + len(row)]
        new = (len(row), x * len(row), sum(row), x * x * len(row), x * sum(row))
        sums = {key: sums[key] + value for key, value in zip(SUMS, new, strict=True)}
    return {"problems": dict(list(problems.items())[max(0, len(problems) - most) :]), "sums": sums}


def note_costs(slots: Slots, expected: Sequence[float], prompts: Sequence[int], lengths: Sequence[Sequence[int]], world: World) -> None:
    """Records the decoding steps and the tokens in the caches, for answers of these lengths in these slots."""
    of = [p for p, row in enumerate(lengths) for _ in row]
    given = [n for row in lengths for n in row]
    if not given:
        return
    order = order_of([expected[p] for p in of], slots)
    taken, owners = [given[i] for i in order], [of[i] for i in order]
    finished = (ends_of_rounds if slots.order == "rounds" else ends)(taken, slots.count)
    steps, unlimited = max(finished), ends(given, len(given))
    world.note("decode_steps", steps)
    world.note("rounds", steps / max(ends_of_rounds(given, slots.count)))
    world.note("idle", min(slots.count, len(given)) * steps / sum(given) - 1)
    world.note("peak_tokens", peak_tokens(taken, finished, prompts, owners) / peak_tokens(given, unlimited, prompts, of))
