"""The keywords of a call of a user's reward function, and the meaning of the function's result. The process of the function uses this module.

The signature is TRL's. The keywords are `prompts`, `completions`, `completion_ids`, `trainer_state`, `log_metric`, `log_extra`, and one keyword for every
column of the data. The result is a list with one element per completion: a number, or None if the reward does not apply to the completion.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from gradus.runtime.user_code import raised, without_addresses
from gradus.types import NOT_APPLICABLE, Failed, FailureKind, Message, NotApplicable, Outcome, Problem, Trajectory, UserError
from gradus.types.media import Media
from gradus.types.pictures import read, written
from gradus.workers.logged import Log, Scores

GIVEN = ("prompts", "completions", "completion_ids", "trainer_state", "log_metric", "log_extra")
_MEDIA = "$media"  # the key under which the JSON of a call has media
_LONGEST = 1000  # largest number of characters of a reason that are kept


def arguments_of(trajectories: Sequence[Trajectory], step: int, names: Collection[str] | None = None, steps: int | None = None) -> dict[str, Any]:
    """Returns the keywords of one call, without the keywords of the log. `steps`: the number of steps of the whole run.

    If a problem lacks a column, its value is None. `names`: the keywords to give in addition to the keywords that are always given; None: all keywords.

    For a chat problem, the prompt is its messages, and the completion is a list of one message. For a problem of raw or plain text, the prompt and the
    completion are text. The messages contain pictures as {"type": "image", "image": picture}. The column `images` has the pictures in the same order.
    """
    chats = [t.problem.text is None and (not t.problem.plain or bool(t.problem.media)) for t in trajectories]
    columns = [columns_of(t.problem) for t in trajectories]
    found: dict[str, Any] = {
        "completions": [
            [{"role": "assistant", "content": t.completion}] if chat else t.completion for t, chat in zip(trajectories, chats, strict=True)
        ],
        "trainer_state": {"global_step": step, **({} if steps is None else {"max_steps": steps})},
    }
    if names is None or "prompts" in names:
        found["prompts"] = [[as_trl(m) for m in t.problem.messages] if chat else t.problem.question for t, chat in zip(trajectories, chats, strict=True)]
    if names is None or "completion_ids" in names:
        found["completion_ids"] = [t.contexts[-1].tokens[t.contexts[-1].chosen].tolist() if t.contexts else [] for t in trajectories]
    for name in dict.fromkeys(name for row in columns for name in row):
        if name not in GIVEN and (names is None or name in names):
            found[name] = [row.get(name) for row in columns]
    return found


def own(value: Any) -> Any:
    """Returns a copy of a value's dictionaries, lists and tuples, so that a function cannot change the original. Media get the form that functions see."""
    if isinstance(value, Media):
        return as_function_sees(value)
    if type(value) is dict:
        return {key: own(inner) for key, inner in value.items()}
    return type(value)(map(own, value)) if type(value) in (list, tuple) else value


def columns_of(problem: Problem) -> dict[str, Any]:
    """Returns the columns of a problem's data: the answer, all entries of `meta`, and `images` if the problem has pictures."""
    found = {**({} if problem.answer is None else {"answer": problem.answer}), **problem.meta}
    images = [media for media in problem.media if media.kind == "image"]
    return {**found, "images": images} if images else found


def as_trl(message: Message) -> Message:
    """Returns a message in TRL's form. A message of text is returned unchanged.

    In a part with media, the name of the kind of media, such as "image", is the key.
    """
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return message
    return {**message, "content": [{"type": p["type"], p["type"]: p["media"]} if "media" in p else dict(p) for p in content]}


def as_function_sees(media: Media) -> Any:
    """Returns a picture as an image of Pillow, and other media as a copy of their array. Raises UserError without Pillow."""
    if media.kind != "image":
        return media.array.copy()
    try:
        from PIL import Image
    except ImportError:
        raise UserError('reward functions get pictures as images of the package Pillow; install the package with: pip install "gradus[pictures]"') from None
    return Image.fromarray(media.array)


def received(plain: dict[str, Any]) -> Any:
    """Returns an object from the JSON of a message. Media get the form that functions see; other objects stay unchanged."""
    return as_function_sees(read(plain[_MEDIA])) if plain.keys() == {_MEDIA} else plain


def accepted(function: Callable[..., Any], arguments: Mapping[str, Any], log: Log | None = None) -> dict[str, Any]:
    """Returns the keywords that the function takes; all keywords if it has `**kwargs`.

    `log` receives the function's log. If `log` is None, the function's log is dropped.
    """
    keywords = {**arguments, "trainer_state": SimpleNamespace(**arguments["trainer_state"]), **(log or Log()).keywords}
    names = taken(function)
    return keywords if names is None else {name: value for name, value in keywords.items() if name in names}


def taken(function: Callable[..., Any]) -> list[str] | None:
    """Returns the keywords that the function takes; None if it takes any keyword."""
    try:
        return _taken(function)
    except TypeError:  # the object is not hashable, so its signature cannot be cached
        return _taken.__wrapped__(function)


def required(function: Callable[..., Any]) -> list[str]:
    """Returns the columns that the function requires."""
    named = [p for p in _parameters(function) if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.default is p.empty]
    return [p.name for p in named if p.name not in GIVEN]


def outcomes(values: Any, count: int, log: Log | None = None) -> Scores | Failed:
    """Returns the outcomes of `count` completions, from the `values` that a function returned.

    All completions fail if the number of values is not `count`, or if a column of the log has another number of values. If a value is not a number, its
    completion fails.
    """
    values = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(values, list | tuple):
        return Failed(f"returned {_brief(values)}, not a list of {count} numbers")
    if len(values) != count:
        return Failed(f"returned {len(values)} rewards for {count} completions")
    if odd := next((name for name, logged in (log.columns if log else {}).items() if len(logged) != count), None):
        return Failed(f'gave {len(log.columns[odd]) if log else 0} values to log_extra("{_brief(odd)}", ...) for {count} completions')
    scores = Scores(outcome(value) for value in values)
    scores.log = log
    return scores


def outcome(value: Any) -> Outcome:
    """Returns one reward: a finite number, or NOT_APPLICABLE for None. Any other value, such as text, NaN or infinity, is a failure."""
    if value is None or isinstance(value, NotApplicable):
        return NOT_APPLICABLE
    if isinstance(value, Failed):
        return Failed(str(value.reason)[:_LONGEST], value.kind)
    if isinstance(value, str | bytes):
        return Failed(f"returned the text {_brief(value)} instead of a number")
    try:
        number = float(value)  # Python and NumPy numbers, tensors of one element
    except Exception:
        return Failed(f"returned {_brief(value)} instead of a number")
    return number if math.isfinite(number) else Failed(f"returned {number}")


def failure_of(error: BaseException, file: str | None = None, who: str = "") -> Failed:
    """Returns the failure for an exception of user code. `who`: a prefix that names the code, such as "the verifier "."""
    kind = FailureKind.MEMORY if isinstance(error, MemoryError) else FailureKind.RAISED
    return Failed(f"{who}raised {raised(error, file)}", kind)


def check_columns(needed: Sequence[str], known: Sequence[str], name: str) -> None:
    """Raises UserError if a function needs a column that the data lacks."""
    missing = [column for column in needed if column not in known]
    if missing:
        listing = ", ".join(known) or "none"
        raise UserError(
            f'reward function {name} needs "{missing[0]}", but the data have no such column (columns: {listing}); add this column, or give the argument a default'
        )


def plain(value: Any) -> Any:
    """Returns the JSON form of types that JSON does not have: dates as ISO text, decimals and NumPy values as numbers and lists, sets as lists.

    Raises UserError for other types.
    """
    from datetime import date, datetime
    from decimal import Decimal

    if isinstance(value, Media):
        return {_MEDIA: written(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    kind = type(value).__name__
    raise UserError(f"a column contains values of type {kind}, which cannot be sent to the process of a reward function; convert the column to text or numbers")


@lru_cache(maxsize=64)
def _taken(function: Callable[..., Any]) -> list[str] | None:
    parameters = _parameters(function)
    return None if any(p.kind is p.VAR_KEYWORD for p in parameters) else [p.name for p in parameters]


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some built-in callables have no signature; these get all keywords
        return [inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]


def _brief(value: Any) -> str:
    try:
        text = without_addresses(repr(value))
    except Exception:
        text = type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."
