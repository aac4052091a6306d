"""Writes contexts, `Want` objects and samples as messages between processes, and reads such messages. Messages are plain JSON and tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradus.recipe.serialise import from_json, to_json
from gradus.types import Context, Ended, Frozen, Key, Problem, Request, Sampling, UserError, prompt_context
from gradus.types.pictures import Take, arrays_of, described, seen_from
from gradus.types.signals import EntropyOf, LogProb, Value, Want

Message = tuple[dict[str, Any], dict[str, Tensor]]


@dataclass(frozen=True, eq=False)
class Errand:
    """A request for one sample. A policy's `act` reads it."""

    parent: Context
    at: int
    sampling: Sampling
    key: Key
    version: int = 0
    request: Request = Request(Problem("", ""))


def wants_json(wants: Sequence[Want]) -> list[Any]:
    """Returns each `Want` as a class path and fields. Raises UserError for a class that another process cannot import."""
    documents = [to_json(want) for want in wants]
    for want, document in zip(wants, documents, strict=True):
        if any(not isinstance(path, dict) and not path.startswith("gradus.") for path in _classes(document)):
            raise UserError(
                f"{type(want).__name__} is your own class, which other processes do not know; write the class in its own file and name it "
                "FILE.py:NAME in the recipe, or leave --processes out"
            )
    return documents


def wants_from(document: Sequence[Any]) -> list[Any]:
    return [from_json(want) for want in document]


def _classes(document: Any) -> Iterator[Any]:
    """Yields the paths of all classes and functions in the JSON of a part."""
    if isinstance(document, dict):
        yield from (document[name] for name in ("part", "function") if name in document)
        for value in document.values():
            yield from _classes(value)
    elif isinstance(document, list):
        for value in document:
            yield from _classes(value)


def plain(wants: Sequence[Want]) -> bool:
    """Whether every `Want` can be computed without the streams of the contexts."""
    return all(type(want) in (LogProb, EntropyOf, Value) for want in wants)


def contexts_message(contexts: Sequence[Context], *, streams: bool = True) -> Message:
    """Returns a message with contexts and their parents. Each context occurs only once. `streams`: whether the message also has the streams."""
    table: dict[int, int] = {}
    rows: list[Context] = []

    def add(context: Context) -> int:
        if id(context) not in table:
            if context.parent is not None:
                add(context.parent[0])
            table[id(context)] = len(rows)
            rows.append(context)
        return table[id(context)]

    asked = [add(c) for c in contexts]
    arrays = {
        "tokens": _joined([c.tokens for c in rows], np.int32),
        "chosen": _joined([c.chosen for c in rows], bool),
        "lengths": torch.tensor([len(c.tokens) for c in rows]),
        "temperatures": torch.tensor([c.temperature for c in rows], dtype=torch.float64),
        "parents": torch.tensor([[table[id(c.parent[0])], c.parent[1]] if c.parent is not None else [-1, 0] for c in rows]).view(-1, 2),
        "asked": torch.tensor(asked, dtype=torch.int64),
    }
    names = _streamed(rows, arrays) if streams else {}
    return {"streams": names, **_shown(rows, arrays)}, arrays


def contexts_from(document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> list[Context]:
    """Reads the contexts of a message. The contexts have the fields that a policy reads: tokens, chosen, temperature, streams, media and parent."""
    cuts = np.cumsum(arrays["lengths"].numpy())[:-1]
    tokens, chosen = (np.split(arrays[name].numpy(), cuts) for name in ("tokens", "chosen"))
    streams = _streams(document, arrays, len(tokens))
    made: list[Context] = []
    seen, take = document.get("seen"), _taken(document, arrays)
    for i, (parent, at) in enumerate(arrays["parents"].tolist()):
        origin = None if parent < 0 else (made[parent], at)
        heat = float(arrays["temperatures"][i])
        shows = seen_from(seen[i], take) if seen else ()
        made.append(Context(tokens[i].copy(), chosen[i].copy(), temperature=heat, streams=Frozen(streams[i]), parent=origin, seen=shows))
    return [made[i] for i in arrays["asked"].tolist()]


def samples_asked(asked: Sequence[Any], *, conditions: bool = False) -> Message:
    """Returns a message with requests for samples: the tokens to continue, their media, the sampling settings, the drawing rules and the keys.

    `conditions`: whether to send the conditions of the problems, for policies that read them.
    """
    kinds = list(dict.fromkeys(a.sampling for a in asked))
    prompts = [a.parent.until(a.at) for a in asked]
    prefixes = [p.tokens for p in prompts]
    arrays = {
        "tokens": _joined(prefixes, np.int32),
        "lengths": torch.tensor([len(p) for p in prefixes]),
        "keys": torch.from_numpy(np.array([a.key.value for a in asked], np.uint64).view(np.int64)),
        "kinds": torch.tensor([kinds.index(a.sampling) for a in asked]),
    }
    rules = list(dict.fromkeys(a.request.how for a in asked))
    document: dict[str, Any] = {"kinds": [asdict(kind) for kind in kinds], **_shown(prompts, arrays)}
    if rules != [None]:
        document["rules"] = [to_json(rule) for rule in rules]
        arrays["rules"] = torch.tensor([rules.index(a.request.how) for a in asked])
    if conditions:
        document["conditions"] = [[float(c) for c in a.request.problem.meta.get("condition", ())] for a in asked]
    return document, arrays


def samples_wanted(document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> list[Errand]:
    kinds = [Sampling(**{**fields, "stops": tuple(fields["stops"])}) for fields in document["kinds"]]
    prefixes = np.split(arrays["tokens"].numpy(), np.cumsum(arrays["lengths"].numpy())[:-1])
    keys = arrays["keys"].numpy().view(np.uint64)
    take = _taken(document, arrays)
    seen = [seen_from(s, take) for s in document["seen"]] if "seen" in document else [()] * len(prefixes)
    rules = [from_json(rule) for rule in document.get("rules", (None,))]
    chosen = arrays.get("rules", torch.zeros(len(prefixes), dtype=torch.int64)).tolist()
    conditions = document.get("conditions", [()] * len(prefixes))
    requests = [
        Request(Problem("", "", meta=Frozen(condition=tuple(condition))), how=rules[rule])
        for condition, rule in zip(conditions, chosen, strict=True)
    ]
    return [
        Errand(prompt_context(prefix, shows), len(prefix), kinds[int(kind)], Key(int(key)), request=request)
        for prefix, shows, kind, key, request in zip(prefixes, seen, arrays["kinds"], keys, requests, strict=True)
    ]


def samples_message(contexts: Sequence[Context]) -> Message:
    """Returns a message with samples.

    The message has the new tokens, a mark for the tokens that are actions, the log-probabilities, the streams, and the reason why each sample ended.
    """
    arrays = {
        "tokens": _joined([c.tokens for c in contexts], np.int32),
        "chosen": _joined([c.chosen for c in contexts], bool),
        "lengths": torch.tensor([len(c.tokens) for c in contexts]),
        "temperatures": torch.tensor([c.temperature for c in contexts], dtype=torch.float64),
        "logprobs": _joined([c.logprobs for c in contexts if c.logprobs is not None], np.float32),
    }
    without = [i for i, c in enumerate(contexts) if c.logprobs is None]
    return {"ended": [c.ended.value for c in contexts], "without": without, "streams": _streamed(contexts, arrays)}, arrays


def sampled_from(document: Mapping[str, Any], arrays: Mapping[str, Tensor], asked: Sequence[Any]) -> list[Context]:
    """Reads the samples of a message as contexts. Each sample continues the context of its request in `asked`."""
    cuts = np.cumsum(arrays["lengths"].numpy())[:-1]
    tokens, chosen = (np.split(arrays[name].numpy(), cuts) for name in ("tokens", "chosen"))
    streams, without = _streams(document, arrays, len(tokens)), frozenset(document["without"])
    counts = [0 if i in without else int(c.sum()) for i, c in enumerate(chosen)]
    logprobs = np.split(arrays["logprobs"].numpy(), np.cumsum(counts)[:-1])
    return [
        Context(
            tokens=tokens[i].copy(),
            chosen=chosen[i].copy(),
            logprobs=None if i in without else logprobs[i].copy(),
            versions=np.full(int(chosen[i].sum()), ask.version, dtype=np.int32),
            temperature=float(arrays["temperatures"][i]),
            streams=Frozen(streams[i]),
            parent=(ask.parent, ask.at),
            ended=Ended(document["ended"][i]),
        )
        for i, ask in enumerate(asked)
    ]


def _streamed(contexts: Sequence[Context], arrays: dict[str, Tensor]) -> dict[str, str]:
    """Puts the streams of contexts into `arrays`. Returns the name and dtype of each stream, because uint64 tensors are not supported everywhere."""
    names = {}
    for i, context in enumerate(contexts):
        for name, values in context.streams.items():
            names[f"stream.{i}.{name}"] = str(values.dtype)
            arrays[f"stream.{i}.{name}"] = torch.from_numpy((values.view(np.int64) if values.dtype == np.uint64 else values).copy())
    return names


def _streams(document: Mapping[str, Any], arrays: Mapping[str, Tensor], count: int) -> list[dict[str, np.ndarray]]:
    """Reads the streams of `count` contexts, which `_streamed` wrote."""
    streams: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
    for path, dtype in document["streams"].items():
        _, index, name = path.split(".", 2)
        streams[int(index)][name] = arrays[path].numpy().view(dtype)
    return streams


def _shown(contexts: Sequence[Context], arrays: dict[str, Tensor]) -> dict[str, Any]:
    """Puts the media of the contexts into `arrays` as bytes, each only once. Returns their description as fields of a document.

    If the contexts have no media, there are no such fields.
    """
    media = arrays_of(contexts)
    for digest, array in media.items():
        arrays[f"media.{digest}"] = torch.from_numpy(np.frombuffer(array.tobytes(), np.uint8).copy())
    forms = {digest: [array.dtype.str, list(array.shape)] for digest, array in media.items()}
    return {"seen": [described(c) for c in contexts], "media": forms} if media else {}


def _taken(document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Take:
    def take(digest: str) -> np.ndarray:
        dtype, shape = document["media"][digest]
        return arrays[f"media.{digest}"].numpy().view(dtype).reshape(shape)

    return take


def _joined(parts: Sequence[np.ndarray], dtype: Any) -> Tensor:
    return torch.from_numpy(np.concatenate([*parts, np.zeros(0, dtype)]).astype(dtype))
