"""Turns requests and unfinished answers into plain state, so a rollout can continue the answers in a later step or after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from gradus.types import Context, Ended, Frozen, Problem, Request, Sampling, UserError, prompt_context
from gradus.types.packing import packed, unpacked
from gradus.types.pictures import arrays_of, described, seen_from


def kept_request(request: Request, held: dict[str, np.ndarray] | None = None) -> dict[str, Any]:
    """Returns a request, without its prompt, as plain state. Puts the arrays of the request's media into `held`, by digest.

    Raises UserError if the request has a drawing rule (`how`), because a rule is a part, and a part cannot be stored as state.
    """
    if request.how is not None:
        raise UserError(
            f"problem {request.problem.id} is sampled by {type(request.how).__name__}, which cannot continue in a later step; take a rollout "
            "that completes all answers within the step"
        )
    problem = {f.name: packed(getattr(request.problem, f.name), held) for f in fields(Problem)}
    sampling = None if request.sampling is None else packed(asdict(request.sampling))
    plain = {name: getattr(request, name) for name in ("count", "player", "sample", "trained", "turns")}
    return {"problem": problem, "sampling": sampling, "tags": list(request.tags), **plain}


def request_of(kept: Mapping[str, Any], held: Mapping[str, np.ndarray] = Frozen()) -> Request:
    """Reads a request from plain state: the inverse of `kept_request`. The prompt of the request is the prompt of its problem."""
    return Request(
        **{
            **kept,
            "problem": Problem(**{name: unpacked(v, held) for name, v in kept["problem"].items()}),
            "sampling": None if kept["sampling"] is None else Sampling(**unpacked(kept["sampling"])),
            "tags": tuple(kept["tags"]),
        }
    )


def kept_answer(context: Context) -> dict[str, Any]:
    """Returns the tokens that were sampled so far in a context, as plain state."""
    arrays = {"tokens": context.tokens, "logprobs": context.logprobs, "versions": context.versions}
    return {**arrays, "temperature": context.temperature, "ended": context.ended.value}


def answer_of(kept: Mapping[str, Any], prompt: Context) -> Context:
    """Reads an answer from plain state: the inverse of `kept_answer`. The answer follows its prompt, and all its tokens are chosen."""
    logprobs, versions = (None if kept[name] is None else np.asarray(kept[name]) for name in ("logprobs", "versions"))
    return Context(
        tokens=np.asarray(kept["tokens"]),
        chosen=np.ones(len(kept["tokens"]), bool),
        logprobs=logprobs,
        versions=versions,
        temperature=kept["temperature"],
        ended=Ended(kept["ended"]),
        parent=(prompt, len(prompt.sequence)),
    )


def kept_prompt(prompt: Context, held: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns a prompt as plain state. Puts the arrays that the prompt shows into `held`, by digest."""
    flat = prompt.until(len(prompt.sequence))
    held.update({digest: array for digest, array in arrays_of([flat]).items() if digest not in held})
    return {"prompt": flat.tokens, **({"seen": described(flat)} if flat.seen else {})}


def prompt_of(kept: Mapping[str, Any], held: Mapping[str, np.ndarray]) -> Context:
    """Reads a prompt from plain state: the inverse of `kept_prompt`."""
    return prompt_context(kept["prompt"], seen_from(kept.get("seen", ()), held.__getitem__))


def begun_answer(prompt: Context) -> Context:
    """Returns an empty answer to a prompt."""
    none = np.zeros(0, np.int32)
    return Context(none, np.zeros(0, bool), np.zeros(0, np.float32), none, parent=(prompt, len(prompt.sequence)), ended=Ended.LENGTH)


def flat_prompt(context: Context) -> Context:
    """Returns the whole sequence of a context as a prompt without a parent."""
    return context if context.parent is None and not context.actions else context.until(len(context.sequence))
