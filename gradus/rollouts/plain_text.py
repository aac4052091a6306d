"""A rollout for continued pre-training: it gives documents, trains on every token, and samples nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import given
from gradus.rollouts.ids import group_name
from gradus.types import Context, Group, Problem, Request, Trajectory, UserError
from gradus.types.contexts import pieces
from gradus.types.media import words
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges

DOCUMENTS = "documents"
"""The column of a problem that holds its documents."""


@dataclass(frozen=True)
class PlainText:
    """Gives `request.count` of a problem's documents without sampling. The player learns every token of a document, except the first token.

    The column `documents` is a mapping of kinds to documents, or a list of documents, or one document. A document is a text or a chat. In a chat, the player
    also learns the tokens of the user. If a problem lacks the column, its raw text is its only document. The documents are drawn at random by the request's
    key; no document is drawn twice. The model's end token ends a document. A document of more tokens than `length` is cut into pieces. Each further piece
    begins with the last token of the previous piece, so the player learns all tokens of a document except its first one. The tokens of a picture in a chat
    are not learned, and a document with pictures is not cut. Trajectories have the source "expert", no log-probabilities and the reward 1, stored as the
    component "document". At test time the policy acts.
    """

    kinds: tuple[str, ...] = ()  # the kinds of documents to learn; (): all
    length: int | None = None  # largest number of tokens of a piece; None: the length of the model's context

    def __post_init__(self) -> None:
        check_ranges(self, length="[2, inf)")

    @property
    def test(self) -> Auto:
        return Auto()

    def judges(self, task: Task) -> bool:
        """Returns False, because documents are not judged."""
        return False

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group per request. Raises UserError if a problem has no document, or if a document is not a text or a chat."""
        return [self._group(request, world) for request in requests]

    def _group(self, request: Request, world: World) -> Group:
        found = documents_of(request.problem, self.kinds)
        order = world.seed.fold("documents", world.step, group_name(request), request.sample).permutation(len(found))[: request.count]
        made = tuple(self._learned(request, i, found[int(at)], world) for i, at in enumerate(order))
        return Group(group_name(request), made, pool=(1.0,) * len(made))

    def _learned(self, request: Request, index: int, document: Any, world: World) -> Trajectory:
        whole = written(document, request, world)
        tokens = whole.sequence
        most = min(self.length or len(tokens), world.context_length(request.player))
        cut = [sighted(whole, request.problem, most)] if whole.things else pieces(tokens, most)
        first = given(request, index, cut[0], world, reward=1.0, component="document")
        return replace(first, contexts=tuple(cut), completion=world.text(tokens, request.player))


def documents_of(problem: Problem, kinds: Sequence[str] = ()) -> list[Any]:
    """Returns the documents of a problem, at least one. Raises UserError if the problem has no document of these kinds."""
    held = problem.meta.get(DOCUMENTS)
    if held is None and problem.text is not None and not kinds:
        return [problem.text]
    if isinstance(held, Mapping):
        if kinds and (lacking := [kind for kind in kinds if kind not in held]):
            raise UserError(
                f"problem {problem.id} has no document of the kind {lacking[0]}; add a document of this kind (kinds of the problem: "
                f"{', '.join(held) or 'none'})"
            )
        found = [held[kind] for kind in kinds or held]
    elif kinds:
        raise UserError(f'problem {problem.id} has documents without kinds, but the kind {kinds[0]} is needed; make "{DOCUMENTS}" a mapping of kinds to documents')
    else:
        found = [held] if isinstance(held, str) else list(held) if isinstance(held, Sequence) else []
    if not found:
        raise UserError(f'problem {problem.id} has no document; add the column "{DOCUMENTS}" (texts or chats) to its row, or give it a raw text as prompt')
    return found


def written(document: Any, request: Request, world: World) -> Context:
    """Returns a document with an end token. The last message of a chat is written as a message of the assistant."""
    opened: Any
    if isinstance(document, str):
        opened, answer = document, ""
    elif isinstance(document, Sequence) and len(document) > 1 and all(isinstance(m, Mapping) and "content" in m for m in document):
        opened, answer = document[:-1], words(document[-1])
    else:
        raise UserError(
            f'problem {request.problem.id} has the document {document!r:.60}; a document is a text, or a chat of two messages or more, each with "content"'
        )
    return world.opening(opened, request.player).then(world.told(answer, request.player))


def sighted(whole: Context, problem: Problem, most: int) -> Context:
    """Returns a document with pictures as one context. The actions are all tokens except the first token and the tokens of the pictures.

    Raises UserError if the document has more than `most` tokens.
    """
    tokens = whole.sequence
    if len(tokens) > most:
        raise UserError(f"problem {problem.id} has a document of {len(tokens)} tokens with pictures, and such a document cannot be cut; shorten it to {most} tokens")
    chosen = np.arange(len(tokens)) > 0
    for at, length, *_ in whole.things:
        chosen[at : at + length] = False
    first = int(chosen.argmax())
    seen = tuple(piece for s in whole.shown if (piece := s.since(first)) is not None)
    return Context(tokens[first:].copy(), chosen[first:].copy(), parent=(whole.until(first), first), seen=seen)
