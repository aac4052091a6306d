"""Uses the last answer to the same problem as a draft. The current policy checks the draft, and keeps the first tokens that it accepts. Only the rest is sampled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.asked import prompt_before, sampling_of, single
from gradus.rollouts.auto import Auto
from gradus.rollouts.ids import group_name
from gradus.rollouts.in_flight import refuse_environment, stopped
from gradus.rollouts.serialise import answer_of, kept_answer
from gradus.rollouts.single_turn import one_turn
from gradus.rollouts.token_rules import GivenRow
from gradus.types import Context, Ended, Group, Request, UserError
from gradus.types.parts import World
from gradus.types.ranges import check_ranges
from gradus.types.readers import LogProbRow
from gradus.types.signals import LogProb, Want


def accepted_tokens(new: np.ndarray, old: np.ndarray, lenience: float, draws: np.ndarray) -> int:
    """Returns the number of tokens before the first rejected token. Token t is rejected if its draw exceeds min(1, lenience p_new / p_old).

    `new`, `old`: log-probabilities [T]. `draws`: numbers in (0, 1], [T].
    """
    refused = np.log(draws) > math.log(lenience) + new - old if lenience > 0 else np.ones(len(new), bool)
    return int(np.argmax(refused)) if refused.any() else len(new)


def log_residual(new: np.ndarray, old: np.ndarray, lenience: float) -> np.ndarray:
    """Returns log max(0, p_new - min(p_old, lenience p_new)), normalised, as float64 [V]. `new`, `old`: log-probabilities [V].

    If the difference is 0 for all tokens up to rounding, the result is `new`.
    """
    p, q = np.exp(new.astype(np.float64)), np.exp(old.astype(np.float64))
    rest = np.maximum(0.0, p - np.minimum(q, lenience * p))
    if rest.sum() < 1e-6:
        return new.astype(np.float64)
    with np.errstate(divide="ignore"):
        return np.log(rest / rest.sum())


@dataclass(frozen=True, eq=False)
class Drafted:
    """A slot of a group after the check of its draft: its request of one sample, and its answer so far.

    A slot with a rejected token may also have the distributions from which the next token comes.
    """

    request: Request
    answer: Context | None  # None: no token is kept
    whole: bool = False  # whether the answer is complete, so that nothing must be sampled
    row: np.ndarray | None = None  # log-probabilities [V] of the residual distribution at the first rejected token
    new: np.ndarray | None = None  # log-probabilities [V] of the current policy at this token


@dataclass(frozen=True)
class EarlierAnswers:
    """Takes the last answer of each slot of a problem as a draft. Keeps the tokens before the first rejected token, and samples the rest.

    The log-probabilities of kept tokens become those of the current policy. The state has the last answer of each slot. At test time the policy
    answers without drafts.
    """

    lenience: float = 1.6487212707001282  # factor of p_new / p_old, by default exp(0.5); 0: keeps no token; 1: the test of speculative sampling; inf: keeps all
    residual: bool = False  # whether the rejected token is drawn from the residual distribution; the state then has log-probabilities [V] for each token
    most: int = 100_000  # number of stored answers; the oldest answers are deleted first
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, lenience="[0, inf]", most="[1, inf)")

    @property
    def test(self) -> Auto:
        return Auto()

    def start(self) -> dict[str, Any]:
        return {"names": [], "answers": []}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """Returns one judged group per request, in order, and the state with its answers.

        Metrics: generated (tokens per answer that were sampled), kept (tokens per draft), reused (share of drafts that were kept whole).
        Raises UserError if the task has an environment, or if the residual would be wrong because the sampling excludes tokens.
        """
        refuse_environment(world)
        stored = dict(zip(state["names"], state["answers"], strict=True))
        slots = single(requests)
        drafts = await self._checked(slots, stored, world)
        answers = await continued(drafts, world)
        rows = await read_rows(answers, slots, LogProbRow(), world) if self.residual else [None] * len(answers)
        for slot, answer, row in zip(slots, answers, rows, strict=True):
            name = slot_name(slot)
            stored.pop(name, None)
            stored[name] = {**kept_answer(answer), **({} if row is None else {"rows": row})}
        last = list(stored.items())[-self.most :]
        rest = iter(answers)
        groups = [Group(group_name(r), tuple(one_turn(r, i, next(rest), world) for i in range(r.count))) for r in requests]
        return await world.judge(groups), {"names": [name for name, _ in last], "answers": [kept for _, kept in last]}

    async def _checked(self, slots: Sequence[Request], stored: Mapping[str, Any], world: World) -> list[Drafted]:
        """Reads all drafts under the current policy, and cuts each draft before its first rejected token. A slot without a stored answer has no
        draft."""
        due = [i for i, slot in enumerate(slots) if slot_name(slot) in stored]
        found = [Drafted(slot, None) for slot in slots]
        drafts = [draft_of(stored[slot_name(slots[i])], slots[i], world) for i in due]
        read = await read_rows(drafts, [slots[i] for i in due], LogProbRow() if self.residual else LogProb(), world)
        for i, draft, new in zip(due, drafts, read, strict=True):
            found[i] = self._cut(slots[i], draft, new, stored[slot_name(slots[i])], world)
        return found

    def _cut(self, slot: Request, draft: Context, new: np.ndarray, kept: Mapping[str, Any], world: World) -> Drafted:
        """Returns the slot with the accepted tokens of its draft. `new`: log-probabilities [T] or, with `residual`, [T, V]."""
        sampling, count = sampling_of(slot, world), draft.actions
        if self.residual and (sampling.top_k or sampling.top_p < 1 or sampling.min_p or sampling.temperature == 0):
            raise UserError(
                "EarlierAnswers needs whole distributions, because it draws from their residual; set top_k 0, top_p 1, min_p 0 and a temperature above 0"
            )
        old = draft.logprobs
        assert old is not None
        rows = np.asarray(kept["rows"]) if self.residual and "rows" in kept else None
        place = np.arange(count), draft.tokens
        now = new if new.ndim == 1 else new[place]
        old = old if rows is None else rows[place]
        draws = 1.0 - world.key.fold("accept", slot.player, slot.problem.id, *slot.tags, slot.sample).uniform(count)
        n = accepted_tokens(now, old, self.lenience, draws)
        world.note("kept", n)
        whole = n == count and (draft.ended is not Ended.LENGTH or count >= sampling.limit)
        world.note("reused", whole)
        row = log_residual(new[n], rows[n], self.lenience) if rows is not None and n < count else None
        beginning = replace(draft.first(n), logprobs=now[:n].astype(np.float32)) if n or row is not None else None
        return Drafted(slot, beginning, whole, row, None if row is None else new[n])


def slot_name(slot: Request) -> str:
    """Returns the name under which the answer of a slot is stored."""
    return f"{group_name(slot)}/{slot.sample}"


def draft_of(kept: Mapping[str, Any], slot: Request, world: World) -> Context:
    """Reads a stored answer as an answer to the prompt of the slot. An answer that is longer than the present limit is cut at this limit."""
    draft = answer_of(kept, prompt_before(slot, world))
    return draft.first(min(draft.actions, sampling_of(slot, world).limit))


async def continued(drafts: Sequence[Drafted], world: World) -> list[Context]:
    """Returns the finished answers. The first call draws the tokens from residual distributions; the second call samples all other tokens together."""
    answers = [d.answer for d in drafts]
    new, done = [0] * len(drafts), [d.whole for d in drafts]
    first = [i for i, d in enumerate(drafts) if d.row is not None]
    for i, (chunk,) in zip(first, await world.sample([one_token(drafts[i], world) for i in first]), strict=True):
        row = drafts[i].new
        assert row is not None
        told = replace(chunk, logprobs=row[chunk.tokens].astype(np.float32))
        answer = joined(answers[i], told, drafts[i].request, world)
        answers[i], new[i] = answer, 1
        limit = sampling_of(drafts[i].request, world).limit
        done[i] = told.ended is not Ended.LENGTH or answer.ended is not Ended.LENGTH or answer.actions >= limit
    left = [i for i, finished in enumerate(done) if not finished]
    for i, (chunk,) in zip(left, await world.sample([rest_of(drafts[i], answers[i], world) for i in left]), strict=True):
        answers[i], new[i] = joined(answers[i], chunk, drafts[i].request, world), new[i] + chunk.actions
    for count in new:
        world.note("generated", count)
    return [answer for answer in answers if answer is not None]


async def read_rows(answers: Sequence[Context], slots: Sequence[Request], want: Want, world: World) -> list[np.ndarray]:
    """Returns the values of `want` for the answers of all slots, each computed with the current weights of its player."""
    found: list[np.ndarray] = [np.zeros(0)] * len(answers)
    for player in dict.fromkeys(slot.player for slot in slots):
        mine = [i for i, slot in enumerate(slots) if slot.player == player]
        for i, row in zip(mine, await world.score([answers[i] for i in mine], want, player), strict=True):
            found[i] = row
    return found


def one_token(draft: Drafted, world: World) -> Request:
    """Returns the request for one token from the residual distribution."""
    sampling = sampling_of(draft.request, world)
    assert draft.row is not None
    how = GivenRow(draft.row, sampling.temperature, draft.request.player)
    return replace(draft.request, prompt=draft.answer, at=None, how=how, sampling=replace(sampling, max_tokens=1))


def rest_of(draft: Drafted, answer: Context | None, world: World) -> Request:
    """Returns the request for the tokens after the kept tokens."""
    if answer is None or not answer.actions:
        return draft.request
    sampling = sampling_of(draft.request, world)
    return replace(draft.request, prompt=answer, at=None, sampling=replace(sampling, max_tokens=sampling.limit - answer.actions))


def joined(answer: Context | None, chunk: Context, request: Request, world: World) -> Context:
    """Returns the answer with the new tokens. If a stop string began in the kept tokens, cuts the answer there."""
    if answer is None or not answer.actions:
        return chunk
    return stopped(answer.then(chunk), chunk.actions, sampling_of(request, world).stops, world, request.player)
